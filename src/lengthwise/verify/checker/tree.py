"""Induction on the tree: every word's last node lies in the set of the map that the word is.

A node is made of C nodes, or of C symbols; at the beginning of a word the oldest of them are missing. So by induction a
claim about all nodes holds if it holds

    a  for every node of symbols,
    b  for every node of nodes of which it holds,

and an answer is right if it is

    c  on everything of which the claim holds, after the map that it is said to be.

The claim is one of: the node's code is one that is listed (discrete nodes); the node lies in a listed box; the node is
replaced by a listed centre (snapped). Each belongs to a map of the machine's states, and that of a node must be the
product of those that it is made of. Every word passes a node, for there is at least one group of layers.

A node is made of nodes of one level, of which only the first may lack symbols, as then it does itself. So a box or a
code may belong to a level, and to nodes that lack symbols or to those that do not: nodes of symbols have level 0, what
is made of level l has the next, and what is made of the last has the level `returns`, by itself the last.

Behind a node C k symbols come, so the map of a code need only lead to states that are alike to those (claim.py), and
anywhere from where no such symbols lead to a question: no word that is asked about has the node behind that state. One
that lacks symbols begins its word, so of its map only where the start goes matters.

A node is node(x_{C-1}, …, x_0), oldest first; what stands before the first token is the tree's pad, or nothing.

Shapes: B nodes at once, N listed sets, C taps, D model width, E outputs, G groups of M choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .claim import Maps, StatedClaim, product_of
from .fields import (
    FLAG,
    LIST,
    OBJECT,
    Kind,
    Rejected,
    boxes_of,
    entries,
    exactly,
    fields,
    maybe,
    real,
    reals,
    table,
    whole,
)
from .intervals import EPS, Array, Interval, down, up
from .network import Network, each_layer
from .points import Point, PointOperations, bound, chosen, enclosed
from .rounding import LEAST, WIDER
from .weights import Tensors

Node = Callable[["list[Array]"], "tuple[Array, Array]"]
"""From the sets at each tap, oldest first, to the set (B,) of each node, -1 for none, and how surely (B,)."""
BOX, PLACES = {"centre": LIST, "radius": LIST}, {"level": whole(), "lacking": FLAG}
AT_ONCE = 32
TUPLES = 5_000_000
"""More nodes than these are not checked."""


DEPTH = {"name": exactly("adaptive"), "thickness": exactly(1), "chunk": whole(2), "by": exactly("sequence", "position")}
MAYBE_DEPTH = {"pad_tokens": exactly(False), "nodes": maybe(OBJECT), "snapped": maybe(OBJECT)}
MIXER = {"name": exactly("sliding-dilated"), "heads": whole(1), "chunk": whole(2), "biases": FLAG}
MIXER["missing"] = exactly("learned-pad", "drop")
BLOCK = {"kind": exactly("transformer"), "norm": exactly("pre", "post"), "activation": exactly("relu", "gelu")}
BLOCK["expansion"] = whole(1)


def check_tree(network: Tree, claim: StatedClaim, kind: str, inference: str, proof: Any) -> tuple[int, float]:
    """Returns how many conditions were checked, and the least margin."""
    if (network.centres is not None) != (inference == "snapped"):
        raise Rejected(
            "a certificate is snapped where the nodes of its model are, and raw where they are not: its inference is "
            f"{inference}, and the model's config says the other."
        )
    if kind == "tree-codes":
        return _codes(network, claim, proof)
    return (_snapped if inference == "snapped" else _boxes)(network, claim, proof)


def _codes(tree: Tree, claim: StatedClaim, proof: Any) -> tuple[int, float]:
    if tree.codebook is None:
        raise Rejected("tree-codes is about discrete nodes, and those of this model are continuous.")
    maps, listed = _listed(proof, "codes", claim, {"code": LIST}, PLACES, others={"returns": whole()})
    places = TreePlaces(listed, proof.get("returns"))
    codes = table([entry["code"] for entry in listed], "the codes", 2, tree.choices)
    if codes.shape[1] != tree.groups:
        raise Rejected(f"each code must be a list of {tree.groups}.")
    number = {row.tobytes(): i for i, row in enumerate(np.concatenate([places.own, codes], 1))}
    if len(number) < len(codes):
        raise Rejected("the codes must differ, and one is listed twice.")
    nodes = tree.codes(codes)

    def induct(vectors: Point, above: Array) -> Node:
        taps = tree.read(vectors)

        def node(index: list[Array]) -> tuple[Array, Array]:
            picked, gap = chosen(tree.choices_of(tree.node([taps.take(i) for i in index])), tree.groups)
            rows = np.concatenate([places.of_node(above[index[0]], len(index) < tree.chunk), picked], 1)
            return np.array([number.get(row.tobytes(), -1) for row in rows]), gap

        return node

    logits = lambda index: enclosed(tree.head(nodes.take(index)))  # noqa: E731
    leaves = induct(tree.leaves, np.zeros((claim.symbols, 2), dtype=np.int64))
    alike = claim.alike(tree.chunk)
    return _induction(tree, claim, maps, listed, leaves, induct(nodes, places.above), logits, places, alike)


def _boxes(tree: Tree, claim: StatedClaim, proof: Any) -> tuple[int, float]:
    _continuous(tree)
    maps, listed = _listed(proof, "boxes", claim, BOX, PLACES, others={"returns": whole()})
    centre, radius = boxes_of(listed, tree.width)
    owner = np.array([entry["element"] for entry in listed])
    places = TreePlaces(listed, proof.get("returns"))
    # A box to lie in is rounded inward, one to start from outward.
    inner = Interval(up(centre - radius), down(centre + radius))
    boxes = Point.at(centre, radius)

    def induct(vectors: Point, rows: Array, above: Array) -> Node:
        """`above`: the place of what is made of each, if nothing lacks beside it."""

        def node(index: list[Array]) -> tuple[Array, Array]:
            with np.errstate(over="ignore", invalid="ignore"):
                image = enclosed(tree.node([tree.read(vectors.take(i)) for i in index]))
            place = places.of_node(above[index[0]], len(index) < tree.chunk)
            return placed(image, maps.find(product_of([rows[i] for i in index])), place)

        return node

    def placed(image: Interval, target: Array, place: Array) -> tuple[Array, Array]:
        sets, room = np.full(len(target), -1), np.full(len(target), -np.inf)
        for i in np.flatnonzero(target >= 0):
            for j in np.flatnonzero((owner == target[i]) & (places.own == place[i]).all(1)):
                if image[i].inside(inner[j]).all():
                    sets[i] = j
                    room[i] = max(np.minimum(image.lo[i] - inner.lo[j], inner.hi[j] - image.hi[i]).min(), 0.0)
                    break
        return sets, room

    logits = lambda index: enclosed(tree.head(boxes.take(index)))  # noqa: E731
    leaves = induct(tree.leaves, rows := _leaf_maps(claim), np.zeros((len(rows), 2), dtype=int))
    nodes = induct(boxes, maps.rows[owner], places.above)
    return _induction(tree, claim, maps, listed, leaves, nodes, logits, places, room=True)


def _snapped(tree: Tree, claim: StatedClaim, proof: Any) -> tuple[int, float]:
    """A node within `radius` of the nearest centre, in Euclid's distance, is that centre."""
    _continuous(tree)
    maps, listed = _listed(proof, "centres", claim, {"centre": LIST}, needed={"radius": real()})
    centre = np.stack([reals(entry["centre"], "a centre", tree.width) for entry in listed])
    radius = float(proof["radius"])
    assert tree.centres is not None
    if tree.radius != radius or tree.centres.shape != centre.shape or (tree.centres != centre).any():
        raise Rejected("the centres and the radius must be those that the model snaps its nodes to.")
    vectors = Point.at(centre)
    slack = tree.arithmetic.gamma(tree.width + 8) + (tree.width + 8) * EPS
    lost = (tree.width * LEAST) ** 0.5
    """Squares of differences may be too small for the model's arithmetic."""

    def induct(taps: Tap) -> Node:
        def node(index: list[Array]) -> tuple[Array, Array]:
            image = tree.node([taps.take(i) for i in index])
            off = np.sqrt((bound(image) ** 2).sum(1))[:, None] * WIDER
            far = np.sqrt(((image.c[:, None] - centre) ** 2).sum(2))
            low, high = (far - off) * (1 - slack) / WIDER - lost, (far + off) * (1 + slack) * WIDER + lost
            low = np.where(np.isfinite(low), low, -np.inf)
            high = np.where(np.isfinite(high), high, np.inf)
            nearest = high.argmin(1)
            reach = np.take_along_axis(high, nearest[:, None], 1)[:, 0]
            np.put_along_axis(low, nearest[:, None], np.inf, 1)
            room = np.minimum(low.min(1) - reach, np.where(reach < radius, np.inf, -np.inf))
            return nearest, room

        return node

    leaves, inner = induct(tree.read(tree.leaves)), induct(tree.read(vectors))
    logits = lambda index: enclosed(tree.head(vectors.take(index)))  # noqa: E731
    return _induction(tree, claim, maps, listed, leaves, inner, logits, TreePlaces(listed))


