"""What each part of the layer does: p, the width of the blocks, the bound on them, and the number of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hundred_thousand_tokens import LengthScore, to_json

from lengthwise import tasks
from lengthwise.lab import Experiment, Run, accuracy, load_task, overflowed, plan
from lengthwise.recipes import (
    Cell,
    Grid,
    Recipe,
    Scale,
    curves,
    ended,
    first_at,
    loaded,
    settings_of,
)
from lengthwise.recipes.papers.lrnn import table_2
from lengthwise.report import Panel, Table, count, duration, percent

LENGTHS: dict[Scale, tuple[int, ...]] = {"smoke": (50, 60), "laptop": (500, 2_000), "paper": (500, 2_000)}
LEVEL = 0.99
BLOCKS = (1, 2, 4, 8, 16)


def parts(scale: Scale) -> dict[str, dict[str, dict[str, Any]]]:
    """What is changed, by part and value; {} is the default itself. Blocks keep the width of the state."""
    settings = settings_of(table_2.RULES[scale], TASK, "block-lrnn")
    state = settings["model.blocks"] * settings["model.block"]
    widths = [b for b in BLOCKS if state % b == 0]
    deep: dict[str, Any] = {"seeds": 1} if scale == "laptop" else {}
    return {
        "p": {
            "1": {"model.p": 1.0},
            "1.2": {},
            "2": {"model.p": 2.0},
            "∞": {"model.p": math.inf},
            "no bound": {"model.normalisation": "none"},
        },
        "block width": {str(b): {"model.block": b, "model.blocks": state // b} for b in widths},
        "normalisation": {
            **{name: {"model.normalisation": name} for name in ("paper", "official", "orthogonal", "none")},
            "one-hot, no inputs": {"model.normalisation": "one-hot", "model.inputs": "none"},
        },
        "layers": {"1": {}, "2": {"model.layers": 2, **deep}, "3": {"model.layers": 3, **deep}},
    }


Key = tuple[str, str]
"""A part, and its value."""


def recipe(scale: Scale) -> Recipe:
    """The linear RNN on Sum(5) with p, block width, normalisation and the number of layers changed one at a time."""
    changes = {(part, value): change for part, values in parts(scale).items() for value, change in values.items()}
    lengths, strings = LENGTHS[scale], STRINGS[scale]

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        # A part's default is the same runs under several names.
        once = {runs[0].experiment.hash: runs for runs in finished.values()}
        by_hash = {h: scores_by_length(runs, lengths, strings, device) for h, runs in once.items()}
        scores = {key: by_hash[runs[0].experiment.hash] for key, runs in finished.items()}
        table = _table(finished, scores, lengths, strings)
        return [table, *(_learning(part, finished) for part in dict.fromkeys(part for part, _ in finished))]

    return Recipe(
        title="Block-diagonal linear RNN: what its parts do",
        description=(
            "One layer learns Sum(5) at 40 tokens, with an answer at every prefix. One part at a time is changed, and "
            "the rest stays at its default: blocks 8 wide, p = 1.2, eq. 6. The accuracy at 40 says whether a model can "
            "learn the rule. The accuracy at 500 and 2,000 says whether it keeps it, for small errors add up."
        ),
        grid=Grid([Cell(key, partial(plan_changed, scale, change), label=key[0]) for key, change in changes.items()]),
        report=report,
    )


def _table(
    finished: Mapping[Key, list[Run]],
    scores: Mapping[Key, Mapping[int, LengthScore]],
    lengths: Sequence[int],
    strings: int,
) -> Panel:
    rows, data = [], []
    for (part, value), runs in finished.items():
        at, end, first = scores[part, value], ended(runs), first_at(runs, LEVEL)
        numbers = {"first_at_99": first, **{k: end[k] for k in ("seeds", "parameters", "train_seconds", "baseline")}}
        data.append({"part": part, "value": value, **numbers, "accuracy": to_json(at)})
        rows.append(
            [
                f"{part}: {value}",
                *(written(at[n]) for n in (TRAINED, *lengths)),
                "–" if first is None else f"{first:,}",
                str(end["seeds"]),
                count(end["parameters"]),
                duration(end["train_seconds"]),
            ]
        )
    e, majority = next(iter(finished.values()))[0].experiment, data[0]["baseline"]
    caption = (
        "Accuracy at the last position in %, the mean over seeds, at the last checkpoint. Beyond "
        f"{TRAINED} tokens each seed has {strings} strings. The majority answer is right on {percent(majority)}%. "
        "Overflows: the logits of some strings are no longer finite. The data inside this page has each seed, and how "
        f"many strings overflow. Steps to 99%: the first validation at {TRAINED} tokens with at least 99%. Every run "
        f"has {e.training.steps:,} steps. The default stands under every part; these are the same runs each time."
    )
    head = ["", *(f"{n:,}" for n in (TRAINED, *lengths)), "steps to 99%", "seeds", "size", "training"]
    return Table("One part changed at a time", caption, head, rows, data=data)


def _learning(part: str, finished: Mapping[Key, list[Run]]) -> Panel:
    mine = {f"{part}: {value}": runs for (other, value), runs in finished.items() if other == part}
    return curves(f"Learning, by {part}", f"Mean over seeds, at the last of {TRAINED} tokens.", mine)


# Sum(5), learned by the default model with one part changed: what the ablation and the study of stability train.
#
# A model that both ask for is trained once: a run is found by what it is.

TASK = "modular-sum"
TRAINED = table_2.TASKS[TASK].trained
BASE: dict[str, Any] = {"model.variant": "lengthwise", "model.normalisation": "paper"}
"""All that is changed is changed in this: the default model, which has the bound of eq. 6."""
SETTINGS: dict[Scale, dict[str, Any]] = {
    "smoke": {"seeds": 1},
    "laptop": {"seeds": 2, "training.steps": 600},
    "paper": {"seeds": 3},
}
"""What differs from Table 2."""
STRINGS: dict[Scale, int] = {"smoke": 4, "laptop": 64, "paper": 512}
"""At each length beyond training."""


def plan_changed(scale: Scale, change: Mapping[str, Any]) -> list[Experiment]:
    """The seeds of the default model with this change, in settings as `bench --set` takes them and `seeds`."""
    settings = {**settings_of(table_2.RULES[scale], TASK, "block-lrnn"), **BASE, **SETTINGS[scale], **change}
    seeds, supervision = settings.pop("seeds"), settings.pop("supervision")
    made = tasks.get(TASK, **table_2.TASKS[TASK].params, supervision=supervision)
    planned = plan(made, ["block-lrnn"], seeds=seeds, test_lengths=[TRAINED], settings=settings)
    return [replace(e, tests=replace(e.tests, lengths=(TRAINED,))) for e in planned]


def scores_by_length(runs: Sequence[Run], lengths: Sequence[int], strings: int, device: str) -> dict[int, LengthScore]:
    """Every seed at every length, beginning with the training length.

    They are tested here and not in the runs, so that the lengths can be changed and the runs are found all the same.
    """
    samples = runs[0].result["samples"]
    inside = tuple(accuracy(run, TRAINED) * samples for run in runs)
    task, models = load_task(runs[0]), loaded(runs, device)
    scores = {TRAINED: LengthScore(TRAINED, samples, inside, overflowed(runs, [TRAINED]))}
    return scores | {n: LengthScore.of(models, task, n, strings, device) for n in lengths}


def written(score: LengthScore) -> str:
    return "overflows" if score.overflowed else percent(score.mean)
