"""A second opinion on a certificate: its conditions evaluated once more, exactly (networks.py).

The checker bounds what float32 may make of every condition, by arithmetic of its own. Here each condition is evaluated
at its point in ball arithmetic. It is confirmed if

    the code, centre or answer is the one that the proof needs, ahead of all others by a gap that is above 0;
    the exact values lie in the enclosures that the checker has of them;
    the gap is at least the one that the checker is sure of.

So are trees looked at here, recurrences and stacks of automata in over_time.py. What is not looked at is
float32's rounding, which the checker's enclosures hold; and of boxes only their centres are.
Where there are more conditions than are asked for, some are drawn. So it is an opinion, and the check is the proof.

Shapes: N listed sets, C chunk, S symbols.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lengthwise.errors import Error
from lengthwise.verify.checker.claim import composed
from lengthwise.verify.checker.fields import Rejected, boxes_of
from lengthwise.verify.checker.points import Point, chosen, enclosed
from lengthwise.verify.checker.tree import Tree, TreePlaces
from lengthwise.verify.checker.weights import Tensors, read_safetensors

from .condition import Confirming, inside
from .networks import BITS, Ball, ExactTree, Vector, flint
from .over_time import CascadeConditions, SetConditions

MOST = 1000
"""Conditions."""
KINDS = ("tree-codes", "tree-boxes", "recurrence-boxes", "cascade")


@dataclass(frozen=True)
class Opinion:
    evaluated: int
    """How many conditions were confirmed: had one not been, this would be `Rejected`."""
    conditions: int
    """How many there are."""
    gap: float
    """The least by which one is decided."""
    centres: bool
    """Whether only the centres of the proof's boxes were looked at."""

    def __str__(self) -> str:
        some = "all" if self.evaluated == self.conditions else f"{self.evaluated:,}, drawn at random, of"
        where = " at the centres of its boxes" if self.centres else ""
        count = f"{some} {self.conditions:,} conditions hold{where} in exact arithmetic"
        return f"second opinion: {count}, the least by {self.gap:.3g}."

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bits": BITS}


def opinion_on(certificate: dict[str, Any], model: str | Path | Tensors, most: int = MOST) -> Opinion:
    """Of a certificate that the checker accepts, and the folder or weights that it is of; raises `Rejected`.

    `most`: how many conditions are evaluated; where there are more, so many of them are drawn.
    """
    if (kind := certificate["kind"]) not in KINDS:
        raise Error(f"A second opinion is given on proofs by {', '.join(KINDS)}, and this one is a {kind}.")
    tensors = read_safetensors(Path(model) / "model.safetensors") if isinstance(model, (str, Path)) else dict(model)
    with flint().ctx.workprec(BITS):
        of_kind = {"recurrence-boxes": SetConditions, "cascade": CascadeConditions}.get(kind, Conditions)
        conditions: Confirming = of_kind(certificate, tensors)
        numbers = np.arange(conditions.count)
        if len(numbers) > most:
            numbers = np.sort(np.random.default_rng(0).choice(numbers, most, replace=False))
        gap = min((conditions.confirm(int(i)) for i in numbers), default=float("inf"))
    return Opinion(len(numbers), conditions.count, gap, conditions.boxes)


