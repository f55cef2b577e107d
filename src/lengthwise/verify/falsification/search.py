"""Falsify: search for a word that a model gets wrong, within a budget of seconds, and make it as short as can be."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from ...automata import Semiautomaton
from ...lab import Run
from ...tasks import Task
from ..claim import Claim
from ..subject import checked_seconds, subject_of
from ..verdict import Refuted
from .drift import crossing
from .hunt import Hunt, Watcher, Wrong
from .reading import Reader

SECONDS = 30.0
LONGEST = 1_000_000


@dataclass(frozen=True)
class Search:
    """The words that a search has read. Where it found a wrong one, that is `refuted`."""

    strings: int
    """How many words were read."""
    exact: int
    """All words of up to so many symbols are among them."""
    longest: int
    least: float | None
    """The least margin: the right logit minus the largest other."""
    by_length: dict[int, float] = field(repr=False)
    """The least margin at each length."""
    predicted: int | None
    """The length at which the margin is predicted to reach 0; None: it does not fall with length."""
    seen: int | None
    """The length of the word that was wrong first, before it was shrunk."""
    stopped: str | None
    """Why the model reads no longer words than the longest; None: the time was over, or a million was reached."""
    seconds: float
    refuted: Refuted | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.refuted:
            return f"{self.refuted}; first seen at {self.seen:,} tokens"
        text = f"no failure in {self.strings:,} {'string' if self.strings == 1 else 'strings'}"
        text += f", all of up to {self.exact:,} symbols among them" if self.exact else ""
        text += f"; the longest has {self.longest:,}"
        if self.least is not None:
            text += f"; the least margin is {self.least:.3g}"
        if self.predicted:
            text += f", and falls with length: it is predicted to reach 0 at about {self.predicted:,} symbols"
        return text

    def to_json(self) -> dict[str, Any]:
        data = {name: value for name, value in vars(self).items() if name != "refuted"}
        by_length = {str(n): margin for n, margin in sorted(self.by_length.items())}
        return {**data, "by_length": by_length, "seconds": round(self.seconds, 3)}


def falsify(
    model_or_run: nn.Module | Run,
    machine_or_task: Semiautomaton | Task | Claim | None = None,
    seconds: float = SECONDS,
    *,
    longest: int = LONGEST,
    watch: Watcher | None = None,
) -> Refuted | Search:
    """A word that the model gets wrong, the shortest that was found; or what was read without finding one.

    `machine_or_task` says what is right; None: the task of the run. `longest`: no longer words are read.

    >>> from lengthwise import automata, tasks, theory
    >>> model = theory.regular_gpt(tasks.get("parity").machine)
    >>> print(falsify(model, automata.Semiautomaton([[0, 1], [0, 1]]), seconds=5))
    refuted: after the word 1 1 the model says 0, and 1 is right
    """
    subject = subject_of("falsify", model_or_run, machine_or_task)
    reading = search(subject.model, subject.claim, checked_seconds("falsify", seconds), longest=longest, watch=watch)
    return reading.refuted or reading


def shortened(model: nn.Module, claim: Claim, word: np.ndarray, seconds: float) -> Refuted | None:
    """The shortest wrong word that is found in one (T,) that was wrong; None where it is right, read alone.

    >>> from lengthwise import tasks, theory, verify
    >>> parity = verify.claim_of(tasks.get("parity"))
    >>> turned = Claim(parity.machine, 1 - parity.answers, parity.asked)
    >>> print(shortened(theory.exact_classifier("parity"), turned, np.array([0, 1, 1]), seconds=5))
    refuted: after the word 0 the model says 0, and 1 is right
    """
    with Reader(model, claim) as reader:
        refuted = reader.alone(word)
        hunt = Hunt(reader, seconds, len(word), lambda stage: None)
        return hunt.shortest(Wrong(word, refuted)) if refuted else None


def search(
    model: nn.Module, claim: Claim, seconds: float, *, longest: int = LONGEST, watch: Watcher | None = None
) -> Search:
    """The whole search: `falsify` gives its refutation, where it has one."""
    with Reader(model, claim) as reader:
        reader.warm_up()
        hunt = Hunt(reader, seconds, longest, watch or (lambda stage: None))
        hunt.run()
    margins = hunt.by_length
    before = margins if hunt.seen is None else {n: m for n, m in margins.items() if n < hunt.seen}
    return Search(
        strings=hunt.strings,
        exact=hunt.exact,
        longest=hunt.read_to,
        least=min(margins.values(), default=None),
        by_length=margins,
        predicted=crossing(before),
        seen=hunt.seen,
        stopped=hunt.stopped,
        seconds=time.monotonic() - hunt.began,
        refuted=hunt.refuted,
    )
