"""Learned, then proved: six kinds of networks trained steady, RNN, GRU and LSTM as usual besides; seven tasks.

All see strings of at most 40 symbols and their answers; trees of discrete nodes ask for more of these. Recurrences take
the same steps however they are trained. Trees that are hard to make steady learn with noise alone, and where such a
tree is not proved as it was learned, a copy is settled: taught the machine extracted from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from ...lab import Experiment, Run, accuracy
from ...report import Panel, Table, TableCell, record_table
from ...report.formatting import percent
from ..base import Recipe, Scale
from ..common.grid import Cell, Grid, plan_cell
from .networks import NetworkQuestion, ProofNetwork, networks, verdict_cell
from .scales import LAPTOP_TASKS, MODELS, Budget
from .table import task_of

WAYS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "varied, noise": {"training.varied": 0.5, "training.steady": "on", "training.contraction": 0.0},
    "steady": {"training.varied": 0.5, "training.steady": "on"},
    "growing, noise": {
        "training.varied": 0.5,
        "training.steady": "on",
        "training.contraction": 0.0,
        "training.curriculum": "growing",
        "training.batch": 32,
    },
}
"""varied: half of the strings have symbol probabilities of their own; steady: with the penalty on steep steps too;
growing: lengths grow as they are learned."""
SETTLED = "growing, noise"
"""The way of training after which a network that is not proved is settled."""
RECURRENCES = ("RNN", "GRU", "LSTM")
SETTINGS: dict[str, dict[str, Any]] = {
    **{model: {"model.width": 64} for model in RECURRENCES},
    "automaton": {"model.width": 64, "training.steps": 1000},
    "RegularGPT": {"model.width": 32, "model.heads": 4, "model.expansion": 8},
    "discrete": {
        "model.groups": 8,
        "model.codes": 4,
        "model.width": 32,
        "model.heads": 4,
        "training.spans": True,
        "training.optimizer": "muon",
    },
}
"""Of each kind of network, besides what `scales.MODELS` says; nodes of discrete ones are words of 8 choices among 4."""
PENALTY = {"training.contraction": 0.03, "training.slope": 0.2}
"""RegularGPT's own weight of the penalty, and the share of an error that a token may leave free of it."""
SEEDS: dict[Scale, dict[tuple[str, str], int]] = {
    "smoke": {("RNN", "steady"): 1, ("GRU", "steady"): 1},
    "laptop": {
        ("RNN", "as usual"): 5,
        ("RNN", "varied, noise"): 2,
        ("RNN", "steady"): 5,
        ("GRU", "as usual"): 2,
        ("GRU", "steady"): 5,
        ("LSTM", "as usual"): 2,
        ("LSTM", "steady"): 5,
        ("automaton", "steady"): 5,
        ("RegularGPT", "steady"): 5,
        ("RegularGPT", SETTLED): 5,
        ("discrete", SETTLED): 5,
    },
    "paper": {
        **{(model, way): 10 for model in SETTINGS if model != "discrete" for way in WAYS if way != SETTLED},
        **{(model, SETTLED): 10 for model in ("RegularGPT", "discrete")},
    },
}
"""Of each model and way how many seeds."""
TASKS: dict[Scale, tuple[str, ...]] = {"smoke": ("parity",), "laptop": LAPTOP_TASKS, "paper": LAPTOP_TASKS}
STEPS: dict[Scale, int] = {"smoke": 3, "laptop": 3000, "paper": 3000}
GROWING_STEPS, LONG = 1200, 2400
"""Of lengths that grow; D_2's brackets take longer, and so do spans and the penalty."""
PENALISED = ("cycle-navigation", "RegularGPT")
"""A continuous tree that turns round a cycle drifts, so that its lengths grow with the penalty, too."""
LONGER: dict[Scale, float] = {"smoke": 0.05, "laptop": 1.0, "paper": 3.0}
"""How many times the seconds of its kind a decision has."""
Key = tuple[str, str, str]
"""A cell's task, model and way of training."""


