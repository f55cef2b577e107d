"""The leaderboard: a file of JSON for each row of task and model, in `leaderboard/`. A pull request adds one.

    python site/leaderboard.py add RUNS      # rows of runs of `lengthwise bench`, with the verdicts beside them
    python site/leaderboard.py check FILE    # trains a seed of the row again, and compares what comes out

A row names the whole experiment: with the same seed it has the same hash, and on the same machine the same network.

    schema         1
    task           name and options
    model          name and options
    training       every setting
    train_length   the longest string of training
    samples        test strings of each length
    seeds          by seed: the hash of the experiment, the share of right strings by length, and the verdict
    made           date, commit and command of the first run, and the record it is from
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lengthwise import lab, report, verify
from lengthwise.errors import Error

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "leaderboard"
RECORDS = ("proof-steady-laptop", "proof-table-laptop")
"""Of `results/`, whose runs have verdicts."""
NAMES = {"schema", "task", "model", "training", "train_length", "samples", "seeds", "made"}
VERDICTS = ("proved", "refuted", "unknown")


def rows_of(data: Mapping[str, Any], record: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of what `report.data` says of runs, each with the name of its file."""
    tested: dict[str, dict[str, Any]] = {}
    for each in data["rows"]:
        found = tested.setdefault(each["run"], {"hash": each["hash"], "seed": each["seed"], "right": {}})
        found["right"][str(each["length"])] = each["accuracy"]
    for task in data["tasks"]:
        for model in task["models"]:
            seeds = {}
            for run in model["runs"]:
                found = tested[Path(run["path"]).name]
                verdict = (run.get("verdict") or {}).get("verdict", "unknown")
                kept = {"verdict": verdict if verdict in VERDICTS else "unknown"}
                seeds[str(found["seed"])] = {"hash": found["hash"], "right": found["right"], **kept}
            first = model["runs"][0]
            made = {"date": first["date"][:10], "commit": first["code"]["commit"], "command": first["command"]}
            row = {
                "schema": 1,
                "task": {"name": task["task"], "options": task["params"]},
                "model": {"name": model["model"], "options": model["options"]},
                "training": {name: value for name, value in model["training"].items() if name != "lengths"},
                "train_length": model["training"]["lengths"][1],
                "samples": task["samples"],
                "seeds": seeds,
                "made": {**made, "record": record},
            }
            yield f"{task['task']}-{model['model']}-{next(iter(seeds.values()))['hash'][:8]}.json", row


def problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a row, in a sentence each."""
    if set(row) != NAMES or row["schema"] != 1:
        yield f"a row has {', '.join(sorted(NAMES))}, and schema 1"
        return
    if not row["seeds"]:
        yield "a row has at least one seed"
    for seed, of in row["seeds"].items():
        if of["verdict"] not in VERDICTS:
            yield f"seed {seed}: a verdict is {', '.join(VERDICTS)}, got {of['verdict']!r}"
        if not all(0 <= share <= 1 for share in of["right"].values()) or not of["right"]:
            yield f"seed {seed}: shares of right strings lie in 0..1, one for each length"
        if planned(row, int(seed)).hash != of["hash"]:
            yield f"seed {seed}: {of['hash']} is the hash of another experiment"


def planned(row: Mapping[str, Any], seed: int) -> lab.Experiment:
    """The experiment of one seed."""
    settings = {f"{part}.{name}": value for part in ("task", "model") for name, value in row[part]["options"].items()}
    settings |= {f"training.{name}": value for name, value in row["training"].items()}
    lengths = sorted(map(int, row["seeds"][str(seed)]["right"]))
    (experiment,) = lab.plan(
        row["task"]["name"],
        [row["model"]["name"]],
        seeds=[seed],
        train_length=row["train_length"],
        test_lengths=lengths,
        settings={**settings, "tests.samples": row["samples"]},
    )
    return experiment


def checked(row: Mapping[str, Any], seed: int, budget: float, root: Path) -> Iterator[str]:
    """Trains one seed again: what differs from the row, in a sentence each."""
    of = row["seeds"][str(seed)]
    (outcome,) = lab.run([planned(row, seed)], root, workers=1)
    if outcome.run is None:
        yield f"it did not train: {outcome.error}"
        return
    for length, share in of["right"].items():
        if (again := lab.accuracy(outcome.run, int(length))) != share:
            yield f"at length {length} {again:.4f} of the strings are right, and the row says {share:.4f}"
    if of["verdict"] != "unknown":
        verdict = type(verify.certify(outcome.run, budget=budget)).__name__.lower()
        if verdict != of["verdict"]:
            yield f"it is {verdict}, and the row says {of['verdict']}"


def farthest(of: Mapping[str, Any]) -> int:
    """The longest tested length up to which every string was right; 0: not even the shortest."""
    longest = 0
    for length, share in sorted((int(n), share) for n, share in of["right"].items()):
        if share < 1:
            break
        longest = length
    return longest


def everywhere(row: Mapping[str, Any]) -> int:
    """How many seeds are right on every string of every tested length."""
    return sum(farthest(of) == max(map(int, of["right"])) for of in row["seeds"].values())


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    return {file.name: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def page() -> str:
    """The page of the site: a table for each task, the most successful models first."""
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in read().values():
        by_task.setdefault(row["task"]["name"], []).append(row)
    tables = []
    for task, rows in sorted(by_task.items()):
        rows.sort(key=lambda row: (-_share(row, "proved"), -everywhere(row) / len(row["seeds"]), row["model"]["name"]))
        lines = [
            f"## {task}\n",
            "| model | right everywhere | farthest | verdicts | trained on | date | row |",
            "|---" * 7 + "|",
        ]
        tables += [*lines, *map(_line, rows), ""]
    return f"""# Leaderboard

