"""One page for whatever lies in a directory: tasks, training ranges, recipes and text together."""

from __future__ import annotations

import re

from lengthwise.lab.experiment import TaskSpec
from lengthwise.report import Panel
from lengthwise.report.html_page import ROWS
from lengthwise.report.page_data import read_embedded

from .pages import page

SUMS = TaskSpec("modular-sum", {"modulus": 3})


def test_sections_of_one_task_stand_together(make_run):
    runs = [make_run(), make_run(task=SUMS), make_run(train=(1, 20)), make_run(task=SUMS, train=(1, 20))]
    made = page(runs)
    titles = re.findall(r'<section id="task\d" class="panel"><h2>(.*?)</h2>', made)
    short, long = ("trained on lengths 1–20", "trained on lengths 1–40")
    sums = "modular-sum (modulus=3)"
    assert titles == [f"parity, {long}", f"parity, {short}", f"{sums}, {long}", f"{sums}, {short}"]
    overview = re.findall(r'<a href="#task\d">(.*?)</a>', made)
    assert overview == [*titles, *titles], "in the contents and at a glance"


def test_more_rows_than_a_page_has_room_for_are_shown_at_a_glance_alone(make_run):
    runs = [make_run(train=(1, 10 + n)) for n in range(ROWS + 1)]
    for many, sections in ((runs[:-1], ROWS), (runs, 0)):
        made = page(many)
        assert len(re.findall(r'id="task\d+"', made)) == sections
        assert "<h2>At a glance</h2>" in made


def test_settings_of_like_sections_do_not_hide_each_other(make_run):
    runs = [make_run(steps=100), make_run(steps=200, train=(1, 20)), make_run(steps=300, lengths=(50,))]
    made = page(runs)
    settings = re.findall(r"<dt>training.steps</dt><dd>(\d+)</dd>", made)
    assert settings == ["100", "200", "300"]


def test_text_stands_on_the_page_with_its_records(make_run, make_text_run):
    chained = make_text_run([{"name": "chain"}])
    for runs in ([make_run(), chained], [chained]):
        made = page(runs)
        assert f">{chained.experiment.hash}<" in made
        records = read_embedded(made)["records"]
        assert [r["result"]["hash"] for r in records] == [run.experiment.hash for run in runs]
        assert f"Made from {len(runs)} run records" in made


def test_a_recipe_on_text_says_how_it_was_run_with_its_own_panels_alone(make_text_run):
    own = Panel(title="Three ways to train it", caption="", lead="a table", data=[])
    headings = lambda made: re.findall("<h2>(.*?)</h2>", made)  # noqa: E731
    assert headings(page([make_text_run()])) == ["Perplexity", "How it was run"]
    alone = page([make_text_run()], panels=[own], own_text_panels=False)
    assert headings(alone) == ["Three ways to train it", "How it was run"]


def test_many_tasks_have_a_short_title(make_run):
    runs = [make_run(task=TaskSpec("modular-sum", {"modulus": n}), lengths=(50,)) for n in range(3, 9)]
    title = "<title>modular-sum (modulus=3), modular-sum (modulus=4), modular-sum, 3 more tasks: "
    assert title in page(runs)
