"""What the insight room finds, as panels."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch

from lengthwise import insight, models, report, tasks, theory


@pytest.fixture(scope="module")
def found():
    task = tasks.get("cycle-navigation")
    return insight.find_clusters(theory.exact_classifier(task), insight.probe_strings(task, 60), task=task)


def test_clusters_are_drawn_and_told(found):
    panel = report.clusters(found)
    assert panel.title == "built for cycle-navigation on cycle-navigation: 5 clusters"
    assert "5 clusters among 360 outputs of 6 depths" in panel.text
    assert "100.0% of the outputs agree with the true transition" in panel.text
    assert "(5 kinds; one cluster would have" in panel.text
    assert "1 string of 60 tokens" in panel.caption
    rows = [re.split(r"  +", line.strip()) for line in panel.text.splitlines()[3:]]
    assert sorted(rows[0][1:]) == ["as 0", "as 1", "as 11", "as 2", "as 22"]
    assert [row[0] for row in rows[1:4]] == ["all depths", "group 0, 2 tokens", "group 1, 4 tokens"]
    assert rows[-1][0] == "group 5, 60 tokens", "a window is no longer than the string"
    assert all(sum(map(float, row[1:])) == pytest.approx(100, abs=0.3) for row in rows[1:])
    cells = re.findall(r"var\(--s0\) (\d+)%[^>]*>([\d.]+)<", panel.html)
    most = max(float(share) for _, share in cells)
    assert [int(shade) for shade, _ in cells] == pytest.approx([50 * float(s) / most for _, s in cells], abs=0.6), (
        "from 0"
    )
    assert panel.html.count('role="img"') == 1
    assert all(f">as {word}<" in panel.html for word in ("0", "1", "11"))
    assert json.loads(json.dumps(panel.data, allow_nan=False))["count"] == 5


def test_every_dot_has_the_colour_of_its_cluster(found):
    panel = report.clusters(found)
    for i, size in enumerate(found.sizes):
        (path,) = re.findall(rf'<path class="dot" stroke="var\(--s{i}\)" d="([^"]*)"', panel.html)
        assert path.count("M") == size


def test_clusters_by_other_names(found):
    bare = report.clusters(replace(found, truth=None, task=None))
    assert bare.title == "built for cycle-navigation: 5 clusters"
    assert "cluster 3" in bare.text
    assert "agree" not in bare.text
    assert found.truth is not None
    twice = replace(found.truth, about="state", names=("state 0", "state 0", "state 1", "state 2", "state 3"))
    told = report.clusters(replace(found, truth=twice))
    assert "2: state 0" in told.text
    assert "true state" in told.text
    assert "more than 5 were not looked for" in report.clusters(replace(found, most=5)).text


def test_one_cluster_is_said_to_be_one():
    task = tasks.get("parity")
    torch.manual_seed(0)
    classifier = models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2, layers=1)
    panel = report.clusters(insight.find_clusters(classifier, insight.probe_strings(task, 50), task=task, most=1))
    assert panel.title.endswith("1 cluster")
    assert "1 cluster among 50 outputs; more than 1 were not looked for." in panel.text
    assert "apart" not in panel.text


def test_receptive_fields_side_by_side():
    tokens = insight.probe_strings(tasks.get("parity"), 50, 2)
    torch.manual_seed(0)
    fields = {
        name: insight.measure_receptive_field(
            models.build(name, vocab_size=2, num_outputs=2, width=8), tokens, task="parity"
        )
        for name in ("lstm", "regular-gpt")
    }
    panel = report.receptive_field(fields)
    assert panel.title == "Receptive field: parity"
    field = fields["lstm"]
    assert f"lstm: the newest {field.newest()} of 50 tokens hold 90%" in panel.text
    assert f"at most {100 * field.bend:.0f} percentage points" in panel.text
    last = panel.text.splitlines()[-1].split()
    assert last == ["50", "100.0", "100.0", "100.0"]
    assert panel.text.splitlines()[3].split(maxsplit=3)[3].startswith("lstm  regular-gpt  all tokens alike")
    assert set(panel.data) == {"lstm", "regular-gpt"}
    alone = report.receptive_field(field)
    assert "regular-gpt" not in alone.text
    assert "2 strings of 50" in alone.caption
