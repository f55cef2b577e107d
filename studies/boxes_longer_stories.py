"""Boxes at lengths never trained on: at most 16 operations in training, up to 64 in the test.

The models have two or three standard layers, or a standard layer followed by chain attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.insight.boxes import AnswerScores, Score, add_scores, score_answers
from lengthwise.lab import Experiment, Run, load_task
from lengthwise.models import TokenClassifier
from lengthwise.recipes import Cell, Grid, Recipe, Scale, loaded
from lengthwise.recipes.papers.chacal import AttentionColumn, plan_stories
from lengthwise.report import Panel, Table, line_chart, percent
from lengthwise.tasks import Boxes

MODELS = (AttentionColumn("standard", 2), AttentionColumn("standard", 3), AttentionColumn("chain", 2))
TRAINED = 16
POSITIONS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("none", "transformer-xl"),
    "laptop": ("transformer-xl",),
    "paper": ("none", "sinusoidal", "transformer-xl"),
}
"""Those that exist for any length: of a learned table the rows beyond the training length were never trained."""
LENGTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (1, 4, 20),
    "laptop": (1, 2, 4, 8, 16, 24, 32, 48, 64),
    "paper": (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64),
}
STRINGS: dict[Scale, int] = {"smoke": 4, "laptop": 64, "paper": 1024}
SIZES: dict[Scale, dict[str, int]] = {
    "smoke": {"boxes": 4, "objects": 10},
    "laptop": {"boxes": 4, "objects": 10},
    "paper": {"boxes": 8, "objects": 100},
}
SETTINGS: dict[Scale, dict[str, Any]] = {
    "paper": {
        "seeds": 4,
        "model.width": 512,
        "model.heads": 8,
        "training.steps": 25_000,
        "training.warmup": 2_000,
        "training.batch": 256,
        "training.lr": 3e-4,
        "training.schedule": "constant",
        "training.clip": None,
        "training.validate_every": 500,
        "training.validation_samples": 1024,
        "training.checkpoint_every": 1000,
        "tests.samples": 1024,
    },
    "laptop": {
        "seeds": 1,
        "model.width": 64,
        "model.heads": 4,
        "training.steps": 5000,
        "training.warmup": 100,
        "training.batch": 16,
        "training.lr": 2e-3,
        "training.schedule": "cosine",
        "training.clip": 1.0,
        "training.validate_every": 200,
        "training.validation_samples": 128,
        "training.checkpoint_every": 500,
        "tests.samples": 64,
    },
    "smoke": {
        "seeds": 1,
        "model.width": 16,
        "model.heads": 2,
        "training.steps": 3,
        "training.warmup": 1,
        "training.batch": 4,
        "training.validate_every": 3,
        "training.validation_samples": 4,
        "training.checkpoint_every": 3,
        "tests.samples": 4,
    },
}


Key = tuple[str, AttentionColumn]
"""The positions that the tokens have, and the model."""


def recipe(scale: Scale) -> Recipe:
    """ChaCAL and standard attention on Boxes, trained with up to 16 operations and tested with up to 64."""
    keys = [(position, attention) for position in POSITIONS[scale] for attention in MODELS]

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        panels: list[Panel] = []
        for position in dict.fromkeys(position for position, _ in finished):
            answers = {
                attention.label: score_at_each(runs, LENGTHS[scale], STRINGS[scale], device)
                for (other, attention), runs in finished.items()
                if other == position
            }
            panels += answer_panels(answers, f", {POSITION_NAMES[position]}")
        return panels

    return Recipe(
        title=f"ChaCAL, Boxes trained with up to {TRAINED} operations, tested with up to {LENGTHS[scale][-1]}",
        description=(
            "The paper tests on stories with as many operations as in training. A rule about moves holds for any "
            f"number of them: here training has at most {TRAINED} operations (log-uniform) and the test up to "
            f"{LENGTHS[scale][-1]}. The paper uses a learned table of positions, whose rows beyond the longest "
            "training story are never trained. The models here have positions that are defined for any length."
        ),
        grid=Grid([Cell(key, partial(planned, scale, *key), label=key[0]) for key in keys]),
        report=report,
    )


POSITION_NAMES = {
    "none": "no positions",
    "sinusoidal": "sinusoidal positions",
    "transformer-xl": "Transformer-XL positions",
}


def planned(scale: Scale, position: str, attention: AttentionColumn) -> list[Experiment]:
    task = tasks.get("boxes", form="advanced", **SIZES[scale])
    settings = {**SETTINGS[scale], "model.position": position}
    return plan_stories(attention, task, (1, TRAINED), LENGTHS[scale], settings)


# How right a model's own answers to Boxes are: whole answers, single boxes, and by how much happened to a box.
#
# Beside them stands what Theorem 1 says of the same stories: a transformer needs ceil(log2(depth + 1)) layers.

FEWEST = 20
"""Boxes that must have been touched so often for their share to be drawn."""

ByLength = Mapping[int, AnswerScores]


def score_at_each(runs: Sequence[Run], lengths: Sequence[int], strings: int, device: str) -> dict[int, AnswerScores]:
    """AnswerScores to `strings` test stories of each number of operations, those of all seeds together."""
    task = load_task(runs[0])
    if not isinstance(task, Boxes):
        raise Error(f"boxes accuracy: the runs must be of Boxes, got {task.name}.")
    models = [cast(TokenClassifier, model) for model in loaded(runs, device)]
    return {n: add_scores(score_answers(model, task, n, strings) for model in models) for n in lengths}


def answer_panels(scores: Mapping[str, ByLength], about: str = "") -> list[Panel]:
    """All there is to say of these models; `about` goes into every title."""
    whole = {label: add_scores(by_length.values()) for label, by_length in scores.items()}
    several = any(len(by_length) > 1 for by_length in scores.values())
    return [*([by_operations(scores, about), by_operations(scores, about, True)] if several else []),
            by_touched(whole, about), by_layers(whole, about)]  # fmt: skip


def by_operations(scores: Mapping[str, ByLength], about: str = "", boxes: bool = False) -> Panel:
    """Whole answers, or single `boxes`, that are right, against the number of operations."""
    what = "single boxes" if boxes else "exact match"
    strings = next(iter(next(iter(scores.values())).values())).exact.asked

    def share(answers: AnswerScores) -> float:
        return (answers.boxes if boxes else answers.exact).share

    text = "boxes whose contents are right, in whatever order" if boxes else "answers that are right, word by word"
    return line_chart(
        f"Boxes{about}: {what}",
        f"Share of {text}; {strings} stories of each number of operations, answered by greedy decoding.",
        "operations",
        f"{what}",
        {label: (list(of), [share(answers) for answers in of.values()]) for label, of in scores.items()},
        log_x=True,
        percent=True,
    )


def by_touched(scores: Mapping[str, AnswerScores], about: str = "") -> Panel:
    """Single boxes that are right, against how many operations touched them."""
    series = {}
    for label, answers in scores.items():
        drawn = {n: score.share for n, score in answers.touched.items() if score.asked >= FEWEST}
        series[label] = (list(drawn), list(drawn.values()))
    return line_chart(
        f"Boxes{about}: by what happened to a box",
        "Share of single boxes that are right, by how many operations touched the box; a number is drawn where at "
        f"least {FEWEST} boxes have it.",
        "operations that touched the box",
        "boxes that are right",
        {label: drawn for label, drawn in series.items() if drawn[0]},
        percent=True,
    )


def by_layers(scores: Mapping[str, AnswerScores], about: str = "") -> Panel:
    """Whole answers that are right, by the layers that Theorem 1 asks for."""
    layers = sorted({n for answers in scores.values() for n in answers.layers})
    first = next(iter(scores.values()))
    total = first.exact.asked
    rows = [
        [str(n), depths(n), f"{percent(numbers.asked / total) if (numbers := first.layers.get(n)) else '0.0'}%"]
        + [_cell(answers.layers.get(n)) for answers in scores.values()]
        for n in layers
    ]
    return Table(
        f"Boxes{about}: layers needed",
        "Theorem 1: a transformer needs ceil(log2(depth + 1)) layers, where depth is the longest path of the story's "
        "dependency graph. Beside it the exact match in % on the stories that need so many (right / stories). The "
        "theorem supposes that a token knows only the state before it; a model that can guess from less may be right "
        "with fewer.",
        ["layers needed", "depth", "of stories", *scores],
        rows,
        data={label: answers.to_json() for label, answers in scores.items()},
    )


def depths(layers: int) -> str:
    """The depths that need so many layers.

    >>> [depths(n) for n in range(4)]
    ['0', '1', '2–3', '4–7']
    """
    low, high = (1 << layers) >> 1, (1 << layers) - 1
    return f"{low}–{high}" if high > low else f"{low}"


def _cell(score: Score | None) -> str:
    return "–" if score is None else f"{percent(score.share)} ({score.right} / {score.asked})"
