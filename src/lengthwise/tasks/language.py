"""Formal languages, asked in two ways.

"membership": is the word in the language? Half of every batch are accepted words, half rejected ones.
"next": after every prefix of an accepted word, which symbols may come next (a set: one bit for each symbol)? A word
counts only if every position is right. Where every symbol may always come next, as in Tomita 5 and 6, that question
is empty, and the baseline of 1.0 says so; `end=True` adds a bit "the word may end here", which makes it a real one.

Shapes: B batch, T tokens, Q states, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..automata import NearMisses, Sampler, Semiautomaton, live
from ..errors import Error
from .base import Task, choice
from .free import SUPERVISION, symbol_weights

NEGATIVES = ("uniform", "near-miss", "mixed")
MISSES, OUTSIDE = "one edit away from the language and outside it", "outside the language"


class Source(Protocol):
    """Draws words of one kind (accepted ones, rejected ones) at the lengths that have any."""

    def possible(self, length: int) -> bool: ...

    def nearest(self, length: int) -> list[int]: ...

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor: ...

    def accepted_shares(self, length: int) -> np.ndarray: ...


class Language(Task):
    """Membership or next symbols of a machine's language; negatives are uniform, near misses, or half and half.

    >>> from lengthwise import tasks
    >>> task = tasks.get("regex:(ab|ba)*", supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 0, 0]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 0, 0]]),
     tensor([[0, 1, 0, 1, 0, 0]]))
    """

    lopsided = False
    """Whether a length without accepted words is asked all the same, its words all rejected."""

    def __init__(
        self,
        name: str,
        machine: Semiautomaton,
        params: dict[str, Any],
        protocol: str = "membership",
        negatives: str | None = None,
        supervision: str | None = None,
        probabilities: Sequence[float] | None = None,
        end: bool = False,
    ):
        self.name = name
        self.vocabulary = machine.symbols
        self.protocol = choice("protocol", protocol, ("membership", "next"))
        member = protocol == "membership"
        if not member and (negatives, supervision) not in ((None, None), (None, "prefix")):
            raise Error(
                f'{name}: protocol "next" asks at every prefix of accepted words: leave negatives and supervision out.'
            )
        if member and end:
            raise Error(f'{name}: end=True adds a bit to the sets of protocol "next"; leave it out for "membership".')
        self.negatives = choice("negatives", negatives or "mixed", NEGATIVES)
        default = "last" if member else "prefix"
        self.supervision = choice("supervision", supervision or default, SUPERVISION)  # pyright: ignore[reportAttributeAccessIssue]
        self.kind = "class" if member else "set"
        self.weights = None if probabilities is None else symbol_weights(name, self.vocabulary, probabilities)
        self.machine = self.language = machine
        accepts = torch.from_numpy(machine.accepts_state)
        self.readout = accepts.long() if member else next_symbols(machine, end)
        self.outputs = 2 if member else self.readout.shape[1]
        asked = {"negatives": self.negatives, "supervision": self.supervision} if member else {"end": bool(end)}
        weights = None if self.weights is None else self.weights.tolist()
        self.params = {**params, "protocol": protocol, **asked, "probabilities": weights}

    @cached_property
    def uniform_positives(self) -> Sampler:
        return Sampler(self.language, self.weights)

    @property
    def positives(self) -> Source:
        return self.uniform_positives

    @cached_property
    def rejected(self) -> list[Source]:
        """The sources of negatives, which have equal shares."""
        sources: list[Source] = []
        if self.negatives != "near-miss":
            sources.append(Sampler(self.language.complement(), self.weights))
        if self.negatives != "uniform":
            sources.append(NearMisses(self.language, self.weights))
        return sources

    def problem(self, length: int) -> str | None:
        if problem := super().problem(length):
            return problem
        member = self.protocol == "membership"
        needed: list[tuple[str, Source]] = [] if member and self.lopsided else [("in the language", self.positives)]
        if member:
            kinds = (
                [MISSES, OUTSIDE]
                if self.negatives == "mixed"
                else [MISSES if self.negatives == "near-miss" else OUTSIDE]
            )
            needed += zip(kinds, self.rejected, strict=True)
        for what, source in needed:
            if not source.possible(length):
                near = [n for n in source.nearest(length) if n >= 1]
                remedy = f"Use {' or '.join(map(str, near))}." if near else "No other length has one either."
                return f"no word of length {length} is {what}. {remedy}"
        return None

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        if self.protocol == "next":
            return self.positives.draw(length, batch, generator)
        positive = self.has_positives(length)
        # Whoever gets the odd word out is drawn too, so that no class is favoured.
        accepted = half(batch, generator) if positive else 0
        parts = [self.positives.draw(length, accepted, generator)] if accepted else []
        left = batch - accepted
        for i, source in enumerate(self.rejected):
            share = half(left, generator) if i + 1 < len(self.rejected) else left
            if share:
                parts.append(source.draw(length, share, generator))
            left -= share
        return torch.cat(parts)[torch.randperm(batch, generator=generator)]

    def answer(self, tokens: Tensor) -> Tensor:
        return self.readout[self.language.run(tokens)]  # pyright: ignore[reportOptionalSubscript]

    def has_positives(self, length: int) -> bool:
        return not self.lopsided or self.positives.possible(length)

    def baseline(self, length: int) -> float:
        self.check(length)
        if self.protocol == "next":
            return self._constant_sets(length)
        positive = self.has_positives(length)
        if self.supervision == "last":
            return 0.5 if positive else 1.0
        rejected = np.mean([source.accepted_shares(length).mean() for source in self.rejected])
        share = (rejected + self.positives.accepted_shares(length).mean()) / 2 if positive else rejected
        return float(max(share, 1 - share))

    def _constant_sets(self, length: int) -> float:
        """The probability that all positions of an accepted word have the same set, the likeliest such set."""
        assert self.readout is not None
        total = self.uniform_positives.log_count(length)
        best = 0.0
        kinds = torch.unique(self.readout, dim=0)
        for kind in kinds:
            keeps = (self.readout == kind).all(dim=1).numpy()
            only = Sampler(restricted(self.language, keeps), self.weights)
            best = max(best, float(np.exp(only.log_count(length) - total)))
        return best


def half(count: int, generator: torch.Generator) -> int:
    """Half of `count`, rounded up or down by a draw."""
    return (count + int(torch.randint(2, (), generator=generator))) // 2


def next_symbols(machine: Semiautomaton, end: bool) -> Tensor:
    """(Q, S) booleans, the symbols after which the word can still become accepted; with `end`, also whether it is."""
    sets = live(machine)[machine.delta]
    if end:
        sets = np.column_stack([sets, machine.accepts_state])
    return torch.from_numpy(sets)


def restricted(machine: Semiautomaton, keeps: np.ndarray) -> Semiautomaton:
    """The machine of those words that stay, after every symbol, in the states `keeps` (Q,) is true of."""
    dead = machine.num_states
    table = np.where(keeps[machine.delta], machine.delta, dead)
    table = np.vstack([table, np.full(machine.num_symbols, dead)])
    return Semiautomaton(table, machine.start, machine.need_accepting("restricted"), machine.symbols)
