"""What a language model finds in long prompts, as the page and the terminal show it."""

from __future__ import annotations

import json
import math

import pytest

from lengthwise import report
from lengthwise.evaluate import FarScores


def scores(**changes):
    given = {
        "what": "needle",
        "lengths": (512, 2048),
        "depths": (0.0, 0.5, 1.0),
        "scores": ((1.0, 0.75, 1.0), (0.125, 0.25, 1.0)),
        "samples": 8,
        "baseline": 0.1,
        "settings": {"keys": 1, "scoring": "ranking", "choices": 10},
    }
    return FarScores(**(given | changes))


def test_a_row_is_a_depth_and_a_column_a_length():
    panel = report.far_tokens(scores(), "BiPE <x>")
    lines = [line.split() for line in panel.text.splitlines()[2:]]
    assert lines == [
        ["depth", "512", "2,048"],
        ["0%", "100.0", "12.5"],
        ["50%", "75.0", "25.0"],
        ["100%", "100.0", "100.0"],
        ["all", "depths", "91.7", "45.8"],
    ]
    assert panel.title == "BiPE <x>: a needle in a haystack"
    assert "<x>" not in panel.html
    assert panel.html.count("<td") == 8
    assert "91.7% of the answers are right in prompts of 512 tokens, 45.8% in prompts of 2,048." in panel.text
    assert "likelier than 9 others" in panel.caption
    assert "all alike scores 10.0%" in panel.caption
    assert json.loads(json.dumps(panel.data))["by_length"] == {
        "512": pytest.approx(11 / 12),
        "2048": pytest.approx(11 / 24),
    }


def test_variables_have_no_depth_and_written_answers_no_baseline():
    settings = {"scoring": "generation", "budget": 32}
    panel = report.far_tokens(
        scores(what="variables", lengths=(64,), depths=(), scores=((0.5,),), baseline=0.0, settings=settings)
    )
    assert panel.text.splitlines()[-1].split() == ["anywhere", "50.0"]
    assert panel.text.startswith("50.0% of the answers are right in prompts of 64 tokens.\n")
    assert "Depth" not in panel.caption
    assert "the 32 tokens that the model writes" in panel.caption


def test_models_stand_side_by_side_with_their_perplexity():
    other = scores(lengths=(512, 1024), scores=((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    known = {"BiPE": {512: 12.3456, 2048: 12.5}}
    panel = report.far_tokens_compared({"BiPE": scores(), "RoPE <x>": other}, known, trained=512)
    assert [line.split() for line in panel.text.splitlines()] == [
        ["512", "1,024", "2,048"],
        ["BiPE", "91.7%", "(12.35)", "–", "45.8%", "(12.5)"],
        ["RoPE", "<x>", "50.0%", "25.0%", "–"],
    ]
    assert "<x>" not in panel.html
    assert "<svg" in panel.html
    assert "all answers alike" in panel.html
    assert "perplexity of windows" in panel.caption
    assert panel.data["BiPE"]["perplexities"] == {"512": 12.3456, "2048": 12.5}
    none = report.far_tokens_compared({"BiPE": scores()}, {"BiPE": {512: math.nan, 2048: math.inf}})
    assert none.data["BiPE"]["perplexities"] == {"512": None, "2048": None}
    assert "perplexity" not in report.far_tokens_compared({"BiPE": scores()}).caption
