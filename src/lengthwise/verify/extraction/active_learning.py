"""The machine of any model, learned by asking it: Kearns and Vazirani's algorithm, the model its teacher (AALpy).

A query is a word; its answers are what the model says at the last position of each of its prefixes. The oracle that
looks for a word on which a hypothesis is wrong tries the words of the W-method (every transition, then up to EXTRA
symbols, then a suffix that tells states apart) and random words, in batches of equal length.

Shapes: B words, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import nn

from ...automata import Semiautomaton
from ...errors import Error
from ...limits import Limit
from ..claim import Claim
from ..falsification.reading import Reader
from .agreement import Sample
from .answers import AT_ONCE, Answer, said_by
from .extracted import Extracted
from .moore import Moore

LEARNED = Limit("LEARNED_STATES", 200, "states of a machine that is learned", "Train the model further")
EXTRA = 2
SHORT = 40
"""Random words up to this length may refute a hypothesis; longer ones are only compared with the machine at the end."""
Word = tuple[int, ...]


class Teacher:
    """Answers of the model after words, each asked once."""

    def __init__(self, reader: Reader):
        self.reader = reader
        self.known: dict[Word, Answer | None] = {}

    def ask(self, words: Iterable[Word]) -> None:
        """Ask what is not known yet, words of equal length together."""
        new: dict[int, list[Word]] = {}
        for word in dict.fromkeys(words):
            if word not in self.known:
                new.setdefault(len(word), []).append(word)
        for same in new.values():
            tokens, claim = torch.tensor(same), self.reader.claim
            asked = claim.asked[claim.machine.run(tokens)[:, -1].numpy()]
            answers = zip(said_by(self.reader, tokens), asked, strict=True)
            self.known.update(zip(same, [answer if question else None for answer, question in answers], strict=True))


def learn(reader: Reader, sample: Sample, model: nn.Module) -> Extracted:
    """The machine of the model over the symbols of the reader's claim."""
    try:
        from aalpy import Oracle, run_KV  # pyright: ignore[reportMissingImports]
        from aalpy.base import SUL  # pyright: ignore[reportMissingImports]
        from aalpy.oracles import WMethodEqOracle  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Error("extract: automata learning needs AALpy. pip install 'lengthwise[extract]'.") from error
    teacher, claim = Teacher(reader), reader.claim
    alphabet = list(range(claim.machine.num_symbols))

    class Asked(SUL):
        def pre(self) -> None:
            self.word: Word = ()

        def post(self) -> None:
            pass

        def step(self, letter: int) -> str:
            self.word = (*self.word, letter)
            teacher.ask([self.word])
            return repr(teacher.known[self.word])

        def query(self, word: Word) -> list[str]:
            self.num_queries += 1
            prefixes = [tuple(word[: i + 1]) for i in range(len(word))]
            teacher.ask(prefixes)
            return [repr(teacher.known[prefix]) for prefix in prefixes]

    class Batched(Oracle):
        """Words of the W-method, and random ones."""

        def __init__(self, sul: SUL):
            super().__init__(alphabet, sul)
            self.suite = WMethodEqOracle(alphabet, sul, 0)
            self.random = [tuple(row) for tokens in sample.words if tokens.shape[1] <= SHORT for row in tokens.tolist()]

        def find_cex(self, hypothesis: Any) -> Word | None:
            LEARNED.check(len(hypothesis.states), "extract")
            hypothesis.characterization_set = hypothesis.compute_characterization_set()
            cover = [(*state.prefix, s) for state in hypothesis.states for s in alphabet]
            tried = iter(self.suite.test_suite(cover, EXTRA + 1, hypothesis.characterization_set))
            for source in (tried, iter(self.random)):
                while part := list(islice(source, AT_ONCE)):
                    if word := self._wrong(hypothesis, part):
                        return word
            return None

        def _wrong(self, hypothesis: Any, part: list[Word]) -> Word | None:
            teacher.ask(word[: i + 1] for word in part for i in range(len(word)))
            for word in part:
                hypothesis.reset_to_initial()
                for i, symbol in enumerate(word):
                    if hypothesis.step(symbol) != repr(teacher.known[word[: i + 1]]):
                        return word[: i + 1]
            return None

    asked = Asked()
    options: Any = {"automaton_type": "mealy", "cache_and_non_det_check": False, "print_level": 0}
    learned = run_KV(alphabet, asked, Batched(asked), **options)
    moore = _moore(learned, {repr(answer): answer for answer in teacher.known.values()}, claim)
    small = moore.smallest()
    return Extracted("learned", small, sample.agreement(moore), sample.count, len(small), model)


def _moore(learned: Any, answers: dict[str, Answer | None], claim: Claim) -> Moore:
    """Returns the machine that answers in its states (state, answer on the way), of one that answers on transitions."""
    number: dict[tuple[Any, str | None], int] = {(learned.initial_state.state_id, None): 0}
    states, delta = [learned.initial_state], []
    outputs: list[Answer | None] = [None]
    for state in states:  # grows while we walk it
        row = []
        for s in range(claim.machine.num_symbols):
            target, answer = state.transitions[s], state.output_fun[s]
            if (target.state_id, answer) not in number:
                number[target.state_id, answer] = len(states)
                states.append(target)
                outputs.append(answers[answer])
            row.append(number[target.state_id, answer])
        delta.append(row)
    return Moore(Semiautomaton(delta, 0, symbols=claim.machine.symbols), tuple(outputs))
