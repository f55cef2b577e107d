"""Arithmetic with every step written down: a problem, then one reduction a line, to the number that is left.

Shapes: B batch, T tokens, n tokens that a model wrote.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...options import at_least
from ..base import Batch, GeneratedAnswers
from .chain_checker import Judgement, check_chain, evaluate
from .chain_sampler import ChainSampler
from .symbols import OPERATORS, Numbers, numbers_of

HELD_OUT = 11
"""One problem of so many is kept for the test; published: 100,000 to test and 1,000,000 to train."""
ODD = 0x9E3779B97F4A7C15


class ArithmeticSteps(GeneratedAnswers):
    """A problem of `length` operators, "=", and line after line with one operator less, down to the answer.

    Training asks for every token behind the first "=", and for <end> behind the answer. A string is right if what the
    model writes by itself, given the problem, ends in the right number alone. The pair of numbers that is calculated
    next is a random one, so a problem has many right chains.

    >>> from lengthwise import tasks
    >>> task = tasks.get("arithmetic-steps")
    >>> task.write(task.sample(3, 1, torch.Generator().manual_seed(9)).tokens[0])
    '0 + 2 + 1 * 8 = 0 + 2 + 8 = 2 + 8 = 10'
    """

    unit = "operators"

    def __init__(
        self,
        modulus: Annotated[
            int | None, at_least(2, at_most=500), "The prime modulo which numbers are taken; None: whole numbers."
        ] = 11,
        largest: Annotated[
            int | None, at_least(1, at_most=500), "The largest number, of whole numbers; None with a modulus."
        ] = None,
    ):
        self.name = "arithmetic-steps"
        self.params = {"modulus": modulus, "largest": largest}
        self.numbers = numbers_of(self.name, modulus, largest)
        self.vocabulary = self.numbers.vocabulary
        self.outputs = len(self.vocabulary)
        self.equals, self.padding = self.outputs - 2, self.outputs - 1
        self.sampler = ChainSampler(self.numbers)

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        rng = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=generator)))
        return torch.from_numpy(self.sampler(length, batch, rng))

    def held_out(self, tokens: Tensor) -> Tensor:
        """By a digest of the problem, whatever its chain is."""
        problem = tokens[:, : int(self.prompts(tokens).max())].cpu().numpy().astype(np.uint64)
        outside = np.arange(problem.shape[1]) >= self.prompts(tokens).cpu().numpy()[:, None]
        powers = np.multiply.accumulate(np.full(problem.shape[1], ODD, dtype=np.uint64))
        digest = (np.where(outside, 0, problem + np.uint64(1)) * powers).sum(1, dtype=np.uint64)
        digest = (digest ^ (digest >> np.uint64(29))) * np.uint64(ODD)
        return torch.from_numpy((digest >> np.uint64(32)) % np.uint64(HELD_OUT) == 0).to(tokens.device)

    def label(self, tokens: Tensor) -> Batch:
        """The strings with their targets, which are the next tokens. A test holds that `answer` finds the same."""
        return Batch(tokens, F.pad(tokens[:, 1:], (0, 1), value=self.padding), self.asked(tokens))

    def asked(self, tokens: Tensor) -> Tensor:
        return ((tokens == self.equals).cumsum(1) > 0) & (tokens != self.padding)

    def answer(self, tokens: Tensor) -> Tensor:
        """The next tokens of a chain that is given; of the last number, what the problem is by the rules."""
        self.check_tokens(tokens)
        targets = self.label(tokens).targets.clone()
        last = (tokens == self.equals).cumsum(1).argmax(1, keepdim=True)
        return targets.scatter_(1, last, self._values(tokens))

    def _values(self, tokens: Tensor) -> Tensor:
        """(B, 1) the values of the problems."""
        problems = zip(tokens.tolist(), self.prompts(tokens).tolist(), strict=True)
        values = [value_of(self.write(row[: start - 1]), self.numbers) for row, start in problems]
        return torch.tensor(values, device=tokens.device)[:, None]

    def prompts(self, tokens: Tensor) -> Tensor:
        """(B,) the tokens of each problem with the "=" behind it."""
        return (tokens == self.equals).int().argmax(1) + 1

    def longest_answer(self, tokens: Tensor) -> int:
        """Every step makes a line at least two symbols shorter."""
        V, problem = self.numbers.count, ~self.asked(tokens)
        n = (problem & (tokens >= V) & (tokens < V + len(OPERATORS))).sum(1)
        # n lines, of which the k-th has 2 k symbols less than the problem; n - 1 signs between them, and <end>.
        return int((n * (problem & (tokens != self.padding)).sum(1) - n * (n + 1) + n).max())

    def judge(self, tokens: Tensor, written: Tensor) -> list[Judgement]:
        """Judges the chains that were `written` (B, n) behind the problems of `tokens`, up to their <end>."""
        judged = []
        for own, start, row in zip(tokens.tolist(), self.prompts(tokens).tolist(), written.tolist(), strict=True):
            end = row.index(self.padding) if self.padding in row else len(row)
            chain = [self.vocabulary[token] for token in own[:start] + row[:end]]
            judged.append(check_chain(chain, self.numbers, ended=end < len(row)))
        return judged

    def is_right(self, tokens: Tensor, written: Tensor) -> Tensor:
        """By the symbol before <end> and the one before it, which is "=", be it that of the problem."""
        ends = written == self.padding
        last = ends.int().argmax(1, keepdim=True) + torch.arange(2, device=tokens.device)
        before, answer = F.pad(written, (2, 0), value=self.equals).gather(1, last).split(1, 1)
        return ((before == self.equals) & (answer == self._values(tokens))).squeeze(1) & ends.any(1)

    def bytes_of(self, length: int) -> int:
        """Lines of 2 k + 1 symbols at least, and the signs between them."""
        return ((length + 1) ** 2 + length) * (8 + 8 + 1)

    def baseline(self, length: int) -> float:
        """The share of one number among the answers, which are uniform."""
        self.check(length)
        return 1 / self.numbers.count


@lru_cache(1 << 13)
def value_of(problem: str, numbers: Numbers) -> int:
    """Kept, because several answers to one problem may be judged."""
    return evaluate(problem.split(), numbers)
