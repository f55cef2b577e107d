"""False proofs: networks with certificates that hold, and everything that is changed in them until they do not.

    own, changed = network("flip-flop")     a Case of what holds, and Cases of what was changed

All that the tests know stands here once, and `test_corpus.py` puts it through all checkers. A change is sealed anew,
with the digests of what it says now, as whoever wants to deceive would leave it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from .checker.conftest import resealed
from .corpus_networks import (
    BIAS,
    KEEPS,
    LAYER,
    OTHER_BIAS,
    READS,
    Certificate,
    Weights,
    automaton_of_sums,
    flip_flop_proved,
    gated_flip_flop,
    latch,
    narrow_tree,
    of_zoo,
    planted,
    stack,
    tiny_symbols,
)  # fmt: skip

ALL = ("numpy", "coq", "javascript")


class Case(NamedTuple):
    what: str
    """What was changed."""
    certificate: Certificate
    weights: Weights
    accepted_by: tuple[str, ...] = ()
    sealed: bool = True
    """Whether the digests are those of these weights."""

    def whole(self) -> Certificate:
        return resealed(self.certificate, self.weights if self.sealed else None)


def with_weight(weights: Weights, name: str, at: Any, value: Any = None, by: float = 0.0) -> Weights:
    """These weights, one entry or row of which is set to a value, or moved."""
    x = weights[name].copy()
    x[at] = x[at] + np.float32(by) if value is None else value
    return {**weights, name: x}


# What can be said of every network.


def other_claims(given: Certificate) -> Iterator[Case]:
    claim = given["claim"]
    Q = len(claim["delta"])
    for q, row in enumerate(claim["delta"]):
        for s, to in enumerate(row):
            delta = copy.deepcopy(claim["delta"])
            delta[q][s] = (to + 1) % Q
            yield about(f"delta {q} {s}", given, claim={**claim, "delta": delta})
    yield about("answers", given, claim={**claim, "answers": claim["answers"][::-1]})
    yield about("start", given, claim={**claim, "start": (claim["start"] + 1) % Q})


def other_answers(given: Certificate) -> Iterator[Case]:
    yield about("answers", given, claim={**given["claim"], "answers": [1 - a for a in given["claim"]["answers"]]})


def about(what: str, given: Certificate, **changes: Any) -> Case:
    return Case(what, {**given, **changes}, {})


def without(given: Certificate, listed: str, most: int = 40) -> Iterator[Case]:
    """One of the sets is not listed."""
    all_ = given["proof"][listed]
    for i in range(0, len(all_), 1 + len(all_) // most):
        yield about(f"without {listed} {i}", given, proof={**given["proof"], listed: all_[:i] + all_[i + 1 :]})


def other_sets(given: Certificate) -> Iterator[Case]:
    """Boxes of a recurrence that are moved, are points, or belong to another state."""
    sets = given["proof"]["sets"]
    for i, entry in enumerate(sets):
        moved = [entry["centre"][0] + 0.3, *entry["centre"][1:]]
        for change in ({"centre": moved}, {"radius": [0.0] * len(moved)}, {"state": 1 - entry["state"]}):
            if {**entry, **change} != entry and not (i == 0 and "radius" in change):
                listed = [*sets[:i], {**entry, **change}, *sets[i + 1 :]]
                yield about(f"set {i}, another {next(iter(change))}", given, proof={"sets": listed})


def narrowed(given: Certificate, accepted_by: tuple[str, ...] = ()) -> Iterator[Case]:
    """Boxes listed a millionth as wide: Coq is told what they grow into, and the others let them grow eightfold."""
    sets = [{**entry, "radius": [1e-6 * r for r in entry["radius"]]} for entry in given["proof"]["sets"]]
    yield about("all sets a millionth as wide", given, proof={"sets": sets})._replace(accepted_by=accepted_by)


def other_tuples(given: Certificate) -> Iterator[Case]:
    """What an automaton reaches, beside another state of the machine; and its entries elsewhere."""
    proof, Q = given["proof"], len(given["claim"]["delta"])
    for i, (q, *states) in enumerate(proof["pairs"][:3]):
        moved = [*proof["pairs"][:i], [(q + 1) % Q, *states], *proof["pairs"][i + 1 :]]
        yield about(f"tuple {i} of another state", given, proof={**proof, "pairs": moved})
    side = 1 + max(place for state in proof["states"][0] for place in state)
    states = [[[(place + 1) % side for place in state] for state in proof["states"][0]], *proof["states"][1:]]
    yield about("entries elsewhere", given, proof={**proof, "states": states})


def other_codes(given: Certificate) -> Iterator[Case]:
    """Codes of a tree that differ in one choice, and elements that are another's."""
    proof, codes = given["proof"], given["proof"]["codes"]
    for i, entry in enumerate(codes):
        for g in range(len(entry["code"])):
            code = [*entry["code"]]
            code[g] = 1 - code[g]
            listed = [*codes[:i], {**entry, "code": code}, *codes[i + 1 :]]
            yield about(f"code {i} {g}", given, proof={**proof, "codes": listed})
    for name, element in (("exchanged", None), ("0", 0), ("1", 1)):
        other = [{**entry, "element": 1 - entry["element"] if element is None else element} for entry in codes]
        yield about(f"elements {name}", given, proof={**proof, "codes": other})