class TreePlaces:
    """Where in trees the nodes of listed sets stand."""

    def __init__(self, listed: list[dict[str, Any]], returns: int | None = None):
        """`returns`: the level of what is made of the last; None: the last."""
        places = [[entry.get("level", 0), int(entry.get("lacking", False))] for entry in listed]
        self.own = np.array(places, dtype=np.int64)
        """(N,2) the level, and whether symbols lack."""
        level = self.own[:, 0]
        top = level.max()
        above = np.where(level == top, top if returns is None else returns, level + 1)
        self.above = np.stack([above, self.own[:, 1]], 1)
        """(N,2) of a node of which a node of each set is the first, and nothing lacks beside it."""
        self.split = any("lacking" in entry for entry in listed)

    def of_node(self, above: Array, lacks: bool) -> Array:
        """(B,2) the places of nodes that are `above` their first nodes, and may lack others."""
        if not (self.split and lacks):
            return above
        return np.stack([above[:, 0], np.ones(len(above), dtype=np.int64)], 1)


def _induction(
    tree: Tree,
    claim: StatedClaim,
    maps: Maps,
    listed: list[dict[str, Any]],
    leaves: Node,
    inner: Node,
    logits: Callable[[Array], Interval],
    places: TreePlaces,
    alike: Array | None = None,
    room: bool = False,
) -> tuple[int, float]:
    """`alike`: the number of each state, of which a map may take any with the same, or any where the state has nothing
    to come; None: each has its own.

    `room`: a node may lie at the edge of its box; else every choice must be decided.
    """
    claim.fits(tree.symbols, tree.outputs)
    own = maps.rows[[entry["element"] for entry in listed]]
    of, of_symbols = places.own, _leaf_maps(claim)
    heeded = np.ones(claim.states, dtype=bool) if alike is None else claim.heeded_by(tree.chunk)
    alike = np.arange(claim.states) if alike is None else alike
    levels = [(inner, own, False, np.flatnonzero(of[:, 0] == level)) for level in np.unique(of[:, 0])]
    count, least = 0, np.inf
    for node, rows, symbols, members in ((leaves, of_symbols, True, np.arange(len(of_symbols))), *levels):
        for numbers in _tuples(len(members), tree.chunk):
            index = [members[i] for i in numbers]
            if not symbols:
                whole_after_first = ~np.any([np.zeros(len(index[0])), *(of[i, 1] for i in index[1:])], axis=0)
                index = [i[whole_after_first] for i in index]
            product = product_of([rows[i] for i in index])
            needed = (claim.opens if len(index) < tree.chunk else claim.live)(product, tree.chunk)
            index = [i[needed] for i in index]
            product = product[needed]
            if not len(product):
                continue
            sets, sure = node(index)
            what = "node of symbols" if symbols else "node of sets"
            for i in range(len(product)):
                at = ", ".join(str(int(k[i])) for k in index)
                if room and sets[i] < 0:
                    raise Rejected(f"the {what} {at} is in no listed box of the product of their maps.")
                if not (sure[i] >= 0 if room else sure[i] > 0):
                    raise Rejected(f"the {what} {at} is not decided: its gap or its room in the set is {sure[i]:.3g}.")
                agrees = (alike[own[sets[i]]] == alike[product[i]]) | ~heeded[product[i]]
                if sets[i] < 0 or not (agrees[claim.start] if of[sets[i], 1] else agrees.all()):
                    raise Rejected(f"the {what} {at} is not in a listed set of the product of their maps.")
            count += len(product)
            least = least if room else min(least, float(sure.min()))
    for index in _blocks(len(listed)):
        margins = claim.margins(logits(index), own[index][:, claim.start])
        if not (margins > 0).all():
            raise Rejected(f"the head is not right on set {index[~(margins > 0)][0]}: by {margins.min():.3g}.")
        count, least = count + len(index), min(least, float(margins.min()))
    return count, least


