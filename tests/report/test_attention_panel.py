"""Links of heads as a panel: what is drawn, in which colour, and what is said."""

from __future__ import annotations

import json
import re

import pytest
import torch

from lengthwise import insight, models, report, tasks
from lengthwise.errors import Error
from lengthwise.insight import Links
from lengthwise.insight.attention import Attention
from lengthwise.report.arc_diagram import STEP, TOP
from lengthwise.report.insight_panels import _drawn
from lengthwise.tasks.boxes import Boxes

TASK = Boxes(form="advanced", boxes=4, objects=20)
PATH = re.compile(r'<path d="M[\d.]+ ([\d.]+)C.*?([\d.]+)" fill="none" stroke=.*?opacity="([\d.]+)"')


def build(task, name="chacal", **options):
    torch.manual_seed(0)
    S = len(task.vocabulary)
    return models.build(name, vocab_size=S, num_outputs=S, width=16, heads=2, layers=2, **options)


@pytest.fixture(scope="module")
def found():
    return insight.find_links(build(TASK), TASK, insight.probe_strings(TASK, 4, 3))


def drawn(svg):
    """(late, early, opacity) of every arc."""
    row = lambda y: round((float(y) - TOP) / STEP - 0.5)  # noqa: E731
    return [(row(b), row(e), float(o)) for b, e, o in PATH.findall(svg)]


def test_every_arc_stands_for_its_link():
    links = {(2, 0): 0.75, (2, 1): 0.25, (2, 2): 0.9, (3, 1): 0.5, (3, 0): 0.01}
    svg = report.Arcs("t", "d", ["The", "tea", "<is>", "in"], links).html
    assert "&lt;is&gt;" in svg
    assert sorted(drawn(svg)) == [(2, 0, 0.75), (2, 1, 0.25), (3, 1, 0.5)]


def test_the_head_that_is_asked_for(found):
    assert "Layer 1, head 1 (chain attention, γ = 0.9)" in report.attention(found, (1, 1)).text
    assert "Layer 0, head 0 (softmax attention)" in report.attention(found, (0, 0)).text
    for head in ((2, 0), (0, 2)):
        with pytest.raises(Error, match=rf"no head {head[1]} in layer {head[0]}: layer 0 has 2, layer 1 has 2"):
            report.attention(found, head)


def test_the_head_whose_words_point_the_most_is_drawn():
    task = tasks.get("parity")
    seen = insight.find_links(build(task), task, insight.probe_strings(task, insight.readable_length(task)))
    panel = report.attention(seen)
    layer, head = panel.data["drawn"]
    most = lambda A: float((A - A.diag().diag()).amax(-1).mean())  # noqa: E731
    assert most(seen.layers[layer].weights[head]) == max(most(A) for of in seen.layers for A in of.weights)
    for late, early, opacity in drawn(panel.html):
        assert opacity == pytest.approx(float(seen.layers[layer].weights[head, late, early]), abs=0.006)
    assert json.loads(json.dumps(panel.data, allow_nan=False))["drawn"] == [layer, head]
    assert len(panel.text.splitlines()) == 2 + 24


def test_a_long_string_is_drawn_by_its_links_and_not_by_its_pairs():
    """Uniform weights: no arc is drawn, and each word lists the strongest of the words before it."""
    T = 700
    A = torch.ones(T, T, dtype=torch.float64).tril()
    A[5, 3] = 20
    A /= A.sum(1, keepdim=True)
    seen = Links("m", "parity", ("0",) * T, (Attention("layer 0", "softmax", None, A[None], A[None]),))
    kept = _drawn(A)
    assert len(kept) < 3 * T
    panel = report.attention(seen)
    assert {5: 3, 6: 0}.items() <= {late: early for late, early, *_ in rows_of(panel.text)}.items()
    assert len(drawn(panel.html)) == sum(A[t, j] >= 0.08 for t in range(13) for j in range(t))


def rows_of(text):
    """The words of the terminal's table and what they read."""
    return [(int(a), int(b)) for a, b in re.findall(r"^ *(\d+) \S+ +(\d+) ", text, re.M)]
