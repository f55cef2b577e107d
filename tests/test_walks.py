"""How many of the library's own functions one call walks through: what a reader must know to follow it."""

import pytest

BENCH = """
import os, sys
from pathlib import Path
import lengthwise
from lengthwise import lab

os.chdir(sys.argv[1])
widths = iter([8, 16])

def walk():
    width = next(widths)
    settings = {"training.steps": 3, "model.width": width}
    lab.bench("parity", ["lstm"], train_length=width, test_lengths="16", settings=settings)
"""
TRAIN = """
import os, sys
from pathlib import Path
import lengthwise
from lengthwise.cli import main

os.chdir(sys.argv[1])
Path("texts").mkdir()
for number in range(40):
    Path(f"texts/{number}.txt").write_text(" ".join(f"word{number * k % 97}" for k in range(300)))
widths = iter([8, 16])

def walk():
    words = "train texts --train-length 16 --test-lengths 16,32 --vocabulary 300 --workers 1 --device cpu"
    settings = "-s training.steps=3 -s training.batch=4 -s text.held_out=0.3"
    assert main([*words.split(), *settings.split(), "-m", f"transformer width={next(widths)} heads=2"]) == 0
"""
CHECK = """
import json, sys
from pathlib import Path
import lengthwise
from lengthwise.lab.collection import network_folder
from lengthwise.verify import checker

folder = network_folder(sys.argv[1])
certificate = json.loads((folder / "certificate.json").read_text())
walk = lambda: checker.check(certificate, folder)
"""
CERTIFY = """
import sys
from pathlib import Path
import lengthwise
from lengthwise import tasks, theory, verify

parity, model = tasks.get("parity"), theory.exact_classifier("parity")
walk = lambda: verify.certify(model, parity, 10)
"""
COUNT = """
source, calls = str(Path(lengthwise.__file__).parent), {}

def hear(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source) and not code.co_name.startswith("<"):
        calls.setdefault((code.co_filename, code.co_qualname))

walk()  # imports
sys.setprofile(hear)
walk()
sys.setprofile(None)
names = [name for _, name in calls]
print(len(calls), len({file for file, _ in calls}), names.index("Trainer.run") if "Trainer.run" in names else 0)
"""


@pytest.mark.parametrize(
    ("code", "network", "functions", "files", "before_training"),
    [
        (BENCH, "", 304, 52, 184),
        (TRAIN, "", 480, 84, 253),
        (CHECK, "parity-rnn", 68, 8, 0),
        (CHECK, "parity-automaton", 80, 8, 0),
        (CHECK, "parity-regular-gpt", 110, 9, 0),
        (CERTIFY, "", 333, 50, 0),
    ],
    ids=["bench", "train", "check-rnn", "check-automaton", "check-tree", "certify"],
)
def test_a_call_walks_through_no_more_functions_than_before(
    run_python, tmp_path, code, network, functions, files, before_training
):
    told = run_python(code + COUNT, network or tmp_path)
    assert told.returncode == 0, told.stderr
    counts = [int(number) for number in told.stdout.splitlines()[-1].split()]
    assert counts[0] <= functions
    assert counts[1] <= files
    assert (counts[2] > 0) is (before_training > 0)
    assert counts[2] <= before_training
