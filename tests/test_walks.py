"""How many of the library's own functions one call walks through: what a reader must know to follow it."""

import pytest

WALK = """
import sys, tempfile
from pathlib import Path
import lengthwise
from lengthwise import lab

source = str(Path(lengthwise.__file__).parent)
calls = []

def hear(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source) and not code.co_name.startswith("<"):
        calls.append((code.co_filename, code.co_qualname))

with tempfile.TemporaryDirectory() as root:
    bench = lambda length: lab.bench("parity", ["lstm"], train_length=length, test_lengths="16",
                                     settings={"training.steps": 3, "model.width": length}, root=root)
    bench(8)  # imports
    sys.setprofile(hear)
    bench(9)
    sys.setprofile(None)
before = calls[: next(i for i, (_, name) in enumerate(calls) if name == "Trainer.run")]
print(len(set(calls)), len({file for file, _ in calls}), len(set(before)))
"""


def test_bench_of_one_model_walks_through_no_more_functions_than_before(run_python):
    told = run_python(WALK)
    assert told.returncode == 0, told.stderr
    functions, files, before_training = map(int, told.stdout.split())
    assert functions <= 316
    assert files <= 54
    assert before_training <= 190


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
source, calls = str(Path(lengthwise.__file__).parent), set()

def hear(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source) and not code.co_name.startswith("<"):
        calls.add((code.co_filename, code.co_qualname))

walk()  # imports
sys.setprofile(hear)
walk()
sys.setprofile(None)
print(len(calls), len({file for file, _ in calls}))
"""


@pytest.mark.parametrize(
    ("code", "network", "functions", "files"),
    [
        (CHECK, "parity-rnn", 68, 8),
        (CHECK, "parity-automaton", 80, 8),
        (CHECK, "parity-regular-gpt", 108, 9),
        (CERTIFY, "", 330, 52),
    ],
    ids=["check-rnn", "check-automaton", "check-tree", "certify"],
)
def test_a_proof_walks_through_no_more_functions_than_before(run_python, code, network, functions, files):
    told = run_python(code.replace("sys.argv[1]", repr(network)) + COUNT)
    assert told.returncode == 0, told.stderr
    counts = [int(number) for number in told.stdout.split()]
    assert counts[0] <= functions
    assert counts[1] <= files
