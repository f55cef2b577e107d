"""Charts and maps as panels: they show what was given, in the page's colours, and read well without the picture."""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest

from lengthwise import Error
from lengthwise.report import heat_map, line_chart, scatter_plot
from lengthwise.report.charts import Axis
from lengthwise.report.drawing import DEEPEST, style

COST = {"dense": ([8, 16, 32], [1.0, 4.0, math.nan]), "sparse": ([16, 32], [2.0, 5.0])}


def paths(html: str, kind: str, role: str = "s.") -> list[list[tuple[float, float]]]:
    """The points of every path of a kind: "line" or "dot"; `role`: those in this colour of the page."""
    found = re.findall(rf'<path class="{kind}" stroke="var\(--{role}\)"[^>]*? d="([^"]*)"', html)
    return [[tuple(map(float, p)) for p in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", d)] for d in found]


def test_lines_are_drawn_where_they_belong():
    panel = line_chart("Cost", "How to read it.", "tokens", "seconds", COST, log_x=True, log_y=True)
    assert (panel.title, panel.caption) == ("Cost", "How to read it.")
    dense, sparse = paths(panel.html, "line")
    assert [len(dense), len(sparse)] == [2, 2], "a value that is not there leaves a gap"
    (x8, y1), (x16, y4) = dense
    (x, y2), (x32, _) = sparse
    assert x == x16
    assert x32 - x16 == pytest.approx(x16 - x8, abs=1), "powers of two stand evenly on a logarithmic axis"
    assert y1 - y2 == pytest.approx(y2 - y4, abs=1)
    assert '<p class="axis x">tokens</p>' in panel.html
    assert '<p class="axis">seconds</p>' in panel.html
    assert "<title>tokens: 16\ndense 4\nsparse 2</title>" in panel.html


def test_the_words_and_the_numbers_say_the_same():
    panel = line_chart("Cost", "", "tokens", "seconds", COST, marks={"trained up to": 16})
    assert panel.text.splitlines() == [
        "tokens  dense  sparse",
        "     8      1       –",
        "    16      4       2",
        "    32      –       5",
        "trained up to: tokens 16",
    ]
    data = json.loads(json.dumps(panel.data, allow_nan=False))
    assert data["series"]["dense"] == {"x": [8, 16, 32], "y": [1, 4, None]}
    assert data["marks"] == {"trained up to": 16}
    assert ">trained up to</li>" in panel.html


def test_long_lines_are_a_short_table():
    panel = line_chart("Long", "", "n", "a", {"a": (range(1, 501), [n / 500 for n in range(1, 501)])}, percent=True)
    rows = panel.text.splitlines()
    assert len(rows) == 17
    assert rows[1].split() == ["1", "0.2"]
    assert rows[-1].split() == ["500", "100.0"]
    assert "100%" in panel.html


def test_dots_are_all_there_and_on_one_scale():
    square = [(0.0, 0.0), (0.0, 2.0), (2.0, 0.0), (2.0, 2.0)]
    panel = scatter_plot("Dots", "", "first", "second", {"square": square, "nobody": [], "far": [(9.0, 1.0)]})
    assert panel.text.splitlines()[1:] == ["square     4  (1, 1)", "far        1  (9, 1)"]
    (dots,), (far,) = paths(panel.html, "dot", "s0"), paths(panel.html, "dot", "s1")
    xs, ys = sorted({x for x, _ in dots}), sorted({y for _, y in dots})
    assert [len(dots), len(xs), len(ys), len(far)] == [4, 2, 2, 1]
    assert 1.6 * (xs[1] - xs[0]) == pytest.approx(ys[1] - ys[0], rel=0.005), "the plane is 1.6 times as wide as high"
    assert ".dots .plane { aspect-ratio: 1.6; }" in style()
    assert "</svg>far <small>(1)</small>" in panel.html


def test_no_dot_is_left_out():
    points = [(i % 40, i // 40) for i in range(800)]
    (dots,) = paths(scatter_plot("Many", "", "first", "second", {"many": points}).html, "dot")
    assert len(dots) == len(set(dots)) == 800


def test_marks_lean_inwards():
    marks = {"early": 10, "late": 90}
    panel = line_chart("Marks", "", "x", "y", {"a": ([0, 100], [0, 1])}, marks=marks)
    sides = dict((name, side) for side, name in re.findall(r'<li style="(left|right):[^>]*>(early|late)<', panel.html))
    assert sides == {"early": "left", "late": "right"}


def test_names_at_the_ends_of_lines_stand_apart_and_in_their_order():
    series = {f"model {i}": ([1, 2], [0, 1 - i / 1000]) for i in range(9)}
    html = line_chart("Nine", "", "x", "y", series).html
    tops = [float(top) for top in re.findall(r'<li style="top:([\d.]+)%"><svg class="key"', html)]
    assert len(tops) == 9
    assert min(b - a for a, b in itertools.pairwise(tops)) >= 6
    assert max(tops) <= 100
    assert re.findall(r"</svg>(model \d)", html) == list(series)


@pytest.mark.parametrize(
    ("axis", "most", "numbers"),
    [
        (Axis(0, 1), 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (Axis(0.98, 1.02), 6, [0.98, 0.99, 1, 1.01, 1.02]),
        (Axis(-3, 4000), 7, [0, 1000, 2000, 3000, 4000]),
        (Axis(1, 4000, True), 7, [1, 10, 100, 1000]),
        (Axis(8, 64, True), 7, [10, 20, 50]),
        (Axis(1.5, 1.8, True), 7, [1.5, 1.8]),
    ],
)
def test_numbers_along_an_axis_are_round(axis, most, numbers):
    assert axis.ticks(most) == pytest.approx(numbers)


def test_a_map_shades_what_is_high():
    values = [[0.0, 0.5], [1.0, None]]
    panel = heat_map("Map", "", ["C=2", "C=3"], ["a", "b<"], values, percent=True, corner="chunk")
    shades = [int(n) for n in re.findall(r"var\(--s0\) (\d+)%", panel.html)]
    assert shades == [0, DEEPEST // 2, DEEPEST]
    assert panel.html.count("<td>–</td>") == 1
    assert "b&lt;" in panel.html
    assert panel.text.splitlines() == ["chunk      a    b<", "C=2      0.0  50.0", "C=3    100.0     –"]
    narrowed = heat_map("Map", "", ["r"], ["a", "b"], [[1.0, 5.0]], low=0, high=2)
    assert re.findall(r"var\(--s0\) (\d+)%", narrowed.html) == ["25", "50"]


def test_ids_are_unique_over_panels_and_the_same_again():
    first = line_chart("A", "", "x", "y", {"a": ([1, 2], [1, 2])})
    second = line_chart("A", "", "x", "y", {"a": ([1, 2], [1, 3])})
    ids = re.findall(r'\bid="([^"]+)"', first.html + second.html)
    assert len(ids) == len(set(ids))
    assert first == line_chart("A", "", "x", "y", {"a": ([1, 2], [1, 2])})


def test_names_are_no_markup():
    panel = line_chart("<b>", "", "x", "y", {"</figure><script>": ([1, 2], [1, 2])}, marks={"<i>": 1})
    assert "<script>" not in panel.html
    assert "<i>" not in panel.html


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: line_chart("", "", "x", "y", {"a": ([1, 2], [1])}),
            "'a' needs as many ys as xs, at least one, got 2 xs",
        ),
        (lambda: line_chart("", "", "x", "y", {"a": ([], [])}), "at least one, got 0"),
        (lambda: scatter_plot("", "", "x", "y", {"a": []}), "at least one point"),
        (lambda: heat_map("", "", ["r"], ["a", "b"], [[1]]), "1 rows of 2 values, got 1 of"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, words):
    with pytest.raises(Error, match=words):
        call()
