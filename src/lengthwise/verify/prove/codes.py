"""Prove a RegularGPT whose nodes are codes, or snapped to centres, by looking at every one that a word can reach.

From the leaves on, all that nodes can be made of is made: each node's code is found, with the element of the machine
that its word has, until nothing new comes. No code may stand for two elements, and the head must be right on all. A
node has the same code however long its word is, so this is all. Nodes are computed in float64 alone: whether each
choice is decided beyond all rounding is for the checker to say. The centres of a snapped model are codes as well, of
one choice: the nearest, if it is within the radius. No table is given, so none can be that of the machine instead of
the network's.

Shapes: n nodes side by side, C chunk, G groups and K choices of a code, N centres, D width, Q states.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from ...limits import Limit
from ...models import LengthwiseForCausalLM
from ..checker.claim import StatedClaim
from ..checker.intervals import Interval
from ..claim import Claim
from ..verdict import NotProved, Proof, Refuted, Unknown
from .boxes import CONDITIONS
from .node import Node, tree_of

BLOCK = 2048
NODES = Limit("PROOF_NODES", 5_000_000, "nodes that are looked at", "Take a smaller machine")


def prove_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
    if isinstance(why := tree_of(model, "discrete"), str):
        return why
    node = CodedNode(model)
    exploration = Exploration(node, node.node.chunk, claim, seconds)
    if verdict := exploration.verdict():
        return verdict
    elements, owner = exploration.elements()
    codes = [{"element": each, "code": code} for each, code in zip(owner, exploration.chosen.tolist(), strict=True)]
    double = next(model.parameters()).dtype == torch.float64
    return {
        "kind": "tree-codes",
        "inference": "raw",
        "arithmetic": "float64" if double else "float32",
        "margin": exploration.margin,
        "proof": {"elements": elements, "codes": codes},
    }


def prove_snapped(
    model: LengthwiseForCausalLM, claim: Claim, seconds: float = 60.0, arithmetic: str = "float32"
) -> Proof | Refuted | Unknown | str:
    """Returns the proof of a model that `snap` made."""
    if isinstance(why := tree_of(model, "snapped to centres"), str):
        return why
    node = SnappedNode(Node(model))
    N, S, C = len(node.centres), claim.machine.num_symbols, node.node.chunk
    if sum(N**m + S**m for m in range(1, C + 1)) > CONDITIONS.most:
        return f"its {N} centres make {CONDITIONS.surpassed}"
    exploration = Exploration(node, 1, claim, seconds)
    if verdict := exploration.verdict():
        return verdict
    elements, owner = exploration.elements()
    met, centres = exploration.chosen[:, 0], node.centres.tolist()
    if missing := N - len(met):
        return Unknown(f"{missing} of {N} centres are reached by no word. Extract and snap again")
    listed = [{"element": owner[i], "centre": centres[met[i]]} for i in np.argsort(met)]
    return {
        "kind": "tree-boxes",
        "inference": "snapped",
        "arithmetic": arithmetic,
        "margin": exploration.margin,
        "proof": {"elements": elements, "centres": listed, "radius": node.radius},
    }


class CodedNode:
    """Discrete nodes in float64: a code is one choice of K in each of G groups."""

    noun = "code"
    undecided = "a choice of a node is not decided"
    """What is wrong where the gap of a choice is not above 0."""

    def __init__(self, model: nn.Module):
        self.node = Node(model)
        self.nodes = copy.deepcopy(self.node.layer.nodes).double()
        self.groups: int = self.nodes.groups

    def vectors(self, chosen: np.ndarray) -> Tensor:
        """Returns (n,D) the nodes of these codes (n,G)."""
        return self.nodes.vectors(torch.from_numpy(chosen))

    def codes(self, nodes: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Returns (n,G) the codes of these nodes (n,D), and (n,) their least gaps."""
        z = self.nodes.logits(nodes)
        best = z.topk(2, -1).values
        return z.argmax(-1).numpy(), (best[..., 0] - best[..., 1]).amin(-1).nan_to_num(nan=-torch.inf).numpy()


