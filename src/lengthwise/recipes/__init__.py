"""Recipes: a paper's table or figure, or a study of our own, as a function from a scale to its experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from ..errors import UnknownName
from ..options import Schema, schema
from . import demo
from .base import Recipe, Scale, Table, given
from .papers import bipe, chacal, lrnn, regulargpt
from .proof import regexes as proof_regexes
from .proof import table as proof_table
from .studies import (
    bipe_with_other_mixers,
    chacal_slow_start,
    depth_collapse,
    hundred_thousand_tokens,
    learned_chunk_size,
    tree_and_scan,
)
from .studies.attention_cost import cost
from .studies.boxes import linked_words, longer_stories
from .studies.chunk_sizes import accuracy as chunk_sizes
from .studies.linear_rnn import ablation, automaton_seeds, stability

__all__ = ["Recipe", "Scale", "Table", "available", "get", "options"]

TABLES: dict[tuple[str, str], Table] = {
    ("demo", "parity"): demo.recipe,
    ("regulargpt", "table-1"): regulargpt.table_1.recipe,
    ("regulargpt", "table-2"): regulargpt.table_2.recipe,
    ("regulargpt", "table-3"): regulargpt.table_3.recipe,
    ("regulargpt", "figure-3"): regulargpt.figure_3.recipe,
    ("regulargpt", "figure-4"): regulargpt.figure_4.recipe,
    ("regulargpt", "figure-4b"): regulargpt.figure_4b.recipe,
    ("chacal", "table-1"): chacal.table_1.recipe,
    ("chacal", "table-2"): chacal.table_2.recipe,
    ("chacal", "table-3"): chacal.table_3.recipe,
    ("chacal", "figure-5"): chacal.figure_5.recipe,
    ("chacal", "pretraining"): chacal.pretraining.recipe,
    ("lrnn", "table-2"): lrnn.table_2.recipe,
    ("bipe", "figure-1"): bipe.figure_1.recipe,
    ("bipe", "figure-3"): bipe.figure_3.recipe,
    ("bipe", "figure-4"): bipe.figure_4.recipe,
    ("bipe", "figure-5"): bipe.figure_5.recipe,
    ("bipe", "figure-6"): bipe.figure_6.recipe,
    ("bipe", "figure-9"): bipe.figure_9.recipe,
    ("bipe", "table-1"): bipe.table_1.recipe,
    ("bipe", "table-2"): bipe.table_2.recipe,
    ("bipe", "theorem-3"): bipe.theorem_3.recipe,
    ("study", "chunk-sizes"): chunk_sizes.recipe,
    ("study", "learned-chunk-size"): learned_chunk_size.recipe,
    ("study", "depth-collapse"): depth_collapse.recipe,
    ("study", "hundred-thousand-tokens"): hundred_thousand_tokens.recipe,
    ("study", "attention-cost"): cost.recipe,
    ("study", "tree-and-scan"): tree_and_scan.recipe,
    ("study", "linear-rnn-ablation"): ablation.recipe,
    ("study", "linear-rnn-stability"): stability.recipe,
    ("study", "automaton-seeds"): automaton_seeds.recipe,
    ("study", "boxes-longer-stories"): longer_stories.recipe,
    ("study", "boxes-linked-words"): linked_words.recipe,
    ("study", "chacal-slow-start"): chacal_slow_start.recipe,
    ("study", "bipe-with-other-mixers"): bipe_with_other_mixers.recipe,
    ("proof", "table"): proof_table.recipe,
    ("proof", "regexes"): proof_regexes.recipe,
}


def available() -> dict[str, str]:
    """Every recipe as "PAPER TABLE", with a line each."""
    return {" ".join(name): (table.__doc__ or "").splitlines()[0] for name, table in TABLES.items()}


def options(paper: str, table: str) -> Schema:
    """The settings a recipe takes, by name."""
    if (paper, table) not in TABLES:
        raise UnknownName("recipe", f"{paper} {table}", available())
    return schema(TABLES[paper, table], keyword_only=True)


def get(paper: str, table: str, scale: Scale = "laptop", settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a paper's table at a scale; `settings`: NAME=VALUE, of those recipes that take some.

    >>> recipe = get("demo", "parity", "smoke")
    >>> [experiment.model.name for experiment in recipe.experiments]
    ['transformer', 'regular-gpt', 'lstm']
    """
    if (paper, table) not in TABLES:
        raise UnknownName("recipe", f"{paper} {table}", available())
    if scale not in get_args(Scale):
        raise UnknownName("scale", scale, get_args(Scale))
    make = TABLES[paper, table]
    return make(scale, **given(f"{paper} {table}", make, settings))
