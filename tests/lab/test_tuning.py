"""Optuna's trials as ordinary runs: what one is worth, what is not run twice, and what is refused."""

from __future__ import annotations

import json

import pytest

from lengthwise import Error, errors, lab
from lengthwise.lab import tuning

TINY = {"training.steps": 6, "training.batch": 4, "training.validate_every": 2, "training.validation_samples": 8}
TINY |= {"tests.samples": 2, "model.width": 4}
SPACE = {"training.lr": (1e-4, 1e-1, "log"), "model.layers": [1, 2], "training.warmup": (0, 3)}
GIVEN = {"train_length": 4, "test_lengths": "8", "settings": TINY, "device": "cpu"}


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    pytest.importorskip("optuna").logging.set_verbosity(40)


@pytest.fixture
def heard(monkeypatch):
    """The runs that took a step since it was last cleared."""
    began, advance = set(), tuning._Followed.advance

    def hear(self, step):
        began.add(step.what)
        advance(self, step)

    monkeypatch.setattr(tuning._Followed, "advance", hear)
    return began


@pytest.mark.slow
def test_a_trial_is_an_ordinary_run_and_is_run_once(tmp_path, heard):
    study = lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path, seeds=2, **GIVEN)
    assert len(heard) == len(lab.load(tmp_path)) == 8
    for trial in study.trials:
        settings = {**TINY, **trial.params}
        planned = lab.plan("parity", ["rnn"], train_length=4, test_lengths="8", settings=settings, seeds=2)
        runs = [lab.load(tmp_path / e.directory)[0] for e in planned]
        right = [run.result["checkpoints"]["best"]["validation"]["accuracy"] for run in runs]
        assert trial.value == sum(right) / 2
        assert trial.user_attrs["runs"] == [run.path.name for run in runs]
        rows = [json.loads(line) for line in (runs[0].path / "metrics.jsonl").read_text().splitlines()]
        told = {row["step"]: row["accuracy"] for row in rows if row["kind"] == "validation"}
        assert trial.intermediate_values == told
        assert list(told) == [2, 4, 6]
    heard.clear()
    again = lab.tune("parity", "rnn", SPACE, trials=5, root=tmp_path, seeds=2, **GIVEN)
    assert [trial.params for trial in again.trials[:4]] == [trial.params for trial in study.trials]
    assert len(heard) == 2, "the fifth alone is new"


@pytest.mark.slow
def test_an_interrupted_study_goes_on_as_if_nothing_had_been(tmp_path, heard, monkeypatch):
    whole = lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path / "whole", **GIVEN)
    look, stopped = tuning._Followed.look, []

    def stop(self):
        look(self)
        if self.trial.number == 2 and self.told == 2 and not stopped:
            stopped.append(self.hash)
            raise lab.Interrupted("Stopped; all state is kept.")

    monkeypatch.setattr(tuning._Followed, "look", stop)
    with pytest.raises(lab.Interrupted):
        lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path / "runs", **GIVEN)
    assert len(lab.load(tmp_path / "runs")) == 2
    heard.clear()
    again = lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path / "runs", **GIVEN)
    assert len(heard) == 2
    assert stopped[0] in heard
    assert [(t.params, t.value) for t in again.trials] == [(t.params, t.value) for t in whole.trials]


@pytest.mark.slow
def test_a_pruned_trial_is_pruned_again_without_a_step(tmp_path, heard):
    import optuna

    class Odd(optuna.pruners.BasePruner):
        """Ends every second trial at its second validation."""

        def prune(self, study, trial):
            return trial.number % 2 == 1 and trial.last_step == 4

    study = lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path, pruner=Odd(), **GIVEN)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"] * 2
    assert [list(trial.intermediate_values) for trial in study.trials] == [[2, 4, 6], [2, 4]] * 2
    assert len(lab.load(tmp_path)) == 2
    heard.clear()
    again = lab.tune("parity", "rnn", SPACE, trials=4, root=tmp_path, pruner=Odd(), **GIVEN)
    assert [(t.params, t.state) for t in again.trials] == [(t.params, t.state) for t in study.trials]
    assert heard == set()


def test_a_run_that_goes_bad_fails_its_trial_alone(monkeypatch, tmp_path):
    def bad(experiments, *_, **__):
        return [lab.Outcome(e, error="the loss is not finite", exit_code=1) for e in experiments]

    monkeypatch.setattr(tuning, "run", bad)
    study = lab.tune("parity", "rnn", {"training.lr": (1e-4, 1e-2)}, trials=2, root=tmp_path, **GIVEN)
    assert [(t.state.name, t.user_attrs["error"]) for t in study.trials] == [("FAIL", "the loss is not finite")] * 2
    monkeypatch.setattr(
        tuning, "run", lambda given, *_, **__: [lab.Outcome(given[0], error="a wrong call", exit_code=2)]
    )
    with pytest.raises(Error, match="a wrong call"):
        lab.tune("parity", "rnn", {"training.lr": (1e-4, 1e-2)}, trials=2, root=tmp_path, **GIVEN)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({}, "space must be a mapping"),
        ([("training.lr", (1, 2))], "space must be a mapping"),
        ({"training.lr": 1e-3}, "training.lr must be searched in"),
        ({"training.lr": (1e-2, 1e-3)}, "training.lr must be searched in"),
        ({"training.lr": (0, 1.0, "log")}, "with low above 0"),
        ({"training.lr": (-1.0, 1.0)}, "training.lr must be a number above 0, got -1.0"),
        ({"training.lr": []}, "or a list of choices, got []"),
        ({"training.lrr": (1e-3, 1e-2)}, "Did you mean 'training.lr'?"),
        ({"model.widht": [1, 2]}, "Did you mean 'model.width'?"),
        ({"model.width": [8, 16]}, "model.width is both set and swept"),
        ({"tests.seed": [1, 2]}, "tests.seed is part of the question"),
        ({"training.lengths": [(1, 2), (1, 3)]}, "training.lengths is part of the question"),
        ({3: [1, 2]}, "A setting is named by a text, got 3"),
    ],
)
def test_a_wrong_space_is_refused_before_a_trial(space, says, tmp_path):
    with pytest.raises(Error) as caught:
        lab.tune("parity", "rnn", space, root=tmp_path / "none", **GIVEN)
    assert says in str(caught.value)
    assert not (tmp_path / "none").exists()
    with pytest.raises(Error, match="trials must be a whole number at least 1, got 0"):
        lab.tune("parity", "rnn", SPACE, trials=0)


def test_without_optuna_the_line_to_install_it(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[optuna\]'"):
        lab.tune("parity", "rnn", SPACE)
