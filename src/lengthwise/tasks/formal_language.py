"""Formal languages, with one of two questions (the `protocol`).

"membership": is the word in the language? Half of every batch are accepted words, half rejected ones.
"next": which symbols may come next, after every prefix of an accepted word? The answer is a set, one bit for each
symbol, and a word counts only if every position is right. Where every symbol may always come next, as in Tomita 5 and
6, the question is empty, and the baseline of 1.0 says so; `end=True` adds the bit "the word may end here".

Shapes: B batch, T tokens, Q states, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from ..automata import NearMisses, Semiautomaton, WordSampler, from_regex, live_states
from ..errors import Error
from ..options import Inherited, at_least
from .base import SupervisionOption, Task
from .independent_symbols import MachineStates, ProbabilitiesOption, symbol_weights

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
        """The span above an impossible length in which `problem` looks for a possible one.

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


class Regex(FormalLanguage):
    """Membership in the language of `pattern` (or its next symbols).

    >>> from lengthwise import tasks
    >>> task = tasks.get("regex", pattern="(ab|ba)*", protocol="next")
    >>> tokens = torch.tensor([[0, 1, 1, 0]])
    >>> tokens, task.answer(tokens).int().mT  # may a come next, may b?
    (tensor([[0, 1, 1, 0]]),
     tensor([[[0, 1, 1, 1],
              [1, 1, 0, 1]]], dtype=torch.int32))
    """

    def __init__(
        self,
        pattern: Annotated[str, "The regular expression, over single characters."],
        alphabet: Annotated[str | None, "All symbols, in their order; None: those in the pattern."] = None,
        **shared: Inherited,
    ):
        machine = from_regex(pattern, alphabet)
        params = {"pattern": pattern, "alphabet": "".join(machine.symbols)}
        super().__init__("regex", machine, params, **shared)


TOMITA = {
    1: ("1*", [[1, 0], [1, 1]], {0}),
    2: ("(10)*", [[2, 1], [0, 2], [2, 2]], {0}),
    # States: in no such run; after an odd run of 1s; in an odd, in an even run of 0s after one; spoilt.
    3: (
        "no odd run of 1s immediately followed by an odd run of 0s",
        [[0, 1], [2, 0], [3, 4], [2, 1], [4, 4]],
        {0, 1, 3},
    ),
    4: ("no 000", [[1, 0], [2, 0], [3, 0], [3, 3]], {0, 1, 2}),
    5: ("an even number of 0s and an even number of 1s", [[1, 2], [0, 3], [3, 0], [2, 1]], {0}),
    6: ("the number of 0s less that of 1s is divisible by 3", [[1, 2], [2, 0], [0, 1]], {0}),
    7: ("0*1*0*1*", [[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], {0, 1, 2, 3}),
}
"""Tomita's seven languages over 0 and 1, small and each awkward in its own way: what is in each, its machine's table
(columns 0 and 1), and the accepting states."""


class Tomita(FormalLanguage):
    """Membership in a Tomita language (or its next symbols). Lengths at which one class is empty raise.

    >>> import torch
    >>> from lengthwise import tasks
    >>> task = tasks.get("tomita-5", supervision="prefix")
    >>> tokens = torch.tensor([[0, 0, 1, 0, 1, 0]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 0, 1, 0, 1, 0]]),
     tensor([[0, 1, 0, 0, 0, 1]]))
    """

    def __init__(
        self,
        number: Annotated[int, at_least(1, at_most=7), "Which of the seven languages."],
        **shared: Inherited,
    ):
        _, table, accepting = TOMITA[number]
        machine = Semiautomaton(table, accepting=accepting)
        super().__init__(f"tomita-{number}", machine, {}, **shared)


def machine_task(
    delta: Annotated[Sequence[Sequence[int]], "The table: a row for each state, with the next state for each symbol."],
    start: Annotated[int, at_least(0), "The state before the first symbol."] = 0,
    accepting: Annotated[Sequence[int] | None, "The accepting states; None: the machine has no language."] = None,
    symbols: Annotated[Sequence[str] | None, "How each symbol is written; None: 0, 1, …"] = None,
    protocol: Annotated[
        Literal["states", "membership", "next"] | None,
        "The question; None: membership where there are accepting states, else the state.",
    ] = None,
    negatives: NegativesOption = "mixed",
    supervision: SupervisionOption = "last",
    probabilities: ProbabilitiesOption = None,
    end: EndOption = False,
) -> Task:
    """The task of the machine with this table.

    `protocol` is "states" (which state is the machine in?), "membership" or "next" (see `FormalLanguage`). The default
    is "membership" for a machine with accepting states, and "states" for one without.
    """
    machine = Semiautomaton(delta, start, accepting, symbols)
    protocol = protocol or ("states" if accepting is None else "membership")
    if protocol == "states":
        return MachineStates(machine, supervision=supervision, probabilities=probabilities)
    machine.need_accepting(f"protocol {protocol!r}")
    return FormalLanguage("machine", machine, machine.to_json(), protocol, negatives, supervision, probabilities, end)
