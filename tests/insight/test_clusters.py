"""Clusters of a whole model: built ones, where all is known, and, slowly, trained ones."""

import json
import math
from pathlib import Path

import pytest
import torch

from lengthwise import Error, insight, lab, models, tasks, theory
from lengthwise.errors import NonFiniteError, ShapeError
from lengthwise.insight import clusters
from lengthwise.insight.block_outputs import BlockOutput, read_blocks


@pytest.mark.parametrize(
    ("task", "count"), [("parity", 2), ("cycle-navigation", 5), (("word-problem", {"group": "S3"}), 6)]
)
def test_a_built_model_has_its_transitions(task, count):
    made = tasks.get(task) if isinstance(task, str) else tasks.get(task[0], **task[1])
    found = insight.find_clusters(theory.exact_classifier(made), insight.probe_strings(made, 200), task=made)
    assert found.count == count
    assert found.truth is not None
    assert (found.truth.about, found.truth.kinds, found.truth.agreement) == ("transition", count, 1.0)
    assert len(set(found.truth.names)) == count
    assert found.radius < 1e-3 * (found.distance or 0)
    assert [d.reach for d in found.depths] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert [sum(d.sizes) for d in found.depths] == [200] * 8
    assert tuple(map(sum, zip(*(d.sizes for d in found.depths), strict=True))) == found.sizes


def test_an_untrained_model_is_no_machine():
    torch.manual_seed(0)
    task = tasks.get("cycle-navigation")
    found = insight.find_clusters(
        models.build("regular-gpt", vocab_size=3, num_outputs=5), insight.probe_strings(task), task=task
    )
    assert found.truth is not None
    assert found.truth.agreement < 0.5
    assert found.truth.agreement >= found.truth.chance > 0.2


def test_without_a_task_there_is_no_truth():
    task = tasks.get("parity")
    classifier = models.build("gru", vocab_size=2, num_outputs=2, width=8)
    found = insight.find_clusters(classifier, insight.probe_strings(task, 41, 2))
    assert (found.task, found.truth) == (None, None)
    assert sum(found.sizes) == 82
    held = insight.find_clusters(classifier, insight.probe_strings(task, 41, 2), task=task)
    assert held.sizes == found.sizes, "the count does not look at the task"
    assert held.truth is not None
    assert held.truth.about == "state"


def test_points_are_the_outputs_in_their_plane():
    task = tasks.get("parity")
    classifier = models.build("lstm", vocab_size=2, num_outputs=2, width=8)
    tokens = insight.probe_strings(task, 60, 3)
    found = insight.find_clusters(classifier, tokens, task=task)
    points = torch.tensor(found.points)
    assert points.shape == (180, 2)
    (outputs,) = (b.output for b in read_blocks(classifier, tokens))
    # What two axes keep of a cloud of rank 8 are the two greatest of its variances.
    variances = torch.linalg.svdvals(outputs.flatten(0, 1) - outputs.flatten(0, 1).mean(0)).pow(2) / 180
    torch.testing.assert_close(points.var(0, correction=0), variances[:2], rtol=1e-2, atol=1e-4)
    assert sum(found.explained) == pytest.approx(float(variances[:2].sum() / variances.sum()), rel=1e-4)


def test_distance_and_radius_by_hand(monkeypatch):
    """Three clusters at 0, 10 and 20, the middle one wider, in the outputs of two blocks."""
    offsets = torch.tensor([-1.0, 1.0, -1.0, 1.0]).repeat(10)
    outputs = torch.stack([0.1 * offsets, 10 + 0.5 * offsets, 20 + 0.1 * offsets], 1).reshape(2, 1, 60, 1)
    read = [
        BlockOutput(f"b{i}", output, torch.arange(60), None)
        for i, output in enumerate(torch.cat([outputs, 0 * outputs], 3))
    ]
    monkeypatch.setattr(clusters, "read_blocks", lambda *_: read)
    found = insight.find_clusters(
        models.build("lstm", vocab_size=2, num_outputs=2), torch.zeros(1, 60, dtype=torch.long)
    )
    assert found.sizes == (40, 40, 40)
    assert found.distance == pytest.approx(10)
    assert found.radius == pytest.approx(0.5)
    assert [depth.sizes for depth in found.depths] == [(20, 20, 20)] * 2
    assert [found.members[:60].count(i) for i in range(3)] == [20] * 3
    assert found.explained == pytest.approx((1, 0))


def test_many_outputs_are_drawn_in_part():
    task = tasks.get("parity")
    found = insight.find_clusters(theory.exact_classifier(task), insight.probe_strings(task, 500, 2), task=task)
    assert sum(found.sizes) == 9000
    assert len(found.points) == len(found.members) == 5000


def test_it_is_plain_data():
    task = tasks.get("parity")
    found = insight.find_clusters(theory.exact_classifier(task), insight.probe_strings(task, 50), task=task)
    assert math.inf in found.profile[-1]
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["count"] == 2
    assert data["truth"]["agreement"] == 1.0
    assert data["depths"][1] == {"name": "group 1", "reach": 4, "sizes": list(found.depths[1].sizes)}
    assert found == insight.find_clusters(theory.exact_classifier(task), insight.probe_strings(task, 50), task=task)


def test_wrong_calls_are_named():
    task = tasks.get("parity")
    classifier = models.build("lstm", vocab_size=2, num_outputs=2, width=8)
    with pytest.raises(ShapeError, match=r"\(B,T\).*got \[0, 5\]"):
        insight.find_clusters(classifier, torch.zeros(0, 5, dtype=torch.long))
    with pytest.raises(Error, match="most must be at least 1, got 0"):
        insight.find_clusters(classifier, insight.probe_strings(task, 5), most=0)
    uneven = models.build(f"{Path(__file__).parent / 'toys.py'}:Recurrent", vocab_size=2, num_outputs=2, widths=(6, 4))
    with pytest.raises(Error, match=r"one width.*4, 6"):
        insight.find_clusters(uneven, insight.probe_strings(task, 5))
    with torch.no_grad():
        next(classifier.parameters()).fill_(math.nan)
    with pytest.raises(NonFiniteError, match="NaN"):
        insight.find_clusters(classifier, insight.probe_strings(task, 5))


@pytest.mark.slow
def test_training_makes_two_clusters_of_parity(tmp_path):
    """§7.3 of the paper."""
    settings = {"training.steps": 600, "tests.samples": 16}
    (run,) = lab.bench("parity", ["regular-gpt"], test_lengths="500", settings=settings, root=tmp_path)
    assert run.result["checkpoints"]["last"]["correct"]["500"] == 16
    task = tasks.get("parity")
    found = insight.find_clusters(lab.load_model(run), insight.probe_strings(task), task=task)
    assert found.count == 2
    assert found.truth is not None
    assert found.truth.agreement > 0.99
    # §7.4: the answer takes its part from far back.
    field = insight.measure_receptive_field(lab.load_model(run), insight.probe_strings(task, 500, 8))
    assert field.newest(0.9) > 250
