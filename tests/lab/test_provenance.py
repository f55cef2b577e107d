"""Records name the code that made them, and finished runs made by other code are pointed out."""

import subprocess

import pytest

from lengthwise import __version__
from lengthwise.cli import main
from lengthwise.lab import load
from lengthwise.lab import provenance as module
from lengthwise.lab.job import Job, run_group
from lengthwise.lab.provenance import code_version, made_by_other_code
from lengthwise.train import Interrupted

HERE = {"version": __version__, "commit": "a" * 40, "clean": True}


def bench(root):
    words = "-m lstm --train-length 4 --test-lengths 8 --set training.steps=2 --set tests.samples=4"
    return main(["bench", "parity", *words.split(), "--set", "model.width=4", "--out", str(root)])


def test_of_a_checkout_the_commit_and_its_state(tmp_path, monkeypatch):
    (tmp_path / "package" / "lab").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "package" / "lab" / "provenance.py"))

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    unknown = {"version": __version__, "commit": None, "clean": None}
    assert code_version.__wrapped__() == unknown
    git("init")
    # A package installed below somebody else's repository is none of its files.
    assert code_version.__wrapped__() == unknown
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    assert code_version.__wrapped__() == {"version": __version__, "commit": commit, "clean": True}
    (tmp_path / "elsewhere.txt").write_text("no part of the package")
    assert code_version.__wrapped__()["clean"] is True
    (tmp_path / "package" / "__init__.py").write_text("changed = True")
    assert code_version.__wrapped__() == {"version": __version__, "commit": commit, "clean": False}
    monkeypatch.setenv("PATH", "")
    assert code_version.__wrapped__() == unknown


@pytest.mark.parametrize(
    ("recorded", "other"),
    [
        (HERE, False),
        ({**HERE, "clean": False}, True),
        ({**HERE, "commit": "b" * 40}, True),
        ({**HERE, "commit": None, "clean": None}, True),
        ({**HERE, "version": "0.0.1"}, True),
        (None, True),
    ],
)
def test_other_code(monkeypatch, recorded, other):
    monkeypatch.setattr(module, "code_version", lambda: HERE)
    assert made_by_other_code(recorded) == other
    monkeypatch.setattr(module, "code_version", lambda: {**HERE, "clean": False})
    assert made_by_other_code(HERE), "the tree here is not what was committed"


def test_bench_points_at_finished_runs_of_other_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "code_version", lambda: HERE)
    monkeypatch.setattr("lengthwise.lab.job.code_version", lambda: HERE)
    assert bench(tmp_path) == 0
    assert load(tmp_path)[0].result["code"] == HERE
    assert bench(tmp_path) == 0
    assert "other code" not in capsys.readouterr().err
    monkeypatch.setattr(module, "code_version", lambda: {**HERE, "commit": "b" * 40})
    assert bench(tmp_path) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "other code" in line]
    assert line.startswith("note: 1 of 1 runs found finished were made by other code")
    assert "lstm seed 0" in line
    assert "--out" in line


def test_a_record_names_the_code_that_began_and_the_code_that_ended(tmp_path, quick, monkeypatch):
    (experiment,) = quick(steps=8, checkpoint_every=4)
    began, ended = {**HERE, "commit": "a" * 40}, {**HERE, "commit": "c" * 40}

    def stop(progress):
        job.stop.asked = progress.step >= 5

    job = Job(tmp_path, hear=stop, code=began)
    with pytest.raises(Interrupted):
        run_group([experiment], job)
    (outcome,) = run_group([experiment], Job(tmp_path, code=ended))
    assert outcome.run.result["code"] == {**ended, "clean": False, "begun_by": began}
    (alone,) = run_group([experiment], Job(tmp_path / "alone", code=ended))
    assert alone.run.result["code"] == ended