def other_boxes(given: Certificate) -> Iterator[Case]:
    """Boxes of a tree that are narrower, wider or moved, or of other elements, levels or nodes."""
    proof, boxes = given["proof"], given["proof"]["boxes"]
    for what, change in {
        "half as wide": lambda box: {"radius": [0.5 * r for r in box["radius"]]},
        "30 times as wide": lambda box: {"radius": [30.0 * r for r in box["radius"]]},
        "moved": lambda box: {"centre": [c + 0.01 for c in box["centre"]]},
        "of level 1": lambda box: {"level": 1},
        "of nodes that lack some": lambda box: {"lacking": True},
        "of element 0": lambda box: {"element": 0},
        "of element 1": lambda box: {"element": 1},
    }.items():
        yield about(f"all boxes {what}", given, proof={**proof, "boxes": [{**box, **change(box)} for box in boxes]})
    yield about("levels that return elsewhere", given, proof={**proof, "returns": 9})


def silenced(weights: Weights) -> Iterator[Case]:
    """Every matrix set to 0, or negated where 0 would only be undecided. (A pad hardly moves a node.)"""
    for name, x in weights.items():
        if not name.endswith(("bias", ".r", "pad")):
            factor = -1 if name.endswith(("head.weight", "norm.weight", "embedding.weight")) else 0
            yield Case(f"{name} times {factor}", {}, {**weights, name: factor * x})


def config_edits(given: Certificate, edits: dict[str, tuple[str, ...]]) -> Iterator[Case]:
    """Options set to 3 or added, by their place; and by which checkers that is nevertheless accepted."""
    for at, accepted_by in edits.items():
        config = copy.deepcopy(given["model"]["config"])
        *parts, last = at.split(".")
        inner = config
        for part in parts:
            inner = inner[part][0] if isinstance(inner[part], list) else inner[part]
        inner[last] = 3
        yield Case(f"config {at}", {**given, "model": {**given["model"], "config": config}}, {}, accepted_by)


