"""The lines that follow the runs of a call: how many, how they are named, how much time is left."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lengthwise import lab
from lengthwise.cli.progress import Watch, names, verdict
from lengthwise.lab import plan

from .tiny import bench


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def following(experiments, terminal=False):
    """The watcher of runs, what it writes, and its clock."""
    out, clock = Console(file=io.StringIO(), force_terminal=terminal, width=200), Clock()
    return Watch(experiments, out, get_time=clock), out.file, clock


def hear(watch, experiment, step, steps=1000, phase="train"):
    watch.advance(lab.Progress(experiment.hash, step, steps, 0.5, phase))


def test_lines_are_not_a_flood(root):
    bench(root)
    run = lab.load(root)[0]
    e = run.experiment
    watch, file, clock = following([e])
    watch.begin(e)
    for clock.seconds in range(1, 1001):
        hear(watch, e, clock.seconds)
    for done in range(1, 51):
        hear(watch, e, done, 50, "test last")
    watch.end(e, lab.Outcome(e, run))
    lines = file.getvalue().splitlines()
    steps = [line.partition("step ")[2].partition("/")[0] for line in lines]
    assert steps == ["1", "61", "181", "421", "901", ""]
    assert lines[1] == "lstm seed 0: step 61/1,000, loss 0.5, 1 steps/s, 15 min 39 s left"
    assert "% at 41–44" in lines[-1]


class Late(lab.InProcess):
    """Progress that arrives when the outcome is there, as it does from other machines."""

    def run(self, groups, job):
        heard = []
        for outcome in super().run(groups, replace(job, hear=heard.append)):
            yield outcome
            for progress in heard:
                job.hear(progress)


def launches():
    """Other processes take seconds to start, and write what others do."""
    for launch in ("here", "late", "pool", "slurm", "ray"):
        quickly = launch in ("here", "late")
        for steps in (5, 20, 100):
            for terminal in (False, True)[: 1 + quickly]:
                yield pytest.param(launch, steps, terminal, marks=[] if quickly else [pytest.mark.slow])


@pytest.mark.parametrize(("launch", "steps", "terminal"), list(launches()))
def test_short_runs_of_every_launch_are_told_once(quick, tmp_path, capsys, monkeypatch, launch, steps, terminal):
    engine = Late() if launch == "late" else launch
    if launch == "slurm":
        pytest.importorskip("submitit")
        monkeypatch.setattr("lengthwise.lab.slurm_jobs.LOOK_EVERY", 0.1)
        engine = lab.SlurmJobs(cluster="local")
    elif launch == "ray":
        pytest.importorskip("ray")
    experiments = quick(seeds=2, steps=steps)
    for found in (0, 2):
        err = Console(stderr=True, width=200, force_terminal=terminal, highlight=False)
        with Watch(experiments, err, tmp_path) as watch:
            outcomes = lab.run(experiments, tmp_path, launch=engine, progress=watch)
        assert [(o.error, o.found) for o in outcomes] == [(None, bool(found))] * 2
        err = capsys.readouterr().err
        assert err.count("found finished") == found
        assert err.count("] lstm seed 1: ") == 1


def test_pace_and_time_count_from_where_a_run_was_resumed():
    e = plan("parity", ["lstm"], settings={"training.steps": 1000})[0]
    watch, file, clock = following([e])
    for clock.seconds, step in ((0, 700), (2, 720), (64, 820), (66, 840)):
        hear(watch, e, step)
    first, *_, last = file.getvalue().splitlines()
    assert first == "lstm seed 0: step 700/1,000, loss 0.5"
    assert last == "lstm seed 0: step 820/1,000, loss 0.5"
    hear(watch, e, 860)
    assert watch.bars[e.hash].fields["at"] == "step 860/1,000, loss 0.5, 20 steps/s"
    assert watch.all.fields["at"] == "7.0 s left"


def test_the_speed_of_text_is_in_tokens():
    (e,) = plan("parity", ["lstm"], settings={"training.batch": 4})
    watch, _, clock = following([replace(e, data=lab.TextSpec("text", block=64))])
    (run,) = watch.todo
    for clock.seconds, step in ((0.0, 1), (2.0, 9)):
        watch.advance(lab.Progress(run, step, 1000, 0.5))
    assert watch.bars[run].fields["at"] == "step 9/1,000, loss 0.5, 1,024 tokens/s"


def test_the_time_left_is_that_of_all_runs():
    a, b, c, done = plan("parity", ["lstm"], seeds=4, settings={"training.steps": 1000})
    watch, file, clock = following([a, b, c, done])
    watch.end(done, lab.Outcome(done, error="it broke"))
    assert "left" not in file.getvalue()
    for clock.seconds in range(11):
        for each in (a, b):
            hear(watch, each, 10 * clock.seconds)
    # Two side by side take 20 of 3,000 steps in a second.
    assert watch.all.time_remaining == pytest.approx(140, rel=0.06)
    assert watch.all.fields["at"].endswith(" left for all 4 runs")
    for each in (a, b):
        watch.end(each, lab.Outcome(each, error="it broke"))
    for clock.seconds in range(100, 111):
        hear(watch, c, 10 * (clock.seconds - 100))
    assert watch.all.remaining == 900, "stopped early, they have nothing left"
    hear(watch, c, 50)
    hear(watch, c, 60)
    assert watch.all.remaining == 940, "its node died, and it went back to its last checkpoint"


def test_lines_tell_variants_apart():
    wide, narrow = (plan("parity", ["lstm"], seeds=2, settings={"model.width": width}) for width in (32, 16))
    called = names([*wide, *narrow])
    assert list(called.values()) == [f"lstm width={w} seed {s}" for w in (32, 16) for s in (0, 1)]
    longer = plan("parity", ["lstm"], test_lengths="60", settings={"model.width": 32})
    assert len({*names([*wide, *longer]).values()}) == 3, "tested at other lengths"
    sums = plan("modular-sum", ["lstm"], settings={"task.modulus": 3, "model.width": 32})
    assert list(names([wide[0], *sums]).values()) == ["parity lstm seed 0", "modular-sum (modulus=3) lstm seed 0"]
    files = [replace(wide[0], model=replace(wide[0].model, name=f"{place}/toys.py:Net")) for place in "ab"]
    assert list(names(files).values()) == ["a/toys.py:Net seed 0", "b/toys.py:Net seed 0"]


def test_one_length_is_one():
    (e,) = plan("parity", ["lstm"])
    watch, file, _ = following([e])
    hear(watch, e, 0, 1, "test last")
    assert file.getvalue() == "lstm seed 0: test last: 0/1 length\n"


def test_the_verdict_is_on_longer_strings(root):
    bench(root)
    run = lab.load(root)[0]
    trained = run.experiment.training.but(lengths=(42, 43))
    below = replace(run.experiment, training=trained)
    assert [part.split(" at ")[1] for part in verdict(lab.Outcome(below, run)).split(", ")] == ["44", "60"]
    none = replace(below, training=trained.but(lengths=(42, 60)))
    assert verdict(lab.Outcome(none, run)).endswith("at 42–60"), "with nothing longer, what there is"
