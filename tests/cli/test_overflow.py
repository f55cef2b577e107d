"""A run whose logits overflow in its test: it is no failure, and nobody takes its score for a plain one."""

from __future__ import annotations

import json
from pathlib import Path

from lengthwise.cli import main

TOYS = Path(__file__).parent.parent / "lab" / "toys.py"
SMALL = {"steps": 10, "lr": 0.01, "schedule": "constant", "batch": 8, "validate_every": 10, "validation_samples": 16}


def call(out, *more):
    given = [part for name, value in SMALL.items() for part in ("-s", f"training.{name}={value}")]
    models = ["-m", f"{TOYS}:Drifting", "-m", f"{TOYS}:Bursting"]
    where = ["--train-length", "8", "--test-lengths", "12,16", "--workers", "1", "--device", "cpu", "--out", str(out)]
    return main(["bench", "parity", *models, *given, "-s", "tests.samples=16", *where, *more])


def test_it_is_reported(tmp_path, capsys):
    assert call(tmp_path) == 0
    out = capsys.readouterr().out
    bad = _overflowed(tmp_path)
    said = f"Logits that overflow count as wrong: toys.py:Bursting at 16, {bad} of 16 strings"
    assert said in " ".join(out.split())
    assert said in (tmp_path / "index.html").read_text()
    assert call(tmp_path, "--json") == 0
    out = capsys.readouterr().out
    fine, burst = (model["ranges"] for model in json.loads(out)["tasks"][0]["models"])
    assert [r["overflowed"]["last"] for r in fine] == [0, 0, 0]
    assert [r["overflowed"]["last"] for r in burst] == [0, 0, bad]


def _overflowed(root):
    (found,) = (json.loads((path / "result.json").read_text()) for path in root.glob("parity-*Bursting*"))
    (bad,) = found["checkpoints"]["last"]["overflowed"].values()
    assert 0 < bad < 16
    return bad