def odd_weights(weights: Weights, large: tuple[str, ...] = ()) -> Iterator[Case]:
    """Numbers that float32 loses or overflows with, a weight too many, and the last bit of one behind its digest.

    `large`: who accepts what may overflow. Of automata Coq does: its theorem about them is of the reals.
    """
    name = "head.weight"
    yield Case("a weight of 2^100", {}, with_weight(weights, name, (0, 0), 2.0**100), large)
    least = np.unravel_index(np.abs(weights[name]).argmin(), weights[name].shape)
    yield Case("a weight of 2^-130", {}, with_weight(weights, name, least, 2.0**-130), ("coq",))
    far = np.float32(2.0**70) * weights["embedding.weight"]
    yield Case("embeddings times 2^70", {}, {**weights, "embedding.weight": far}, large)
    yield Case("a weight that nothing uses", {}, {**weights, "more": weights[name]}, ("coq",))
    moved = with_weight(weights, name, (0, 0), np.nextafter(weights[name][0, 0], np.float32(9)))
    yield Case("a weight that is missing", {}, {key: x for key, x in weights.items() if key != "head.bias"})
    yield Case("the last bit of a weight", {}, moved, ALL)
    yield Case("the last bit of a weight, under the old digest", {}, moved, ("coq",), False)


# Changes of weights, a family at a time.


def of_flip_flop(weights: Weights) -> Iterator[Case]:
    for name, at, by in [
        *((part, (unit, 0), 0.01 if unit else -6.0) for part in (READS, KEEPS) for unit in range(6)),
        *((part, unit, -0.01 if unit else 4.0) for part in (BIAS, OTHER_BIAS) for unit in range(6)),
        *answers_and_symbols(),
    ]:
        yield Case(f"{name} {at}", {}, with_weight(weights, name, at, by=by))


def answers_and_symbols() -> list[tuple[str, Any, float]]:
    return [
        *(("embedding.weight", (symbol, 0), by) for symbol, by in enumerate([6.0, 12.0, -12.0])),
        *(("head.weight", (answer, 0), 10.0 - 20.0 * answer) for answer in range(2)),
        *(("head.bias", answer, 12.0 * (-1) ** answer) for answer in range(2)),
    ]


def of_gates(weights: Weights) -> Iterator[Case]:
    """The gates of the unit that remembers, what it reads and keeps, and the answers."""
    for name, at, by in [
        *((part, gate, by) for part in (BIAS, OTHER_BIAS) for gate, by in ((0, -18.0), (6, 18.0), (12, 4.0))),
        *((READS, (12, 0), -2.0), (KEEPS, (12, 0), -6.0), (READS, (0, 0), 9.0), (READS, (6, 0), 9.0)),
        *answers_and_symbols(),
    ]:
        yield Case(f"{name} {at}", {}, with_weight(weights, name, at, by=by))


def of_latch(weights: Weights) -> Iterator[Case]:
    """Gates that are shut or open, each for both units; and the answers."""
    for gate, bias in enumerate([-20.0, 20.0, 20.0, -20.0]):
        yield Case(f"gate {gate} at {bias}", {}, with_weight(weights, BIAS, slice(2 * gate, 2 * gate + 2), bias))
    yield Case("head swapped", {}, {**weights, "head.weight": weights["head.weight"][::-1].copy()})
    yield Case("symbols swapped", {}, {**weights, "embedding.weight": weights["embedding.weight"][::-1].copy()})


def of_automaton(weights: Weights) -> Iterator[Case]:
    """The machine's own columns, its first state, and each row of the head."""
    side, bias, matrix = 6, f"{LAYER}.mixer.transition.bias", f"{LAYER}.mixer.transition.weight"
    for place in range(3):  # where the machine is in this state, every symbol leads to a place of none
        yield Case(f"column {place}", {}, with_weight(weights, bias, place + 5 * side, 20.0))
        own, other = place + side * place, place + 5 * side  # as high as it is at the place that is chosen by 0
        tied = with_weight(weights, bias, other, weights[bias][own])
        yield Case(f"tie {place}", {}, with_weight(tied, matrix, other, weights[matrix][own]))
    for part in ("embedding", "head"):
        x = weights[f"{part}.weight"]
        for i in range(3):
            yield Case(f"{part} {i} as the next", {}, with_weight(weights, f"{part}.weight", i, x[(i + 1) % 3]))
    for what, name, at, value in [
        ("no gain", f"{LAYER}.mixer_norm.weight", slice(None), 0.0),
        ("shift", f"{LAYER}.mixer_norm.bias", 0, 9.0),
        ("initial place", f"{LAYER}.mixer.initial", (0, 4), 2.0),
        ("initial sign", f"{LAYER}.mixer.initial", (0, 0), -2.0),
        ("last gain", "norm.weight", slice(None), 0.0),
        *((f"head bias {answer}", "head.bias", answer, 30.0) for answer in range(3)),
    ]:
        yield Case(what, {}, with_weight(weights, name, at, value))


