"""Nothing that was changed is accepted, whoever seals it anew."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.claim import StatedClaim

from .conftest import NAMES, resealed

TAMPERINGS = 200


def places(data, at=()):
    """The path of every leaf of the JSON."""
    if isinstance(data, (dict, list)) and data:
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*at, key))
    else:
        yield at


def replaced(data, at, value):
    data = copy.deepcopy(data)
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return data


def other(value, draw):
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int):
        return value + draw.choice([-1, 1, 7])
    if isinstance(value, float):
        return draw.choice([np.nextafter(value, 9.0).item(), value * 1.001 + 1e-9, -value - 1.0, value + 1])
    return f"{value}x" if isinstance(value, str) else ["?"]


@pytest.mark.parametrize("name", NAMES)
def test_no_change_of_a_certificate_is_accepted(made, name):
    it, draw = made(name), random.Random(name)
    leaves = list(places(it.certificate))
    for _ in range(TAMPERINGS // 2):
        at = draw.choice(leaves)
        value = it.certificate
        for key in at:
            value = value[key]
        with pytest.raises(Rejected):
            check(replaced(it.certificate, at, other(value, draw)), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_no_change_of_weights_is_accepted(made, name):
    it, draw = made(name), random.Random(name)
    for _ in range(TAMPERINGS // 2):
        key = draw.choice(sorted(it.weights))
        x = it.weights[key].copy()
        at = draw.randrange(x.size)
        x.flat[at] = draw.choice([np.nextafter(x.flat[at], np.float32(9)), -x.flat[at] - 1, x.flat[at] + 1, np.nan])
        with pytest.raises(Rejected):
            check(it.certificate, {**it.weights, key: x})


@pytest.mark.parametrize("name", NAMES)
def test_no_other_claim_is_accepted_even_if_sealed(made, name):
    """Every state of these machines answers in its own way or is told apart later, so no other claim is true."""
    it, draw = made(name), random.Random(name)
    claim = it.certificate["claim"]
    Q, S = len(claim["delta"]), len(claim["symbols"])
    outputs = it.weights["head.weight"].shape[0]
    for _ in range(20):
        changed = copy.deepcopy(claim)
        if draw.random() < 0.5:
            q = draw.choice([q for q in range(Q) if claim["asked"][q]])
            changed["answers"][q] = draw.choice([a for a in range(outputs) if a != claim["answers"][q]])
        else:
            q, s = draw.randrange(Q), draw.randrange(S)
            changed["delta"][q][s] = draw.choice([p for p in range(Q) if p != claim["delta"][q][s]])
        with pytest.raises(Rejected):
            check(resealed({**it.certificate, "claim": changed}), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_no_false_proof_is_accepted_even_if_sealed(made, name):
    """Sets that belong to other maps or states, sets that are gone, and sets that are no sets."""
    it, draw = made(name), random.Random(name)
    proof = it.certificate["proof"]
    listed = next(k for k in ("boxes", "centres", "codes", "sets", "pairs") if k in proof)
    owner = {"sets": "state", "pairs": 0}.get(listed, "element")
    count = len(proof["elements"]) if "elements" in proof else len(it.certificate["claim"]["delta"])
    heeded = StatedClaim(it.certificate["claim"]).heeded
    for i in range(len(proof[listed])):
        if listed == "pairs" and not heeded[proof["pairs"][i][0]]:
            continue  # nothing is asked from there on
        gone = {**proof, listed: proof[listed][:i] + proof[listed][i + 1 :]}
        if not (listed == "sets" and is_first(proof["sets"][i])):
            with pytest.raises(Rejected):
                check(resealed({**it.certificate, "proof": gone}), it.weights)
        own = proof[listed][i][owner]
        for wrong in {(own + 1) % count, draw.randrange(count), count, -1} - {own}:
            given = {**it.certificate, "proof": replaced(proof, (listed, i, owner), wrong)}
            with pytest.raises(Rejected):
                check(resealed(given), it.weights)
    for name_of in {"centre", "radius", "code"} & (proof[listed][0].keys() if isinstance(owner, str) else set()):
        for value in (float("inf"), 1e300, "1", None, -1.0, True):
            given = {**it.certificate, "proof": replaced(proof, (listed, 0, name_of, 0), value)}
            with pytest.raises(Rejected):
                check(resealed(given), it.weights)


def is_first(entry):
    """Whether it is the set that is there for 0 alone, which no symbol leads to, or another of the start state."""
    return entry["state"] == 0


def test_a_box_that_is_too_small_or_too_large_is_not_accepted(made):
    for name in ("tree-parity", "rnn", "lstm"):
        it = made(name)
        key = "boxes" if "boxes" in it.certificate["proof"] else "sets"
        for factor in (1e-6, 300.0):
            proof = copy.deepcopy(it.certificate["proof"])
            for entry in proof[key]:
                entry["radius"] = [r * factor for r in entry["radius"]]
            with pytest.raises(Rejected):
                check(resealed({**it.certificate, "proof": proof}), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_right_by_less_than_rounding_is_not_accepted(made, name):
    """The head's rows are brought together until the logits differ by 1e-7 where they should be far apart."""
    it = made(name)
    head = it.weights["head.weight"]
    near = {**it.weights, "head.weight": (head * 1e-8).astype(np.float32)}
    near["head.bias"] = (it.weights["head.bias"] * 1e-8 + 1).astype(np.float32)
    with pytest.raises(Rejected, match=r"not right"):
        check(resealed(it.certificate, near), near)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_model_is_not_accepted(made, name):
    it = made(name)
    swapped = {**it.weights, "head.weight": it.weights["head.weight"][::-1].copy()}
    swapped["head.bias"] = it.weights["head.bias"][::-1].copy()
    with pytest.raises(Rejected, match="not right"):
        check(resealed(it.certificate, swapped), swapped)
    leaves = {**it.weights, "embedding.weight": it.weights["embedding.weight"][::-1].copy()}
    with pytest.raises(Rejected):
        check(resealed(it.certificate, leaves), leaves)
