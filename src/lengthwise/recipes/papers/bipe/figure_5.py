"""Figure 5: RoPE and BiPE-RoPE, given YaRN and trained a little further, on texts 20 times as long as at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....lab import Experiment, Run, plan_continued, trained_places
from ....report import Panel
from ....report.text_runs import digits
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid, Model
from ...common.rules import differences_from_paper, settings_of
from ...common.text_grid import SegmentOptions, TextSource, far_tokens, language_models, means, perplexity_chart
from .figure_4 import NEEDLE, RULES, columns

FACTOR = 16
"""For texts so many times as long YaRN is made."""
FURTHER = 4
"""Windows of the further training are so many times as long, and so many times fewer are in a batch."""
SLOWER = 5
"""The learning rate of the further training is so many times smaller."""
TESTED = (1, 2, 4, 8, 16, 20)
"""Test lengths, in lengths of the first training."""
STEPS: dict[Scale, int] = {"smoke": 2, "laptop": 100, "paper": 500}
"""Of the further training."""
SUFFIX = "-yarn"


def recipe(scale: Scale, **options: SegmentOptions) -> Recipe:
    """Perplexity at 20 times the trained length of RoPE and BiPE-RoPE with YaRN, trained further or not."""
    source = TextSource(**options)
    settings = settings_of(RULES[scale], "*", "*")
    trained = settings["train_length"]
    every = columns(source.rule, trained)
    both: dict[str, Model] = {name: every[name] for name in ("rope", "bipe-rope")}
    first = language_models(RULES[scale], scale, source, both)

    def further(cell: Cell[str]) -> Cell[str]:
        name = f"{cell.key}{SUFFIX}"
        return Cell(name, lambda: _further(cell.experiments, settings, STEPS[scale]), label=name)

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        same = (
            "Layers, optimiser, and what the further training has of the length, batch and rate of the first are as "
            f"published; it has {STEPS[scale]} steps, published {STEPS['paper']}."
        )
        return [
            perplexity_by_length(finished, trained),
            *far_tokens(finished, device, *(settings[name] for name in NEEDLE)),
            *differences_from_paper(RULES, scale, ["*"], list(both), same),
        ]

    return Recipe(
        title="BiPE, Figure 5: YaRN and further training, then much longer texts",
        description=(
            f"Models that were trained on windows of {trained:,} tokens (the runs of Figure 4) get YaRN for texts "
            f"{FACTOR} times as long: of tokens with RoPE, of segments with BiPE-RoPE. They are then trained a little "
            f"on windows of {FURTHER * trained:,} tokens. The paper finds that RoPE with YaRN breaks at 11 to 16 times "
            "the first length, and that BiPE-RoPE with YaRN stays level to 20 times it."
        ),
        grid=Grid([*first.cells, *map(further, first.cells)]),
        report=report,
    )


def _further(first: Sequence[Experiment], settings: Mapping[str, Any], steps: int) -> list[Experiment]:
    """What goes on from these experiments; `settings` are theirs."""
    trained = settings["train_length"]
    training = {name: value for name, value in settings.items() if name.startswith("training.")}
    training.pop("training.warmup", None)
    training |= {
        "training.steps": steps,
        "training.batch": max(1, settings["training.batch"] // FURTHER),
        "training.lr": settings["training.lr"] / SLOWER,
    }
    return [
        planned
        for each in first
        for planned in plan_continued(
            [each],
            [{"name": "yarn", "factor": FACTOR, "trained": trained_places(each)}],
            train_length=FURTHER * trained,
            test_lengths=sorted({*(times * trained for times in TESTED), *settings["needle"]}),
            settings=training,
        )
    ]


def perplexity_by_length(finished: Mapping[str, Sequence[Run]], trained: int) -> Panel:
    """As trained first, with YaRN alone, and trained further with it; the mean of the seeds."""
    by_name: dict[str, dict[int, float]] = {}
    for column, runs in finished.items():
        if column.endswith(SUFFIX):
            name = column.removesuffix(SUFFIX)
            by_name[f"{name}, YaRN alone"] = means(runs, "before")
            by_name[f"{name}, YaRN and trained"] = means(runs)
        else:
            by_name[column] = means(runs)
    caption = (
        f"Held-out text in windows. First trained on windows of {trained:,} tokens, then on {FURTHER * trained:,}; "
        f"YaRN is made for {FACTOR * trained:,}. –: not tested there."
    )
    marks = {"trained": trained, "trained further": FURTHER * trained}
    chart = perplexity_chart("Perplexity by length", caption, by_name, marks)
    return replace(chart, finding=_finding(by_name, trained))


def _finding(by_name: Mapping[str, Mapping[int, float]], trained: int) -> str:
    """What the models that were trained further have at the longest length, beside the length they ended at."""
    longest, ended = TESTED[-1] * trained, FURTHER * trained
    ends = [
        f"{name.partition(',')[0]} has {digits(of[longest])}, {digits(of[longest] / of[ended])} times that at {ended:,}"
        for name, of in by_name.items()
        if name.endswith("and trained")
    ]
    return f"At {longest:,} tokens, with YaRN and trained further: {'; '.join(ends)}." if ends else ""
