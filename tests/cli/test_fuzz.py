"""Two thousand command lines and calls drawn from a seed: none ends in a traceback, a hang, or much memory.

Four child processes run them, one line after another, each on files of its own. A line has 20 seconds of processor
time, however busy the machine is, and 4 GB; all of them together took 107
seconds of it. What ends badly is printed as it can be run again. Other lines:

    LENGTHWISE_FUZZ_SEED=7 pytest -m slow tests/cli/test_fuzz.py
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lengthwise import lab
from lengthwise.files import canonical, digest

from .command_lines import drawn

LINES, CHILDREN = 2000, 4
SEED = int(os.environ.get("LENGTHWISE_FUZZ_SEED", "0"))
CHILD = Path(__file__).parent / "command_child.py"
TINY = {"training.steps": 1, "training.batch": 2, "training.validation_samples": 2, "tests.samples": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A directory with runs that are whole, damaged and forged, and with files of settings."""
    top = tmp_path_factory.mktemp("made")

    def bench(root: str, *models: str, **settings) -> None:
        lab.bench("parity", models, test_lengths="41", settings=TINY | settings, root=top / root, device="cpu")

    bench("runs", "lstm", "gru", "rnn")
    bench("one", "regular-gpt", **{"model.width": 8})
    bench("links", "chacal", **{"model.width": 8, "model.heads": 2})
    broken, odd, _ = sorted((top / "runs").glob("parity-*"))
    broken, odd = broken.rename(top / "runs" / "broken"), odd.rename(top / "runs" / "odd")
    (broken / "result.json").write_text('{"files": ')
    content = json.loads((odd / "result.json").read_text())
    content |= {"command": "\x1b]0;owned\x07", "checkpoints": {"last": 3}}
    content.pop("sha256")
    (odd / "result.json").write_text(json.dumps({**content, "sha256": digest(canonical(content))}))
    (top / "sound.toml").write_text('seeds = 1\n[settings]\ntraining.clip = "none"\n')
    (top / "odd.toml").write_text('task = "\\u001b[2J"\nmodels = ["lstm", "\\u0000"]\nsettings.training = 3\n')
    (top / "wrong.toml").write_text("seeds = []\n")
    return top


@pytest.mark.slow
@pytest.mark.parametrize("child", range(CHILDREN))
def test_no_line_ends_in_a_traceback_a_hang_or_much_memory(child, made, tmp_path):
    # Two folders above it nothing lies that other tests left.
    place = shutil.copytree(made, tmp_path / "above" / "beside" / "place")
    lines = drawn(SEED * CHILDREN + child, LINES // CHILDREN)
    done = subprocess.run(
        [sys.executable, str(CHILD)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        errors="replace",
        cwd=place,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "LENGTHWISE_DEBUG": ""},
    )
    heard = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    begun = [each[0] for each in heard if len(each) == 1]
    failed = [each for each in heard if len(each) > 1]
    if done.returncode and not (failed and failed[-1][0] == begun[-1]):
        failed.append([begun[-1] if begun else 0, f"exit {done.returncode}", done.stderr[-600:]])
    for number, why, said in failed:
        verb, *words = lines[number]
        again = " ".join(words) if verb in ("python", "misuse") else f"lengthwise {shlex.join(lines[number])}"
        print(f"{why}: {again!a}\n    {said!a}")
    assert not failed
    assert begun == list(range(len(lines)))


def test_the_lines_are_drawn_from_their_seed():
    assert drawn(0, 50) == drawn(0, 50) != drawn(1, 50)
    verbs = {line[0] for line in drawn(0, 500)}
    assert verbs >= {"bench", "report", "inspect", "export", "list", "reproduce", "python", "misuse"}
    assert verbs >= {"certify", "compile"}
