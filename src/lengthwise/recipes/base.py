"""What a recipe is: the experiments behind a table, a figure or a study, at a scale this machine can take, and the
panels that say what came out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Literal, get_args

from ..errors import Error, UnknownName
from ..lab import Experiment, Run
from ..report import Panel
from .common.grid import Grid

Scale = Literal["smoke", "laptop", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; paper: the published setting."""


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

    def panels(self, runs: Iterable[Run], device: str = "cpu") -> list[Panel]:
        """What is shown beside the runs; nothing where there are cells and none has a finished run."""
        finished = self.grid.finished(runs)
        if self.report is None or (self.grid.cells and not finished):
            return []
        return self.report(finished, device)


Table = Callable[..., Recipe]
"""From a scale to a recipe; what else it takes, by name alone, is given with `--set NAME=VALUE`."""


def given(name: str, table: Table, settings: Sequence[str]) -> dict[str, Any]:
    """`["lr=1e-4", "text=a.txt", "text=b.txt"]` as what the table takes, names and types checked.

    >>> def table(scale, *, text: Sequence[str], lr: float = 5e-5): ...
    >>> given("chacal table-3", table, ["lr=1e-4", "text=a.txt", "text=b.txt"])
    {'lr': 0.0001, 'text': ['a.txt', 'b.txt']}
    """
    parameters = inspect.signature(table, eval_str=True).parameters.values()
    takes = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    words: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, word = setting.partition("=")
        if not takes:
            raise Error(f"{name} takes no settings, got {setting!r}. Leave --set out.")
        if not (equals and word):
            raise Error(f"A setting of {name} is NAME=VALUE, got {setting!r}. It takes: {', '.join(takes)}.")
        if key not in takes:
            raise UnknownName(f"setting of {name}", key, takes)
        words.setdefault(key, []).append(word)
    if missing := [key for key, p in takes.items() if p.default is p.empty and key not in words]:
        raise Error(f"{name} needs {' and '.join(missing)}. Add {' '.join(f'--set {key}=…' for key in missing)}.")
    return {key: _typed(f"{name}: {key}", each, takes[key].annotation) for key, each in words.items()}


def _typed(name: str, words: list[str], hint: Any) -> Any:
    """The words as a sequence, or the one word as a text or number, as `hint` says."""
    if hint == Sequence[str]:
        return words
    if len(words) > 1:
        raise Error(f"{name} is one value, got {' and '.join(words)}. Give it once.")
    kind = next((kind for kind in get_args(hint) if kind is not NoneType), hint)
    try:
        return kind(words[0])
    except ValueError:
        whole = "a whole number" if kind is int else "a number"
        raise Error(f"{name} is {whole}, got {words[0]!r}.") from None
