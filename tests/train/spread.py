"""What every process of a test's job runs: `spread.py OUT STRATEGY PLANS`, where PLANS is JSON for `plan`, a list."""

import json
import os
import sys

from lengthwise import lab
from lengthwise.errors import Error

COMMON = {
    "training.steps": 20,
    "training.batch": 8,
    "training.validate_every": 10,
    "training.validation_samples": 16,
    "training.checkpoint_every": 5,
    "training.precision": "fp64",
    "tests.samples": 4,
    "model.width": 16,
}


def experiments(plans):
    made = []
    for model, settings in plans:
        task = settings.get("task", "parity")
        settings = {**COMMON, **{name: value for name, value in settings.items() if name != "task"}}
        made += lab.plan(task, [model], train_length=9, test_lengths="9,20", settings=settings)
    return made


class Tell:
    """Prints the steps of the leader, by which a test knows when to kill."""

    def begin(self, experiment): ...

    def waiting(self, experiment): ...

    def end(self, experiment, outcome): ...

    def advance(self, progress):
        print(progress.step, flush=True)


if __name__ == "__main__":
    out, strategy, plans = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    try:
        outcomes = lab.run(experiments(plans), out, device="cpu", strategy=strategy, progress=Tell())
    except (Error, lab.Interrupted) as error:
        if os.environ["RANK"] == "0" or error.said_by_all:
            print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
    if os.environ["RANK"] == "0":
        for outcome in outcomes:
            if outcome.error:
                print(outcome.error, file=sys.stderr)
