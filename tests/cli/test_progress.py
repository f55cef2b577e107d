"""The lines that follow the runs of a call: how many, how they are named, how much time is left."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from rich.console import Console

from lengthwise import lab
from lengthwise.cli.progress import Bars, Lines, TimeLeft, names, verdict
from lengthwise.lab import plan

from .tiny import bench


class Recorder:
    def __init__(self):
        self.said = []

    def print(self, text, **_):
        self.said.append(text)


def test_lines_are_not_a_flood(root, capsys, monkeypatch):
    bench(root)
    capsys.readouterr()
    run = lab.load(root)[0]
    e = run.experiment
    watch = Lines([e], lines := Recorder())
    watch.begin(e)
    monkeypatch.setattr("time.monotonic", lambda: seconds)
    for seconds in range(1, 1001):
        watch.advance(lab.Progress(e.hash, seconds, 1000, 0.5))
    for done in range(1, 51):
        watch.advance(lab.Progress(e.hash, done, 50, 0.0, "test last"))
    watch.end(e, lab.Outcome(e, run))
    steps = [line.partition("step ")[2].partition("/")[0] for line in lines.said]
    assert steps == ["", "61", "181", "421", "901", ""], "a run that is quick has its first and its last line alone"
    assert "training, 1,000 steps" in lines.said[0]
    assert "% at 41–44" in lines.said[-1]


class Late(lab.InProcess):
    """Progress that arrives when the outcome is there, as it does from other machines."""

    def run(self, groups, job):
        heard = []
        for outcome in super().run(groups, replace(job, hear=heard.append)):
            yield outcome
            for progress in heard:
                job.hear(progress)


@pytest.mark.parametrize("steps", [5, 20])
@pytest.mark.parametrize("watcher", [Lines, Bars])
def test_progress_after_the_outcome_is_no_news(quick, tmp_path, capsys, steps, watcher):
    experiments = quick(seeds=2, steps=steps)
    for found in (0, 2):
        with watcher(experiments, Console(stderr=True, width=200), tmp_path) as watch:
            outcomes = lab.run(experiments, tmp_path, launch=Late(), progress=watch)
        assert [(o.error, o.found) for o in outcomes] == [(None, bool(found))] * 2
        err = capsys.readouterr().err
        assert err.count("found finished") == found
        assert err.count("[2/2] lstm seed 1: ") == 1


def launches():
    """Other processes take seconds to start."""
    for launch in ("here", "pool", "slurm", "ray"):
        marks = [] if launch == "here" else [pytest.mark.slow]
        yield from (pytest.param(launch, steps, marks=marks) for steps in (5, 20, 100))


@pytest.mark.parametrize(("launch", "steps"), list(launches()))
def test_short_runs_of_every_launch_are_told_once(quick, tmp_path, capsys, monkeypatch, launch, steps):
    engine = launch
    if launch == "slurm":
        pytest.importorskip("submitit")
        monkeypatch.setattr("lengthwise.lab.slurm_jobs.LOOK_EVERY", 0.1)
        engine = lab.SlurmJobs(cluster="local")
    elif launch == "ray":
        pytest.importorskip("ray")
    experiments = quick(seeds=2, steps=steps)
    for found in (0, 2):
        with Lines(experiments, Console(stderr=True, width=200), tmp_path) as watch:
            outcomes = lab.run(experiments, tmp_path, launch=engine, progress=watch)
        assert [(o.error, o.found) for o in outcomes] == [(None, bool(found))] * 2
        err = capsys.readouterr().err
        assert err.count("found finished") == found
        assert err.count("] lstm seed 1: ") == 1


def at(monkeypatch, second, left, experiment, step):
    monkeypatch.setattr("time.monotonic", lambda: float(second))
    return left.advance(experiment.hash, step)


def test_pace_counts_from_where_it_was_resumed(monkeypatch):
    e = plan("parity", ["lstm"], settings={"training.steps": 1000})[0]
    left = TimeLeft([e])
    assert str(at(monkeypatch, 100, left, e, 700)) == ""
    assert str(at(monkeypatch, 102, left, e, 800)) == "50 steps/s"
    assert str(left) == "4.0 s left"


def test_the_time_left_is_said_of_runs_on_a_cluster_too(monkeypatch, capsys):
    """Few messages come from there: of a short run its first step alone; and a run whose node died goes back."""
    a, b, c, d = plan("parity", ["lstm"], seeds=4, settings={"training.steps": 100})
    left = TimeLeft([a, b, c, d])
    at(monkeypatch, 0, left, a, 1)
    at(monkeypatch, 0, left, b, 1)
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    left.end(a.hash, 100)
    left.end(b.hash, 100)
    assert round(left.seconds, 1) == 10.1
    assert str(left) == "10 s left for all 4 runs"
    watch = Lines([a, b, c, d], Console(stderr=True))
    watch.left = left
    watch.advance(lab.Progress(c.hash, 1, 100, 0.5))
    assert "lstm seed 2: training, 100 steps, 10 s left for all 4 runs\n" in capsys.readouterr().err
    at(monkeypatch, 15, left, c, 81)
    assert str(at(monkeypatch, 20, left, c, 41)) == ""
    assert str(at(monkeypatch, 22, left, c, 61)) == "10 steps/s"


def test_the_time_left_is_that_of_all_runs(monkeypatch):
    a, b, c, done = plan("parity", ["lstm"], seeds=4, settings={"training.steps": 1000})
    left = TimeLeft([a, b, c, done])
    left.end(done.hash)  # found finished
    assert str(left) == ""
    at(monkeypatch, 0, left, a, 0)
    at(monkeypatch, 0, left, b, 0)
    at(monkeypatch, 10, left, a, 100)
    at(monkeypatch, 10, left, b, 100)
    # Two side by side took 200 of 3,000 steps in 10 seconds.
    assert str(left) == "2 min 20 s left for all 4 runs"
    at(monkeypatch, 100, left, a, 1000)
    at(monkeypatch, 100, left, b, 1000)
    assert left.seconds == 50
    left.end(a.hash)
    left.end(b.hash)
    at(monkeypatch, 100, left, c, 0)
    at(monkeypatch, 110, left, c, 100)
    assert left.seconds == 90, "alone it takes what it takes"
    at(monkeypatch, 120, left, c, 300)
    left.end(c.hash)
    assert str(left) == "", "stopped early, it has nothing left"


def test_lines_tell_variants_apart():
    wide, narrow = (plan("parity", ["lstm"], seeds=2, settings={"model.width": width}) for width in (32, 16))
    called = names([*wide, *narrow])
    assert list(called.values()) == [f"lstm width={w} seed {s}" for w in (32, 16) for s in (0, 1)]
    longer = plan("parity", ["lstm"], test_lengths="60", settings={"model.width": 32})
    assert len({*names([*wide, *longer]).values()}) == 3, "tested at other lengths"
    sums = plan("modular-sum", ["lstm"], settings={"task.modulus": 3, "model.width": 32})
    assert list(names([wide[0], *sums]).values()) == ["parity lstm seed 0", "modular-sum (modulus=3) lstm seed 0"]


def test_one_length_is_one():
    (e,) = plan("parity", ["lstm"])
    watch = Lines([e], lines := Recorder())
    watch.begin(e)
    watch.advance(lab.Progress(e.hash, 0, 1, 0.0, "test last"))
    assert lines.said == ["lstm seed 0: test last checkpoint, 1 length"]


def test_the_verdict_is_on_longer_strings(root):
    bench(root)
    run = lab.load(root)[0]
    trained = run.experiment.training.but(lengths=(42, 43))
    below = replace(run.experiment, training=trained)
    assert [part.split(" at ")[1] for part in verdict(lab.Outcome(below, run)).split(", ")] == ["44", "60"]
    none = replace(below, training=trained.but(lengths=(42, 60)))
    assert verdict(lab.Outcome(none, run)).endswith("at 42–60"), "with nothing longer, what there is"


def test_lines_tell_files_of_one_name_apart(root):
    bench(root)
    e = lab.load(root)[0].experiment
    here, there = (replace(e, model=replace(e.model, name=f"{place}/toys.py:Net")) for place in "ab")
    watch = Lines([here, there], lines := Recorder())
    for one in (here, there):
        watch.begin(one)
        watch.advance(lab.Progress(one.hash, 1, 100, 0.5))
    assert [line.split(" seed")[0] for line in lines.said] == ["a/toys.py:Net", "b/toys.py:Net"]


def test_runs_are_not_searched_for_each_name():
    experiments = lab.plan("parity", ["lstm"], seeds=50, train_length=8, test_lengths="8")
    calls = []
    sys.setprofile(lambda frame, event, what: calls.append(event == "c_call" and what.__name__ == "count"))
    try:
        called = names(experiments)
    finally:
        sys.setprofile(None)
    assert len(set(called.values())) == 50
    assert sum(calls) < 50
