"""Chains of references: blocks of k tokens, each block a shuffle of references to the block before it.

    x_t = a random value in 0..k-1                  in block 0
    x_t = the index (from 0) of a token of block b-1, each one named once,    in block b >= 1

The questions at place t are about its whole chain: x_t, x_{x_t}, … down to the value in block 0. A place of block b has
b+1 questions with k possible answers each: which token of its block is named (an index modulo k), and at last the
value. All k are equally likely, so a model that knows the first m links of each chain and guesses the rest scores

    Σ_b [min(b+1, m) + max(b+1-m, 0) / k]  /  Σ_b (b+1)          of the questions.

Shapes: B batch, T tokens, k size of a block, E questions (the number of blocks).
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..limits import CLASSES
from ..options import at_least
from .base import Task

PRIME, ROOT = 11, 2
"""A string is kept for the test when its checksum modulo `PRIME` is 0; weights are powers of `ROOT`, never 0."""


class ReferenceChains(Task):
    """Blocks of references, each to a token of the block before; for every place its chain down to a value.

    >>> from lengthwise import tasks
    >>> task = tasks.get("reference-chains", blocks=3, size=2)
    >>> tokens = torch.tensor([[1, 0, 1, 0, 2, 3]])
    >>> tokens, task.answer(tokens).mT
    (tensor([[1, 0, 1, 0, 2, 3]]),
     tensor([[[ 1,  0,  1,  0,  0,  1],
             [-1, -1,  0,  1,  1,  0],
             [-1, -1, -1, -1,  0,  1]]]))
    """

    supervision = "prefix"
    scoring = "mean"

    def __init__(
        self,
        blocks: Annotated[int, at_least(2, at_most=CLASSES), "How many blocks the longest string has."] = 16,
        size: Annotated[int, at_least(2, at_most=CLASSES), "How many tokens a block has."] = 8,
    ):
        self.name = "reference-chains"
        self.blocks = self.questions = blocks
        self.size = self.outputs = size
        # The published vocabulary: a number is a value in block 0, and the index of a token in the blocks after it.
        self.vocabulary = tuple(str(i) for i in range(self.blocks * self.size))

    def problem(self, length: int) -> str | None:
        k, longest = self.size, self.blocks * self.size
        if length % k == 0 and 2 * k <= length <= longest:
            return None
        below, above = max(2 * k, min(length // k * k, longest)), max(2 * k, min(-(-length // k) * k, longest))
        remedy = f"{below}" if below == above else f"{below} or {above}"
        return f"length must be a multiple of {k} (whole blocks) in {2 * k}..{longest}, got {length}. Use {remedy}."

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        k, later = self.size, length // self.size - 1
        values = torch.randint(k, (batch, k), generator=generator)
        shuffles = torch.rand(batch, later, k, generator=generator).argsort(-1)
        first = torch.arange(later)[:, None] * k
        return torch.cat([values, (shuffles + first).flatten(1)], 1)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T, E) found by following the references of all places at once; -1 beyond the end of a chain."""
        k, T = self.size, tokens.shape[1]
        self.check(T)
        lowest = (torch.arange(T) // k - 1).clamp(min=0) * k
        sound = (tokens >= lowest) & (tokens < lowest + k)
        self.check_strings(
            sound, f"a token is a value below {k} in block 0, and names one of the block before after it"
        )
        answers = torch.full((*tokens.shape, self.questions), -1)
        at = torch.arange(T).expand_as(tokens)
        going = torch.ones_like(tokens, dtype=torch.bool)
        for question in range(-(-T // self.size)):
            reference = tokens.gather(1, at)
            answers[..., question] = torch.where(going, reference % self.size, -1)
            # A token of block 0 is a value, where the chain ends.
            going = going & (at >= self.size)
            at = torch.where(going, reference, at)
        return answers

    def baseline(self, length: int) -> float:
        self.check(length)
        return 1 / self.size

    def held_out(self, tokens: Tensor) -> Tensor:
        """Where `Σ_i 2^i x_i = 0 (mod 11)` over the first two blocks: about one string in 11.

        What begins like a test string is one, so no prefix of it is trained on either. All tokens being visible, the
        rule tells a model nothing about an answer. With blocks of 8 it changes no token's probabilities by more than
        3e-8 of themselves.
        """
        begin = tokens[:, : 2 * self.size]
        weights = torch.tensor([pow(ROOT, i, PRIME) for i in range(begin.shape[1])])
        return (begin * weights).sum(1) % PRIME == 0
