"""RegularGPT far beyond its training: the models of Table 1, tested to 100,000 tokens instead of 500."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from torch import device as torch_device
from torch import nn

from lengthwise.evaluate import score_strings
from lengthwise.lab import Run, chosen_runs, load_task
from lengthwise.recipes import Recipe, Scale, loaded
from lengthwise.recipes.papers.regulargpt import table_1
from lengthwise.report import Panel, Table, line_chart, overflow_note, overflow_text, percent
from lengthwise.tasks import Task

TASKS = ("parity", "cycle-navigation", "even-pairs")
HOLDS = 0.95
"""A model holds at a length where at least this share of its strings is right."""


class LongTest(NamedTuple):
    """The test of every model."""

    lengths: tuple[int, ...]
    most: int
    fewest: int
    """Strings of a length: as many as `tokens` allow, within these bounds."""
    tokens: int
    quadratic: int
    """The longest length for a model that keeps T×T logits, which is given the fewest strings at every length."""

    def strings(self, length: int) -> int:
        """
        >>> [TESTS["laptop"].strings(n) for n in (500, 10_000, 100_000)]
        [64, 32, 16]
        """
        return max(self.fewest, min(self.most, self.tokens // length))


LENGTHS = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
TESTS: dict[Scale, LongTest] = {
    "smoke": LongTest((100, 300), 8, 4, 1_600, 100),
    "laptop": LongTest(LENGTHS, 64, 16, 320_000, 2_000),
    "paper": LongTest(LENGTHS, 512, 64, 6_400_000, 10_000),
}


class LengthScore(NamedTuple):
    """How one model's seeds did at one length."""

    length: int
    strings: int
    """Of each seed."""
    right: tuple[float, ...]
    """By seed."""
    overflowed: int = 0
    """Strings of any seed whose logits are not finite: they count as wrong."""

    @classmethod
    def of(cls, models: Sequence[nn.Module], task: Task, length: int, strings: int, device: str) -> LengthScore:
        tested = [
            score_strings(model, task, (length,), strings, seed=0, device=torch_device(device)) for model in models
        ]
        right = tuple(scores.correct[str(length)] for scores in tested)
        return cls(length, strings, right, sum(sum(scores.overflowed.values()) for scores in tested))

    @property
    def mean(self) -> float:
        return sum(self.right) / (self.strings * len(self.right))

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95%, of the strings of all seeds together."""
        n, p, z = self.strings * len(self.right), self.mean, 1.96
        middle, half = p + z**2 / (2 * n), z * sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
        return max(0.0, (middle - half) / (1 + z**2 / n)), min(1.0, (middle + half) / (1 + z**2 / n))


def to_json(scores: Mapping[int, LengthScore]) -> dict[str, Any]:
    """A string that overflows counts as wrong, and is counted by itself too."""
    return {
        str(n): {
            "mean": score.mean,
            "right": list(score.right),
            "strings": score.strings,
            "interval": score.interval,
            "overflowed": score.overflowed,
        }
        for n, score in scores.items()
    }


Scores = Mapping[str, Mapping[str, Sequence[LengthScore]]]
"""By task and model, a score for each length."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT, an RNN and a Transformer on three tasks, trained on 40 tokens and tested to 100,000."""
    plan = TESTS[scale]

    def report(finished: Mapping[table_1.Key, list[Run]], device: str) -> list[Panel]:
        scores: dict[str, dict[str, list[LengthScore]]] = {}
        for (task, model), runs in finished.items():
            scores.setdefault(task, {})[model] = length_scores(plan, chosen_runs(runs, ["training.lr"]), device)
        return [_drawn(task, models, plan) for task, models in scores.items()] + [_table(scores, plan)]

    return Recipe(
        title=f"RegularGPT far beyond training: trained on 1 to 40 tokens, tested to {plan.lengths[-1]:,}",
        description=(
            "The paper tests up to 500 tokens, 12.5 times the training length. A model that is right on all strings of "
            "500 can still fail on longer ones: a small error at every step becomes a large one in the end. Here the "
            f"models of Table 1 are tested up to {plan.lengths[-1] / 40:,.0f} times the training length."
        ),
        grid=table_1.cells(scale, TASKS, table_1.MODELS),
        report=report,
    )


