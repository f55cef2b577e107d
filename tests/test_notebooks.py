"""What a notebook shows: tables whose words are escaped, and the progress of runs in a kernel alone."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from lengthwise import lab, report, tasks, verify
from lengthwise.notebooks import in_notebook

TINY = {"training.steps": 4, "training.batch": 4, "tests.samples": 4, "model.width": 4}


class Display:
    """IPython in a kernel, as far as it is asked: what was displayed, in its order."""

    def __init__(self, monkeypatch):
        self.shown = []
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
        ipython.display = display
        display.HTML = lambda text: text
        display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, html, display_id=None):
        self.shown.append(html)
        return SimpleNamespace(update=self.shown.append)


def bench(root, **more):
    return lab.bench("parity", ["lstm", "gru"], train_length=4, test_lengths="8", settings=TINY, root=root, **more)


def test_runs_are_a_table(tmp_path):
    assert not in_notebook()
    runs = bench(tmp_path)
    assert isinstance(runs, list)
    html = runs._repr_html_()
    assert html == report.table(runs)._repr_mimebundle_(include=[], exclude=[])["text/html"]
    right = runs[0].result["checkpoints"]["last"]["correct"]["8"] / 4
    assert f"{100 * right:.1f}" in html
    assert "gru" in runs[1]._repr_html_()
    assert "lstm" not in runs[1]._repr_html_()


def test_progress_is_shown_in_a_kernel_and_can_be_turned_off(tmp_path, monkeypatch):
    kernel = Display(monkeypatch)
    assert in_notebook()
    bench(tmp_path / "a")
    assert "waiting for its turn" in kernel.shown[0]
    assert kernel.shown[-1].count("finished") == 2
    before = len(kernel.shown)
    bench(tmp_path / "b", progress=False)
    assert len(kernel.shown) == before


@pytest.mark.parametrize("name", ["parity", "tomita-3", "reference-chains", "boxes", "d-2"])
def test_a_task_shows_alphabet_example_and_baseline(name):
    task = tasks.get(name)
    html = task._repr_html_()
    assert "majority answer at" in html
    assert name in html


def test_the_example_of_a_task_is_answered_rightly():
    html = tasks.get("parity")._repr_html_()
    tokens, targets, _ = tasks.get("parity").test_set(8, 1)
    assert f"<td>{''.join(map(str, tokens[0].tolist()))}</td>" in html
    assert f"<td>its answer</td><td>{int(targets[0, -1])}</td>" in html
    assert int(targets[0, -1]) == int(tokens.sum() % 2)


def test_verdicts_panels_and_tasks_are_escaped():
    assert verify.Unknown("a < b")._repr_html_() == "<p><b>unknown</b>: a &lt; b</p>"
    assert verify.Refuted((0, 1), 1, 0)._repr_html_().startswith("<p><b>refuted</b>: after the word 0 1")
    panel = report.Table("<script>", "x & y", ["a"], [["<i>"]], data=None)
    html = panel._repr_html_()
    assert "&lt;script&gt;" in html
    assert "x &amp; y" in html
    assert "<i>" not in html
    assert ":root" not in html
    assert ".lengthwise" in html
    assert "&lt;" in tasks.from_regex("(<b)*", alphabet="<b")._repr_html_()
