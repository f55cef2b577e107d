"""Loggers: every line of the metrics once, in order, whatever was stopped, resumed, or logged too late."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import ClassVar

import pytest

from lengthwise import Error, lab
from lengthwise.cli import main
from lengthwise.errors import UnknownName
from lengthwise.lab import loggers
from lengthwise.lab.job import Job, run_group
from lengthwise.train import Interrupted, Stop


class Kept:
    """A logger that keeps what it was sent."""

    logged: ClassVar[defaultdict] = defaultdict(list)
    tested: ClassVar[defaultdict] = defaultdict(list)
    opened = 0

    def __init__(self, experiment, path):
        self.run = experiment.hash
        type(self).opened += 1

    def log(self, values, step):
        self.logged[self.run].append((step, values))

    def test(self, values, length):
        self.tested[self.run].append((length, values))

    def close(self): ...


class Failing(Kept):
    def log(self, values, step):
        raise ConnectionError("no network")


@pytest.fixture
def kept(monkeypatch):
    Kept.logged, Kept.tested, Kept.opened = defaultdict(list), defaultdict(list), 0
    monkeypatch.setattr(loggers, "LOGGERS", {**loggers.LOGGERS, "json": Kept, "csv": Failing})
    return Kept


@pytest.fixture
def few(quick):
    return quick("lstm", steps=60, validate_every=20, checkpoint_every=20)


def test_loss_rate_length_accuracy_validation_and_tests_are_sent(tmp_path, few, kept):
    (outcome,) = lab.run(few, tmp_path, log="json")
    run = outcome.run
    assert run
    sent = kept.logged[run.experiment.hash]
    assert [step for step, _ in sent] == [line["step"] for line in run.metrics]
    trained = {step: values for step, values in sent if "train/loss" in values}
    assert sorted(trained) == [10, 20, 30, 40, 50, 60]
    assert set(trained[10]) == {"train/loss", "train/lr", "train/length", "train/accuracy"}
    lr = run.experiment.training.optimizer.lr
    assert 0 < trained[60]["train/lr"] < trained[10]["train/lr"] < lr
    checked = [(step, values) for step, values in sent if "validation/loss" in values]
    assert [step for step, _ in checked] == [20, 40, 60]
    assert set(checked[0][1]) == {"validation/loss", "validation/accuracy"}
    correct, samples = run.result["checkpoints"]["last"]["correct"], run.result["samples"]
    assert [(n, values["test/accuracy"]) for n, values in kept.tested[run.experiment.hash]] == [
        (int(n), count / samples) for n, count in correct.items()
    ]


def test_a_resumed_run_sends_no_step_twice(tmp_path, few, kept):
    stop = Stop()

    def hear(progress):
        stop.asked = progress.step == 35

    with pytest.raises(Interrupted):
        run_group(few, Job(tmp_path, hear=hear, stop=stop, log=("json",)))
    (path,) = tmp_path.iterdir()
    (state,) = (path / "state").iterdir()
    assert kept.logged[few[0].hash][-1][0] == 30
    # As after a kill before the first checkpoint: all steps are trained again.
    state.unlink()
    (outcome,) = lab.run(few, tmp_path, log="json")
    assert outcome.run
    steps = [step for step, values in kept.logged[few[0].hash] if "train/loss" in values]
    assert steps == [10, 20, 30, 40, 50, 60]
    lab.run(few, tmp_path, log="json")
    assert len(kept.tested[few[0].hash]) == len(few[0].tests.lengths)
    assert kept.opened == 2, "nothing is opened where nothing is left to send"


def test_a_run_that_was_finished_without_a_logger_is_sent_once(tmp_path, few, kept, monkeypatch):
    writes, write = [], loggers.write_atomically
    monkeypatch.setattr(loggers, "write_atomically", lambda *given: writes.append(given) or write(*given))
    (plain,) = lab.run(few, tmp_path)
    assert not kept.logged
    (logged,) = lab.run(few, tmp_path, log=["json"])
    assert plain.run
    assert logged.run
    assert [step for step, _ in kept.logged[few[0].hash]] == [line["step"] for line in logged.run.metrics]
    assert logged.run.result == plain.run.result
    assert len(writes) == 2, "once for all lines, once for the tests"
    lab.run(few, tmp_path, log="json")
    assert len(writes) == 2, "nothing was sent"


def test_a_logger_that_fails_is_left_out_and_the_run_goes_on(tmp_path, few, kept):
    with pytest.warns(UserWarning, match="csv failed and is left out of .* no network"):
        (outcome,) = lab.run(few, tmp_path, log=["csv", "json"])
    assert outcome.run
    assert len(kept.logged[few[0].hash]) == len(outcome.run.metrics)
    assert set(json.loads((outcome.run.path / loggers.SENT).read_text())) == {"json"}


def test_what_is_not_installed_is_said_before_anything_runs(tmp_path, few, monkeypatch, capsys):
    with pytest.raises(UnknownName, match="Did you mean 'tensorboard'"):
        lab.run(few, tmp_path, log="tensorbord")
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    for name in ("tensorboard", "wandb", "trackio"):
        with pytest.raises(Error, match=rf"pip install 'lengthwise\[{name}\]'"):
            lab.run(few, tmp_path, log=[name])
    assert main(["bench", "parity", "-m", "lstm", "--log", "wandb", "--out", str(tmp_path)]) == 2
    assert "pip install 'lengthwise[wandb]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_tensorboard_has_every_step_once(tmp_path, quick, workers):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = [
        outcome.run
        for outcome in lab.run(quick("lstm", seeds=2, steps=20), tmp_path, workers=workers, log="tensorboard")
    ]
    for run in runs:
        assert run
        events = EventAccumulator(str(run.path)).Reload()
        assert [event.step for event in events.Scalars("train/loss")] == [10, 20]
        accuracies = {event.step: event.value for event in events.Scalars("test/accuracy")}
        correct, samples = run.result["checkpoints"]["last"]["correct"], run.result["samples"]
        assert accuracies == pytest.approx({int(n): count / samples for n, count in correct.items()})


@pytest.mark.slow
def test_weights_and_biases_is_written_offline(tmp_path, quick, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    (outcome,) = lab.run(quick("lstm", seeds=1, steps=20), tmp_path, log="wandb")
    assert outcome.run
    (folder,) = (outcome.run.path / "wandb").glob("offline-run-*")
    assert folder.name.endswith(outcome.experiment.hash)
    assert json.loads((outcome.run.path / loggers.SENT).read_text()) == {"wandb": len(outcome.run.metrics) + 1}


@pytest.mark.slow
def test_trackio_keeps_a_run_in_its_folder(tmp_path, quick, monkeypatch):
    if "trackio" in sys.modules:
        pytest.skip("Trackio was imported already, and reads TRACKIO_DIR then.")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_PROJECT", f"test-{tmp_path.name}")
    (outcome,) = lab.run(quick("lstm", seeds=1, steps=20), tmp_path, log="trackio")
    assert outcome.run
    from trackio import Api

    (run,) = Api().runs(f"test-{tmp_path.name}")
    assert run.name == outcome.experiment.directory


def test_what_was_sent_cannot_be_written_and_the_run_goes_on(tmp_path, few, kept, monkeypatch):
    def refuse(path, content):
        raise OSError(28, "no space left")

    monkeypatch.setattr(loggers, "write_atomically", refuse)
    with pytest.warns(UserWarning, match="json failed and is left out of .* no space left"):
        (outcome,) = lab.run(few, tmp_path, log="json")
    assert outcome.run
    assert len(kept.logged[few[0].hash]) == 1


def test_a_damaged_note_of_what_was_sent_stops_no_run(tmp_path, few, kept):
    (outcome,) = lab.run(few, tmp_path)
    assert outcome.run
    (outcome.run.path / loggers.SENT).write_text('{"json": ')
    with pytest.warns(UserWarning, match=r"logged\.json: not whole JSON.* Delete it to send"):
        (again,) = lab.run(few, tmp_path, log="json")
    assert again.run
    assert not kept.logged
