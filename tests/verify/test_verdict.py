"""Verdicts: what they say, what they refuse to be, and JSON both ways."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from lengthwise import Error
from lengthwise.verify import Proved, Refuted, Unknown, verdict_from_json

VERDICTS = [
    (Proved({}), 0, "proved: the model is right on every word of every length"),
    (Proved({"radius": 0.1, "steps": [1, "a", None, True]}), 0, "proved: the model is right on every word"),
    (Refuted((0, 1, 1), 1, 0), 1, "refuted: after the word 0 1 1 the model says 1, and 0 is right"),
    (Refuted((), 1, 0), 1, "refuted: after the empty word the model says 1, and 0 is right"),
    (Refuted((5,), (), (1, 2)), 1, "refuted: after the word 5 the model says nothing, and 1 and 2 are right"),
    (Refuted((0,) * 1000, (3,), ()), 1, "refuted: after a word of 1,000 tokens (0 0 "),
    (Unknown("the budget ran out"), 1, "unknown: the budget ran out"),
    (Unknown("a cluster is too wide", 0.01234), 1, "unknown: a cluster is too wide (short by 0.0123)"),
]


@pytest.mark.parametrize(("verdict", "code", "words"), VERDICTS)
def test_what_a_verdict_says(verdict, code, words):
    assert verdict.exit_code == code
    assert str(verdict).startswith(words)
    assert len(str(verdict)) < 200
    assert "\n" not in str(verdict)
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.exit_code = 3


@pytest.mark.parametrize("verdict", [verdict for verdict, _, _ in VERDICTS])
def test_json_both_ways(verdict):
    text = json.dumps(verdict.to_json(), allow_nan=False)
    back = verdict_from_json(json.loads(text))
    assert back == verdict
    assert type(back) is type(verdict)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Proved({"bound": math.nan}), "same after it was written and read as JSON"),
        (lambda: Proved({1: "a"}), "text keys"),
        (lambda: Proved({"word": (1, 2)}), "lists"),
        (lambda: Proved({"model": object()}), "got"),
        (lambda: Proved(["a"]), "must be the same"),
        (lambda: Refuted([0, 1], 1, 0), r"tuple of tokens.*got \[0, 1\]"),
        (lambda: Refuted((0, -1), 1, 0), "tokens 0, 1"),
        (lambda: Refuted((0, True), 1, 0), "tokens 0, 1"),
        (lambda: Refuted((0,), 1.0, 0), "an output 0, 1, .*got 1.0"),
        (lambda: Refuted((0,), (1, "a"), 0), "tuple of outputs"),
        (lambda: Refuted((0,), 1, 1), "must differ"),
        (lambda: Unknown(" "), "what was missing"),
        (lambda: Unknown("why", math.inf), "finite number or None, got inf"),
        (lambda: Unknown("why", True), "finite number"),
        (lambda: verdict_from_json([]), "one of proved, refuted, unknown"),
        (lambda: verdict_from_json({"verdict": "maybe"}), "'maybe'"),
        (lambda: verdict_from_json({"verdict": ["proved"]}), "one of proved"),
        (lambda: verdict_from_json({"verdict": "unknown", "why": "x"}), "fields by_how_much, verdict, why, got"),
        (lambda: verdict_from_json({"verdict": "proved", "certificate": {}, "note": 1}), "got certificate, note"),
        (lambda: verdict_from_json({"verdict": "refuted", "word": "01", "said": 1, "right": 0}), "got '01'"),
    ],
)
def test_what_is_no_verdict(make, words):
    with pytest.raises(Error, match=words):
        make()
