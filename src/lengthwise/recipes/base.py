"""What a recipe is: the experiments behind a table, a figure or a study, at a scale this machine can take, and the
panels that say what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..errors import Error
from ..lab import Experiment, Run
from ..options import Word, schema, take, word_of
from ..report import Panel
from .common.grid import Grid

Scale = Literal["smoke", "laptop", "overnight", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; overnight: the published networks and rates,
or lengths, hours a row on two cores and no run longer than two; paper: the published setting."""


Finished = Mapping[Any, list[Run]]
"""The finished runs by the keys of a recipe's cells; a cell without any is left out."""


@dataclass(frozen=True)
class Recipe:
    title: str
    description: str
    """The question, and how to read the answer, in a few sentences."""
    grid: Grid[Any] = field(default_factory=Grid)
    """The cells whose experiments are run; none where a recipe only measures."""
    report: Callable[[Finished, str], list[Panel]] | None = None
    """Draws, compares and measures, given the finished runs of the cells and the device to compute on."""

    @property
    def experiments(self) -> list[Experiment]:
        return self.grid.experiments

    def only(self, rows: Iterable[str]) -> Recipe:
        """The part of the table that these rows are; the experiments of other rows are never planned."""
        return replace(self, grid=self.grid.only(rows))

    def row_by_row(self) -> list[Recipe]:
        """Returns the table's first row, its first two, and so on to all of it."""
        rows = self.grid.rows
        return [self.only(rows[:n]) for n in range(1, len(rows))] + [self]

    def panels(self, runs: Iterable[Run], device: str = "cpu") -> list[Panel]:
        """What is shown beside the runs; nothing where there are cells and none has a finished run."""
        finished = self.grid.finished(runs)
        if self.report is None or (self.grid.cells and not finished):
            return []
        return self.report(finished, device)


RecipeFunction = Callable[..., Recipe]
"""From a scale to a recipe; what else it takes, by name alone, is given with `--set NAME=VALUE`."""


def settings_by_name(name: str, table: RecipeFunction, settings: Sequence[str]) -> dict[str, Any]:
    """`["lr=1e-4", "text=a.txt", "text=b.txt"]` as what the table takes, names and types checked.

    >>> def table(scale, *, text: Sequence[str], lr: float = 5e-5): ...
    >>> settings_by_name("chacal table-3", table, ["lr=1e-4", "text=a.txt", "text=b.txt"])
    {'lr': 0.0001, 'text': ['a.txt', 'b.txt']}
    """
    known = schema(table, keyword_only=True)
    words: dict[str, list[Word]] = {}
    for setting in settings:
        if not known:
            raise Error(f"{name} takes no settings, got {setting!r}. Leave --set out.")
        key, word = word_of(setting, f"{next(iter(known))}=…")
        words.setdefault(key, []).append(word)
    several = {key for key, option in known.items() if Sequence[str] in option.kinds}
    for key, each in words.items():
        if len(each) > 1 and key in known and key not in several:
            raise Error(f"{name}: {key} is one value, got {' and '.join(each)}. Give it once.")
    return take(known, {key: each if key in several else each[0] for key, each in words.items()}, name, "")
