"""Proof by boxes: sets of vectors for each element, in one of which every node of that element lies.

An element is the map of the machine's states that a word makes. Let B_m be the boxes of each element m, and let

    node(leaves of s_1 … s_p)    lie in B_m  for m = s_1 … s_p             (p = 1 … C symbols, older taps missing)
    node(x_1, …, x_p)            lie in B_m  for m = m_1 … m_p and all x_i in B_{m_i}
    head(x)                      be right    for x in B_m, after the state that m leads to from the start.

Then by induction on the tree every node of every word lies in a box of its element, and the answer is right at every
length. The checker says what the model makes of a box, rounding included. Boxes are proposed until it needs no more.

Nodes over few symbols need not lie near those over many. So sets are found among the model's own nodes, from the leaves
on: a node near one of the same element is in its set. First all of an element are, then what is near becomes less. Sets
belong to a level, and to nodes that lack symbols or to those that do not: so that no tree is followed that no word has.
The centres are where they settle: each is the middle of what the node makes of the centres. The radii grow from next to
nothing, r <- 1.1 (what r needs), until they need no more.

Shapes: N sets, M conditions, C chunk, D model width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...limits import Limit
from ..algebra import PAD, MachineAlgebra
from ..checker.points import Point, enclosed
from ..checker.tree import Tree
from ..claim import Claim
from ..verdict import Proof, Unknown, proof_by
from .node import Node, tree_of

CONDITIONS_AT_ONCE = 32
GROWN = 1.1
LEAST_RADIUS = 1e-10
LEVELS, PERIOD = 4, 2
"""So many levels of a tree have sets of their own, and of the last so many come again in turn above them.

What was learned may write an element in one way on even levels and in another on odd ones.
"""
NEAR = (float("inf"), 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""How far apart, in their largest entry, nodes of one element and place are one set, in turn: first, all are."""
WAYS = ((float("inf"), 1, 0), *((near, LEVELS, PERIOD) for near in NEAR))
"""What is near, and how many levels there are, in turn: first, one set an element wherever it stands."""
SETTLING = 40
"""Rounds in which centres settle."""
ROOM = 0.8
"""Boxes that need no more than this share of themselves are not made larger: what bends, bends less in small ones."""
ROUNDS = 60
"""Radii that have not settled after so many rounds do not settle."""
CONDITIONS = Limit("PROOF_BOXES", 20_000, "conditions on boxes", "Take a smaller machine")


def prove_tree_boxes(
    model: nn.Module, claim: Claim, seconds: float = 60.0, arithmetic: str = "float32"
) -> Proof | Unknown | str:
    """Returns the proof of a RegularGPT with continuous nodes, evaluated in this arithmetic as it is stored."""
    network = tree_of(model, "continuous", arithmetic)
    if isinstance(network, str):
        return network
    node, ends = Node(model), time.monotonic() + seconds
    algebra = MachineAlgebra(claim, node.chunk)
    conditions = len(algebra.conditions().taps)
    if conditions > CONDITIONS.most:
        return f"the machine's algebra has {conditions:,} products of elements, {CONDITIONS.surpassed}"
    shortcoming = Unknown("there was no time to find boxes")
    for near, levels, period in WAYS:
        sets = explored(node, algebra, near, ends, levels, period)
        if isinstance(sets, Unknown):
            return sets if levels == 1 else shortcoming
        shortcoming = closed(*sets, network, ends)
        if isinstance(shortcoming, dict) or time.monotonic() > ends:
            return shortcoming
    return shortcoming


def closed(boxes: TreeBoxes, centres: Tensor, network: Tree, ends: float) -> Proof | Unknown:
    centres = settled(boxes, centres)
    if not bool(torch.isfinite(centres).all()):
        return Unknown("the model's nodes do not settle")
    radii = torch.full_like(centres, LEAST_RADIUS)
    radii = grow(lambda r: boxes.needed(network, centres, r), radii, ends, lambda r: boxes.margin(network, centres, r))
    if isinstance(radii, Unknown):
        return radii
    margin = boxes.margin(network, centres, radii)
    if not margin > 0:
        return Unknown.short("boxes close, and the head is not surely right on one of them", margin)
    return proof_by("tree-boxes", network.arithmetic.name, margin, boxes.to_json(centres, radii))