How often training finds the rule: seeds that are right on every test string of every tested length, the farthest
length up to which all strings were right (of the worst and of the best seed), and what `certify` decided of each seed,
as training left it. "Farthest" ends where the tests end; ✓ holds at every length.

A row is a file of `leaderboard/`, named TASK-MODEL-ROW.json, and names the whole experiment. `python
site/leaderboard.py check leaderboard/FILE` trains a seed of it again and compares; `python site/leaderboard.py add
RUNS` writes rows of your runs, for a pull request.

{chr(10).join(tables)}"""


def _share(row: Mapping[str, Any], verdict: str) -> float:
    return sum(of["verdict"] == verdict for of in row["seeds"].values()) / len(row["seeds"])


def _line(row: Mapping[str, Any]) -> str:
    ends, seeds = [farthest(of) for of in row["seeds"].values()], len(row["seeds"])
    ways = [f"{name}={value}" for name, value in row["model"]["options"].items() if name not in ("width", "heads")]
    training = row["training"]
    steady = "as usual" if training.get("steady") in (None, "off") else "steady" if training["contraction"] else "noise"
    marks = {"proved": ("✓", "proved"), "refuted": ("✗", "refuted"), "unknown": ("?", "unknown")}
    verdicts = " ".join(
        f'<span class="{kind}">{mark} {sum(of["verdict"] == verdict for of in row["seeds"].values())}</span>'
        for verdict, (mark, kind) in marks.items()
        if _share(row, verdict)
    )
    far = f"{min(ends):,}" if min(ends) == max(ends) else f"{min(ends):,}–{max(ends):,}"
    cells = [" ".join([f"`{row['model']['name']}`", *ways, f"({steady})"]), f"{everywhere(row)} of {seeds}", far]
    first = next(iter(row["seeds"].values()))["hash"][:8]
    return "| " + " | ".join([*cells, verdicts, f"1–{row['train_length']}", row["made"]["date"], f"`{first}`"]) + " |"


def write(rows: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, row in rows.items():
        (folder / name).write_text(json.dumps(row, separators=(",", ":")) + "\n", encoding="utf-8")


def recorded() -> dict[str, dict[str, Any]]:
    """The rows of this repository's own records."""
    rows = {}
    for name in RECORDS:
        data = report.recorded(ROOT / "results" / name)
        rows |= dict(rows_of(data, f"results/{name}"))
    return rows


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python site/leaderboard.py", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    adding = verbs.add_parser("add", help="write rows of runs")
    adding.add_argument("runs", type=Path)
    adding.add_argument("--out", type=Path, default=FOLDER)
    checking = verbs.add_parser("check", help="train a seed of a row again, and compare")
    checking.add_argument("row", type=Path)
    checking.add_argument("--seed", type=int, help="which; the first")
    checking.add_argument("--budget", type=float, default=120.0, help="seconds for the verdict")
    asked = parser.parse_args(words)
    try:
        if asked.verb == "add":
            rows = dict(rows_of(report.data(lab.load(asked.runs))))
            write(rows, asked.out)
            print("\n".join(str(asked.out / name) for name in rows))
            return 0
        row = json.loads(asked.row.read_text(encoding="utf-8"))
        wrong = list(problems(row))
        if not wrong:
            seed = int(next(iter(row["seeds"]))) if asked.seed is None else asked.seed
            with tempfile.TemporaryDirectory() as root:
                wrong = list(checked(row, seed, asked.budget, Path(root)))
    except (Error, OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(wrong) or f"{asked.row}: seed {seed} came out as the row says.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
