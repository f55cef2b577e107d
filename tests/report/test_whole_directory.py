"""One page for whatever lies in a directory: tasks, training ranges, recipes and text together."""

from __future__ import annotations

import io
import re

from lengthwise import report
from lengthwise.lab.experiment import TaskSpec
from lengthwise.report import Panel
from lengthwise.report.linked_pages import other_pages
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


def test_other_pages_are_linked_and_not_the_page_itself(make_run, tmp_path):
    runs = [make_run()]
    report.html(runs, tmp_path / "demo & co" / "index.html", title="Table <1>")
    (tmp_path / "foreign.html").write_text("<title>Not ours</title>")
    for _ in range(2):
        made = report.html(runs, tmp_path / "index.html", beside=[tmp_path]).read_text()
    assert re.findall(r'<th scope="row"><a href="([^#]*?)">(.*?)</a>', made) == [
        ("demo%20%26%20co/index.html", "Table &lt;1&gt;")
    ]
    elsewhere = report.html(runs, tmp_path / "pages" / "all.html", beside=[tmp_path / "demo & co"]).read_text()
    assert 'href="../demo%20%26%20co/index.html"' in elsewhere
    assert "Other pages" not in report.html(runs, tmp_path / "alone.html").read_text()


def test_whatever_lies_among_the_records_ends_no_page(make_run, tmp_path, monkeypatch):
    runs = [make_run()]
    good = report.html(runs, tmp_path / "good.html", title="Good")
    for name in (".venv", "wandb"):
        report.html(runs, tmp_path / name / "hidden.html", title="Hidden")
    (tmp_path / "saved.html").mkdir()
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "refused.html").write_bytes(good.read_bytes())
    (tmp_path / "large.html").write_text(" " * 50_000 + "<title>Large</title>")
    read = []

    class Counted(io.FileIO):
        def read(self, size=-1):
            read.append(size)
            return super().read(size)

    def guarded(path):
        if path.name == "refused.html":
            raise PermissionError(13, "the system says no")
        return Counted(path)

    monkeypatch.setattr("lengthwise.report.linked_pages.open_file", guarded)
    assert other_pages([tmp_path], tmp_path / "index.html") == {"good.html": "Good"}
    assert read
    assert all(0 < size <= 10_000 for size in read)
