"""Tables to paste say what the terminal says, with an interval at every number, and are whole in their language."""

from __future__ import annotations

import re

import pytest

from lengthwise import report
from lengthwise.lab.experiment import TaskSpec
from lengthwise.lab.statistics import summary
from lengthwise.report.formatting import percent


def test_markdown_has_a_row_for_each_model_and_an_interval_in_each_cell(runs):
    text = report.paste(runs, "markdown")
    caption, _, head, rule, *rows = text.strip().splitlines()
    assert caption.startswith("**parity: accuracy in % by length")
    assert head == "| model | 1–40 (trained) | 41–481 | 1,000 | 2,000 | 4,000 |"
    assert rule.count("---:") == 5
    assert [row.split(" | ")[0] for row in rows] == ["| regular-gpt", "| lstm", "| transformer", "| majority answer"]
    lstm = summary([run for run in runs if run.experiment.model.name == "lstm"], [4000])
    expected = f"{percent(lstm.mean)} ± {100 * lstm.std:.1f} [{percent(lstm.low)}–{percent(lstm.high)}]"
    assert rows[1].split(" | ")[5].strip(" |") == expected


def test_latex_escapes_what_means_something_there(make_run):
    run = make_run("own_models.py:Net", task=TaskSpec("modular-sum", {"modulus": 3}))
    text = report.paste([run], "latex")
    assert text.count(r"\begin{tabular}{lrrrrr}") == text.count(r"\end{tabular}") == 1
    assert r"own\_models.py:Net & 100.0 [" in text
    assert all(line.endswith(r"\\") for line in text.splitlines() if " & " in line)
    assert not re.search(r"(?<!\\)[%_#]", text)
    assert "±" not in text


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_what_is_known_of_runs_on_text_is_pasted_too(make_text_run, form):
    assert "23.75" in report.paste([make_text_run()], form)
