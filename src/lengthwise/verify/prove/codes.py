"""Prove a RegularGPT of discrete nodes by looking at every code that a word can reach.

From the leaves on, all that nodes can be made of is made: each node's code is found, with the element of the machine
that its word has, until nothing new comes. Each choice of each must be decided beyond all rounding, no code may stand
for two elements, and the head must be right on all. A node has the same code however long its word is, so this is all.

    gap = z_best - z_next - (what rounding may do to both)        must be above 0 in every group

Shapes: n nodes side by side, C chunk, G groups and K choices of a code, D width, Q states.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from ...limits import Limit
from ...models import LengthwiseForCausalLM
from ..algebra import Need
from ..claim import Claim
from ..verdict import Proof, Unknown
from .affine import Affine, Directions
from .enclosures import FLOAT32, FLOAT64, Arithmetic, gamma, upper
from .node import Node, gaps
from .node import refusal as no_node
from .points import Balls, Followed, FollowedFurther

BLOCK = 2048
NODES = Limit("PROOF_NODES", 5_000_000, "nodes that are looked at", "Take a smaller machine")
FORMS = ((Balls, 2048), (Followed, 128), (FollowedFurther, 64))
"""Ever closer enclosures, and how many nodes are looked at together: what one leaves undecided the next looks at."""


class Width(Directions):
    """Directions, and the model's width."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width


def prove_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> Proof | Unknown | str:
    if why := refusal(model):
        return why
    try:
        return Exploration(model, claim, time.monotonic() + seconds).proof()
    except NotProved as stop:
        return Unknown(stop.why, stop.by_how_much)


def refusal(model: LengthwiseForCausalLM) -> str | None:
    if why := no_node(model, discrete=True):
        return why
    node = Node(model, discrete=True)
    if node.layer.nodes is None:
        return "the model's nodes are continuous, and only discrete ones (nodes='discrete') have codes"
    if type(node.layer.nodes.choose) is not nn.Linear:
        return "a part of the model was replaced by something that is no plain linear map"
    if not node.pads:
        return "the model leaves out what stands before the first token (missing='drop'), and codes need a learned pad"
    return None


class NotProved(Exception):
    def __init__(self, why: str, by_how_much: float | None = None):
        self.why, self.by_how_much = why, by_how_much


@dataclass
class Codes:
    """Of n nodes, each with the least gap of its choices."""

    chosen: np.ndarray
    """(n,G)"""
    gap: np.ndarray
    """(n,)"""


