"""What each part of the layer does: p, the width of the blocks, the bound on them, and the number of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...lab import Run
from ...report import Panel, text_table
from ...report.formatting import count, duration, percent
from ..base import Recipe, Scale
from ..chacal.learning import curves, ended, first_at
from ..regulargpt.far import Point
from .scales import RULES
from .sums import STRINGS, TRAINED, asked_on, changed, settings, to_json

LENGTHS: dict[Scale, tuple[int, ...]] = {"smoke": (50, 60), "laptop": (500, 2_000), "paper": (500, 2_000)}
LEVEL = 0.99
BLOCKS = (1, 2, 4, 8, 16)


def parts(scale: Scale) -> dict[str, dict[str, dict[str, Any]]]:
    """What is changed, by part and value; {} is the default itself. Blocks keep the width of the state."""
    given = settings(RULES[scale], "modular-sum", "block-lrnn")
    state = given["model.blocks"] * given["model.block"]
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


def ablation(scale: Scale) -> Recipe:
    """Sum(5) with p, block width, normalisation and the number of layers changed one at a time."""
    cells = {
        (part, value): changed(scale, change)
        for part, values in parts(scale).items()
        for value, change in values.items()
    }
    lengths, strings = LENGTHS[scale], STRINGS[scale]

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine = {key: of for key, es in cells.items() if (of := [found[e.hash] for e in es if e.hash in found])}
        if not mine:
            return []
        # A part's default is the same runs under several names.
        once = {of[0].experiment.hash: of for of in mine.values()}
        points = {key: asked_on(of, lengths, strings) for key, of in once.items()}
        table = _table(mine, {key: points[of[0].experiment.hash] for key, of in mine.items()}, lengths, strings)
        return [table, *(_learning(part, mine) for part in dict.fromkeys(part for part, _ in mine))]

    return Recipe(
        title="Block-diagonal linear RNN: what its parts do",
        description=(
            "One layer learns Sum(5) at 40 tokens with every prefix asked; one part at a time is changed and the rest "
            "left as it is by default: blocks 8 wide, p = 1.2, eq. 6. How well a model does at 40 says whether it can "
            "learn the rule; at 500 and 2,000, whether it keeps it: what is off by a little at every step adds up."
        ),
        experiments=list({e.hash: e for es in cells.values() for e in es}.values()),
        panels=panels,
    )


Cells = Mapping[tuple[str, str], Sequence[Run]]


def _table(
    cells: Cells, points: Mapping[tuple[str, str], Mapping[int, Point]], lengths: Sequence[int], strings: int
) -> Panel:
    rows, data = [], []
    for (part, value), runs in cells.items():
        found, end, first = points[part, value], ended(runs), first_at(runs, LEVEL)
        numbers = {"first_at_99": first, **{k: end[k] for k in ("seeds", "parameters", "train_seconds", "baseline")}}
        data.append({"part": part, "value": value, **numbers, "accuracy": to_json(found)})
        rows.append(
            [
                f"{part}: {value}",
                *(written(found[n]) for n in (TRAINED, *lengths)),
                "–" if first is None else f"{first:,}",
                str(end["seeds"]),
                count(end["parameters"]),
                duration(end["train_seconds"]),
            ]
        )
    e, majority = next(iter(cells.values()))[0].experiment, data[0]["baseline"]
    caption = (
        f"Accuracy at the last position in %, the mean over seeds, at the last checkpoint (each seed's in the data); "
        f"{strings} strings a seed beyond {TRAINED} tokens. The majority answer is right in {percent(majority)}%. "
        "Overflows: the logits of some strings are no longer finite (of how many, and how the others do, is in the "
        f"data). Steps to 99%: the first validation at {TRAINED} tokens. All are trained alike, for "
        f"{e.training.steps:,} steps; the default stands under every part, the same runs each time."
    )
    head = ["", *(f"{n:,}" for n in (TRAINED, *lengths)), "steps to 99%", "seeds", "size", "training"]
    return text_table("One part changed at a time", caption, head, rows, data)


def written(point: Point) -> str:
    return "overflows" if point.overflowed else percent(point.mean)


def _learning(part: str, cells: Cells) -> Panel:
    mine = {f"{part}: {value}": runs for (of, value), runs in cells.items() if of == part}
    return curves(f"Learning, by {part}", f"Mean over seeds, at the last of {TRAINED} tokens.", mine)