class Conditions(Confirming):
    """What a proof about a tree has to show: nodes of symbols, nodes of sets, and the head on every set."""

    def __init__(self, certificate: dict[str, Any], tensors: Tensors):
        config, proof = certificate["model"]["config"], certificate["proof"]
        self.tree = ExactTree(config, tensors)
        super().__init__(certificate, self.tree)
        self.checkers = Tree(config, tensors, certificate["arithmetic"])
        self.snapped, self.codes = certificate["inference"] == "snapped", certificate["kind"] == "tree-codes"
        self.boxes = not (self.snapped or self.codes)
        self.listed = proof["codes" if self.codes else "centres" if self.snapped else "boxes"]
        self.maps = np.array(proof["elements"])[[entry["element"] for entry in self.listed]]
        self.radius = proof.get("radius", 0.0)
        self._prepare()
        leaves = np.ascontiguousarray(self.claim.delta.T)
        self.places = TreePlaces(self.listed, proof.get("returns"))
        levels = [np.flatnonzero(self.places.own[:, 0] == level) for level in np.unique(self.places.own[:, 0])]
        self.nodes = [(True, self._needed(leaves, np.arange(len(leaves)), np.zeros(len(leaves))))]
        self.nodes += [(False, self._needed(self.maps, level, self.places.own[:, 1])) for level in levels]
        self.count = sum(len(products) for _, parts in self.nodes for _, products in parts) + len(self.listed)

    def _prepare(self) -> None:
        """Each symbol and each set as a vector of balls, and as the checker has it."""
        tree, checkers = self.tree, self.checkers
        self.leaves = [tree.leaf(s) for s in range(self.claim.symbols)]
        if self.codes:
            self.own = [tree.code(entry["code"]) for entry in self.listed]
            values = checkers.codes(np.array([entry["code"] for entry in self.listed]))
        else:
            self.own = [tree.vector(entry["centre"]) for entry in self.listed]
            values = Point.at(np.array([entry["centre"] for entry in self.listed]))
        self.values = {True: checkers.leaves, False: values}
        self.taps = {symbols: checkers.read(x) for symbols, x in self.values.items()}

    def _needed(
        self, rows: np.ndarray, members: np.ndarray, lacking: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For k = 1 to C taps the tuples (n,k) of these rows that a word that is asked about has, and their maps."""
        found, C, n = [], self.checkers.chunk, len(members)
        for k in range(1, C + 1):
            index = members[np.stack(np.unravel_index(np.arange(n**k), (n,) * k), 1)]
            index = index[~lacking[index[:, 1:]].astype(bool).any(1)]
            product = rows[index[:, 0]]
            for column in index.T[1:]:
                product = composed(product, rows[column])
            needed = (self.claim.opens if k < C else self.claim.live)(product, C)
            found.append((index[needed], product[needed]))
        return found

    def confirm(self, number: int) -> float:
        """The gap of a condition."""
        for symbols, parts in self.nodes:
            for index, products in parts:
                if number < len(index):
                    return self._node(symbols, index[number], products[number])
                number -= len(index)
        return self._answer(number)

    def _node(self, symbols: bool, index: np.ndarray, product: np.ndarray) -> float:
        what = f"the node of {'symbols' if symbols else 'sets'} {', '.join(map(str, index))}"
        x = self.tree.node([(self.leaves if symbols else self.own)[i] for i in index])
        taps = [self.taps[symbols].take(i[None]) for i in index]
        place = self._place(symbols, index)
        of_kind = self._code if self.codes else self._centre if self.snapped else self._box
        found, gap = of_kind(what, x, taps, product, place)
        if found is None or not self._agree(self.maps[found], product, bool(place[1])):
            raise Rejected(f"second opinion: {what} is not in a listed set of the product of their maps.")
        return self.above_0(what, gap)

    def _place(self, symbols: bool, index: np.ndarray) -> tuple[int, int]:
        level, lacks = (0, 0) if symbols else self.places.above[index[0]].tolist()
        return level, 1 if self.places.split and len(index) < self.checkers.chunk else lacks

    def _agree(self, own: np.ndarray, product: np.ndarray, begins: bool) -> bool:
        """True if words of C k symbols do not tell apart where the maps lead to from these states, or ask nothing."""
        alike, heeded = self.claim.alike(self.checkers.chunk), self.claim.heeded_by(self.checkers.chunk)
        states = [self.claim.start] if begins else np.arange(self.claim.states)
        right = product[states]
        return bool(((alike[own[states]] == alike[right]) | ~heeded[right]).all())

    def _code(
        self, what: str, x: Vector, taps: list[Any], product: np.ndarray, place: tuple[int, int]
    ) -> tuple[int | None, Ball]:
        del product
        groups = self.tree.choices(x)
        picked = [max(range(len(z)), key=lambda i, z=z: float(z[i].mid())) for z in groups]
        gap = self.least(
            [z[i] - other for z, i in zip(groups, picked, strict=True) for j, other in enumerate(z) if j != i]
        )
        logits = self.checkers.choices_of(self.checkers.node(taps))
        inside(what, [ball for z in groups for ball in z], enclosed(logits))
        _, sure = chosen(logits, len(groups))
        self.at_least(what, gap, float(sure[0]))
        same = (i for i, entry in enumerate(self.listed) if entry["code"] == picked)
        return next((i for i in same if tuple(self.places.own[i]) == place), None), gap

    def _centre(
        self, what: str, x: Vector, taps: list[Any], product: np.ndarray, place: tuple[int, int]
    ) -> tuple[int | None, Ball]:
        del product, place
        inside(what, x, enclosed(self.checkers.node(taps)))
        far = [self.tree.total([(a - b) ** 2 for a, b in zip(x, c, strict=True)]).sqrt() for c in self.own]
        nearest = min(range(len(far)), key=lambda i: float(far[i].mid()))
        others = [d - far[nearest] for i, d in enumerate(far) if i != nearest]
        return nearest, self.least([*others, self.radius - far[nearest]])

    def _box(
        self, what: str, x: Vector, taps: list[Any], product: np.ndarray, place: tuple[int, int]
    ) -> tuple[int | None, Ball]:
        """The box of the product and the place in which the node of the centres has most room."""
        best: tuple[int | None, Ball] = None, self.tree.arb(-1)
        own = [i for i, row in enumerate(self.maps) if (row == product).all() and tuple(self.places.own[i]) == place]
        centre, radius = boxes_of([self.listed[i] for i in own], len(x)) if own else (np.zeros((0, len(x))),) * 2
        for i, c, r in zip(own, centre, radius, strict=True):
            room = self.least([float(r_) - abs(a - float(c_)) for a, c_, r_ in zip(x, c, r, strict=True)])
            if best[0] is None or float(room.mid()) > float(best[1].mid()):
                best = i, room
        return best

    def _answer(self, i: int) -> float:
        what, q = f"the answer on set {i}", self.maps[i][self.claim.start]
        logits = enclosed(self.checkers.head(self.values[False].take(np.array([i]))))
        return self.answer(what, self.tree.head(self.own[i]), logits, q)