def of_tree(weights: Weights) -> Iterator[Case]:
    """Every part of the network, changed so far that a condition fails."""

    def changed(what: str, name: str, at: Any, value: Any) -> Case:
        return Case(what, {}, with_weight(weights, name, at, value))

    def rows(what: str, name: str, order: slice) -> Case:
        return Case(what, {}, {**weights, name: weights[name][order].copy()})

    nodes, embedding = f"{LAYER}.nodes", weights["embedding.weight"]
    yield rows("symbols swapped", "embedding.weight", slice(None, None, -1))
    yield changed("both symbols alike", "embedding.weight", 0, embedding[1])
    yield Case("pad like a symbol", {}, {**weights, "pad": embedding[1]})
    for lag, which in enumerate(("newest", "oldest")):
        yield changed(f"attends to the {which} alone", f"{LAYER}.mixer.r", (slice(None), lag), 40)
    values = weights[f"{LAYER}.mixer.qkv.weight"][16:]
    yield changed("values negated", f"{LAYER}.mixer.qkv.weight", slice(16, None), -values)
    out = weights[f"{LAYER}.mixer.out.weight"]
    yield Case("attention negated", {}, {**weights, f"{LAYER}.mixer.out.weight": -out})
    yield changed("no first norm", f"{LAYER}.mixer_norm.weight", slice(None), 0)
    yield changed("first norm moved", f"{LAYER}.mixer_norm.bias", 0, 9)
    yield changed("nothing is above 0", f"{LAYER}.up.bias", slice(None), -99)
    yield changed("no last norm", f"{LAYER}.feed_norm.weight", slice(None), 0)
    for first in range(0, 6, 2):
        yield changed(f"choice {first // 2}", f"{nodes}.choose.bias", first, 99)
        yield changed(
            f"tie {first // 2}", f"{nodes}.choose.weight", first, weights[f"{nodes}.choose.weight"][first + 1]
        )
    yield rows("codebook reversed", f"{nodes}.codebook", slice(None, None, -1))
    yield rows("head swapped", "head.weight", slice(None, None, -1))
    for answer in range(2):
        yield changed(f"answer {answer} always", "head.bias", answer, 99)


def overflowing(weights: Weights) -> Iterator[Case]:
    large = {**weights, "embedding.weight": np.full_like(weights["embedding.weight"], 2.0**99)}
    yield Case("x - x overflows", {}, {**large, READS: np.float32(2.0**93) * weights[READS]})


def subnormal(weights: Weights) -> Iterator[Case]:
    name = "embedding.weight"
    yield Case("symbols of 2^-126", {}, {**weights, name: np.float32(2.0**-46) * weights[name]})


def of_stack(weights: Weights) -> Iterator[Case]:
    initial = "depth.layers.1.mixer.initial"
    yield Case("initial places of the second layer", {}, {**weights, initial: weights[initial][:, ::-1].copy()})


PLAIN = ("embedding_scale", "position.name", "final_norm", "head", "mixer.name", "depth.layers", "block.kind")
UNKNOWN = ("dilation", "mixer.dilation", "depth.snapped")
NOT_WRITTEN = ("position.name", "block.kind", "dilation", "depth.snapped", "tie_word_embeddings")
"""What changes nothing of what a theorem says of a recurrence, which has the weights by name."""
OF_RECURRENCES = {**dict.fromkeys((*PLAIN, *UNKNOWN), ()), **dict.fromkeys(NOT_WRITTEN, ("coq",))}
OF_AUTOMATA = {**dict.fromkeys((*PLAIN, *UNKNOWN, "head_bias", "mixer.blocks"), ()), "embedding_scale": ("numpy",)}
TREES = (
    "block.activation",
    "position.name",
    "mixer.heads",
    "mixer.chunk",
    "block.norm",
    "depth.name",
    "depth.thickness",
    *UNKNOWN,
)
OF_TREES = {**dict.fromkeys((*TREES, "depth.thickness"), ()), "embedding_scale": ("numpy",)}


