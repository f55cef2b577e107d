"""What a recipe is: the experiments behind one table or figure, at a scale this machine can take, and what is made of
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import Error, UnknownName
from ..lab import Experiment, Run
from ..options import Word, schema, take, word_of
from ..report import Panel

Scale = Literal["smoke", "laptop", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; paper: the published setting."""


@dataclass(frozen=True)
class Recipe:
    title: str
    description: str
    """What is asked and how to read the answer, in a few sentences."""
    experiments: list[Experiment]
    """May be empty: a recipe can be a measurement alone."""
    panels: Callable[[list[Run]], list[Panel]] | None = None
    """What is drawn, measured or compared beside the runs, once those of `experiments` are finished."""

    def only(self, tasks: Sequence[str]) -> Recipe:
        """The part of the table that is about these tasks."""
        known = {e.task.name for e in self.experiments}
        if len(known) < 2:
            raise Error(f"{self.title}: there are no rows to choose from. Leave --only out.")
        for name in tasks:
            if name not in known:
                raise UnknownName("row", name, known)
        return replace(self, experiments=[e for e in self.experiments if e.task.name in tasks])


Table = Callable[..., Recipe]
"""From a scale to a recipe; what else it takes, by name alone, is given with `--set NAME=VALUE`."""


def given(name: str, table: Table, settings: Sequence[str]) -> dict[str, Any]:
    """`["lr=1e-4", "text=a.txt", "text=b.txt"]` as what the table takes, names and types checked.

    >>> def table(scale, *, text: Sequence[str], lr: float = 5e-5): ...
    >>> given("chacal table-3", table, ["lr=1e-4", "text=a.txt", "text=b.txt"])
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