def _listed(
    proof: Any,
    name: str,
    claim: StatedClaim,
    of_each: dict[str, Kind],
    of_some: dict[str, Kind] | None = None,
    *,
    needed: dict[str, Kind] | None = None,
    others: dict[str, Kind] | None = None,
) -> tuple[Maps, list[dict[str, Any]]]:
    fields("the proof", proof, {"elements": LIST, name: LIST, **(needed or {})}, others)
    maps = Maps(proof["elements"], claim.states)
    listed = entries(proof[name], f"the {name}", {"element": whole(), **of_each}, of_some)
    table([entry["element"] for entry in listed], "the element of a set", 1, len(maps))
    return maps, listed


def _continuous(tree: Tree) -> None:
    if tree.codebook is not None:
        raise Rejected("this proof is about continuous nodes, and those of this model are discrete.")


def _leaf_maps(claim: StatedClaim) -> Array:
    return np.ascontiguousarray(claim.delta.T)


def _tuples(N: int, C: int) -> Iterator[list[Array]]:
    """All tuples of 1 to C of N numbers, in parts: for each place its numbers."""
    total = sum(N**k for k in range(1, C + 1))
    if total > TUPLES:
        raise Rejected(f"the proof has {total:,} nodes to check, and the checker stops at {TUPLES:,}.")
    for k in range(1, C + 1):
        for numbers in _blocks(N**k):
            yield list(np.unravel_index(numbers, (N,) * k))


