"""A recipe's cells: the experiments behind each number of a table, and the runs that have finished of them.

A cell is known by its key, which is data: ("parity", "rnn"), a NamedTuple, a number. Nothing is read out of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from ...errors import Error, UnknownName
from ...lab import Experiment, Run, load_model, plan
from ...models import TokenClassifier
from ...tasks import Task

Key = TypeVar("Key", bound=Hashable)


class Model(NamedTuple):
    """A column of a table: a preset, and the settings that make it this column, as `bench --set` takes them."""

    preset: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Cell(Generic[Key]):
    key: Key
    plan: Callable[[], list[Experiment]]
    """Plans the experiments; called when they are asked for and not before, since planning checks every setting."""
    label: str = ""
    """The name of the cell's row, which `--only` takes; empty where the table has no rows to choose from."""

    @property
    def name(self) -> str:
        """The name of this cell alone, which `--only` takes too: of most tables "ROW, COLUMN"."""
        return ", ".join(map(str, self.key)) if isinstance(self.key, tuple) else self.label

    @cached_property
    def experiments(self) -> list[Experiment]:
        return self.plan()


@dataclass(frozen=True)
class Grid(Generic[Key]):
    """
    >>> grid = Grid(Cell((task, model), list, label=task) for task in ("parity", "d-2") for model in ("rnn", "lstm"))
    >>> [cell.key for cell in grid.only(["d-2"]).cells]
    [('d-2', 'rnn'), ('d-2', 'lstm')]
    >>> [cell.key for cell in grid.only(["parity, lstm"]).cells]
    [('parity', 'lstm')]
    """

    cells: Sequence[Cell[Key]] = ()

    def __post_init__(self):
        object.__setattr__(self, "cells", tuple(self.cells))
        if len({cell.key for cell in self.cells}) < len(self.cells):
            raise Error(f"Two cells of a grid have one key. The keys are: {[cell.key for cell in self.cells]}.")

    @staticmethod
    def table(rows: Iterable[str], columns: Iterable[str], plan: Callable[[str, str], list[Experiment]]) -> Grid[Any]:
        """A cell for every row and column, known by both."""
        keys = [(row, column) for row in rows for column in columns]
        return Grid([Cell(key, partial(plan, *key), label=key[0]) for key in keys])

    @property
    def experiments(self) -> list[Experiment]:
        """The experiments of all cells; those that several cells share stand there once."""
        return list({e.hash: e for cell in self.cells for e in cell.experiments}.values())

    @property
    def rows(self) -> list[str]:
        """The names of the rows, of a table that has any."""
        return list(dict.fromkeys(cell.label for cell in self.cells if cell.label))

    def only(self, labels: Iterable[str]) -> Grid[Key]:
        """The rows and cells of these names."""
        known = self.rows
        if len(known) < 2:
            raise Error("There are no rows to choose from. Leave --only out.")
        names = set(labels)
        for name in sorted(names - {each for cell in self.cells for each in (cell.label, cell.name)}):
            row = name.partition(",")[0]
            raise UnknownName("row", name, [cell.name for cell in self.cells if cell.label == row] or known)
        return Grid([cell for cell in self.cells if names & {cell.label, cell.name}])

    def finished(self, runs: Iterable[Run]) -> dict[Key, list[Run]]:
        """The finished runs by cell, in the order of the cells; a cell without any is left out."""
        by_hash = {run.experiment.hash: run for run in runs}
        if not by_hash:
            return {}
        joined = {cell.key: [by_hash[e.hash] for e in cell.experiments if e.hash in by_hash] for cell in self.cells}
        return {key: mine for key, mine in joined.items() if mine}


def plan_cell(
    task: Task, model: Model, settings: Mapping[str, Any], test_lengths: Sequence[int], **more: Any
) -> list[Experiment]:
    """The runs of one cell on strings, by what its rules say, `seeds` among it; `more` as `lab.plan` takes it."""
    settings = {**settings, **model.settings}
    seeds = settings.pop("seeds")
    return plan(task, [model.preset], seeds=seeds, test_lengths=test_lengths, settings=settings, **more)


def variant_note(finished: Mapping[Any, Sequence[Run]], preset: str, called: str) -> str:
    """Which variant of a preset stands for the paper's model: `lengthwise` unless another is named."""
    models = [runs[0].experiment.model for runs in finished.values()]
    variants = dict.fromkeys(str(m.options.get("variant", "lengthwise")) for m in models if m.name == preset)
    return f"{called} is the preset {preset} in the variant {' and '.join(variants)}." if variants else ""


def loaded(runs: Iterable[Run], device: str) -> list[TokenClassifier]:
    """The trained models of these runs, there."""
    return [load_model(run).to(device) for run in runs]
