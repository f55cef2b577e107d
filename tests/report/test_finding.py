"""The sentences at the top of a page are those the records prove."""

from __future__ import annotations

import re

import pytest

from lengthwise.lab.experiment import TaskSpec
from lengthwise.lab.statistics import Summary
from lengthwise.report.finding import findings, standing
from lengthwise.report.sections import group_runs

from .pages import page


def scored(make_run, model, right, task=TaskSpec("parity"), lengths=(20, 400)):  # noqa: B008
    run = make_run(model, task=task, lengths=lengths, samples=1000)
    run.result["checkpoints"]["last"]["correct"][str(lengths[-1])] = right
    run.result["baseline"][str(lengths[-1])] = 0.5
    return run


def test_who_is_right_and_who_guesses(make_run):
    runs = [scored(make_run, *pair) for pair in (("gru", 520), ("lstm", 1000), ("rnn", 700), ("s4", 995))]
    assert findings(group_runs(runs)) == [
        "At 400 tokens, 10 times the longest of training, lstm and s4 are right (99% or more); right in part: rnn "
        "(70.0%); gru does no better than always giving the commonest answer (50.0%)."
    ]
    assert findings(group_runs([*runs[:1], scored(make_run, "mlp", 480)]))[0].endswith(
        "both models do no better than always giving the commonest answer (50.0%)."
    )


@pytest.mark.parametrize(
    ("mean", "low", "word"),
    [(0.99, 0.98, "right"), (0.989, 0.97, "between"), (0.55, 0.49, "guesses"), (0.505, 0.501, "guesses")],
)
def test_where_a_score_stands(mean, low, word):
    assert standing(Summary(mean, mean, None, low, 1.0, 0.5, 1, 100)) == word


def test_of_many_tasks_it_is_counted(make_run):
    tasks = [TaskSpec("parity"), TaskSpec("even-pairs"), TaskSpec("modular-sum")]
    runs = [scored(make_run, "rnn", 500, task) for task in tasks]
    runs += [scored(make_run, "lstm", right, task) for right, task in zip((1000, 1000, 700), tasks, strict=True)]
    (said,) = findings(group_runs(runs))
    assert said.endswith("lstm is right in 2 of 3 cases; rnn is right in 0 of 3 cases, only guesses in 3.")
    assert "each of 3 parts" in said


def test_a_story_is_as_long_as_its_operations(make_run):
    text = page([scored(make_run, "lstm", 1000, TaskSpec("boxes", {"form": "advanced"}), (2, 20, 64))])
    assert "At 64 operations, 1.6 times the longest of training, lstm is right" in text
    assert "Trained on 1–40 operations, tested to 64 operations, 1000 strings each." in text
    assert "length in operations" in re.sub(r"<!--.*?-->", "", text)
    assert "tokens" not in text.split("</header>")[0]
    assert "<br>At 64 operations: lstm" in text


def test_the_legend_names_the_lines_in_the_order_of_their_ends(make_run):
    runs = [scored(make_run, model, right) for model, right in (("gru", 520), ("lstm", 990), ("rnn", 700))]
    legend = re.search(r'<ol class="legend ends">(.*?)</ol>', page(runs), re.S)
    assert legend
    assert re.findall(r"</svg>([a-z ]+) <b>", legend[1]) == ["lstm", "rnn", "gru", "majority answer"]
