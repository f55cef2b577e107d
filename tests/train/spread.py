"""What every process of a test's job runs: `spread.py OUT STRATEGY EXPERIMENTS`, the last a file of `pickle`."""

import os
import pickle
import sys
from pathlib import Path

from lengthwise import lab
from lengthwise.errors import Error


class Tell:
    """Prints the steps of the leader, by which a test knows when to kill."""

    def begin(self, experiment): ...

    def waiting(self, experiment): ...

    def end(self, experiment, outcome): ...

    def advance(self, progress):
        print(progress.step, flush=True)


if __name__ == "__main__":
    out, strategy, experiments = sys.argv[1], sys.argv[2], pickle.loads(Path(sys.argv[3]).read_bytes())
    try:
        outcomes = lab.run(experiments, out, device="cpu", strategy=strategy, progress=Tell())
    except (Error, lab.Interrupted) as error:
        if os.environ["RANK"] == "0" or error.said_by_all:
            print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
    if os.environ["RANK"] == "0":
        for outcome in outcomes:
            if outcome.error:
                print(outcome.error, file=sys.stderr)
