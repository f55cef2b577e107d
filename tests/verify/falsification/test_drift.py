"""The length at which a falling margin is predicted to reach 0, beside the length at which it does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from lengthwise import tasks
from lengthwise.verify.claim import claim_of
from lengthwise.verify.falsification.drift import crossing
from lengthwise.verify.falsification.search import search

LENGTHS = [2**k for k in range(4, 12)]


@pytest.mark.parametrize("b", [0.001, 0.002])
def test_a_margin_that_falls_with_every_token(b):
    noise = np.random.default_rng(0).normal(0, 0.01, len(LENGTHS))
    found = crossing({n: 10 - b * n + e for n, e in zip(LENGTHS, noise, strict=True)})
    assert found == pytest.approx(10 / b, rel=0.05)


def test_a_margin_that_falls_with_every_group():
    found = crossing({n: 10 - 0.5 * np.log2(n) for n in LENGTHS})
    assert found == pytest.approx(2**20, rel=0.01)


@pytest.mark.parametrize(
    "margins",
    [
        {n: 8.0 for n in LENGTHS},
        {n: 1.0 + np.log(n) for n in LENGTHS},
        {n: m for n, m in zip(LENGTHS, [6.8, 3, 1.5, 0.8, 0.81, 0.8, 0.82, 0.81], strict=True)},
        {n: m for n, m in zip(LENGTHS, np.random.default_rng(0).normal(5, 1, 8), strict=True)},
        {n: 8.0 - 2.0**-21 * (n >= 120) for n in range(20, 164, 9)},
        {n: 8.0 - 2.0**-31 * n for n in LENGTHS},
        {16: 3.0, 32: 2.0, 64: 1.0},
        {},
    ],
)
def test_nothing_is_predicted_where_it_does_not_fall(margins):
    assert crossing(margins) is None


class Leaking(nn.Module):
    """Parity, by a margin that loses `leak` with every token."""

    def __init__(self, leak: float):
        super().__init__()
        self.leak = leak

    def forward(self, tokens):
        right = torch.nn.functional.one_hot(tokens.sum(1) % 2, 2)
        return ((4 - self.leak * tokens.shape[1]) * right)[:, None].float()


def test_predicted_before_it_is_seen():
    claim = claim_of(tasks.get("parity"))
    found = search(Leaking(4 / 1000), claim, 2, longest=600)
    assert found.refuted is None
    assert found.predicted == pytest.approx(1000, rel=0.01)
    assert f"at about {found.predicted:,} symbols" in str(found)


def test_predicted_beside_seen():
    found = search(Leaking(4 / 1000), claim_of(tasks.get("parity")), 20)
    assert found.seen == 1024
    assert found.predicted == pytest.approx(1000, rel=0.01)
    assert len(found.refuted.word) == 1001