def _blocks(N: int) -> Iterator[Array]:
    for begin in range(0, N, AT_ONCE):
        yield np.arange(begin, min(N, begin + AT_ONCE))


@dataclass(frozen=True)
class Tap:
    """A vector, and what the attention makes of it."""

    x: Point
    q: Point
    k: Point
    v: Point

    def take(self, index: Array) -> Tap:
        return Tap(*(part.take(index) for part in (self.x, self.q, self.k, self.v)))


class Tree(Network):
    operations = PointOperations

    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        self.leaves = Point.of(self.leaves)
        D = self.width
        depth = fields("depth", config["depth"], DEPTH, MAYBE_DEPTH)
        self.chunk = C = depth["chunk"]
        mixer = fields("mixer", _only(config["mixer"]), MIXER, {"shared_pad": FLAG})
        self.heads = H = mixer["heads"]
        if D % H or mixer["chunk"] != C:
            raise Rejected(f"mixer: heads must divide the width, and its chunk be that of depth, got {mixer}.")
        self.padded = mixer["missing"] == "learned-pad"
        at = "depth.layers.0"
        W, b = self.linear(f"{at}.mixer.qkv", 3 * D, D, mixer["biases"])
        self._qkv = [(W[i * D : (i + 1) * D], None if b is None else b[i * D : (i + 1) * D]) for i in range(3)]
        self._out = self.linear(f"{at}.mixer.out", D, D, mixer["biases"])
        self._r = self.weights.take(f"{at}.mixer.r", H, C)
        if self.padded:
            pad = self.weights.take("pad" if mixer.get("shared_pad") else f"{at}.mixer.pad", D)
            self._pad = [self.ops.linear(Point.at(pad[None]), *part) for part in self._qkv[1:]]
        others = {"biases": FLAG, "normalisation": exactly("layer", None)}
        block = fields("block", _only(config["block"]), BLOCK, others)
        self.post, self.activation = block["norm"] == "post", block["activation"]
        self._norms = [self.norm(f"{at}.{name}") for name in ("mixer_norm", "feed_norm")]
        biases, hidden = block.get("biases", True), block["expansion"] * D
        self._up, self._down = self.linear(f"{at}.up", hidden, D, biases), self.linear(f"{at}.down", D, hidden, biases)
        self.codebook = None
        if (nodes := depth.get("nodes")) is not None:
            self.ops.wide = False
            fields("nodes", nodes, {"groups": whole(1), "codes": whole(2)})
            self.groups, self.choices = nodes["groups"], nodes["codes"]
            self._choose = self.linear(f"{at}.nodes.choose", self.groups * self.choices, D, True)
            self.codebook = self.weights.take(f"{at}.nodes.codebook", self.groups * self.choices, D)
        self.centres, self.radius = None, 0.0
        if (snapped := depth.get("snapped")) is not None:
            fields("snapped", snapped, {"centres": whole(1), "radius": real()})
            self.centres = self.weights.take(f"{at}.centres", snapped["centres"], D)
            self.radius = float(snapped["radius"])
        self.weights.done()

    def codes(self, chosen: Array) -> Point:
        """(B,D) the nodes of these choices (B,G): a vector of the codebook for each, added up."""
        assert self.codebook is not None
        picked = Interval.of(self.codebook[chosen + np.arange(self.groups) * self.choices])
        noise = self.arithmetic.up(self.arithmetic.gamma(self.groups + 2) * picked.size.sum(1))
        return Point.of(picked.sum(1).widened(noise))

    def read(self, x: Point) -> Tap:
        """Returns what a tap is to the attention. (The pad is read as it is, before any norm.)"""
        seen = x if self.post else self.ops.norm(x, *self._norms[0])
        return Tap(x, *(self.ops.linear(seen, *part) for part in self._qkv))

    def node(self, taps: Sequence[Tap]) -> Point:
        """(B,D) of up to C taps, oldest first; those that are missing stand before the first token."""
        own, B = taps[-1], taps[-1].x.shape[0]
        keys, values = [tap.k for tap in reversed(taps)], [tap.v for tap in reversed(taps)]
        r = self._r
        if self.padded:
            for row, pad in ((keys, self._pad[0]), (values, self._pad[1])):
                row += [pad.repeated(B)] * (self.chunk - len(taps))
        else:
            r = r[:, : len(taps)]
        y = self.ops.linear(self.ops.attention(own.q, keys, values, r), *self._out)
        h = self.ops.add(own.x, y)
        if self.post:
            h = self.ops.norm(h, *self._norms[0])
            return self.ops.norm(self.ops.add(h, self._feed(h)), *self._norms[1])
        return self.ops.add(h, self._feed(self.ops.norm(h, *self._norms[1])))

    def choices_of(self, x: Point) -> Point:
        """(B,G M) the logits of the choices that a node's vector makes."""
        return self.ops.linear(x, *self._choose)

    def _feed(self, x: Point) -> Point:
        x = self.ops.linear(x, *self._up)
        return self.ops.linear(self.ops.relu(x) if self.activation == "relu" else self.ops.gelu(x), *self._down)


def _only(content: Any) -> dict[str, Any]:
    return each_layer(content, 1)[0]