class SnappedNode:
    """Centres as codes of one choice."""

    noun, undecided = "centre", "a node may lie outside the radius of its centre, or nearer to another"
    groups = 1

    def __init__(self, node: Node):
        self.node, self.radius = node, node.layer.radius
        self.centres = node.layer.centres.detach().double().cpu()

    def vectors(self, chosen: np.ndarray) -> Tensor:
        return self.centres[chosen[:, 0]]

    def codes(self, nodes: Tensor) -> tuple[np.ndarray, np.ndarray]:
        distance = torch.cdist(nodes, self.centres, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.argmin(1, keepdim=True)
        least = distance.gather(1, nearest)[:, 0]
        others = distance.scatter(1, nearest, torch.inf).min(1).values
        gap = others.clamp(max=self.radius).sub(least).nan_to_num(nan=-torch.inf)
        return nearest.numpy(), gap.numpy()


class Exploration:
    """All codes that words reach, each with the element of its words."""

    def __init__(self, node: CodedNode | SnappedNode, aligned: int, claim: Claim, seconds: float):
        """`aligned`: words end a multiple of so many symbols behind a node that counts."""
        self.node, self.aligned, self.claim, self.until = node, aligned, claim, time.monotonic() + seconds
        self.stated = StatedClaim(claim.to_json())
        self.leaves = claim.machine.delta.T.astype(np.int64)
        """(S,Q)"""
        self.chosen = np.empty((0, node.groups), dtype=np.int64)
        self.maps = np.empty((0, len(claim.machine.delta)), dtype=np.int64)
        self.known: dict[bytes, int] = {}
        self.margin = math.inf
        self.looked, self.most = 0, NODES.most

    def verdict(self) -> Refuted | Unknown | None:
        """Returns why nothing is proved; None once all codes are found, of one element each, and the head is right."""
        try:
            self._look_at_all()
        except NotProved as end:
            return end.verdict
        return None

    @torch.no_grad()
    def _look_at_all(self) -> None:
        C, leaves = self.node.node.chunk, self.node.node.leaves(len(self.leaves), torch.float64)
        for size in range(1, C + 1):
            for block in blocks(tuples(len(self.leaves), size, 0)):
                self._look(block, self.leaves, leaves)
        done = 0
        while done < len(self.chosen):
            now, vectors = len(self.chosen), self.node.vectors(self.chosen)
            for size in range(1, C + 1):
                for block in blocks(tuples(now, size, done)):
                    self._look(block, self.maps, vectors)
            done = now
        self._look_at_head()

    def elements(self) -> tuple[list[list[int]], list[int]]:
        """The elements, as maps of the states, and the number of each code's."""
        elements, owner = np.unique(self.maps, axis=0, return_inverse=True)
        return elements.tolist(), owner.reshape(-1).tolist()

    def _look(self, index: np.ndarray, maps: np.ndarray, vectors: Tensor) -> None:
        """The nodes that read what these tuples (n,c) number, the oldest first."""
        made = maps[index[:, 0]]
        for column in index.T[1:]:
            made = np.take_along_axis(maps[column], made, 1)
        begins = index.shape[1] < self.node.node.chunk
        needed = (self.stated.opens if begins else self.stated.live)(made, self.aligned)
        index, made = index[needed], made[needed]
        if not len(index):
            return
        self.looked += len(index)
        if self.looked > self.most or time.monotonic() > self.until:
            count = f"{len(self.chosen):,} {self.node.noun}s were found, and"
            if self.looked > self.most:
                raise NotProved(Unknown(f"{count} their products are {NODES.surpassed}"))
            late = f"the time was over after {self.looked:,} of their products: a longer budget looks at more"
            raise NotProved(Unknown(f"{count} {late}"))
        chosen, gap = self.node.codes(self.node.node.of(vectors[torch.from_numpy(index)], continuous=True))
        if not gap.min() > 0:
            raise NotProved(Unknown.short(self.node.undecided, float(gap.min())))
        self.margin = min(self.margin, float(gap.min()))
        self._note(chosen, made)

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
                two = f"one {self.node.noun} stands for words that the machine tells apart"
                raise NotProved(Unknown(f"{two} (where it need not, minimise it first)"))
        if fresh:
            self.chosen = np.concatenate([self.chosen, chosen[fresh]])
            self.maps = np.concatenate([self.maps, made[fresh]])

    def _look_at_head(self) -> None:
        states = self.maps[:, self.claim.machine.start]
        if not self.claim.asked[states].any():
            raise NotProved(Unknown("no word that leads to a question was found"))
        logits = Interval.of(self.node.node.head(self.node.vectors(self.chosen)).numpy())
        ahead = self.stated.margins(logits, states)
        gap = float(ahead.min())
        if not gap > 0:
            code = self.chosen[int(ahead.argmin())].tolist()
            raise NotProved(Unknown.short(f"the answer on {self.node.noun} {code} is not right", gap))
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
