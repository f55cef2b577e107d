"""Recipes: a paper's table or figure, or a study, as a function from a scale to its experiments.

A recipe of your own is a file that defines `recipe(scale)`, and `lengthwise reproduce path/to/file.py` runs it:

    from lengthwise import lab
    from lengthwise.recipes import Cell, Grid, Recipe, Scale

    def recipe(scale: Scale) -> Recipe:
        '''Which width does parity need?'''
        steps = {"smoke": 5, "laptop": 500, "paper": 10_000}[scale]

        def planned(width):
            return lambda: lab.plan("parity", ["lstm"], settings={"model.width": width, "training.steps": steps})

        return Recipe("Parity by width", "How wide must an LSTM be?", Grid([Cell(d, planned(d)) for d in (8, 32)]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from ..errors import Error, UnknownName
from ..foreign_code import blaming
from ..options import Schema, schema
from ..own_code import run_file
from . import demo, proof
from .base import Finished, Recipe, RecipeFunction, Scale, settings_by_name
from .common import text_grid
from .common.comparison import LEARNED, inside
from .common.curves import curve, curves, ended, first_at
from .common.grid import Cell, Grid, Model, loaded
from .common.rules import Rule, settings_of
from .papers import bipe, chacal, lrnn, regulargpt

__all__ = [
    "LEARNED",
    "Cell",
    "Finished",
    "Grid",
    "Model",
    "Recipe",
    "RecipeFunction",
    "Rule",
    "Scale",
    "available",
    "curve",
    "curves",
    "ended",
    "first_at",
    "get",
    "inside",
    "loaded",
    "options",
    "settings_of",
    "text_grid",
]

TABLES: dict[tuple[str, str], RecipeFunction] = {
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
    ("proof", "table"): proof.table.recipe,
    ("proof", "state-tracking"): proof.state_tracking.recipe,
    ("proof", "steady"): proof.steady.recipe,
}


OVERNIGHT = (
    ("lrnn", "table-2"),
    ("regulargpt", "table-1"),
    ("chacal", "table-1"),
    ("chacal", "table-2"),
    ("bipe", "figure-3"),
)
"""The tables of ours that have the scale `overnight`."""


def available() -> dict[str, str]:
    """Every recipe as "PAPER TABLE", with a line each."""
    return {" ".join(name): (table.__doc__ or "").splitlines()[0] for name, table in TABLES.items()}


def options(paper: str, table: str = "") -> Schema:
    """The settings a recipe takes, by name."""
    return schema(_table(paper, table), keyword_only=True)


def get(paper: str, table: str = "", scale: Scale = "laptop", settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a paper's table, or of a file of your own (`get("mine.py")`), at a scale.

    `settings`: NAME=VALUE, of those recipes that take some.

    >>> recipe = get("demo", "parity", "smoke")
    >>> [experiment.model.name for experiment in recipe.experiments]
    ['transformer', 'lstm', 'regular-gpt', 'rnn', 'lstm']
    """
    make, name = _table(paper, table), f"{paper} {table}".strip()
    if scale not in get_args(Scale):
        raise UnknownName("scale", scale, get_args(Scale))
    if table and scale == "overnight" and (paper, table) not in OVERNIGHT:
        there = ", ".join(map(" ".join, OVERNIGHT))
        raise Error(f"{name} has no scale overnight, as {there} have. Take laptop or paper.")
    taken = settings_by_name(name, make, settings)
    if table:
        return make(scale, **taken)
    with blaming(name, "recipe() failed"):
        recipe: Any = make(scale, **taken)
    if not isinstance(recipe, Recipe):
        raise Error(f"{name}: recipe() must return a lengthwise.recipes.Recipe, got {type(recipe).__name__}.")
    return recipe


def _table(paper: str, table: str) -> RecipeFunction:
    """The function that makes a recipe, by its two words or by its file."""
    if paper.endswith(".py"):
        if table:
            raise Error(f"{paper}: a file holds one recipe, got {table!r} after it. Leave that out.")
        make = getattr(run_file(paper), "recipe", None)
        if not callable(make):
            raise Error(f"{paper}: a recipe's file defines recipe(scale), and this one does not.")
        return cast(RecipeFunction, make)
    if paper == "study" or (paper, table) in (("proof", "regexes"), ("proof", "learning")):
        file = table.replace("-", "_") or "NAME"
        raise Error(f"A study is a file: lengthwise reproduce studies/{'proof_' * (paper == 'proof')}{file}.py")
    if (paper, table) not in TABLES:
        raise UnknownName("recipe", f"{paper} {table}".strip(), available())
    return TABLES[paper, table]


def __dir__() -> list[str]:
    return sorted(__all__)