class Sets(NamedTuple):
    elements: np.ndarray
    """(N,) the element of each set."""
    taps: np.ndarray
    """(M,C) what the nodes are made of, as in `Conditions`, of sets."""
    results: np.ndarray
    """(M,) the set of the node."""
    places: np.ndarray
    """(N,2) the level of each set's nodes, as the checker counts them, and whether they lack symbols; or none."""
    returns: int = 0
    """The level of what is made of the last."""


class TreeBoxes:
    """The conditions of the induction, for the node of one model."""

    def __init__(self, node: Node, algebra: MachineAlgebra, sets: Sets | None = None):
        """`sets`: None is one for each element."""
        self.node, self.claim, self.algebra = node, (claim := algebra.claim), algebra
        self.symbols = range(claim.machine.num_symbols)
        one_each = np.arange(len(algebra)), *algebra.conditions(), np.zeros((0, 2), dtype=int)
        self.elements, taps, results, self.places, self.returns = sets or Sets(*one_each)  # pyright: ignore[reportCallIssue]
        order = np.lexsort((taps == PAD).T)  # conditions with as many pads side by side
        self.taps, self.results = torch.from_numpy(taps[order]), torch.from_numpy(results[order])
        states = algebra.states[self.elements]
        asked = np.flatnonzero(claim.asked[states])
        self.asked = torch.from_numpy(asked)
        """The sets after which there is a question, and its answer."""
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[states[asked]]))

    def images(self, centres: Tensor) -> Tensor:
        """(M,D) what the node makes of the centres, in their precision."""
        table = torch.cat([self.node.leaves(len(self.symbols), centres.dtype), centres])
        images = centres.new_zeros(len(self.taps), centres.shape[1])
        for rows, taps in self.by_size():
            images = images.index_copy(0, rows, self.node.of(torch.stack([table[t - 1] for t in taps], 1)))
        return images

    def by_size(self):
        """The conditions with as many taps: their rows, and each tap (m,), oldest first."""
        present = (self.taps != PAD).sum(1)
        for p in range(1, self.node.chunk + 1):
            rows = (present == p).nonzero()[:, 0]
            if len(rows):
                yield rows, self.taps[rows, self.node.chunk - p :].unbind(1)

    def logits(self, centres: Tensor) -> Tensor:
        return self.node.head(centres[self.asked])

    def needed(self, network: Tree, centres: Tensor, radii: Tensor) -> Tensor:
        """(N,D) how far what belongs to each element may lie from its centre, if the boxes hold all taps."""
        leaves, far = network.leaves, torch.zeros_like(centres)
        S = len(self.symbols)
        table = [np.concatenate([a[:S], b.numpy()]) for a, b in ((leaves.c, centres), (leaves.radius, radii))]
        for rows, taps in self.by_size():
            for part in range(0, len(rows), CONDITIONS_AT_ONCE):
                here = slice(part, part + CONDITIONS_AT_ONCE)
                with np.errstate(over="ignore", invalid="ignore"):
                    read = [network.read(Point.at(*(each[t[here].numpy() - 1] for each in table))) for t in taps]
                    image, target = enclosed(network.node(read)), self.results[rows[here]]
                off = off_centre(image.lo, image.hi, centres[target])
                far = far.scatter_reduce(0, target[:, None].expand_as(off), off, "amax")
        return torch.nan_to_num(far, nan=torch.inf, posinf=torch.inf)

    def margin(self, network: Tree, centres: Tensor, radii: Tensor) -> float:
        """By how much the right answer leads on every box after which one is asked for."""
        with np.errstate(over="ignore", invalid="ignore"):
            logits = enclosed(network.head(Point(centres.numpy(), radii.numpy())))
        return float(self.algebra.stated.margins(logits, self.algebra.states[self.elements]).min())

    def to_json(self, centres: Tensor, radii: Tensor) -> dict:
        sets = zip(self.elements.tolist(), centres.tolist(), radii.tolist(), strict=True)
        boxes: list[dict] = [{"element": m, "centre": c, "radius": r} for m, c, r in sets]
        for box, (level, lacking) in zip(boxes, self.places.tolist(), strict=False):
            box.update(level=level, lacking=bool(lacking))
        returns = {"returns": self.returns} if len(self.places) else {}
        return {"elements": self.algebra.elements.tolist(), "boxes": boxes, **returns}


