"""Far beyond: the models of Table 1, tested to 100,000 tokens instead of 500."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from ... import tasks
from ...evaluate import score_strings
from ...lab import Experiment, Run, load_model
from ...lab.statistics import wilson
from ...report import Panel, line_chart, text_table
from ...report.comparison import best_rate
from ...report.formatting import percent
from ...report.overflow import overflow_note, overflow_text
from ..base import Recipe, Scale
from .published import MODELS
from .table_1 import cell

TASKS = ("parity", "cycle-navigation", "even-pairs")
HOLDS = 0.95
"""A model that is right on so many strings of a length still holds there."""


class Asked(NamedTuple):
    """What is asked of every model."""

    lengths: tuple[int, ...]
    most: int
    fewest: int
    """Strings of a length: as many as `tokens` allow, within these bounds."""
    tokens: int
    quadratic: int
    """The longest length asked of a model that keeps T×T logits; it gets the fewest strings everywhere."""

    def strings(self, length: int) -> int:
        """
        >>> [ASKED["laptop"].strings(n) for n in (500, 10_000, 100_000)]
        [64, 32, 16]
        """
        return max(self.fewest, min(self.most, self.tokens // length))


LENGTHS = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
ASKED: dict[Scale, Asked] = {
    "smoke": Asked((100, 300), 8, 4, 1_600, 100),
    "laptop": Asked(LENGTHS, 64, 16, 320_000, 2_000),
    "paper": Asked(LENGTHS, 512, 64, 6_400_000, 10_000),
}


class Point(NamedTuple):
    """One length of one model."""

    length: int
    strings: int
    """Of each seed."""
    right: tuple[float, ...]
    """By seed."""
    overflowed: int = 0
    """Strings of any seed whose logits are not finite: they count as wrong."""

    @classmethod
    def of(
        cls, classifiers: Sequence[nn.Module], task: tasks.Task, length: int, strings: int, device: torch.device
    ) -> Point:
        tested = [
            score_strings(classifier, task, (length,), strings, seed=0, device=device) for classifier in classifiers
        ]
        right = tuple(of.correct[str(length)] for of in tested)
        return cls(length, strings, right, sum(sum(of.overflowed.values()) for of in tested))

    @property
    def mean(self) -> float:
        return sum(self.right) / (self.strings * len(self.right))

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, of the strings of all seeds together."""
        return wilson(sum(self.right), self.strings * len(self.right))


def far(scale: Scale) -> Recipe:
    """The models of Table 1 on three tasks, tested to 100,000 tokens."""
    asked = ASKED[scale]
    cells = {(task, model): cell(scale, task, model) for task in TASKS for model in MODELS}

    def panels(runs: list[Run]) -> list[Panel]:
        found = {
            task: {model: measured(asked, mine) for model in MODELS if (mine := _runs(cells[task, model], runs))}
            for task in TASKS
        }
        found = {task: models for task, models in found.items() if models}
        return [_drawn(task, models, asked) for task, models in found.items()] + [_table(found, asked)]

    return Recipe(
        title=f"RegularGPT, far beyond: trained on 1 to 40 tokens, tested to {asked.lengths[-1]:,}",
        description=(
            "The paper tests to 500 tokens, 12.5 times the training length. To be right on all strings of 500 proves "
            "nothing about longer ones: a state that is off by a little at every step is off by a lot in the end. Here "
            f"the models of Table 1 are asked on, to {asked.lengths[-1] / 40:,.0f} times the training length."
        ),
        experiments=[experiment for experiments in cells.values() for experiment in experiments],
        panels=panels,
    )


def _runs(experiments: Sequence[Experiment], runs: Sequence[Run]) -> list[Run]:
    """The finished ones of these experiments, of the learning rate that did best on validation strings."""
    found = {run.experiment.hash: run for run in runs}
    mine = [found[e.hash] for e in experiments if e.hash in found]
    return best_rate(mine) if mine else []


