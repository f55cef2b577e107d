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

Shapes: B nodes at once, N listed sets, C taps, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .boxes import BoxOperations, enclosed
from .claimed import Claim, Maps, composed
from .fields import LIST, Kind, Rejected, entries, fields, real, reals, table, whole
from .intervals import EPS, Array, Interval, down, up
from .mean_value import Value, box, constant, mean_value
from .network import Tap, Tree
from .points import Point, bound, chosen
from .rounding import LEAST, WIDER
from .short_words import agree_on_short_words

Node = Callable[["list[Array]"], "tuple[Array, Array]"]
"""From the sets at each tap, oldest first, to the set (B,) of each node, -1 for none, and how surely (B,)."""
AT_ONCE, FEW_AT_ONCE = 512, 32
TUPLES = 5_000_000
"""More nodes than these are not checked."""


def check_tree(network: Tree, claim: Claim, kind: str, inference: str, proof: Any) -> tuple[int, float]:
    """How many conditions were checked, and the least margin."""
    if (network.centres is not None) != (inference == "snapped"):
        raise Rejected(
            "a certificate is snapped where the nodes of its model are, and raw where they are not: its inference is "
            f"{inference}, and the model's config says the other."
        )
    if kind == "tree-codes":
        return _codes(network, claim, proof)
    return (_snapped if inference == "snapped" else _boxes)(network, claim, proof)


def _codes(tree: Tree, claim: Claim, proof: Any) -> tuple[int, float]:
    if tree.codebook is None:
        raise Rejected("tree-codes is about discrete nodes, and those of this model are continuous.")
    maps, listed = _listed(proof, "codes", claim, {"code": LIST})
    codes = table([entry["code"] for entry in listed], "the codes", 2, tree.choices)
    if codes.shape[1] != tree.groups:
        raise Rejected(f"each code must be a list of {tree.groups}.")
    number = {row.tobytes(): i for i, row in enumerate(codes)}
    if len(number) < len(codes):
        raise Rejected("the codes must differ, and one is listed twice.")
    nodes = tree.codes(codes)

    def induct(vectors: Value) -> Node:
        taps, points = tree.read(vectors).points(), tree.at_points()

        def node(index: list[Array]) -> tuple[Array, Array]:
            picked, gap = chosen(points.choices_of(points.node([taps.take(i) for i in index])), tree.groups)
            for i in np.flatnonzero(~(gap > 0)):  # by the mean value theorem, which takes a hundred times as long
                some = [k[i : i + 1] for k in index]
                z = tree.node([tree.read(constant(vectors.exact[k], vectors.noise[k])) for k in some])
                picked[i : i + 1], gap[i : i + 1] = _picked(tree, mean_value(tree.choices_of(z)))
                if not gap[i] > 0:
                    break
            return np.array([number.get(row.tobytes(), -1) for row in picked]), gap

        return node

    logits = lambda index: tree.head(nodes.take(index)).range  # noqa: E731
    return _induction(tree, claim, maps, listed, induct(tree.leaves), induct(nodes), logits, FEW_AT_ONCE)


def _picked(tree: Tree, logits: Interval) -> tuple[Array, Array]:
    """(B,G) the choices of logits (B,G M), and (B,) by how much the closest of them is decided."""
    z = logits.reshape(-1, tree.groups, tree.choices)
    picked = z.mid.argmax(2)
    best = np.take_along_axis(z.lo, picked[..., None], 2)[..., 0]
    others = z.hi.copy()
    np.put_along_axis(others, picked[..., None], -np.inf, 2)
    return np.ascontiguousarray(picked), (best - others.max(2)).min(1)


def _boxes(tree: Tree, claim: Claim, proof: Any) -> tuple[int, float]:
    _continuous(tree)
    maps, listed = _listed(proof, "boxes", claim, {"centre": LIST, "radius": LIST})
    centre, radius = boxes_of(listed, tree.width)
    owner = np.array([entry["element"] for entry in listed])
    # A box to lie in is rounded inward, one to start from outward.
    inner = Interval(up(centre - radius), down(centre + radius))
    points = tree.at_points(BoxOperations)
    exact, noise = tree.leaves.exact, tree.leaves.noise
    leaf_points = Point.of(tree.leaves)

    def induct(make: Callable[[Array], Value], near: Callable[[Array], Point], rows: Array) -> Node:
        def node(index: list[Array]) -> tuple[Array, Array]:
            with np.errstate(over="ignore", invalid="ignore"):
                image = enclosed(points.node([points.read(near(i)) for i in index]))
            target = maps.find(_product([rows[i] for i in index]))
            sets, room = placed(image, target)
            for i in np.flatnonzero((sets < 0) & (target >= 0)):  # by slopes over all of the boxes
                some = [k[i : i + 1] for k in index]
                image = mean_value(tree.node([tree.read(make(k)) for k in some]))
                sets[i : i + 1], room[i : i + 1] = placed(image, target[i : i + 1])
                if sets[i] < 0:
                    break
            return sets, room

        return node

    def placed(image: Interval, target: Array) -> tuple[Array, Array]:
        sets, room = np.full(len(target), -1), np.full(len(target), -np.inf)
        for i in np.flatnonzero(target >= 0):
            for j in np.flatnonzero(owner == target[i]):
                if image[i].inside(inner[j]).all():
                    sets[i] = j
                    room[i] = max(np.minimum(image.lo[i] - inner.lo[j], inner.hi[j] - image.hi[i]).min(), 0.0)
                    break
        return sets, room

    def leaf(index: Array) -> Value:
        return Value(exact[index], noise[index], exact[index])

    def logits(index: Array) -> Interval:
        near = enclosed(points.head(Point(centre[index], radius[index])))
        return mean_value(tree.head(box(centre[index], radius[index]))).meet(near)

    leaves = induct(leaf, leaf_points.take, _leaf_maps(claim))
    upper = induct(
        lambda index: box(centre[index], radius[index]),
        lambda index: Point(centre[index], radius[index]),
        maps.rows[owner],
    )
    return _induction(tree, claim, maps, listed, leaves, upper, logits, FEW_AT_ONCE, room=True)


