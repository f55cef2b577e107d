"""The machine of any model, learned by asking it, and nobody else, what it says after words (Rivest and Schapire).

Words are one state while the model says the same after each of them and each of some suffixes. Where the machine of
these states says something else than the model, its word w has a place i at which the states stop to be right,

    said(access(δ(w_1 … w_i)) w_i+1 … w_n) ≠ said(access(δ(w_1 … w_i+1)) w_i+2 … w_n),

so w_i+2 … w_n is a suffix that tells two words of one state apart. Such words are looked for among those of the
W-method (a state's word, then up to EXTRA + 1 symbols, then a suffix) and the sample's, the shortest first.

Shapes: B words, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf

import torch
from torch import nn

from ...automata import Semiautomaton
from ...errors import TooLarge
from ...limits import Limit
from ..falsification.reading import Reader
from .agreement import Sample, check_time
from .answers import AT_ONCE, Answer, said_by
from .extracted import Extracted
from .moore import Moore

LEARNED = Limit("LEARNED_STATES", 200, "states of a machine that is learned", "Train the model further")
EXTRA = 2
SHORT = 40
"""Words up to this length may refute a machine; longer ones are only compared with the one that is taken."""
Word = tuple[int, ...]


class Teacher:
    """Answers of the model after words, each asked once; None where nothing is asked."""

    def __init__(self, reader: Reader, until: float):
        self.reader, self.until = reader, until
        self.known: dict[Word, Answer | None] = {(): None}

    def answers(self, words: Iterable[Word]) -> list[Answer | None]:
        """Returns the answers, of words of equal length asked together."""
        words = list(words)
        new: dict[int, list[Word]] = {}
        for word in dict.fromkeys(words):
            if word not in self.known:
                new.setdefault(len(word), []).append(word)
        for same in new.values():
            check_time(self.until)
            tokens, claim = torch.tensor(same), self.reader.claim
            asked = claim.asked[claim.machine.run(tokens)[:, -1].numpy()]
            answers = zip(said_by(self.reader, tokens), asked, strict=True)
            self.known.update(zip(same, [answer if question else None for answer, question in answers], strict=True))
        return [self.known[word] for word in words]


class _States:
    """The machine whose states are the words that these suffixes tell apart, each with a shortest word."""

    def __init__(self, teacher: Teacher, suffixes: list[Word]):
        self.teacher, self.suffixes = teacher, suffixes
        machine = teacher.reader.claim.machine
        self.access: list[Word] = [()]
        number = {self._rows([()])[0]: 0}
        delta = []
        for word in self.access:  # grows while we walk it: breadth first
            nexts = [(*word, s) for s in range(machine.num_symbols)]
            for next_, row in zip(nexts, self._rows(nexts), strict=True):
                if row not in number:
                    LEARNED.check(len(number) + 1, "extract")
                    number[row] = len(number)
                    self.access.append(next_)
            delta.append([number[row] for row in self._rows(nexts)])
        self.moore = Moore(Semiautomaton(delta, 0, symbols=machine.symbols), tuple(teacher.answers(self.access)))

    def _rows(self, words: list[Word]) -> list[tuple[Answer | None, ...]]:
        width, answers = len(self.suffixes), self.teacher.answers(word + e for word in words for e in self.suffixes)
        return [tuple(answers[i : i + width]) for i in range(0, len(answers), width)]

    def new_suffix(self, sample: Sample) -> Word | None:
        """Returns one that tells words of one state apart; None where no word that is tried shows any."""
        for tokens in self._tried(sample):
            right = self.teacher.answers(map(tuple, tokens.tolist()))
            for word, own, other in zip(tokens.tolist(), self.moore.answers(tokens), right, strict=True):
                if own != other:
                    return self._telling(tuple(word))
        return None

    def _tried(self, sample: Sample) -> Iterator[torch.Tensor]:
        S = self.moore.machine.num_symbols
        for extra in range(1, EXTRA + 2):
            words = {
                (*word, *middle, *suffix)
                for word, middle, suffix in product(self.access, product(range(S), repeat=extra), self.suffixes)
            }
            for length in sorted({len(word) for word in words}):
                yield from torch.tensor(sorted(word for word in words if len(word) == length)).split(AT_ONCE)
        yield from (tokens for tokens in sample.words if tokens.shape[1] <= SHORT)

    def _telling(self, word: Word) -> Word:
        states = [0]
        for s in word:
            states.append(int(self.moore.machine.delta[states[-1], s]))
        answers = self.teacher.answers(self.access[q] + word[i:] for i, q in enumerate(states))
        last = next(i for i in reversed(range(len(word))) if answers[i] != answers[i + 1])
        return word[last + 1 :]


def learn(reader: Reader, sample: Sample, model: nn.Module, until: float = inf) -> Extracted:
    """The machine of the model over the symbols of the reader's claim: the first that it contradicts nowhere.

    A model whose answers are those of no small machine contradicts each: of these the one that fails least.
    """
    teacher, suffixes = Teacher(reader, until), list[Word]([()])
    best, refused = None, None
    while True:
        try:
            states = _States(teacher, suffixes)
        except TooLarge as limit:
            if best is None:
                raise
            refused = str(limit)
            break
        agreement = sample.agreement(states.moore)
        if best is None or agreement > best[1]:
            best = states.moore.smallest(), agreement
        if (suffix := states.new_suffix(sample)) is None:
            break
        suffixes.append(suffix)
    machine, agreement = best
    return Extracted("learned", machine, agreement, sample.count, len(machine), model, refused)
