"""Formal languages, with one of two questions (the `protocol`).

"membership": is the word in the language? Half of every batch are accepted words, half rejected ones.
"next": which symbols may come next, after every prefix of an accepted word? The answer is a set, one bit for each
symbol, and a word counts only if every position is right. Where every symbol may always come next, as in Tomita 5 and
6, the question is empty, and the baseline of 1.0 says so; `end=True` adds the bit "the word may end here".

Shapes: B batch, T tokens, Q states, S symbols.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from ..automata import NearMisses, Semiautomaton, WordSampler, live_states
from ..errors import Error
from .base import SupervisionOption, Task
from .independent_symbols import ProbabilitiesOption, symbol_weights

ProtocolOption = Annotated[
    Literal["membership", "next"],
    "The question: is the word in the language, or which symbols may come next after every prefix of one that is?",
]
NegativesOption = Annotated[
    Literal["uniform", "near-miss", "mixed"],
    "The rejected words: any of their length, those one edit away from the language, or half of each.",
]
EndOption = Annotated[bool, "For next symbols: add the question whether the word may end here."]


class WordSource(Protocol):
    """Draws words of one kind (accepted ones, rejected ones) at the lengths that have any."""

    def possible(self, length: int) -> bool: ...

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor: ...


class FormalLanguage(Task):
    """Membership or next symbols of a machine's language.

    `negatives` says which rejected words are drawn: "uniform" ones from all of their length, "near-miss" ones (one edit
    away from an accepted word), or "mixed", half of each.

    >>> from lengthwise import tasks
    >>> task = tasks.get("regex:(ab|ba)*", supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 0, 0]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 0, 0]]),
     tensor([[0, 1, 0, 1, 0, 0]]))
    """

    may_lack_positives = False
    """Whether a length at which no word is accepted is possible. All its words are then rejected ones."""

    def __init__(
        self,
        name: str,
        machine: Semiautomaton,
        params: dict[str, Any],
        protocol: ProtocolOption = "membership",
        negatives: NegativesOption = "mixed",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
        end: EndOption = False,
    ):
        self.name = name
        self.vocabulary = machine.symbols
        self.protocol = protocol
        member = protocol == "membership"
        if not member and negatives != "mixed":
            raise Error(f'{name}: protocol "next" has accepted words only: leave negatives out.')
        if member and end:
            raise Error(f'{name}: end=True adds a bit to the sets of protocol "next"; leave it out for "membership".')
        self.negatives = negatives
        self.supervision = supervision if member else "prefix"
        self.kind = "class" if member else "set"
        self.scoring = "last" if member else "every"
        self.weights = None if probabilities is None else symbol_weights(name, self.vocabulary, probabilities)
        self.machine = self.language = machine
        accepts = torch.from_numpy(machine.accepts_state)
        self.readout = accepts.long() if member else next_symbols(machine, end)
        # Of next symbols only words are asked that can still become accepted.
        self.answered = None if member else torch.from_numpy(live_states(machine))
        self.outputs = 2 if member else self.readout.shape[1]
        options = {"negatives": self.negatives, "supervision": self.supervision} if member else {"end": end}
        weights = None if self.weights is None else self.weights.tolist()
        self.params = {**params, "protocol": protocol, **options, "probabilities": weights}

    @cached_property
    def uniform_positives(self) -> WordSampler:
        return WordSampler(self.language, self.weights)

    @property
    def positives(self) -> WordSource:
        return self.uniform_positives

    @cached_property
    def rejected(self) -> dict[str, WordSource]:
        """The sources of negatives, by a description of their words. All have equal shares."""
        sources: dict[str, WordSource] = {}
        if self.negatives != "near-miss":
            sources["outside the language"] = WordSampler(self.language.complement(), self.weights)
        if self.negatives != "uniform":
            sources["one edit away from the language and outside it"] = NearMisses(self.language, self.weights)
        return sources

    def missing_words(self, length: int) -> str | None:
        """A description of words that the task needs and that do not exist at this length, or None."""
        needed = self.rejected if self.protocol == "membership" else {}
        if self.protocol == "next" or not self.may_lack_positives:
            needed = {"in the language": self.positives, **needed}
        return next((what for what, source in needed.items() if not source.possible(length)), None)

    def problem(self, length: int) -> str | None:
        if length < 1:
            why = f"length must be at least 1, got {length}"
        elif what := self.missing_words(length):
            why = f"no word of length {length} is {what}"
        else:
            return None
        below = (n for n in range(length - 1, 0, -1) if self.missing_words(n) is None)
        least = max(length, 0)
        above = (n for n in range(least + 1, least + self.search_span) if self.missing_words(n) is None)
        near = [n for n in (next(below, None), next(above, None)) if n is not None]
        remedy = f"Use {' or '.join(map(str, near))}." if near else "No length near it will do either."
        return f"{why}. {remedy}"

    @property
    def search_span(self) -> int:
        """How far above an impossible length `problem` looks for a possible one.

        The words of a machine of Q states come back within Q lengths, and those of two kinds at once mostly within Q².
        """
        return min(self.language.num_states**2 + 2, 1000)

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        if self.protocol == "next":
            return self.positives.draw(length, batch, generator)
        # The class that gets the odd word is drawn too, so that no class is favoured.
        accepted = random_half(batch, generator) if self.has_positives(length) else 0
        parts = [self.positives.draw(length, accepted, generator)] if accepted else []
        left = batch - accepted
        for i, source in enumerate(self.rejected.values(), start=1):
            share = random_half(left, generator) if i < len(self.rejected) else left
            if share:
                parts.append(source.draw(length, share, generator))
            left -= share
        return torch.cat(parts)[torch.randperm(batch, generator=generator)]

    def answer(self, tokens: Tensor) -> Tensor:
        return self.readout[self.language.run(tokens)]  # pyright: ignore[reportOptionalSubscript]

    def has_positives(self, length: int) -> bool:
        return not self.may_lack_positives or self.positives.possible(length)

    def baseline(self, length: int) -> float:
        self.check(length)
        if self.protocol == "next":
            return self._constant_sets(length)
        return 0.5 if self.has_positives(length) else 1.0

    def _constant_sets(self, length: int) -> float:
        """The probability that all positions of an accepted word have one and the same set, for the likeliest set."""
        assert self.readout is not None
        total = self.uniform_positives.log_count(length)
        best = 0.0
        kinds = torch.unique(self.readout, dim=0)
        for kind in kinds:
            keeps = (self.readout == kind).all(dim=1).numpy()
            only = WordSampler(restricted(self.language, keeps), self.weights)
            best = max(best, float(np.exp(only.log_count(length) - total)))
        return best


def random_half(count: int, generator: torch.Generator) -> int:
    """Half of `count`, rounded up or down by a draw."""
    return (count + int(torch.randint(2, (), generator=generator))) // 2


def next_symbols(machine: Semiautomaton, end: bool) -> Tensor:
    """(Q, S) booleans: the symbols after which a word can still become accepted. `end` adds whether it is accepted."""
    sets = live_states(machine)[machine.delta]
    if end:
        sets = np.column_stack([sets, machine.accepts_state])
    return torch.from_numpy(sets)


def restricted(machine: Semiautomaton, keeps: np.ndarray) -> Semiautomaton:
    """The machine of the words that stay, after every symbol, within the states where `keeps` (Q,) is true."""
    dead = machine.num_states
    table = np.where(keeps[machine.delta], machine.delta, dead)
    table = np.vstack([table, np.full(machine.num_symbols, dead)])
    return Semiautomaton(table, machine.start, machine.need_accepting("restricted"), machine.symbols)
