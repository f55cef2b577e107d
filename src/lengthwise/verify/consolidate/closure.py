"""The loss that makes a RegularGPT of discrete nodes an algebra: every product of codes is the code of the product.

    node(older, own) = code(older · own)      for all pairs of elements, of leaves, of pad and element
    head(code(m))    = the answer after m     wherever there is one

With C > 2 the pairs are tuples. Once all of these hold, every node of every word's tree has the code of its element, by
induction from the leaves, and so every answer is right, at every length.

Half of each batch is drawn from the conditions that were not wide when all were looked at last, every `LOOK` steps.

Shapes: N elements, M conditions, C chunk, B batch, G groups and K choices of a code, S outputs, D width.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...models import LengthwiseForCausalLM
from ...seeds import generator
from ..algebra import Conditions, MachineAlgebra
from ..prove.node import Node, tree_of
from .teaching import descend, right_gap

LOOK = 100
WIDE = 2.0
"""The least gap between the chosen logit and the next at which descending ends. Rounding hardly moves a logit by 1e-4,
but its proven bound is 1.5 at width 128."""
BLOCK = 1 << 13
"""Conditions looked at together."""


def refusal(model: nn.Module) -> str | None:
    """Returns why the closure of this model's nodes cannot be looked at, or None if it can."""
    if isinstance(why := tree_of(model, "discrete"), str):
        return why
    if getattr(model, "inner", model).pad is None:
        return "it leaves out what stands before the first token, or keeps a vector for each layer"
    return None


class ClosureNetwork:
    """A model's nodes and head as functions of the codes of elements."""

    def __init__(self, model: LengthwiseForCausalLM, codes: Tensor):
        self.node, self.codes = Node(model), codes
        """`codes`: (N,G)"""

    def table(self) -> Tensor:
        """Returns what a node may read: the pad, the leaves, the elements; as `algebra.Conditions` numbers them."""
        model = self.node.model
        assert model.pad is not None
        return torch.cat([model.pad[None], self.node.leaves(len(model.embedding.weight)), self.vectors(self.codes)])

    def vectors(self, codes: Tensor) -> Tensor:
        return self.node.layer.nodes.vectors(codes)

    def nodes(self, taps: Tensor) -> Tensor:
        """(B,G,K) logits of the choices of nodes that read these rows of the table (B,C)."""
        return self.logits(self.table()[taps])

    def logits(self, x: Tensor) -> Tensor:
        """(B,G,K) of the choices of nodes that read these vectors (B,C,D)."""
        return self.node.layer.nodes.logits(self.node.of(x, continuous=True))

    def choices(self, x: Tensor) -> Tensor:
        """(B,G)"""
        return self.logits(x).argmax(-1)

    def answers(self, elements: Tensor) -> Tensor:
        return self.node.head(self.vectors(self.codes)[elements])


class Closure:
    """The conditions of an algebra whose elements have these codes (N,G)."""

    def __init__(
        self,
        algebra: MachineAlgebra,
        codes: Tensor,
        conditions: Conditions,
        hear: Callable[[str], None] | None = None,
        batch_size: int = 1024,
    ):
        self.algebra, self.codes, self.batch_size = algebra, codes, batch_size
        self.hear = hear or (lambda line: None)
        self.wide = WIDE
        """The least gap at which descending ends."""
        self.taps, self.results = torch.from_numpy(conditions.taps), torch.from_numpy(conditions.results)
        claim, states = algebra.claim, algebra.states
        asked = claim.asked[states]
        self.asked = torch.from_numpy(np.flatnonzero(asked))
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[states[asked]]))
        self.failing = np.empty(0, dtype=np.int64)
        """The conditions of nodes that were not wide when last looked at."""

    def batch(self, seed: int, step: int) -> Tensor:
        draw, B = generator("closure", seed, step), self.batch_size
        if len(self.taps) <= B:
            drawn = torch.arange(len(self.taps))
        else:
            drawn = torch.randint(len(self.taps), (B,), generator=draw)
        if len(self.failing):
            failing = torch.from_numpy(self.failing)
            half = torch.randint(len(failing), (min(B, max(len(drawn) // 2, 1)),), generator=draw)
            drawn = torch.cat([drawn[: B - len(half)], failing[half]])
        return drawn

    def loss(self, network: ClosureNetwork, drawn: Tensor) -> Tensor:
        nodes, answers = network.nodes(self.taps[drawn]), network.answers(self.asked)
        wanted = self.codes[self.results[drawn]].flatten()
        loss = F.cross_entropy(nodes.flatten(0, 1), wanted, reduction="sum") / len(drawn)
        if self.algebra.claim.several:
            return loss + F.binary_cross_entropy_with_logits(answers, self.right.to(answers.dtype))
        return loss + F.cross_entropy(answers, self.right)

    @torch.no_grad()
    def look(self, network: ClosureNetwork) -> np.ndarray:
        """(M + n,) the gap of every condition, between the right logit and the next, those of the head behind those of
        nodes: where it is not above 0 the condition fails."""
        gaps = [
            right_gap(network.nodes(self.taps[part]), self.codes[self.results[part]]).amin(-1)
            for part in torch.arange(len(self.taps)).split(BLOCK)
        ]
        gaps.append(right_gap(network.answers(self.asked), self.right))
        gap = torch.cat(gaps).numpy()
        self.failing = np.flatnonzero(~(gap[: len(self.taps)] > self.wide))
        return gap


def close(
    model: LengthwiseForCausalLM,
    closure: Closure,
    *,
    rounds: Sequence[int],
    lr: float,
    seed: int = 0,
    seconds: float = float("inf"),
) -> np.ndarray:
    """Teach the model until all conditions hold with a wide margin, or the rounds or seconds are over; the gaps then.

    `rounds`: steps of each; the rate falls to zero in each.
    """
    network, ends = ClosureNetwork(model.train(False), closure.codes), time.monotonic() + seconds
    for number, steps in enumerate(rounds):

        def loss(step: int, number: int = number) -> Tensor | None:
            if step % LOOK == 0:
                gap = closure.look(network)
                wrong = f"{(~(gap > 0)).sum()} of {len(gap)} wrong"
                closure.hear(f"step {sum(rounds[:number]) + step}: {wrong}, margin {gap.min():.2f}")
                if gap.min() > closure.wide:
                    return None
            return closure.loss(network, closure.batch(seed + number, step))

        def rate(step: int, steps: int = steps) -> float:
            return 0.5 * (1 + math.cos(math.pi * step / steps))

        if descend(model.parameters(), loss, steps=steps, ends=ends, lr=lr, clip=1.0, rate=rate):
            break
        if time.monotonic() > ends:
            break
    return closure.look(network)
