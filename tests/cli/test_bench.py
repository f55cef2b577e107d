"""`lengthwise bench` and `export` as a user types them: what is printed, written, refused and resumed."""

from __future__ import annotations

import json
import multiprocessing.forkserver
from pathlib import Path

import pytest

from lengthwise import Error, lab, tasks
from lengthwise.cli import main

from .tiny import TINY, bench


def test_seeds_are_named(tmp_path):
    assert bench(tmp_path, "--seeds", "3,1") == 0
    assert sorted(run.experiment.seed for run in lab.load(tmp_path)) == [1, 3]


def test_bench_then_again_then_report(tmp_path, capsys):
    root = tmp_path / "runs"
    assert bench(root, "--seeds", "2") == 0
    out, err = capsys.readouterr()
    assert "lstm" in out
    assert "2 seeds" in out
    assert str(root / "index.html") in out
    assert "[2/2] lstm seed 1:" in err
    assert "found finished" not in err
    assert (root / "index.html").read_text().startswith("<!doctype html>")

    assert bench(root, "--seeds", "2", "--json", "--html", str(root / "other.html")) == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["failures"] == []
    assert data["page"] == str(root / "other.html")
    assert data["tasks"][0]["models"][0]["seeds"] == [0, 1]
    assert err.count("found finished, ") == 2

    assert main(["report", str(root), "--csv", str(root / "r.csv"), "--html", str(root)]) == 0
    out, _ = capsys.readouterr()
    assert "2 seeds" in out
    assert (root / "r.csv").read_text().count("\n") == 1 + 2 * 9
    command = lab.load(root)[0].result["command"]
    assert command.startswith("lengthwise bench parity -m lstm")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["bench", "parityy", "-m", "lstm"], "Did you mean 'parity'?"),
        (["bench", "parity", "-m", "lstmm"], "Did you mean 'lstm'?"),
        (["bench", "parity"], "bench needs a model, as in -m lstm"),
        (["bench", "-m", "lstm"], "bench needs a TASK"),
        (["bench", "parity", "-m", "lstm", "--workers", "0"], "--workers must be a whole number at least 1, got 0."),
        (["bench", "parity", "-m", "lstm", "--workers", "1" * 400], "workers must be a whole number in 1..1024"),
        (["bench", "parity", "-m", "lstm", "--seeds", "1" * 400], "at most 10,000 runs in one grid"),
        (["bench", "parity", "-m", "lstm", "--train-length", "1" * 400], "at most 1,048,576 symbols in a string"),
        (["bench", "parity", "-m", "lstm", "-s", f"training.lr={'1' * 400}"], "training.lr must be a number above 0"),
        (["bench", "parity", "-m", "lstm", "--device", "gpu"], "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["bench", "parity", "-m", "lstm", "--learning-rates", "1e-3"], "Did you mean --sweep training.lr=1e-3,3e-4?"),
        (["bench", "parity", "-m", "lstm", "--sedes", "2"], "Did you mean --seeds? See: lengthwise bench --help"),
        (["bench", "parity", "lstm"], "lengthwise bench has no use for lstm."),
        (["bench", "parity", "-m", "lstm", "-s", "training.stps=3"], "Did you mean 'training.steps'?"),
        (["bench", "parity", "-m", "lstm", "-s", "steps=5"], "Did you mean training.steps?"),
        (["bench", "parity", "-m", "lstm", "-s", "widht=5"], "Did you mean model.width?"),
        (["bench", "parity", "-m", "lstm", "-s", "task.name=x"], "Unknown setting of parity 'task.name'"),
        (["bench", "parity", "-m", "lstm", "-s", "task.probabilities=0.3"], "parity: probabilities must be 2 numbers"),
        (["bench", "parity", "-m", "lstm", "-s", "training.lr=1e400"], "training.lr must be a number above 0, got inf"),
        (["bench", "parity", "-m", "lstm", "-s", "training.threads=100000"], "training.threads must be a whole number"),
        (["bench", "parity", "-m", "lstm", "-s", "model.chunk=2"], "Unknown setting of lstm 'model.chunk'"),
        (["bench", "word-problem", "-m", "lstm", "-s", "task.group=5"], "group must be Zn or Cn"),
        (["bench", "machine", "-m", "lstm"], "machine needs delta. Add --set task.delta=…."),
        (["export", "machine", "--lengths", "4", "--out", "x"], "Add --set task.delta=…."),
        (["bench", "regex:a{2,1}", "-m", "lstm"], "Lower bound 2 cannot be greater than the upper bound. Correct"),
        (["bench", "parity", "-m", "gpt2"], "A Hugging Face model is hf:PATH"),
        (["bench", "parity", "-m", "hf:~nosuchuser"], "there is no such home"),
        (["bench", "parity", "-m", "lstm", "--test-lengths", "7:3"], "empty"),
        (["bench", "parity", "-m", "lstm", "--seeds", "0"], "--seeds"),
        (["bench", "parity", "-m", "lstm", "--seeds", "1,-2"], "--seeds must be a list of whole numbers at least 0"),
        (["bench", "parity", "-m", "lstm", "--seeds", "1,"], "--seeds must be a list of whole numbers at least 0"),
        (["reproduce", "demo", "prity"], "Did you mean 'demo parity'?"),
        (["reproduce", "regulargpt", "table-1", "--scale", "smoke", "--only", "prity"], "Did you mean 'parity'?"),
        (
            ["reproduce", "demo", "parity", "--scale", "big"],
            "--scale must be 'smoke', 'laptop', 'overnight' or 'paper', got 'big'.",
        ),
        (["export", "parity", "--lengths", "4", "--out", "/tmp/x", "-s", "model.width=3"], "model.width"),
        (["export", "parity", "--lengths", "0", "--out", "/tmp/x"], "at least 1"),
        (["report", "/no/such/place"], "/no/such/place"),
        (["nonsense"], "lengthwise --help"),
        (["doctor", "--nonsense"], "lengthwise doctor --help"),
    ],
)
def test_a_wrong_call_is_one_line_and_two(call, words, refused):
    refused(call, words)