def length_scores(plan: LongTest, runs: Sequence[Run], device: str) -> list[LengthScore]:
    """One model's seeds at every length, up to the first at which they do no better than the best constant answer."""
    task, models = load_task(runs[0]), loaded(runs, device)
    scores: list[LengthScore] = []
    costly = _quadratic(runs[0])
    for n in plan.lengths:
        if costly and n > plan.quadratic:
            break
        count = plan.fewest if costly else plan.strings(n)
        scores.append(LengthScore.of(models, task, n, count, device))
        if scores[-1].interval[0] <= task.baseline(n):
            break
    return scores


def _quadratic(run: Run) -> bool:
    return run.experiment.model.name == "transformer-xl"


def _drawn(task: str, models: Mapping[str, Sequence[LengthScore]], plan: LongTest) -> Panel:
    series = {model: ([p.length for p in points], [p.mean for p in points]) for model, points in models.items()}
    last = plan.lengths[-1]
    hold = [m for m, points in models.items() if points[-1].length == last and points[-1].mean >= HOLDS]
    text = f"Right on at least {100 * HOLDS:.0f}% at {last:,} tokens: {', '.join(hold) or 'none'}."
    seeds = " or ".join(str(n) for n in sorted({len(points[0].right) for points in models.values()}))
    return line_chart(
        f"{task}, trained on 1–40",
        f"{text} Mean accuracy of {seeds} seed{'' if seeds == '1' else 's'} a model, {plan.strings(plan.lengths[0])} "
        f"strings each at {plan.lengths[0]:,} tokens, {plan.strings(last)} at {last:,}; a line ends where the model "
        "guesses, or where its memory ends (see below).",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
    )


def _table(scores: Scores, plan: LongTest) -> Panel:
    """The intervals, at the decades; everything in the data."""
    lengths = [n for n in plan.lengths if n in (1_000, 10_000, 100_000)] or list(plan.lengths)
    rows = [
        [f"{task}, {model}", *(_cell(points, n) for n in lengths), _farthest(points)]
        for task, models in scores.items()
        for model, points in models.items()
    ]
    data = {
        task: {
            model: [{**p._asdict(), "mean": p.mean, "interval": p.interval} for p in points]
            for model, points in models.items()
        }
        for task, models in scores.items()
    }
    where = {
        f"{task}, {model}": overflow_text({p.length: (p.overflowed, p.strings * len(p.right)) for p in points})
        for task, models in scores.items()
        for model, points in models.items()
    }
    caption = f"{_caption(plan)} {overflow_note(where)}".strip()
    return Table("How sure", caption, ["", *(f"{n:,}" for n in lengths), "holds to"], rows, data=data)


def _cell(points: Sequence[LengthScore], length: int) -> str:
    point = next((p for p in points if p.length == length), None)
    if point is None:
        return "–"
    low, high = point.interval
    return f"{percent(point.mean)} ({percent(low)}–{percent(high)})"


def _farthest(points: Sequence[LengthScore]) -> str:
    """The last length before the mean falls below `HOLDS`."""
    held = 0
    for p in points:
        if p.mean < HOLDS:
            return f"{held:,}" if held else f"less than {points[0].length:,}"
        held = p.length
    return f"{held:,}, the longest tested"


def _caption(plan: LongTest) -> str:
    matrix = 4 * 8 / 1e9  # GB a square token: eight heads in single precision
    n = plan.quadratic
    return (
        "Accuracy in %, with the 95% Wilson interval of the strings of all seeds together: it says how well these "
        "strings pin down these trained models, not how another seed would do. "
        f"Strings a seed: {', '.join(f'{plan.strings(n)} at {n:,}' for n in plan.lengths)}. "
        f"Holds to: the last length tested before the accuracy falls below {100 * HOLDS:.0f}%. "
        "A model that does no better than the best constant answer is not tested at longer lengths (–). "
        f"The Transformer keeps T×T logits in each of 8 heads ({matrix * n**2:.2g} GB a matrix at {n:,} tokens, "
        f"{matrix * 100_000**2:,.0f} GB at 100,000), so it is tested up to {n:,}, with {plan.fewest} strings."
    )
