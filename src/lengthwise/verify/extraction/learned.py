"""The machine of any model, learned by asking it: Kearns and Vazirani's algorithm, the model its teacher (AALpy).

A query is a word; its answers are what the model says at the last position of each of its prefixes. The oracle that
looks for a word on which a hypothesis is wrong tries the words of the W-method (every transition, then up to EXTRA
symbols, then a suffix that tells states apart) and random words, in batches of equal length.

Shapes: B words, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ...automata import Semiautomaton
from ...errors import Error
from ...limits import Limit
from ...models import TokenClassifier
from ..claim import Claim
from .asked_words import asked_words
from .difference import Answer, read
from .moore import Moore

LEARNED = Limit("LEARNED_STATES", 200, "states of a machine that is learned", "Train the model further")
EXTRA = 2
AT_ONCE = 512
"""Words asked at a time."""
SHORT = 40
"""Random words up to this length may refute a hypothesis; longer ones are only compared with the machine at the end."""
Word = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Learned:
    moore: Moore
    agreement: float
    words: int
    queries: int
    """Words that the model was asked."""


class Teacher:
    """Answers of the model after words, each asked once."""

    def __init__(self, model: nn.Module, claim: Claim):
        self.model, self.claim = model, claim
        self.known: dict[Word, Answer | None] = {}
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def ask(self, words: Iterable[Word]) -> None:
        """Ask what is not known yet, words of equal length together."""
        new: dict[int, list[Word]] = {}
        for word in dict.fromkeys(words):
            if word not in self.known:
                new.setdefault(len(word), []).append(word)
        for same in new.values():
            self.known.update(zip(same, self.answers(torch.tensor(same)), strict=True))

    @torch.no_grad()
    def answers(self, tokens: Tensor) -> list[Answer | None]:
        """What the model says after each word (B,T); None where nothing is asked."""
        logits = torch.cat([self._logits(part) for part in tokens.split(AT_ONCE)])
        asked = self.claim.asked[self.claim.machine.run(tokens)[:, -1].numpy()]
        said = read(logits, self.claim.several)[0]
        return [answer if question else None for answer, question in zip(said, asked.tolist(), strict=True)]

    def _logits(self, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.device)
        if isinstance(self.model, TokenClassifier):
            return self.model(tokens, last=True)[:, -1]
        made = self.model(tokens)
        return (made if isinstance(made, Tensor) else made.logits)[:, -1]


def learn(model: nn.Module, claim: Claim, seed: int = 0) -> Learned:
    """The machine of the model over the symbols of `claim`."""
    try:
        from aalpy import Oracle, run_KV
        from aalpy.base import SUL
        from aalpy.oracles import WMethodEqOracle
    except ImportError as error:
        raise Error("extract: automata learning needs AALpy. pip install 'lengthwise[extract]'.") from error
    teacher = Teacher(model, claim)
    alphabet = list(range(claim.machine.num_symbols))
    words = asked_words(claim, seed)

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
            self.random = [tuple(row) for tokens in words if tokens.shape[1] <= SHORT for row in tokens.tolist()]

        def find_cex(self, hypothesis: Any) -> Word | None:
            LEARNED.check(len(hypothesis.states), "extract")
            hypothesis.characterization_set = hypothesis.compute_characterization_set()
            cover = [(*state.prefix, s) for state in hypothesis.states for s in alphabet]
            tried = iter(self.suite.test_suite(cover, EXTRA + 1, hypothesis.characterization_set))
            for source in (tried, iter(self.random)):
                while part := list(islice(source, AT_ONCE)):
                    if found := self._wrong(hypothesis, part):
                        return found
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
    right = sum(
        said == own
        for tokens in words
        for said, own in zip(moore.answers(tokens), teacher.answers(tokens), strict=True)
    )
    count = sum(map(len, words))
    return Learned(moore.smallest(), right / count, count, len(teacher.known))


def _moore(learned: Any, answers: dict[str, Answer | None], claim: Claim) -> Moore:
    """Of a machine that answers on its transitions, that which answers in its states: (state, answer on the way)."""
    number: dict[tuple[Any, str | None], int] = {(learned.initial_state.state_id, None): 0}
    states, delta = [learned.initial_state], []
    said: list[Answer | None] = [None]
    for state in states:  # grows while we walk it
        row = []
        for s in range(claim.machine.num_symbols):
            target, answer = state.transitions[s], state.output_fun[s]
            if (target.state_id, answer) not in number:
                number[target.state_id, answer] = len(states)
                states.append(target)
                said.append(answers[answer])
            row.append(number[target.state_id, answer])
        delta.append(row)
    return Moore(Semiautomaton(delta, 0, symbols=claim.machine.symbols), tuple(said))
