"""How many of the library's own functions one call walks through: what a reader must know to follow it."""

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
