"""The predicted collapse: edges by hand, tested on both sides, and judged only where the task was learned."""

import json
from itertools import pairwise

import depth_collapse as collapse
import pytest

from lengthwise import lab
from lengthwise.cli import main

SMOKE = collapse.SETTINGS["smoke"]
KEY = collapse.CollapseKey("parity", 2, 1, 2)


@pytest.fixture(scope="module")
def run(root):
    (outcome,) = lab.run(collapse.planned(KEY, SMOKE), root, workers=1, device="cpu")
    assert outcome.run
    return outcome.run


def scored(run, accuracies):
    """The run with these accuracies; 100% at the other lengths."""
    samples = run.result["samples"]
    correct = {str(n): round(accuracies.get(n, 1) * samples) for n in run.experiment.tests.lengths}
    return run._replace(result={**run.result, "checkpoints": {"last": {"correct": correct}}})


def test_an_edge_is_what_the_groups_seen_in_training_reach():
    for C in collapse.CHUNKS:
        reach = collapse.predicted(C)
        assert reach // C < collapse.TRAINED <= reach
        assert any(reach == C**l for l in range(9))


def test_both_sides_of_every_edge_are_tested():
    for scale in ("laptop", "paper"):
        lengths = collapse.lengths(collapse.SETTINGS[scale].longest)
        for C in collapse.CHUNKS:
            reach = collapse.predicted(C)
            assert {reach, reach + 1} <= set(lengths)
            assert {C * reach, C * reach + 1} <= set(lengths) or C * reach > lengths[-1]
        assert lengths[0] == 41
        assert lengths[-1] == collapse.SETTINGS[scale].longest
        assert max(b / a for a, b in pairwise(lengths)) < 1.4


def test_the_measured_edge(run):
    assert collapse.edge(scored(run, {})) is None
    assert collapse.edge(scored(run, {64: 0.5, 100: 0})) == 64
    assert collapse.edge(scored(run, {20: 0, 40: 0})) is None, "lengths of training are no edge"
    assert collapse.learned(scored(run, {64: 0}))
    assert not collapse.learned(scored(run, {20: 0.5}))


def test_the_table_judges_only_what_was_learned(run):
    bad, at, good = scored(run, {10: 0, 64: 0}), scored(run, {65: 0.5, 66: 0}), scored(run, {})
    panel = collapse._table({KEY: [bad, at], collapse.CollapseKey("parity", 8, 1, 2): [good]}, SMOKE)
    assert [(row["verdict"], row["measured"]) for row in panel.data] == [
        ("not learned", None), ("at", 65), ("never", None)
    ]  # fmt: skip
    assert "not learned; 65 (at)" in panel.text
    assert panel.caption.startswith("2 of 3 runs learned their task")
    assert "0 fail before the predicted edge, 1 at it" in panel.caption


def test_the_lines_are_means_of_the_seeds(run):
    panel = collapse._drawn("parity", 2, {KEY: [scored(run, {64: 0.5}), scored(run, {64: 0})]})
    assert panel.data["marks"] == {"C=2": 64}
    (line,) = panel.data["series"].values()
    assert dict(zip(line["x"], line["y"], strict=True))[64] == 0.25


def test_smoke(root, capsys):
    call = ["reproduce", collapse.__file__, "--scale", "smoke", "--only", "parity", "--out", str(root)]
    assert main([*call, "--workers", "1", "--json"]) == 0
    *drawn, table = json.loads(capsys.readouterr().out)["panels"]
    assert [panel["title"] for panel in drawn] == ["parity, 2 steps", "parity, 3 steps"]
    assert len(table["data"]) == 13
    assert drawn[0]["data"]["marks"] == {"C=2, 4, 8": 64, "C=3": 81, "C=5": 125, "C=6": 216}
