"""The study of what predicts the length at which a network fails."""

from __future__ import annotations

import failing_length

from lengthwise import lab, recipes


def test_the_signs_of_a_proved_network_are_better_than_those_of_a_refuted_one():
    """Both answer all strings of 40 symbols right; the refuted LSTM is wrong on a 1 and 45 zeros."""
    proved, refuted = (failing_length.signs(*lab.zoo(name)) for name in ("parity-lstm", "parity-lstm-refuted"))
    assert proved["spread"] < refuted["spread"]
    assert proved["fading"] < 0.5 < 0.9 < refuted["fading"] < 1
    assert proved["margin"] > 0.5 > refuted["margin"] > 0
    assert 40 < refuted["drift"] < 46  # a line through the margins says it nearly
    assert proved["drift"] is None or proved["drift"] > 1000


def test_a_sign_that_orders_networks_by_their_failing_lengths_is_always_right():
    rows = [{"spread": 3.0, "wrong": 10}, {"spread": 2.0, "wrong": 50}, {"spread": 1.0, "wrong": None}]
    assert failing_length.order(rows, "spread") == 1
    assert failing_length.order([{**row, "margin": row["spread"]} for row in rows], "margin") == 0
    assert failing_length.order([{**row, "drift": None} for row in rows], "drift") == 0.5
    assert failing_length.order([{**row, "wrong": None} for row in rows], "spread") is None


def test_every_network_is_in_the_study(tmp_path):
    recipe = recipes.get(failing_length.__file__, scale="smoke")
    runs = [o.run for o in lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")]
    by_sign, *_, networks = recipe.panels(runs)
    assert [row[:3] for row in networks.rows] == [["parity", "RNN", "steady"], ["parity", "GRU", "steady"]]
    assert [row[0] for row in by_sign.rows] == list(failing_length.BETTER)
    assert {row["verdict"] for row in networks.data} <= {"refuted", "unknown"}
    assert all(row["spread"] > 0 and row["fading"] > 0 for row in networks.data)