def recipe(scale: Scale) -> Recipe:
    """Networks of six kinds trained steady, or as usual: which are proved as they were learned, which are refuted."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        decided = {
            key: [networks(run, _question(scale, *key[1:]), device) for run in runs] for key, runs in finished.items()
        }
        return [matrix(decided), _table(scale, finished, decided)]

    return Recipe(
        title="Learned, then proved",
        description=(
            "RNN, GRU, LSTM and stacks of automata of width 64 and RegularGPT of width 32 learn seven tasks from "
            "strings of at most 40 symbols, an answer after every prefix. Each network is then held against the "
            "machine of its task, as training left it: proved at every length, refuted by a word, or unknown."
        ),
        grid=Grid(
            [
                Cell((task, *of), partial(planned, scale, task, *of), label=task)
                for task, of in product(TASKS[scale], SEEDS[scale])
            ]
        ),
        report=report,
    )


def planned(scale: Scale, row: str, model: str, way: str) -> list[Experiment]:
    task, own = task_of(row, "prefix"), SETTINGS[model]
    steps = min(STEPS[scale], own.get("training.steps", STEPS[scale]))
    penalised = way == "steady" or (way == SETTLED and (row, model) == PENALISED)
    if way == SETTLED:
        steps = min(steps, LONG if model == "discrete" or row == "d-2" or penalised else GROWING_STEPS)
    settings = {
        "seeds": SEEDS[scale][model, way],
        "training.batch": 64,
        "training.optimizer": "adamw",
        "training.lr": 3e-3,
        "training.weight_decay": 0.01,
        "training.validation_samples": 256,
        "training.checkpoint_every": 1000,
        "tests.samples": 256,
        **WAYS[way],
        **(PENALTY if penalised and model == "RegularGPT" else {}),
        **own,
        "training.steps": steps,
    }
    lengths = [task.lengths(30, 40)[-1], task.lengths(490, 500)[-1]]
    return plan_cell(task, MODELS[model], settings, lengths)


def _seconds(scale: Scale, model: str) -> float:
    """What is given to decide about one network."""
    return LONGER[scale] * (20.0 if model in RECURRENCES else 60.0)


def _question(scale: Scale, model: str, way: str) -> NetworkQuestion:
    seconds = _seconds(scale, model)
    return NetworkQuestion(Budget(seconds, 2 * seconds), None, settle=way == SETTLED)


def matrix(decided: Mapping[Key, list[list[ProofNetwork]]]) -> Panel:
    """Returns a cell for every task, and every kind of network trained in a way."""
    columns = list(dict.fromkeys((model, way) for _, model, way in decided))
    cells = [
        [task, *(_cell(decided[task, *of]) if (task, *of) in decided else "" for of in columns)]
        for task in dict.fromkeys(task for task, _, _ in decided)
    ]
    shares = [
        f"{model} {sum(seed[0].raw == 'proved' for seed in seeds)} of {len(seeds)}"
        for model in dict.fromkeys(model for model, way in columns if way == "steady")
        for seeds in [[seed for key, each in decided.items() if key[1:] == (model, "steady") for seed in each]]
    ]
    finding = f"Trained steady, proved as they were learned: {', '.join(shares)}."
    if hard := [seed for key, each in decided.items() if key[2] == SETTLED for seed in each]:
        finding += f" Of {len(hard)} trees trained otherwise, {sum(map(_holds, hard))} are proved, learned or settled."
    caption = (
        "In colour the commonest verdict on the seeds, as training left them: ✓ proved at every length, ✗ refuted by a "
        "string, ? neither in the time given. wrong at: the median length of the shortest strings found. settled: of "
        "how many seeds the network, or its copy that was taught the machine extracted from it, is proved."
    )
    heads = [f"{model}, {way}" for model, way in columns]
    return Table("Every task, model and training", caption, ["", *heads], cells, finding=finding)


def _holds(seed: list[ProofNetwork]) -> bool:
    """True if a network is proved as it was learned, or else settled."""
    return any(network.raw == "proved" and network.made in ("learned", "settled") for network in seed)


def _held(seeds: list[list[ProofNetwork]]) -> str:
    """Of how many seeds a network is proved, learned or settled; empty where no copy was made."""
    return f"{sum(map(_holds, seeds))} of {len(seeds)}" if any(len(seed) > 1 for seed in seeds) else ""


def _cell(each: list[list[ProofNetwork]]) -> TableCell:
    learned = [seed[0] for seed in each]
    wrong = [network.wrong for network in learned if network.wrong is not None]
    notes = [("wrong at", f"{median(wrong):,.0f}")] if wrong else []
    if held := _held(each):
        notes.append(("settled", f"✓ {held}"))
    return verdict_cell([network.raw for network in learned], notes)


def _table(scale: Scale, finished: Mapping[Key, list[Run]], decided: Mapping[Key, list[list[ProofNetwork]]]) -> Panel:
    records = [
        {
            "task": task,
            "model": model,
            "way": way,
            "networks": [
                {
                    "seed": run.experiment.seed,
                    "at 40": accuracy(run, run.experiment.tests.lengths[-2]),
                    "at 500": accuracy(run, run.experiment.tests.lengths[-1]),
                    "training": run.result["seconds"]["train"],
                    **asdict(network),
                    **({"settled": asdict(copies[0])} if copies else {}),
                }
                for run, (network, *copies) in zip(runs, decided[task, model, way], strict=True)
            ],
        }
        for (task, model, way), runs in finished.items()
    ]

    def of(row: Mapping[str, Any], name: str) -> list[Any]:
        """What the networks of a row have of this name, those that have any."""
        return [network[name] for network in row["networks"] if network[name] is not None]

    columns = {
        "": lambda row: row["task"],
        "model": lambda row: row["model"],
        "training": lambda row: row["way"],
        **{
            word: lambda row, word=word: f"{of(row, 'raw').count(word)} of {len(row['networks'])}"
            for word in ("proved", "refuted", "unknown")
        },
        "settled": lambda row: _held(decided[row["task"], row["model"], row["way"]]) or "–",
        "wrong at": lambda row: str(round(median(of(row, "wrong")))) if of(row, "wrong") else "–",
        "at 40": lambda row: " ".join(map(percent, of(row, "at 40"))),
        "at 500": lambda row: " ".join(map(percent, of(row, "at 500"))),
        "train s": lambda row: f"{median(of(row, 'training')):.0f}",
        "decide s": lambda row: f"{median(of(row, 'seconds')):.0f}",
    }
    caption = (
        "Seeds fixed beforehand, last checkpoints; the settings were found partly on these seeds (docs/proved.md). As "
        "usual: the task's own strings. Varied, noise: half of the strings have symbol probabilities of their own; "
        "states have noise. Steady: with a penalty on steep steps besides, and gates that are shut at random. Growing: "
        "lengths grow as they are learned. settled: of how many seeds the network is proved, or its copy that was "
        "taught the machine extracted from it, without a label. wrong at: the median length of the shortest words "
        "found that networks get wrong. Then the share of right answers at 40 and at 500 symbols in %, seed by seed, "
        f"and the median seconds of training and of the decision, for which {_seconds(scale, 'RNN'):g} s are given, "
        f"and {_seconds(scale, 'RegularGPT'):g} s to automata and RegularGPT."
    )
    return replace(record_table("Proved as learned", caption, records, columns), labels=3, folded=True)