class Recipe(NamedTuple):
    """How a network and its certificate are made, who knows its kind, and what is changed of both."""

    make: Callable[[], tuple[Certificate, Weights]]
    checkers: tuple[str, ...]
    certificates: list[Callable[[Certificate], Iterator[Case]]]
    weights: list[Callable[[Weights], Iterator[Case]]]


BOXES = [other_claims, other_sets, narrowed, partial(without, listed="sets")]
OF_GATES = [other_claims, partial(narrowed, accepted_by=("coq",))]
TUPLES = [other_claims, other_tuples, partial(without, listed="pairs", most=10)]
CODES = [other_claims, other_codes, partial(without, listed="codes")]
WITH_CONFIG = [*BOXES, partial(config_edits, edits=OF_RECURRENCES)]
OF_ZOO = ("numpy", "javascript")
"""Who is asked about larger networks: Coq reads the weights of one for 10 s, and 70 of them are."""
NETWORKS = {
    "flip-flop": Recipe(flip_flop_proved, ALL, WITH_CONFIG, [of_flip_flop, odd_weights]),
    "gated flip-flop": Recipe(gated_flip_flop, ALL, OF_GATES, [of_gates, odd_weights]),
    "latch": Recipe(latch, ALL, OF_GATES, [of_latch, odd_weights]),
    "planted rnn": Recipe(partial(planted, "rnn"), ALL, [], [overflowing]),
    "planted gru": Recipe(partial(planted, "gru"), ALL, [], [overflowing]),
    "planted lstm": Recipe(partial(planted, "lstm"), ALL, [], [overflowing]),
    "automaton": Recipe(
        automaton_of_sums, ("numpy", "coq"), TUPLES, [of_automaton, partial(odd_weights, large=("coq",))]
    ),
    "stack": Recipe(stack, ("numpy", "coq"), [other_answers], [of_stack]),
    "tiny symbols": Recipe(tiny_symbols, ("numpy",), [], [subnormal]),
    "tree": Recipe(narrow_tree, ALL, CODES, [of_tree, silenced, odd_weights]),
    "parity-automaton": Recipe(
        partial(of_zoo, "parity-automaton"),
        OF_ZOO,
        [*TUPLES, partial(config_edits, edits=OF_AUTOMATA)],
        [silenced, odd_weights],
    ),
    "even-pairs-automaton": Recipe(partial(of_zoo, "even-pairs-automaton"), OF_ZOO, TUPLES, [silenced, odd_weights]),
    "parity-regular-gpt-compiled": Recipe(
        partial(of_zoo, "parity-regular-gpt-compiled"),
        OF_ZOO,
        [other_claims, partial(without, listed="codes"), partial(config_edits, edits=OF_TREES)],
        [silenced, odd_weights],
    ),
    "parity-regular-gpt": Recipe(
        partial(of_zoo, "parity-regular-gpt"),
        OF_ZOO,
        [
            other_claims,
            other_boxes,
            partial(without, listed="boxes", most=10),
            partial(config_edits, edits={**OF_TREES, "embedding_scale": ()}),
        ],
        [silenced, odd_weights],
    ),
}


@cache
def network(name: str) -> tuple[Case, list[Case]]:
    """What holds, and what does not."""
    recipe = NETWORKS[name]
    given, weights = recipe.make()
    own = Case("own", given, weights, recipe.checkers)
    changed = [case._replace(weights=weights) for each in recipe.certificates for case in each(given)]
    changed += [case._replace(certificate=given) for each in recipe.weights for case in each(weights)]
    return own, changed
