"""What the model's arithmetic may do is within what the checker grants it, where that is least at hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from lengthwise import models
from lengthwise.verify import certificate
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.intervals import Interval
from lengthwise.verify.checker.network import Operations
from lengthwise.verify.checker.recurrence import Recurrence
from lengthwise.verify.checker.rounding import ARITHMETICS

from .conftest import resealed


def test_what_a_norm_loses_where_numbers_too_small_are_set_to_0():
    """All x - μ are subnormal: a processor that sets these to 0 makes 0 of what is otherwise 7e-7."""
    x = np.array([[1.5, 1.0, 1.25, 1.0]]) * 2.0**-126
    norm = Operations(ARITHMETICS["float32"]).norm(Interval.of(x), np.full(4, 2.0**99), np.zeros(4), 1e-5)
    assert ((norm.lo <= 0) & (norm.hi >= 0)).all()


def test_an_answer_that_hangs_on_numbers_too_small_is_not_proved(made):
    """PARITY, whose two tokens differ by 2^-127: where that is set to 0, the model takes both for one."""
    model, given = made("cascade-parity"), copy.deepcopy(made("cascade-parity").certificate)
    config, weights = given["model"]["config"], dict(model.weights)
    config["block"], config["mixer"]["normalisation"] = [{"kind": "normed"}], "one-hot"
    at = "depth.layers.0"
    weights[f"{at}.mixer_norm.weight"] = np.full(2, 2.0**99, dtype=np.float32)
    weights[f"{at}.mixer_norm.bias"] = np.zeros(2, dtype=np.float32)
    weights[f"{at}.mixer.transition.weight"] = 2.0**30 * weights[f"{at}.mixer.transition.weight"]
    tokens = np.array([[1.5, 1.0], [1.0, 1.5]], dtype=np.float32)
    weights["embedding.weight"] = 2.0**-126 * tokens
    with pytest.raises(Rejected, match="argmax of layer 0 that moves an entry is not decided"):
        check(resealed(given, weights), weights)
    weights["embedding.weight"] = 2.0**-80 * tokens
    assert check(resealed(given, weights), weights).margin > 0


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_terms_of_a_gate_are_added_in_any_order(cell):
    """1/2 first, then one after another 2 D - 1 terms of half its last digit, which are all lost."""
    D, term = 256, 2.0**-25
    model = models.build(cell, vocab_size=2, width=D).inner.eval()
    weights = {name: np.zeros_like(x) for name, x in certificate.weights(model).items()}
    weights["embedding.weight"][0] = 1
    at = "depth.layers.0.mixer.cell"
    weights[f"{at}.weight_ih_l0"][:] = weights[f"{at}.weight_hh_l0"][:] = term
    weights[f"{at}.weight_ih_l0"][:, 0] = 0.5
    network = Recurrence(certificate.deciding(model), weights)
    state = np.concatenate([np.ones(D), np.zeros(network.size - D)])[None]
    image = network.step(Interval.of(state), np.array([0]))
    z = float(np.add.accumulate(np.array([0.5] + [term] * (2 * D - 1), dtype=np.float32))[-1])
    assert z == 0.5
    gate, t = 1 / (1 + np.exp(-z)), np.tanh
    n = 0.5 + (D - 1) * term + gate * D * term
    made = {"rnn": t(z), "gru": (1 - gate) * t(n) + gate, "lstm": gate * t(gate * t(z))}[cell]
    assert ((image.lo[:, :D] <= made) & (made <= image.hi[:, :D])).all()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_gate_whose_sum_may_overflow_is_not_bounded(cell):
    """2^198 - 2^198 is no number in float32, and neither is tanh of it: no box holds such a step."""
    model = models.build(cell, vocab_size=2, width=2).inner.eval()
    weights = {name: np.zeros_like(x) for name, x in certificate.weights(model).items()}
    weights["embedding.weight"][0] = 2.0**99
    weights["depth.layers.0.mixer.cell.weight_ih_l0"][:] = 2.0**99 * np.array([1, -1], dtype=np.float32)
    network = Recurrence(certificate.deciding(model), weights)
    zero = Interval.of(np.zeros((1, network.size)))
    everything = Interval.of(np.zeros((1, network.size))).widened(np.full((1, network.size), 1e9))
    assert not network.step(zero, np.array([0])).inside(everything).any()
    assert network.step(zero, np.array([1])).inside(everything).all()