def test_debug_shows_where(capsys, monkeypatch):
    for call in (["--debug", "report", "/no/such/place"], ["report", "/no/such/place", "--debug"]):
        assert main(call) == 2
        assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("LENGTHWISE_DEBUG", "1")
    assert main(["report", "/no/such/place"]) == 2
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.delenv("LENGTHWISE_DEBUG")
    assert main(["report", "/no/such/place"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_unwritable_places_are_named(root, tmp_path, capsys):
    if not list(root.glob("parity*")):
        bench(root)
    (tmp_path / "file").write_text("")
    assert main(["report", str(root), "--html", str(tmp_path / "file" / "x.html")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "exit_code"), [([0, 1], 1), ([0, 2], 1), ([2, 2], 2), ([1, 2], 1), ([0, 0], 0)], ids=str
)
def test_failed_runs_are_listed_and_the_others_reported(codes, exit_code, root, tmp_path, capsys, monkeypatch):
    bench(root, "--seeds", "2")
    capsys.readouterr()
    runs = lab.load(root)
    outcomes = [
        lab.Outcome(
            run.experiment, error="it broke", traceback="Traceback: here", exit_code=code, log=Path("error.txt")
        )
        if code
        else lab.Outcome(run.experiment, run)
        for run, code in zip(runs, codes, strict=True)
    ]

    def run(experiments, root, *, progress, **_):
        for outcome in outcomes:
            progress.end(outcome.experiment, outcome)
        return outcomes

    monkeypatch.setattr(lab, "run", run)
    assert bench(tmp_path, "--seeds", "2") == exit_code
    out, err = capsys.readouterr()
    failed = sum(map(bool, codes))
    assert err.count("error: lstm seed") == failed
    assert err.count("traceback: error.txt") == failed
    assert "Traceback: here" not in err
    assert ("majority answer" in out) == (failed < 2)
    again = ["bench", "parity", "-m", "lstm", *TINY, "--out", str(tmp_path), "--seeds", "2"]
    assert main(["--debug", *again, "--json"]) == exit_code
    out, err = capsys.readouterr()
    assert [f["error"] for f in json.loads(out)["failures"]] == ["it broke"] * failed
    assert err.count("Traceback: here") == failed


def test_interruption_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def run(*_, **__):
        raise lab.Interrupted("Stopped; all state is kept.")

    monkeypatch.setattr(lab, "run", run)
    assert bench(tmp_path) == 130
    err = capsys.readouterr().err
    assert "Stopped; all state is kept." in err
    assert f"lengthwise bench parity -m lstm {' '.join(TINY)} --out {tmp_path}" in err


def test_export_writes_the_strings_that_bench_tests_on(tmp_path, told, refused):
    call = ["export", "modular-sum", "--lengths", "4:6", "--samples", "3", "--seed", "7", "-s", "task.modulus=3"]
    said = told(*call, "--out", tmp_path / "data")
    assert (said["lengths"], said["directory"]) == ([4, 5, 6], str(tmp_path / "data"))
    lines = (tmp_path / "data" / "data" / "length_5.jsonl").read_text().splitlines()
    strings = tasks.get("modular-sum", modulus=3).test_set(5, 3, seed=7)
    assert [json.loads(line)["tokens"] for line in lines] == strings.tokens.tolist()
    assert main([*call, "--out", str(tmp_path / "data")]) == 0
    refused([*call, "--samples", "4", "--out", tmp_path / "data"], "is not an empty directory")


def test_several_models_with_a_comma(tmp_path, told):
    models = told("bench", "parity", "-m", "lstm,gru", *TINY, "--out", tmp_path)["tasks"][0]["models"]
    assert [each["model"] for each in models] == ["lstm", "gru"]


def test_a_setting_that_some_models_lack_is_told_once(tmp_path, capsys):
    call = ["bench", "parity", "-m", "lstm,gru,regular-gpt", *TINY, "-s", "model.chunk=3", "--out", str(tmp_path)]
    assert main(call) == 0
    assert (
        capsys.readouterr().err.count("warning: model.chunk is no option of lstm, gru, and is used for the others") == 1
    )
    chunks = {run.experiment.model.name: run.experiment.model.options.get("chunk") for run in lab.load(tmp_path)}
    assert chunks == {"lstm": None, "gru": None, "regular-gpt": 3}
    with pytest.raises(Error, match=r"Unknown setting of lstm 'model\.chunk'"):
        lab.plan("parity", ["lstm", "gru"], settings={"model.chunk": 3})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("task = 5", "task must be a text"),
        ('models = "lstm"', "models must be a list of texts, got 'lstm'"),
        ("seeds = 0", "seeds must be a whole number at least 1, got 0"),
        ("seeds = true", "seeds must be a whole number at least 1, got True"),
        ('seeds = "many"', "seeds must be a whole number at least 1"),
        ("seeds = []", "seeds must be a whole number at least 1"),
        ("seeds = [-1]", "seeds must be"),
        ("settings = 3", "settings must be"),
        ("sedes = 3", "Did you mean 'seeds'?"),
        ("[settings]\nsteps = 3", "Did you mean training.steps?"),
        ("[settings]\ntraining.clip = []", "training.clip must be a number"),
        ("test_lengths = [1, 2]", "test_lengths must be"),
        ("x = ", "not a readable TOML file"),
        ('html = "\\u0000"', "null"),
    ],
)
def test_a_wrong_study_is_one_line(content, words, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(content)
    typed = ["bench", "--config", "study.toml"]
    typed += [] if "task" in content else ["parity"]
    typed += [] if "models" in content else ["-m", "lstm"]
    refused([*typed, *TINY], words)


@pytest.mark.parametrize("option", [["--device", "cuda:99"], ["--device", "gpu"]])
def test_a_wrong_device_leaves_nothing_behind(option, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = ["bench", "parity", "-m", "lstm", *TINY, *option, "--save-config", "study.toml"]
    assert main(call) == 2
    assert main(["reproduce", "demo", "parity", "--scale", "smoke", *option]) == 2
    assert list(tmp_path.iterdir()) == []


CHATTY = """
import os, sys
import torch

print("imported")

class Chatty(torch.nn.Module):
    def __init__(self, vocab_size, width=8):
        super().__init__()
        self.table = torch.nn.Embedding(vocab_size, vocab_size)
        print("built")

    def forward(self, tokens):
        print("called")
        print("beneath", file=sys.__stdout__)
        os.write(1, b"raw\\n")
        return self.table(tokens)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_model_that_prints_leaves_json_alone(workers, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    # Workers write where the server wrote when it began, which an earlier test may have been.
    multiprocessing.forkserver._forkserver._stop()  # pyright: ignore[reportAttributeAccessIssue]
    Path("chatty.py").write_text(CHATTY)
    call = ["bench", "parity", "-m", "chatty.py:Chatty", "--seeds", "2", *TINY, "--workers", workers, "--json"]
    code, (out, err) = main(call), capfd.readouterr()
    assert code == 0, err
    assert json.loads(out)["failures"] == []
    for word in ("imported", "built", "called", "beneath", "raw"):
        assert word in err


def test_a_setting_is_compared_pair_by_pair(tmp_path, capsys, told, refused):
    root = tmp_path / "runs"
    for lr in ("0.001", "0.01"):
        assert bench(root, "--seeds", "2", "--set", f"training.lr={lr}") == 0
    capsys.readouterr()
    assert main(["report", str(root), "--compare", "training.lr"]) == 0
    assert "training.lr: 0.01 instead of 0.001" in capsys.readouterr().out
    (panel,) = told("report", root, "--compare", "training.lr", "--html", root)["panels"]
    assert [pair["seed"] for pair in panel["data"]["pairs"]] == [0, 1]
    assert "training.lr: 0.01 instead of 0.001" in (root / "index.html").read_text()
    refused(["report", root, "--compare", "training.lrr"], "Did you mean 'training.lr'?")
