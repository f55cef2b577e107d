"""A certificate is the same after it was written, and only one that the checker accepts is a proof."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lengthwise import tasks, theory, verify
from lengthwise.verify import certificate
from lengthwise.verify.checker import digest, read_json, seal
from lengthwise.verify.claim import claim_of

PARITY = tasks.get("parity")


def proof(centre=1.0):
    """Of the tree of theory: a node is its map, written as a matrix of ones and zeros."""
    rows = [[1, 0, 0, 1], [0, 1, 1, 0]]
    boxes = [
        {"element": i, "centre": [centre * x for x in row] + [0.0] * 4, "radius": [1e-3] * 8}
        for i, row in enumerate(rows)
    ]
    inner = {"elements": [[0, 1], [1, 0]], "boxes": boxes}
    return {"kind": "tree-boxes", "inference": "raw", "arithmetic": "float32", "margin": 0.1, "proof": inner}


def test_numbers_are_read_back_as_they_were():
    numbers = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, float(np.float32(0.1)), 2.0**-1074 * 3]
    given = {**proof(), "proof": {"numbers": numbers}}
    made = certificate.make(theory.regular_gpt(PARITY.machine), claim_of(PARITY), given, "built")
    read = read_json(json.dumps(made), "a certificate")
    assert read == made
    assert [x.hex() for x in read["proof"]["numbers"]] == [x.hex() for x in numbers]
    assert seal(read) == read["digest"]


def test_a_digest_is_of_type_shape_and_numbers():
    x = np.arange(6, dtype=np.float32)
    others = [x.reshape(2, 3), x.astype(np.float64), x[::-1], -x * 0 + x - 0.0 * x]
    assert len({digest(y) for y in [x, *others[:3]]}) == 4
    assert digest(np.array([0.0], dtype=np.float32)) != digest(np.array([-0.0], dtype=np.float32))
    assert digest(x[::2]) == digest(x[::2].copy())


def test_only_what_the_checker_accepts_is_proved(family):
    model = theory.exact_classifier("parity")
    for given, kind in ((proof(), verify.Proved), (proof(0.9), verify.Unknown)):
        family(lambda *_, given=given: given)
        verdict = verify.certify(model, PARITY, budget=2, made="built")
        assert isinstance(verdict, kind), verdict
    assert "a proof was found, and the checker does not accept it: " in verdict.why


def test_a_tied_head_is_not_counted_twice():
    from lengthwise import models

    model = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, tie_word_embeddings=True).inner
    assert "head.weight" not in certificate.weights(model)
    assert model.state_dict()["head.weight"] is not None
    with torch.no_grad(), pytest.raises(KeyError):
        certificate.weights(model)["head.weight"]
