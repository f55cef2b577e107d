"""Recipes: each table or figure as a function from a scale to its experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from ..errors import UnknownName
from ..options import Schema, schema
from . import chacal, demo, lrnn, regulargpt
from .base import Recipe, Scale, Table, given

__all__ = ["Recipe", "Scale", "Table", "available", "get", "options"]

TABLES: dict[tuple[str, str], Table] = {
    ("demo", "parity"): demo.parity,
    ("regulargpt", "table-1"): regulargpt.table_1,
    ("regulargpt", "table-2"): regulargpt.table_2,
    ("regulargpt", "figure-3"): regulargpt.figure_3,
    ("regulargpt", "figure-4"): regulargpt.figure_4,
    ("regulargpt", "complexity"): regulargpt.complexity,
    ("regulargpt", "far"): regulargpt.far,
    ("regulargpt", "collapse"): regulargpt.collapse,
    ("regulargpt", "chunk-sizes"): regulargpt.chunk_sizes,
    ("regulargpt", "choice"): regulargpt.choice,
    ("chacal", "table-1"): chacal.table_1,
    ("chacal", "table-2"): chacal.table_2,
    ("chacal", "table-3"): chacal.table_3,
    ("chacal", "figure-5"): chacal.figure_5,
    ("chacal", "warm-start"): chacal.warm_start,
    ("chacal", "attention"): chacal.attention,
    ("chacal", "length"): chacal.length,
    ("lrnn", "table-2"): lrnn.table_2,
    ("lrnn", "ablation"): lrnn.ablation,
    ("lrnn", "stability"): lrnn.stability,
    ("lrnn", "seam"): lrnn.seam,
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
