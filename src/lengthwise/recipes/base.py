"""What a recipe is: the experiments behind one table or figure, at a scale this machine can take, and what is made of
them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args

from ..errors import Error, UnknownName
from ..lab import Experiment, Run
from ..report import Panel

Scale = Literal["smoke", "laptop", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; paper: the published setting."""


class Place(NamedTuple):
    """Where and on what a recipe's own work is done, and who hears of its steps."""

    root: Path
    device: str = "cpu"
    advance: Callable[[str, int, int, float], None] | None = None
    """Hears (what, step, steps, loss)."""


@dataclass(frozen=True)
class Recipe:
    title: str
    description: str
    """What is asked and how to read the answer, in a few sentences."""
    experiments: list[Experiment]
    """May be empty: a recipe can be a measurement alone."""
    panels: Callable[[list[Run]], list[Panel]] | None = None
    """What is drawn, measured or compared beside the runs, once those of `experiments` are finished."""
    work: Callable[[Place], list[Panel]] | None = None
    """What is done instead where the lab's experiments do not fit: it keeps records of its own under the root."""

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
