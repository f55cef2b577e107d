"""How right a model's own answers to Boxes are: whole answers, single boxes, and by how much happened to a box.

Beside them stands what Theorem 1 says of the same stories: a transformer needs ceil(log2(depth + 1)) layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch

from ... import tasks
from ...errors import Error
from ...insight.boxes import AnswerScores, Score, add_scores, score_answers
from ...lab import Run, load_model
from ...models import TokenClassifier
from ...report import Panel, line_chart, text_table
from ...report.formatting import percent
from ...tasks.boxes import Boxes

FEWEST = 20
"""Boxes that must have been touched so often for their share to be drawn."""

ByLength = Mapping[int, AnswerScores]


def measured(runs: Sequence[Run], lengths: Sequence[int], strings: int) -> dict[int, AnswerScores]:
    """Answers to `strings` test stories of each number of operations, those of all seeds together."""
    spec = runs[0].experiment.task
    task = tasks.get(spec.name, **spec.params)
    if not isinstance(task, Boxes):
        raise Error(f"boxes accuracy: the runs must be of Boxes, got {spec.name}.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classifiers = [cast(TokenClassifier, load_model(run).to(device)) for run in runs]
    return {n: add_scores(score_answers(classifier, task, n, strings) for classifier in classifiers) for n in lengths}


def panels(found: Mapping[str, ByLength], about: str = "") -> list[Panel]:
    """All there is to say of these models; `about` goes into every title."""
    whole = {label: add_scores(by_length.values()) for label, by_length in found.items()}
    several = any(len(by_length) > 1 for by_length in found.values())
    return [*([by_operations(found, about), by_operations(found, about, True)] if several else []),
            by_touched(whole, about), by_layers(whole, about)]  # fmt: skip


def by_operations(found: Mapping[str, ByLength], about: str = "", boxes: bool = False) -> Panel:
    """Whole answers, or single `boxes`, that are right, against the number of operations."""
    what = "single boxes" if boxes else "exact match"
    strings = next(iter(next(iter(found.values())).values())).exact.asked

    def share(answers: AnswerScores) -> float:
        return (answers.boxes if boxes else answers.exact).share

    said = "boxes whose contents are right, in whatever order" if boxes else "answers that are right, word by word"
    return line_chart(
        f"Boxes{about}: {what}",
        f"Share of {said}; {strings} stories of each number of operations, answered by greedy decoding.",
        "operations",
        f"{what}",
        {label: (list(of), [share(answers) for answers in of.values()]) for label, of in found.items()},
        log_x=True,
        percent=True,
    )


def by_touched(found: Mapping[str, AnswerScores], about: str = "") -> Panel:
    """Single boxes that are right, against how many operations touched them."""
    series = {}
    for label, answers in found.items():
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


def by_layers(found: Mapping[str, AnswerScores], about: str = "") -> Panel:
    """Whole answers that are right, by the layers that Theorem 1 asks for."""
    layers = sorted({n for answers in found.values() for n in answers.layers})
    first = next(iter(found.values()))
    total = first.exact.asked
    rows = [
        [str(n), depths(n), f"{percent(asked.asked / total) if (asked := first.layers.get(n)) else '0.0'}%"]
        + [_cell(answers.layers.get(n)) for answers in found.values()]
        for n in layers
    ]
    return text_table(
        f"Boxes{about}: layers needed",
        "Theorem 1: a transformer needs ceil(log2(depth + 1)) layers, where depth is the longest path of the story's "
        "dependency graph. Beside it the exact match in % on the stories that need so many (right / stories). The "
        "theorem supposes that a token knows only the state before it; a model that can guess from less may be right "
        "with fewer.",
        ["layers needed", "depth", "of stories", *found],
        rows,
        {label: answers.to_json() for label, answers in found.items()},
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
