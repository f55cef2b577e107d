"""Chains of references through the lab: several entries a place, scored in parts."""

import pytest
import torch
import torch.nn.functional as F

from lengthwise import Error, lab, report, tasks
from lengthwise.lab import plan
from lengthwise.lab.job import make_trainer
from lengthwise.lab.tested_lengths import lengths_note, lengths_of, which_lengths
from lengthwise.train import Single
from lengthwise.train.counting import count_right
from lengthwise.train.scoring import loss, right

CPU = torch.device("cpu")
SMALL = {"task.blocks": 3, "task.size": 3, "training.lengths": [6, 9], "training.batch": 16, "training.lr": 1e-2}
SMALL |= {"training.validate_every": 20, "training.validation_samples": 32, "training.checkpoint_every": 10}
SMALL |= {"tests.samples": 64, "model.width": 16}


def experiments(model="lstm", seeds=1, **more):
    settings = {**SMALL, "training.steps": 60, **({} if model == "lstm" else {"model.heads": 2})}
    settings |= {key.replace("__", "."): value for key, value in more.items()}
    return plan("reference-chains", [model], seeds=seeds, test_lengths="6,9", settings=settings)


def test_the_score_is_the_mean_over_the_entries_of_each_string():
    task = tasks.get("reference-chains", blocks=3, size=4)
    batch = task.test_set(12, 6)
    found = torch.randn(6, 12, 3 * 4, generator=torch.Generator().manual_seed(0))
    answers = found.unflatten(-1, (3, 4)).argmax(-1)
    expected, costs = [], []
    for i in range(6):
        pairs = [(t, e) for t in range(12) for e in range(t // 4 + 1)]
        expected.append(sum(bool(answers[i, t, e] == batch.targets[i, t, e]) for t, e in pairs) / len(pairs))
        costs += [F.cross_entropy(found[i, t, 4 * e : 4 * e + 4], batch.targets[i, t, e]) for t, e in pairs]
    assert right(found, batch, task).tolist() == pytest.approx(expected)
    torch.testing.assert_close(loss(found, batch, task), torch.stack(costs).mean())


def test_a_string_that_overflows_in_one_entry_is_wrong_in_all():
    task = tasks.get("reference-chains", blocks=3, size=4)
    batch = task.test_set(12, 6)
    found = torch.randn(6, 12, 3 * 4, generator=torch.Generator().manual_seed(0))
    others = right(found, batch, task).tolist()
    assert others.pop(2) > 0
    found[2, 5, 3] = torch.nan
    counted = count_right(lambda tokens, last: found, task, batch, device=CPU)
    assert (counted.right, counted.overflowed) == (pytest.approx(sum(others)), 1)


def test_stacked_members_score_as_they_do_alone():
    trainer = make_trainer(experiments("transformer", seeds=2, training__precision="fp64", model__layers=1))
    batches = trainer.batches(trainer.states)
    together = trainer.strategy.backward(trainer.states, batches, trainer.objective)
    for i, (state, batch) in enumerate(zip(trainer.states, batches, strict=True)):
        alone = Single(CPU).backward([state], [batch], trainer.objective)
        torch.testing.assert_close(together[i], alone[0])
    assert 0 < float(together[0, 1]) < 1


def test_it_learns_what_it_can_read_off_and_the_page_shows_it(tmp_path):
    """The first entry of each chain is the token itself: to know it and guess the rest is 78% at length 6."""
    run = lab.run(experiments(training__steps=200), tmp_path, device="cpu")[0].run
    assert run
    result = run.result
    assert result["baseline"] == {"6": 1 / 3, "9": 1 / 3}
    for length, entries in ((6, 3), (9, 6)):
        first = length // 3
        known = (first + (entries - first) / 3) / entries
        correct = result["checkpoints"]["last"]["correct"][str(length)]
        assert isinstance(correct, float)
        assert known - 0.08 < correct / 64 <= 1
    summary = report.data([run])["tasks"][0]["models"][0]["ranges"][0]["last"]
    assert summary["low"] < summary["mean"] < summary["high"]
    assert summary["baseline"] == pytest.approx(1 / 3)
    (row, *_) = report.csv([run], tmp_path / "rows.csv").read_text().splitlines()[1:]
    assert "reference-chains" in row


def test_a_model_is_loaded_of_one_run(quick, tmp_path):
    lab.run(quick(steps=2, seeds=2), tmp_path)
    runs = lab.load(tmp_path)
    assert isinstance(lab.load_model(str(runs[0].path)), torch.nn.Module)
    with pytest.raises(Error, match=r"takes one run, and .* holds 2"):
        lab.load_model(tmp_path)


def test_seeds_are_a_number_or_a_list():
    def seeds(given):
        return [e.seed for e in lab.plan("parity", ["lstm"], seeds=given)]

    assert (seeds(2), seeds([5, 1, 5])) == ([0, 1], [5, 1])
    for wrong in (0, [], [-1], [0.5], "a"):
        with pytest.raises(Error, match="seeds"):
            seeds(wrong)


def test_lengths_without_strings_are_said(quick, tmp_path):
    task = tasks.from_regex("(ab|ba)*")
    lab.run(quick(task=task, steps=2), tmp_path)
    [run] = lab.load(tmp_path)
    assert run.result["which_lengths"] == "even lengths only"
    assert "even lengths only" in str(report.table([run]))
    assert "even lengths only" in report.html([run], tmp_path / "page.html").read_text()
    assert {row["which_lengths"] for row in report.data([run])["rows"]} == {"even lengths only"}
    assert "supervision=prefix" in lengths_note(task, 1, 40)
    assert lengths_note(tasks.get("parity"), 1, 40) is None
    third = tasks.from_regex("(aaa)*", alphabet="ab")
    assert which_lengths(third, 1, 40) == "lengths 3, 6, 9, … only"
    assert which_lengths(tasks.from_regex("aa|b{4,}", alphabet="ab"), 1, 40) == "no strings of length 3"


def test_a_late_first_length_is_said_where_shorter_ones_were_asked_for():
    late, later = tasks.get("tomita-4"), tasks.get("selective-copy")
    assert (which_lengths(late, 1, 40), which_lengths(late, 2, 40)) == ("", "from length 3 on")
    assert (which_lengths(late, 3, 40), which_lengths(later, 1, 40)) == ("", "from length 33 on")


def test_older_records_say_the_lengths_of_a_plain_task(quick, tmp_path):
    for name, says in (("tomita-5", "even lengths only"), ("parity", "")):
        [outcome] = lab.run(quick(task=name, steps=2), tmp_path)
        older = outcome.run._replace(result={k: v for k, v in outcome.run.result.items() if k != "which_lengths"})
        assert lengths_of(older) == says
        assert ("even lengths only" in str(report.table([older]))) == bool(says)