class CodedNode:
    """The node function on codes and leaves, as the model may compute it."""

    def __init__(self, model: LengthwiseForCausalLM, arithmetic: Arithmetic):
        self.node, self.arithmetic = Node(model, discrete=True), arithmetic
        nodes = self.node.layer.nodes
        assert nodes is not None
        self.groups, self.choices = nodes.groups, nodes.codes
        self.choose_weight, self.choose_bias = (
            nodes.choose.weight.detach().double(),
            nodes.choose.bias.detach().double(),
        )
        self.level = 0
        """Which of `FORMS` is asked first."""
        self.codebook = nodes.codebook.detach().double()
        table = self._points(model.embedding.weight)
        scale = model.config.embedding_scale
        self.leaves = table if scale == 1 else table.scaled(scale)

    def _points(self, x: Tensor) -> Balls:
        x = x.detach().double()
        return Balls(x, x.new_zeros(len(x), 0, *x.shape[1:]), torch.zeros_like(x), Directions(), self.arithmetic)

    def vectors(self, chosen: np.ndarray) -> Affine:
        """(n,D) the nodes of these codes: a sum of G vectors, in any order."""
        rows = self.codebook[torch.from_numpy(chosen + np.arange(self.groups) * self.choices)]
        size = rows.abs().sum(1)
        return self._points(rows.sum(1)).rounded(
            upper(gamma(self.groups + 2, self.arithmetic.u) * size), self.arithmetic
        )

    def codes(self, read: Affine, index: np.ndarray) -> Codes:
        """Of the nodes that read these of the vectors (n,c), the oldest first; absent ones are pads."""
        chosen, gap = np.zeros((len(index), self.groups), dtype=np.int64), np.full(len(index), -np.inf)
        for level in range(self.level, len(FORMS)):
            undecided = np.flatnonzero(~(gap > 0))
            for part in np.split(undecided, range(FORMS[level][1], len(undecided), FORMS[level][1])):
                chosen[part], gap[part] = self._look(read, index[part], level)
            # A form that decides little is not asked again.
            if level == self.level < len(FORMS) - 1 and (gap > 0).mean() < 0.5:
                self.level += 1
            if (gap > 0).all():
                break
        return Codes(chosen, gap)

    def _look(self, read: Affine, index: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        form, directions = FORMS[level][0], Width(self.node.width)
        taps = [
            form(read.c[column], read.G[column], read.e[column], directions, self.arithmetic)
            for column in torch.from_numpy(index).T
        ]
        z = self.node.combine(taps).linear(self.choose_weight, self.choose_bias)
        c, e = (x.unflatten(-1, (self.groups, self.choices)) for x in (z.c, z.radius()))
        return c.argmax(-1).numpy(), surely_ahead(c, e).amin(-1).numpy()


def surely_ahead(c: Tensor, e: Tensor) -> Tensor:
    """By how much the largest of c (…,K), each within e, is ahead of all others; NaN counts as not at all."""
    best = c.argmax(-1, keepdim=True)
    ahead = (c - e).gather(-1, best)[..., 0] - (c + e).scatter(-1, best, -torch.inf).amax(-1)
    return ahead.nan_to_num(nan=-torch.inf)


class Exploration:
    """All codes that words reach, each with the element of its words."""

    def __init__(self, model: LengthwiseForCausalLM, claim: Claim, until: float):
        self.claim, self.until = claim, until
        double = next(model.parameters()).dtype == torch.float64
        self.arithmetic = FLOAT64 if double else FLOAT32
        self.node = CodedNode(model, self.arithmetic)
        self.need = Need(claim, self.node.node.chunk)
        self.leaves = claim.machine.delta.T.astype(np.int64)
        """(S,Q)"""
        Q = len(claim.machine.delta)
        self.chosen = np.empty((0, self.node.groups), dtype=np.int64)
        self.maps = np.empty((0, Q), dtype=np.int64)
        self.known: dict[bytes, int] = {}
        self.margin = np.inf
        self.looked, self.most = 0, NODES.most

    @torch.no_grad()
    def proof(self) -> Proof:
        C = self.node.node.chunk
        for size in range(1, C + 1):
            for block in blocks(tuples(len(self.leaves), size, 0)):
                self._look(block, self.leaves, self.node.leaves)
        done = 0
        while done < len(self.chosen):
            now, vectors = len(self.chosen), self.node.vectors(self.chosen)
            for size in range(1, C + 1):
                for block in blocks(tuples(now, size, done)):
                    self._look(block, self.maps, vectors)
            done = now
        self._look_at_head()
        elements, owner = np.unique(self.maps, axis=0, return_inverse=True)
        codes = [
            {"element": int(element), "code": code}
            for element, code in zip(owner.reshape(-1), self.chosen.tolist(), strict=True)
        ]
        return {
            "kind": "tree-codes",
            "inference": "raw",
            "arithmetic": self.arithmetic.name,
            "margin": float(self.margin),
            "proof": {"elements": elements.tolist(), "codes": codes},
        }

    def _look(self, index: np.ndarray, maps: np.ndarray, vectors: Affine) -> None:
        """The nodes that read what these tuples (n,c) number, the oldest first."""
        made = maps[index[:, 0]]
        for column in index.T[1:]:
            made = np.take_along_axis(maps[column], made, 1)
        needed = self.need(made, begins=index.shape[1] < self.node.node.chunk)
        index, made = index[needed], made[needed]
        if not len(index):
            return
        self.looked += len(index)
        if self.looked > self.most or time.monotonic() > self.until:
            found = f"{len(self.chosen):,} codes were found, and"
            if self.looked > self.most:
                raise NotProved(f"{found} their products are {NODES.surpassed}")
            raise NotProved(
                f"{found} the time was over after {self.looked:,} of their products: a longer budget looks at more"
            )
        found = self.node.codes(vectors, index)
        worst = int(found.gap.argmin())
        if not found.gap[worst] > 0:
            short = float(-found.gap[worst])
            raise NotProved("a choice of a node is not decided beyond rounding", short if short < 1e30 else None)
        self.margin = min(self.margin, float(found.gap[worst]))
        self._note(found.chosen, made)

    def _note(self, chosen: np.ndarray, made: np.ndarray) -> None:
        fresh: list[int] = []
        for i, key in enumerate(map(bytes, np.ascontiguousarray(chosen))):
            number = self.known.get(key)
            if number is None:
                self.known[key] = len(self.chosen) + len(fresh)
                fresh.append(i)
                continue
            before = self.maps[number] if number < len(self.maps) else made[fresh[number - len(self.maps)]]
            if (before != made[i]).any():
                raise NotProved(
                    "one code stands for words that the machine tells apart (where it need not, minimise it first)"
                )
        if fresh:
            self.chosen = np.concatenate([self.chosen, chosen[fresh]])
            self.maps = np.concatenate([self.maps, made[fresh]])

    def _look_at_head(self) -> None:
        states = self.maps[:, self.claim.machine.start]
        asked = self.claim.asked[states]
        if not asked.any():
            raise NotProved("no word that leads to a question was found")
        right = torch.from_numpy(np.ascontiguousarray(self.claim.answers[states[asked]]))
        right = right.bool() if self.claim.several else right.long()
        logits = self.node.node.logits(self.node.vectors(self.chosen[asked]))
        ahead = gaps(logits, right, self.claim.several).nan_to_num(nan=-torch.inf)
        gap = float(ahead.min())
        if not gap > 0:
            code = self.chosen[asked][int(ahead.argmin())].tolist()
            raise NotProved(
                f"the answer on code {code} is not right beyond rounding", -gap if np.isfinite(gap) else None
            )
        self.margin = min(self.margin, gap)


def tuples(count: int, size: int, done: int) -> Iterator[tuple[int, ...]]:
    """Tuples of 0..count-1 with at least one number that is not below `done`."""
    for first in range(size):
        old = [range(done)] * first
        new = [range(count)] * (size - first - 1)
        yield from product(*old, range(done, count), *new)


def blocks(every: Iterator[tuple[int, ...]]) -> Iterator[np.ndarray]:
    held: list[tuple[int, ...]] = []
    for each in every:
        held.append(each)
        if len(held) == BLOCK:
            yield np.array(held)
            held = []
    if held:
        yield np.array(held)