def off_centre(low: np.ndarray, high: np.ndarray, centres: Tensor) -> Tensor:
    """(M,D) how far what lies between `low` and `high` may be from these centres."""
    off = torch.maximum(torch.from_numpy(high) - centres, centres - torch.from_numpy(low))
    return torch.nan_to_num(off * (1 + 2.0**-40), nan=torch.inf, posinf=torch.inf)


@torch.no_grad()
def explored(
    node: Node, algebra: MachineAlgebra, near: float, ends: float, levels: int, period: int
) -> tuple[TreeBoxes, Tensor] | Unknown:
    """Sets of all nodes that nodes are made of, from the leaves on, and where each was met first, (N,D), in float64.

    A node within `near` of one of the same element and place, in its largest entry, is in its set. `period`: how many
    of the levels come again, above the last; 0: all nodes have one place.
    """
    C, S, N = node.chunk, algebra.claim.machine.num_symbols, len(algebra)
    known = algebra.conditions()
    product = np.full((N + 1,) * C, -1)
    above = ~((known.taps > PAD) & (known.taps <= S)).any(1)
    product[tuple(np.maximum(known.taps[above] - S, 0).T)] = known.results[above]
    met, returns = _Met(node, near, ends, placed=period > 0), levels - max(period, 1)
    leaves = known.taps[~above]
    met.add(node.leaves(S, torch.float64), leaves, leaves, known.results[~above], 0, leaves[:, 0] == PAD)
    read, level = np.zeros(levels, dtype=int), 0
    while (begin := read[level]) < (end := len(own := met.of_level(level))):
        if (late := time.monotonic() > ends) or met.too_many(end):
            return Unknown(f"{'time was up after' if late else 'it comes to'} {end:,} nodes of a level {near} apart")
        new = np.indices((end + 1,) * C).reshape(C, -1).T
        # pads stand first alone, one of the taps is new, and only the first may lack symbols
        older = np.cumsum(new, 1) > new
        lacks = np.r_[True, met.places[own, 1] > 0][new]
        new = new[((new > 0) | (np.cumsum(new, 1) == 0)).all(1) & (new > begin).any(1) & ~(lacks & older).any(1)]
        lacks = np.r_[True, met.places[own, 1] > 0][new].any(1)
        new = np.r_[PAD, own + 1][new]
        owner = product[tuple(np.r_[PAD, met.elements + 1][new].T)]
        new, lacks, owner = new[owner >= 0], lacks[owner >= 0], owner[owner >= 0]
        read[level], level = end, level + 1 if level + 1 < levels else returns
        met.add(met.points, new, np.where(new > 0, new + S, PAD), owner, level, lacks)
    if not met.whole:
        return Unknown("there was no time to find boxes")
    return TreeBoxes(node, algebra, met.sets(returns)), met.points


