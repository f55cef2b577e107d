"""`lengthwise report` where runs are damaged: each is named with its reason, and hides no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lengthwise import Error, lab
from lengthwise.cli import main
from lengthwise.files import canonical, digest

SETTINGS = {"training.steps": 5, "training.batch": 8, "training.validation_samples": 8, "tests.samples": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    lab.bench("parity", ["lstm"], seeds=3, test_lengths="41", settings=SETTINGS, root=root, device="cpu")
    return root


@pytest.fixture
def root(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def run_of(root: Path, seed: int) -> Path:
    return next(root.glob(f"*-s{seed}-*"))


def forge(path: Path, **changes) -> None:
    """Change a result and its digest, as only somebody who means to could."""
    result = json.loads((path / "result.json").read_text())
    content = {key: value for key, value in {**result, **changes}.items() if key != "sha256" and value is not None}
    (path / "result.json").write_text(json.dumps({**content, "sha256": digest(canonical(content))}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


DAMAGES = {
    "broken JSON": (lambda run: (run / "result.json").write_text("{"), "result.json: not whole JSON"),
    "deep JSON": (lambda run: (run / "result.json").write_text("[" * 100_000), "result.json: not whole JSON"),
    "no object": (lambda run: (run / "result.json").write_text("[]"), "result.json: edited"),
    "truncated weights": (lambda run: cut(run / "model.safetensors"), "model.safetensors: truncated or edited"),
    "missing weights": (lambda run: (run / "best.safetensors").unlink(), "best.safetensors: no such file"),
    "missing config": (lambda run: (run / "config.json").unlink(), "config.json: no such file"),
    "edited metrics": (lambda run: (run / "metrics.jsonl").write_text("x"), "metrics.jsonl: truncated or edited"),
    "no checkpoints": (lambda run: forge(run, checkpoints=None), "no record of this version"),
    "text for a number": (lambda run: forge(run, samples="many"), "no record of this version"),
    "list for an object": (lambda run: forge(run, checkpoints=[]), "no record of this version"),
    "another format": (lambda run: forge(run, format=99), "written in format 99"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_and_hides_no_other(damage, root, capsys):
    spoil, words = DAMAGES[damage]
    spoil(run_of(root, 1))
    assert main(["report", str(root), "--html", str(root / "index.html"), "--csv", str(root / "all.csv")]) == 1
    out, err = capsys.readouterr()
    assert "2 seeds" in out
    assert (root / "index.html").exists()
    assert (root / "all.csv").read_text().count("\n") > 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: left out: {run_of(root, 1)}")
    assert words in line
    assert main(["report", str(root), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["tasks"][0]["models"][0]["seeds"] == [0, 2]
    assert words in data["left_out"][0]


@pytest.mark.parametrize("damage", ["missing weights", "missing config"])
def test_a_missing_file_names_the_remedy(damage, root):
    run = run_of(root, 1)
    DAMAGES[damage][0](run)
    with pytest.raises(Error, match=f"Restore it, or delete {run} to run it again"):
        lab.load(root)


def test_a_renamed_run_is_called_renamed(root, capsys):
    run = run_of(root, 1)
    run.rename(root / "my favourite")
    assert main(["report", str(root)]) == 1
    err = capsys.readouterr().err
    assert f"left out: {root / 'my favourite'}: renamed, and otherwise whole. Name it {run.name} again" in err


def test_runs_that_are_not_finished_are_told(root, capsys):
    run = run_of(root, 1)
    (run / "result.json").unlink()
    assert main(["report", str(root)]) == 0
    assert f"note: left out 1 run that is not finished: {run.name}." in capsys.readouterr().err
    (run_of(root, 0) / "result.json").unlink()
    assert main(["report", str(root), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["unfinished"]) == 2


def test_nothing_is_left_to_report(root, capsys):
    for seed in range(3):
        cut(run_of(root, seed) / "model.safetensors")
    assert main(["report", str(root)]) == 2
    *left_out, last = capsys.readouterr().err.splitlines()
    assert len(left_out) == 3
    assert last == "error: There is nothing to report: none of 3 finished runs here can be read."
    assert main(["report", str(run_of(root, 0))]) == 2
    assert capsys.readouterr().err.count("\n") == 1
