"""Language models trained further: what they begin with, where that is found, and how the record names it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from lengthwise import Error, lab
from lengthwise.lab import texts
from lengthwise.lab.experiment import AnswersSpec, Experiment
from lengthwise.lab.job import make_trainer
from lengthwise.lab.statistics import perplexities

from . import corpora

SMALL = {"model.heads": 2, "model.layers": 1}
QUICK = {"training.steps": 6, "training.batch": 4, "training.validation_samples": 4, **SMALL}
ROPE, BIPE = "transformer position=rope", "bipe ends=sentence"
FURTHER = {"training.steps": 3, "training.batch": 2, "training.validation_samples": 4}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    corpus = corpora.write(folder / "corpus")

    def make(model=ROPE, **settings):
        (experiment,) = corpora.plan(corpus, folder, model, settings={**QUICK, **settings})
        return experiment

    return make


def yarn(base, factor=4):
    return [{"name": "yarn", "factor": factor, "trained": lab.trained_places(base)}]


def further(base, conversions=(), train_length=32, test_lengths=(16, 32), **settings):
    (made,) = lab.plan_continued(
        [base], conversions, train_length=train_length, test_lengths=test_lengths, settings={**FURTHER, **settings}
    )
    return made


def run(experiment, root):
    (outcome,) = lab.run([experiment], root, workers=1)
    assert outcome.run, outcome.traceback
    return outcome.run


def test_it_begins_where_the_first_training_ended(plan, tmp_path):
    """And the first is run before it, and only once."""
    base = plan()
    made = run(further(base), tmp_path)
    (first,) = (each for each in lab.load(tmp_path) if each.experiment.hash == base.hash)
    assert perplexities(made, "before") == pytest.approx(perplexities(first), rel=1e-6)
    assert perplexities(made)[32] != perplexities(made, "before")[32]
    assert (made.result["steps"], made.experiment.data.block) == (3, 32)
    written = (first.path / "result.json").stat().st_mtime_ns
    run(further(base, yarn(base)), tmp_path)
    assert (first.path / "result.json").stat().st_mtime_ns == written


@pytest.mark.parametrize("model", [ROPE, BIPE])
def test_yarn_is_measured_before_and_after_its_training(model, plan, tmp_path):
    base = plan(model)
    made = run(further(base, yarn(base)), tmp_path)
    first = next(each for each in lab.load(tmp_path) if each.experiment.hash == base.hash)
    wanted = lab.measure_perplexity(first.path, lengths=(16, 32), conversions=yarn(base))
    assert perplexities(made, "before") == pytest.approx({n: loss.perplexity for n, loss in wanted.losses.items()})
    again = lab.measure_perplexity(made.path)
    assert perplexities(made) == pytest.approx({n: loss.perplexity for n, loss in again.losses.items()})
    position = lab.load_model(made).inner.config.position
    assert (position.get("between") or position)["scaling"] == "yarn"


def test_the_record_holds_the_whole_first_experiment_and_is_known_by_its_hash(plan, tmp_path):
    base = plan()
    made = further(base, yarn(base))
    assert Experiment.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert "continues" not in base.to_json()
    elsewhere = replace(base, data=replace(base.data, store="elsewhere", files=("moved",)))
    assert replace(made, continues=elsewhere).hash == made.hash
    assert replace(made, continues=replace(base, seed=1)).hash != made.hash
    assert replace(made, continues=None).hash != made.hash


def test_places_are_tokens_or_segments(plan):
    assert lab.trained_places(plan()) == 16
    assert lab.trained_places(plan("bipe ends=5")) == 4
    base = plan(BIPE)
    ends, windows = base.model.options["ends"], texts.read(base.data, 1).train
    # An end that is the last token of a window begins no further segment in it.
    counted = sorted(1 + sum(token in ends for token in window[:-1]) for window in windows.tolist())
    most = lab.trained_places(base)
    share = torch.tensor(counted).le(most).float().mean()
    assert share >= 0.99
    assert most == 1 or torch.tensor(counted).le(most - 1).float().mean() < 0.99
    assert 1 < most <= counted[-1]


def test_a_notebook_shows_a_run_that_was_not_tested_at_its_own_length(plan, tmp_path):
    made = run(further(plan(), test_lengths=(16, 64)), tmp_path)
    html = made._repr_html_()
    assert [n for n in (16, 64) if f"{perplexities(made)[n]:.1f}" not in html] == []


def test_a_first_run_that_fails_is_said_to_have(plan, tmp_path):
    base = plan()
    moved = replace(base, data=replace(base.data, digests={"train": "other", "test": "other"}))
    (outcome,) = lab.run([replace(further(base), continues=moved)], tmp_path, workers=1)
    assert outcome.run is None
    assert "goes on from failed" in outcome.error
    assert "changed since" in outcome.error


def test_two_workers_share_the_first_run(plan, tmp_path):
    base = plan()
    planned = [base, further(base), further(base, yarn(base))]
    outcomes = lab.run(planned, tmp_path, workers=2)
    assert [outcome.error for outcome in outcomes if outcome.run is None] == []
    assert len(lab.load(tmp_path)) == 3


def test_refusals(plan):
    base = plan()
    with pytest.raises(Error, match=r"settings of training\. and objective\. alone, got 'model\.width'"):
        further(base, **{"model.width": 8})
    with pytest.raises(Error, match="must fill a window of 100,000"):
        further(base, test_lengths=(100_000,))
    with pytest.raises(Error, match="YaRN slows rotary positions down"):
        further(plan("transformer position=alibi"), [{"name": "yarn", "factor": 4, "trained": 16}])
    (strings,) = lab.plan("parity", ["lstm"], train_length=4, test_lengths="8")
    with pytest.raises(Error, match="language model from scratch"):
        further(strings)
    answers = AnswersSpec("scrolls-qasper", {}, 16, files=("scrolls",), tokenizer="known", task="qasper", budget=4)
    with pytest.raises(Error, match="on text, got scrolls-qasper"):
        further(replace(base, data=answers, objective=replace(base.objective, kind="answers")))
    with pytest.raises(Error, match="lies beside its own"):
        make_trainer([further(base)])