class _Met:
    """Nodes that were met, as sets of those that are near."""

    def __init__(self, node: Node, near: float, ends: float, placed: bool):
        self.node, self.near, self.ends, self.placed = node, near, ends, placed
        self.elements, self.places = np.zeros(0, dtype=int), np.zeros((0, 2), dtype=int)
        self.points = torch.zeros(0, node.width, dtype=torch.float64)
        self._taps, self._results = list[np.ndarray](), list[np.ndarray]()
        self.whole = True
        """Whether every node that was added is in a set: not where there was no time, or were too many."""

    def of_level(self, level: int) -> np.ndarray:
        return np.flatnonzero(self.places[:, 0] == level)

    def too_many(self, sets: int) -> bool:
        """True where nodes made of so many sets are more than are looked at."""
        return sum(sets**size for size in range(1, self.node.chunk + 1)) > CONDITIONS.most

    def add(
        self,
        vectors: Tensor,
        numbers: np.ndarray,
        taps: np.ndarray,
        owner: np.ndarray,
        level: int,
        lacks: np.ndarray,
    ) -> None:
        """Finds the sets of the nodes of these elements, made of `vectors` by their numbers from 1 on.

        `taps`: what the conditions call these; `lacks`: which nodes lack symbols.
        """
        images, C = vectors.new_zeros(len(numbers), self.node.width), numbers.shape[1]
        for size in range(1, C + 1):
            rows = np.flatnonzero((numbers != PAD).sum(1) == size)
            if len(rows):
                images[rows] = self.node.of(vectors[numbers[rows, C - size :] - 1])
        index, lacks = np.full(len(owner), -1), lacks & self.placed
        for kind in sorted(set(zip(owner.tolist(), lacks.tolist(), strict=True))):
            rows = np.flatnonzero((owner == kind[0]) & (lacks == kind[1]))
            place = (level, int(kind[1]))
            same = np.flatnonzero((self.elements == kind[0]) & (self.places == place).all(1))
            if len(same):
                apart = torch.cdist(images[rows], self.points[same], p=torch.inf).numpy()
                close = (apart <= self.near).any(1)
                index[rows[close]] = same[apart[close].argmin(1)]
                rows = rows[~close]
            while len(rows) and not (self.too_many(len(self.of_level(level))) or time.monotonic() > self.ends):
                close = ((images[rows] - images[rows[0]]).abs().amax(1) <= self.near).numpy()
                index[rows[close]] = len(self.points)
                self.points = torch.cat([self.points, images[rows[:1]]])
                self.elements = np.append(self.elements, kind[0])
                self.places = np.concatenate([self.places, [place]])
                rows = rows[~close]
            self.whole &= not len(rows)
        self._taps.append(taps)
        self._results.append(index)

    def sets(self, returns: int) -> Sets:
        taps, results = np.concatenate(self._taps), np.concatenate(self._results)
        return Sets(self.elements, taps, results, self.places if self.placed else self.places[:0], returns)


@torch.no_grad()
def settled(boxes: TreeBoxes, centres: Tensor) -> Tensor:
    """(N,D) the middle of where the conditions lead from the centres, again and again."""
    owner = boxes.results[:, None].expand(-1, centres.shape[1])
    for _ in range(SETTLING):
        images, empty = boxes.images(centres), torch.zeros_like(centres)
        low, high = (empty.scatter_reduce(0, owner, images, by, include_self=False) for by in ("amin", "amax"))
        centres = (high + low) / 2
    return centres


def grow(
    needed: Callable[[Tensor], Tensor],
    radii: Tensor,
    ends: float,
    margin: Callable[[Tensor], float],
) -> Tensor | Unknown:
    """Radii r that need no more than themselves, with some room for what the checker rounds inward.

    They must be allowed to be 0 at first. `needed(r)` is monotone but for rounding. Room is not bought with more than
    half of the `margin(r)` of the head.
    """
    worst = torch.inf
    for _ in range(ROUNDS):
        need = needed(radii)
        if not torch.isfinite(need).all():
            return Unknown("the boxes grow until the enclosure of a node knows nothing")
        if bool((need <= radii).all()):
            break
        worst = float((need / radii).max()) if bool((radii > 0).all()) else torch.inf
        if time.monotonic() > ends:
            return Unknown("boxes that close were not found in time", None if worst == torch.inf else worst - 1)
        radii = torch.maximum(GROWN * need, radii)
    else:
        return Unknown("the boxes do not close: what they need grows as fast as they do", worst - 1)
    best, room, lead = radii, float((need / radii).max()), margin(radii)
    for _ in range(12):
        # However little time is left: a checker that rounds boxes inward refuses those without room.
        if room < ROOM:
            break
        radii = 2 * radii
        need = needed(radii)
        tight = float((need / radii).max()) if bool(torch.isfinite(need).all()) else torch.inf
        if tight > room or not margin(radii) >= lead / 2:
            break
        best, room = radii, tight
    return best
