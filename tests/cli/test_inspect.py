"""`lengthwise inspect`: what it prints, writes and returns, and its words when something goes wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from lengthwise import lab, tasks, theory
from lengthwise.cli import main

SETTINGS = {
    "training.steps": 12,
    "training.batch": 8,
    "training.validation_samples": 8,
    "tests.samples": 4,
    "regular-gpt.width": 16,
}
TOYS = Path(__file__).parent.parent / "insight" / "toys.py"


def train(root, task="parity", models=("regular-gpt",)):
    return lab.bench(task, list(models), test_lengths="41", settings=SETTINGS, root=root)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    train(root, models=["regular-gpt", "lstm", *(f"{TOYS}:{name}" for name in ("OneHot", "Bare", "Chatty"))])
    return root


@pytest.fixture(scope="module")
def path(root):
    return lambda model: str(next(root.glob(f"parity-{model}-*")))


def test_clusters(path, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["inspect", path("regular-gpt"), "clusters", "--length", "100", "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "regular-gpt on parity" in out
    assert "700 outputs of 7 depths" in out
    assert "group 6, 100 tokens" in out
    assert f"Page: {page}" in out
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert 'id="panel0"' in text
    assert "https://" not in text.replace("http://www.w3.org", "")
    assert "<h1>Inside regular-gpt on parity</h1>" in text
    assert f"The last checkpoint of {Path(path('regular-gpt')).name}." in text


def test_receptive_field_as_json(path, tmp_path, told):
    call = ["inspect", path("lstm"), "receptive-field", "--length", "30", "--strings", "3", "--checkpoint", "best"]
    data = told(*call, "--html", tmp_path)
    assert (data["view"], data["checkpoint"], data["run"]) == ("receptive-field", "best", path("lstm"))
    assert data["page"] == str(tmp_path / "index.html")
    assert (data["model"], data["length"], data["strings"], len(data["cumulative"])) == ("lstm", 30, 3, 30)
    data = told(*call[:2], "clusters", "--length", "30")
    assert data["page"] is None
    assert sum(data["sizes"]) == 30


def test_attention(tmp_path, capsys, told):
    _, run = train(tmp_path, models=["regular-gpt", "chacal"])
    call = ["inspect", str(run.path), "attention"]
    page = tmp_path / "page.html"
    assert main([*call, "--head", "1.3", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "Layer 1, head 3 (chain attention, γ = 0.9)" in out
    assert "23 " in out, "24 tokens"
    assert page.read_text().count('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 252 ') == 1
    data = told(*call, "--length", "5")
    assert (data["view"], len(data["words"])) == ("attention", 5)
    assert [layer["mixer"] for layer in data["layers"]] == ["softmax", "chain"]
    for head, words in (("9.0", "no head 0 in layer 9"), ("1", "LAYER.HEAD"), ("1.x", "LAYER.HEAD")):
        assert main([*call, "--head", head]) == 2
        assert words in capsys.readouterr().err


def test_lengths_left_out(path, tmp_path, capsys):
    assert main(["inspect", path("regular-gpt"), "clusters"]) == 0
    assert "1 string of 500 tokens" in capsys.readouterr().out
    (run,) = train(tmp_path, "modular-arithmetic")
    assert main(["inspect", str(run.path), "receptive-field"]) == 0
    assert "16 strings of 499" in " ".join(capsys.readouterr().out.split())
    assert main(["inspect", str(run.path), "clusters", "--length", "40"]) == 2
    assert "length must be odd" in capsys.readouterr().err


def test_the_checkpoint_asked_for_is_loaded(path, monkeypatch, capsys):
    asked, load = [], lab.load_model
    monkeypatch.setattr(lab, "load_model", lambda run, which, trust: asked.append(which) or load(run, which))
    call = ["inspect", path("lstm"), "receptive-field", "--length", "20"]
    assert main(call) == main([*call, "--checkpoint", "best"]) == 0
    assert asked == ["last", "best"]


def test_json_is_alone_on_stdout(path, capfd):
    assert main(["inspect", path("toys-py-Chatty"), "clusters", "--length", "20", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["task"] == "parity"
    assert "I am thinking" in err


@pytest.mark.parametrize(
    ("model", "call", "words"),
    [
        ("regular-gpt", ["clusterz"], "clusters"),
        ("regular-gpt", ["clusters", "--length", "0"], "--length"),
        ("regular-gpt", ["clusters", "--strings", "0"], "--strings"),
        ("regular-gpt", ["clusters", "--strings", "100000000"], "at most 500,000 tokens to look at"),
        ("lstm", ["receptive-field", "--strings", "1" * 400], "at most 500,000 tokens to look at"),
        ("regular-gpt", ["clusters", "--checkpoint", "first"], "--checkpoint"),
        ("regular-gpt", ["clusters", "--head", "0.0"], "--head chooses what attention draws"),
        ("regular-gpt", ["attention"], "got SlidingDilated"),
        ("lstm", ["algebra", "--length", "30"], "--length and --strings are for the other views"),
        ("lstm", ["clusters", "--snapped", "somewhere"], "--snapped writes what algebra finds, got view clusters"),
        ("regular-gpt", [], "view"),
        ("toys-py-Bare", ["clusters"], "its blocks must be in an nn.ModuleList"),
        ("toys-py-OneHot", ["receptive-field"], "its tokens must be read by an nn.Embedding"),
        (None, ["clusters"], "holds 5"),
        ("/no/such/run", ["clusters"], "/no/such/run: no such file"),
    ],
)
def test_a_wrong_call_is_one_line_and_two(root, path, model, call, words, refused):
    where = str(root) if model is None else model if model.startswith("/") else path(model)
    refused(["inspect", where, *call], words)


def test_a_diverged_model_is_a_finding(path, monkeypatch, capsys):
    load = lab.load_model

    def broken(run, which, trust):
        classifier = load(run, which)
        with torch.no_grad():
            next(classifier.parameters()).fill_(math.nan)
        return classifier

    monkeypatch.setattr(lab, "load_model", broken)
    assert main(["inspect", path("lstm"), "clusters"]) == 1
    assert capsys.readouterr().err.startswith("error: lstm: its blocks put out NaN")


def test_algebra(path, tmp_path, capsys, monkeypatch, told):
    """The run of a model whose weights were written down in the place of trained ones."""
    parity = tasks.get("parity")
    monkeypatch.setattr(lab, "load_model", lambda *_, **__: theory.exact_classifier(parity))
    folder, page = tmp_path / "snapped", tmp_path / "page.html"
    assert main(["inspect", path("regular-gpt"), "algebra", "--snapped", str(folder), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "algebra of 2 elements" in out
    assert "the two machines are equal at every length" in out
    assert (folder / "model.safetensors").is_file()
    assert "What regular-gpt on parity computes" in page.read_text()
    found = told("inspect", path("regular-gpt"), "algebra")
    assert (found["algebra"]["elements"], found["regexes"]) == (2, {"1": "(0|10*1)*10*"})
    assert (lab.load(path("regular-gpt"))[0].path / "extracted.json").is_file()