def _snapped(tree: Tree, claim: Claim, proof: Any) -> tuple[int, float]:
    """A node within `radius` of the nearest centre, in Euclid's distance, is that centre."""
    _continuous(tree)
    maps, listed = _listed(proof, "centres", claim, {"centre": LIST}, {"radius": real()})
    centre = np.stack([reals(entry["centre"], "a centre", tree.width) for entry in listed])
    radius = float(proof["radius"])
    assert tree.centres is not None
    if tree.radius != radius or tree.centres.shape != centre.shape or (tree.centres != centre).any():
        raise Rejected("the centres and the radius must be those that the model snaps its nodes to.")
    points = tree.at_points(BoxOperations)
    vectors = Point(centre, np.zeros(centre.shape))
    slack = tree.arithmetic.gamma(tree.width + 8) + (tree.width + 8) * EPS
    lost = (tree.width * LEAST) ** 0.5
    """Squares of differences may be too small for the model's arithmetic."""

    def induct(taps: Tap) -> Node:
        def node(index: list[Array]) -> tuple[Array, Array]:
            image = points.node([taps.take(i) for i in index])
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

    leaves, inner = induct(points.read(Point.of(tree.leaves))), induct(points.read(vectors))
    table: dict[tuple[int, ...], int] = {}
    logits = lambda index: enclosed(points.head(vectors.take(index)))  # noqa: E731
    found = _induction(tree, claim, maps, listed, leaves, inner, logits, FEW_AT_ONCE, table=table)
    agree_on_short_words(tree.chunk, claim, maps.rows[[entry["element"] for entry in listed]], table)
    return found


def _induction(
    tree: Tree,
    claim: Claim,
    maps: Maps,
    listed: list[dict[str, Any]],
    leaves: Node,
    inner: Node,
    logits: Callable[[Array], Interval],
    at_once: int = AT_ONCE,
    room: bool = False,
    table: dict[tuple[int, ...], int] | None = None,
) -> tuple[int, float]:
    """`room`: a node may lie at the edge of its box; otherwise every choice must be decided.

    `table`: filled with the set of every node, symbols being negative: -1 - s.
    """
    claim.fits(tree.symbols, tree.outputs)
    own = maps.rows[[entry["element"] for entry in listed]]
    count, least = 0, np.inf
    for node, rows, symbols in ((leaves, _leaf_maps(claim), True), (inner, own, False)):
        for index in _tuples(len(rows), tree.chunk, at_once):
            product = _product([rows[i] for i in index])
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
                if sets[i] < 0 or not (own[sets[i]] == product[i]).all():
                    raise Rejected(f"the {what} {at} is not in a listed set of the product of their maps.")
                if table is not None:
                    key = tuple(int(k[i]) for k in index)
                    table[tuple(-1 - k for k in key) if symbols else key] = int(sets[i])
            count += len(product)
            least = least if room else min(least, float(sure.min()))
    for index in _blocks(len(listed), at_once):
        margins = claim.margins(logits(index), own[index][:, claim.start])
        if not (margins > 0).all():
            raise Rejected(f"the head is not right on set {index[~(margins > 0)][0]}: by {margins.min():.3g}.")
        count, least = count + len(index), min(least, float(margins.min()))
    return count, least


def _listed(
    proof: Any, name: str, claim: Claim, of_each: dict[str, Kind], more: dict[str, Kind] | None = None
) -> tuple[Maps, list[dict[str, Any]]]:
    fields("the proof", proof, {"elements": LIST, name: LIST, **(more or {})})
    maps = Maps(proof["elements"], claim.states)
    listed = entries(proof[name], f"the {name}", {"element": whole(), **of_each})
    table([entry["element"] for entry in listed], "the element of a set", 1, len(maps))
    return maps, listed


def boxes_of(listed: list[dict[str, Any]], width: int) -> tuple[Array, Array]:
    """Centres and radii (N,width)."""
    centre = np.stack([reals(entry["centre"], "a centre", width) for entry in listed])
    return centre, np.stack([reals(entry["radius"], "a radius", width, 0.0) for entry in listed])


def _continuous(tree: Tree) -> None:
    if tree.codebook is not None:
        raise Rejected("this proof is about continuous nodes, and those of this model are discrete.")


def _leaf_maps(claim: Claim) -> Array:
    return np.ascontiguousarray(claim.delta.T)


def _product(rows: list[Array]) -> Array:
    product = rows[0]
    for then in rows[1:]:
        product = composed(product, then)
    return product


def _tuples(N: int, C: int, at_once: int) -> Iterator[list[Array]]:
    """All tuples of 1 to C of N numbers, in parts: for each place its numbers."""
    total = sum(N**k for k in range(1, C + 1))
    if total > TUPLES:
        raise Rejected(f"the proof has {total:,} nodes to check, and the checker stops at {TUPLES:,}.")
    for k in range(1, C + 1):
        for numbers in _blocks(N**k, at_once):
            yield list(np.unravel_index(numbers, (N,) * k))


def _blocks(N: int, at_once: int) -> Iterator[Array]:
    for begin in range(0, N, at_once):
        yield np.arange(begin, min(N, begin + at_once))