def measured(asked: Asked, runs: Sequence[Run]) -> list[Point]:
    """One model's seeds at every length, up to the first at which they do no better than the best constant answer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    spec = runs[0].experiment.task
    task = tasks.get(spec.name, **spec.params)
    classifiers = [load_model(run).to(device) for run in runs]
    points: list[Point] = []
    costly = _quadratic(runs[0])
    for n in asked.lengths:
        if costly and n > asked.quadratic:
            break
        count = asked.fewest if costly else asked.strings(n)
        points.append(Point.of(classifiers, task, n, count, device))
        if points[-1].interval[0] <= task.baseline(n):
            break
    return points


def _quadratic(run: Run) -> bool:
    return run.experiment.model.name == "transformer-xl"


def _drawn(task: str, models: dict[str, list[Point]], asked: Asked) -> Panel:
    series = {model: ([p.length for p in points], [p.mean for p in points]) for model, points in models.items()}
    last = asked.lengths[-1]
    hold = [m for m, points in models.items() if points[-1].length == last and points[-1].mean >= HOLDS]
    said = f"Right on at least {100 * HOLDS:.0f}% at {last:,} tokens: {', '.join(hold) or 'none'}."
    seeds = " or ".join(str(n) for n in sorted({len(points[0].right) for points in models.values()}))
    return line_chart(
        f"{task}, trained on 1–40",
        f"{said} Mean accuracy of {seeds} seed{'' if seeds == '1' else 's'} a model, {asked.strings(asked.lengths[0])} "
        f"strings each at {asked.lengths[0]:,} tokens, {asked.strings(last)} at {last:,}; a line ends where the model "
        "guesses, or where its memory ends (see below).",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
    )


def _table(found: dict[str, dict[str, list[Point]]], asked: Asked) -> Panel:
    """The intervals, at the decades; everything in the data."""
    shown = [n for n in asked.lengths if n in (1_000, 10_000, 100_000)] or list(asked.lengths)
    rows = [
        [f"{task}, {model}", *(_cell(points, n) for n in shown), _farthest(points)]
        for task, models in found.items()
        for model, points in models.items()
    ]
    data = {
        task: {
            model: [{**p._asdict(), "mean": p.mean, "interval": p.interval} for p in points]
            for model, points in models.items()
        }
        for task, models in found.items()
    }
    where = {
        f"{task}, {model}": overflow_text({p.length: (p.overflowed, p.strings * len(p.right)) for p in points})
        for task, models in found.items()
        for model, points in models.items()
    }
    caption = f"{_caption(asked)} {overflow_note(where)}".strip()
    return text_table("How sure", caption, ["", *(f"{n:,}" for n in shown), "holds to"], rows, data)


def _cell(points: Sequence[Point], length: int) -> str:
    point = next((p for p in points if p.length == length), None)
    if point is None:
        return "–"
    low, high = point.interval
    return f"{percent(point.mean)} ({percent(low)}–{percent(high)})"


def _farthest(points: Sequence[Point]) -> str:
    """The last length before the mean falls below `HOLDS`."""
    held = 0
    for p in points:
        if p.mean < HOLDS:
            return f"{held:,}" if held else f"less than {points[0].length:,}"
        held = p.length
    return f"{held:,}, the longest asked"


def _caption(asked: Asked) -> str:
    matrix = 4 * 8 / 1e9  # GB a square token: eight heads in single precision
    n = asked.quadratic
    return (
        "Accuracy in %, with the 95% Wilson interval of the strings of all seeds together: it says how well these "
        "strings pin down these trained models, not how another seed would do. "
        f"Strings a seed: {', '.join(f'{asked.strings(n)} at {n:,}' for n in asked.lengths)}. "
        f"Holds to: the last length asked before the accuracy falls below {100 * HOLDS:.0f}%. "
        "A model that does no better than the best constant answer is not asked at longer lengths (–). "
        f"The Transformer keeps T×T logits in each of 8 heads ({matrix * n**2:.2g} GB a matrix at {n:,} tokens, "
        f"{matrix * 100_000**2:,.0f} GB at 100,000), so it is asked at no more than {n:,}, with {asked.fewest} strings."
    )
