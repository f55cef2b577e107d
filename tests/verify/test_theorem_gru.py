"""Theorems about GRUs: Coq and the checker reject every change of a small one, and of its machine."""

from __future__ import annotations

import pytest
import torch

from lengthwise.verify import certificate as certificates
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.recurrence import prove_recurrence
from lengthwise.verify.theorem.recurrences import NAMES

from .proposals import accepted
from .test_recurrence_boxes import FLIP_FLOP, flip_flop, made
from .test_theorem import checker_accepts, coq, decided, definitions, development, tampered_claims  # noqa: F401


def gated_flip_flop():
    """A GRU whose gates stand still, r open and z shut: what is left of it is the flip-flop's RNN."""
    plain, model = flip_flop(), made("gru")
    cell, own = model.inner.depth.layers[0].mixer.cell, plain.inner.depth.layers[0].mixer.cell
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        for name in ("embedding", "head"):
            getattr(model.inner, name).load_state_dict(getattr(plain.inner, name).state_dict())
        cell.weight_ih_l0[12:], cell.weight_hh_l0[12:] = own.weight_ih_l0, own.weight_hh_l0
        cell.bias_ih_l0[:6], cell.bias_ih_l0[6:12] = 9.0, -9.0
    return model


def tampered_weights(tensors):
    """The gates of the unit that remembers, what it reads and keeps, and the answers."""
    for name, at, by in [
        ("bias", 0, -18.0),
        ("bias", 6, 18.0),
        ("other_bias", 0, -18.0),
        ("other_bias", 6, 18.0),
        ("bias", 12, 4.0),
        ("other_bias", 12, 4.0),
        ("reads", (12, 0), -2.0),
        ("keeps", (12, 0), -6.0),
        ("reads", (0, 0), 9.0),
        ("reads", (6, 0), 9.0),
        *(("embedding", (symbol, 0), by) for symbol, by in enumerate([6.0, 12.0, -12.0])),
        *(("head", (answer, 0), 10.0 - 20.0 * answer) for answer in range(2)),
        *(("head_bias", answer, 12.0 * (-1) ** answer) for answer in range(2)),
    ]:
        copy = {key: value.copy() for key, value in tensors.items()}
        copy[NAMES[name]][at] += by
        yield f"{name} {at}", copy


@coq
@pytest.mark.slow
def test_coq_and_the_checker_reject_whatever_was_changed(tmp_path, development):  # noqa: F811
    model = gated_flip_flop()
    content = accepted(prove_recurrence, model, claim_of(FLIP_FLOP))
    tensors = certificates.weights(model.inner)
    own = definitions(content, tensors)
    assert checker_accepts(content, tensors)
    modules = [("own", own, "true")]
    for name, other in tampered_weights(tensors):
        assert not checker_accepts(content, other), name
        text = definitions(content, other).split("Definition claim")[0]  # the boxes that were proved, another network
        modules.append((name, text + "Definition claim" + own.split("Definition claim")[1], "false"))
    for name, other, _ in tampered_claims(content):
        assert not checker_accepts(other, tensors), name
        modules.append((name, definitions(other, tensors), "false"))
    assert len(modules) > 25
    decided(tmp_path, development, content, "gru_check weights claim places targets", modules)
