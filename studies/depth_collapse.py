"""The collapse predicted in §6 of RegularGPT's paper: does a model trained with L groups break where it needs L + 1?

    L = ceil(log_C T_train),    predicted edge = C^L         64 for C = 2, 81 for C = 3, … at T_train = 40

The paper explains its broken language models so (C = 32 trained at 512 fails beyond 32² = 1,024). Its regular languages
hold far beyond C^L, since all groups share their weights: what a group does with the outputs of the one before, it may
do again with its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from lengthwise.lab import Experiment, Run, accuracy, plan
from lengthwise.models import groups
from lengthwise.recipes import LEARNED, Cell, Grid, Recipe, Scale, inside
from lengthwise.report import Panel, Table, line_chart, percent

TASKS = ("parity", "cycle-navigation")
CHUNKS = (2, 3, 4, 5, 6, 8)
TRAINED = 40
HOLDS = 0.95
"""The measured edge is the first length beyond training at which fewer strings than this are right."""


class CollapseSetting(NamedTuple):
    steps: tuple[int, ...]
    """One training each, from too short to long."""
    thick: tuple[int, ...]
    """The chunks that are also trained with K = 2, at the longest training."""
    seeds: int
    longest: int
    train: dict[str, Any]


SETTINGS: dict[Scale, CollapseSetting] = {
    "smoke": CollapseSetting(
        (2, 3),
        (2,),
        1,
        100,
        {"model.width": 16, "training.batch": 8, "training.validation_samples": 16, "tests.samples": 4},
    ),
    "laptop": CollapseSetting((300, 1500), (2,), 1, 2000, {"model.width": 64, "tests.samples": 64}),
    "paper": CollapseSetting(
        (2000, 10_000, 100_000),
        CHUNKS,
        3,
        8000,
        {"model.width": 256, "training.lr": 3e-4, "training.validate_every": 1000, "tests.samples": 512},
    ),
}


class CollapseKey(NamedTuple):
    """What a run is, its seed aside."""

    task: str
    chunk: int
    thickness: int
    steps: int


def recipe(scale: Scale) -> Recipe:
    """Does RegularGPT fail where it needs more groups than in training? C from 2 to 8, on a fine grid of lengths."""
    setting = SETTINGS[scale]

    def report(finished: Mapping[CollapseKey, list[Run]], device: str) -> list[Panel]:
        pages = dict.fromkeys((key.task, key.steps) for key in finished if key.thickness == 1)
        return [_drawn(task, steps, finished) for task, steps in pages] + [_table(finished, setting)]

    return Recipe(
        title="RegularGPT: does it collapse where it needs a group more than in training?",
        description=(
            f"Trained on 1 to {TRAINED} tokens a model of chunk size C has seen up to L = ⌈log_C {TRAINED}⌉ groups, "
            "which reach C^L tokens. The paper expects one that learned only L groups to break beyond. Here models of "
            "six chunk sizes, after short and after long training, are tested on a fine grid of lengths, on both sides "
            "of every power of C."
        ),
        grid=Grid([Cell(key, partial(planned, key, setting), label=key.task) for key in keys(setting)]),
        report=report,
    )


def keys(setting: CollapseSetting) -> list[CollapseKey]:
    thin = [CollapseKey(task, C, 1, steps) for task in TASKS for steps in setting.steps for C in CHUNKS]
    return thin + [CollapseKey(task, C, 2, setting.steps[-1]) for task in TASKS for C in setting.thick]


def planned(key: CollapseKey, setting: CollapseSetting) -> list[Experiment]:
    """Lengths grow from 4 to 40 as they are learned, by which large chunks begin at all."""
    return plan(
        key.task,
        ["regular-gpt"],
        seeds=setting.seeds,
        test_lengths=lengths(setting.longest),
        settings={
            **setting.train,
            "training.steps": key.steps,
            "training.curriculum": "growing",
            "model.chunk": key.chunk,
            "model.thickness": key.thickness,
        },
    )


def predicted(chunk: int) -> int:
    """C^L: the tokens that the groups seen in training reach.

    >>> [predicted(C) for C in CHUNKS]
    [64, 81, 64, 125, 216, 64]
    """
    return chunk ** groups(TRAINED, chunk)


def children(chunk: int) -> int:
    """How many of its C children the one node of the last group has in training, at most.

    >>> [children(C) for C in CHUNKS]
    [2, 2, 3, 2, 2, 5]
    """
    return -(-TRAINED * chunk // predicted(chunk))


def lengths(longest: int) -> list[int]:
    """Both sides of every power of a chunk size beyond the training lengths, and 30 lengths evenly on a log scale.

    >>> [n for n in lengths(2000) if n < 100]
    [41, 47, 54, 61, 64, 65, 70, 80, 81, 82, 92]
    """
    powers = [C**l for C in CHUNKS for l in range(1, groups(longest, C) + 1)]
    even = [round((TRAINED + 1) * (longest / (TRAINED + 1)) ** (i / 29)) for i in range(30)]
    return sorted({n for n in [*powers, *(p + 1 for p in powers), *even] if TRAINED < n <= longest})


def learned(run: Run) -> bool:
    return inside([run]) >= LEARNED


def edge(run: Run) -> int | None:
    """The first length beyond training at which the run fails; None: it holds to the longest tested."""
    beyond = [n for n in run.experiment.tests.lengths if n > TRAINED]
    return next((n for n in beyond if accuracy(run, n) < HOLDS), None)


def verdict(first: int | None, chunk: int) -> str:
    """Where an edge lies: before the predicted one, in the one group more that is predicted to fail, later, or never.

    >>> [verdict(n, 2) for n in (64, 65, 128, 129, None)]
    ['before', 'at', 'at', 'later', 'never']
    """
    if first is None:
        return "never"
    if first <= predicted(chunk):
        return "before"
    return "at" if first <= chunk * predicted(chunk) else "later"


def _drawn(task: str, steps: int, finished: Mapping[CollapseKey, list[Run]]) -> Panel:
    mine = {k.chunk: runs for k, runs in finished.items() if (k.task, k.thickness, k.steps) == (task, 1, steps)}
    series = {f"C={C}": _curve(runs) for C, runs in mine.items()}
    edges: dict[int, list[int]] = {}
    for C in mine:
        edges.setdefault(predicted(C), []).append(C)
    marks = {f"C={', '.join(map(str, of))}": float(n) for n, of in sorted(edges.items())}
    runs = next(iter(mine.values()))
    e = runs[0].experiment
    return line_chart(
        f"{task}, {steps:,} steps",
        f"Mean accuracy of {len(runs)} seed{'s' if len(runs) > 1 else ''}, {e.tests.samples} strings a length "
        f"each, K = 1, width {e.model.options['width']}, trained on 1–{TRAINED} for {steps:,} steps. Dashed: the edge "
        "predicted for each C. A curve that is low from the start was not learned and says nothing about the edge.",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
        marks=marks,
    )


def _curve(runs: Sequence[Run]) -> tuple[list[int], list[float]]:
    lengths = [n for n in runs[0].experiment.tests.lengths if n > TRAINED // 2]
    return lengths, [math.fsum(accuracy(run, n) for run in runs) / len(runs) for n in lengths]


def _table(finished: Mapping[CollapseKey, list[Run]], setting: CollapseSetting) -> Panel:
    rows, data = [], []
    counts: dict[str, int] = dict.fromkeys(("before", "at", "later", "never"), 0)
    for key, runs in finished.items():
        words = []
        for run in runs:
            first = edge(run) if learned(run) else None
            where = verdict(first, key.chunk) if learned(run) else "not learned"
            if where in counts:
                counts[where] += 1
            held = f"none to {setting.longest:,}"
            words.append({"never": held, "not learned": where}.get(where, f"{first} ({where})"))
            data.append(
                {
                    **key._asdict(),
                    "seed": run.experiment.seed,
                    "predicted": predicted(key.chunk),
                    "measured": first,
                    "verdict": where,
                    "training_lengths": inside([run]),
                    "beyond": {str(n): accuracy(run, n) for n in run.experiment.tests.lengths if n > TRAINED},
                }
            )
        rows.append(
            [
                f"{key.task}, {key.steps:,} steps, C={key.chunk}, K={key.thickness}",
                f"{children(key.chunk)} of {key.chunk}",
                f"{predicted(key.chunk):,}",
                "; ".join(words),
                percent(inside(runs)),
            ]
        )
    return Table("Predicted and measured edges", _text(counts, len(data)), _HEAD, rows, data=data)


_HEAD = ("", "children", "predicted edge", "first length that fails, by seed", "in training, %")


def _text(counts: dict[str, int], runs: int) -> str:
    total = sum(counts.values())
    return (
        f"{total} of {runs} runs learned their task (at least {100 * LEARNED:.0f}% at the training lengths). Of these "
        f"{counts['before']} fail before the predicted edge, {counts['at']} at it (in the first group more than in "
        f"training), {counts['later']} later, {counts['never']} at no length tested. A length fails where fewer than "
        f"{100 * HOLDS:.0f}% of its strings are right. Children: how many of its C a chunk of the last group has at "
        f"{TRAINED} tokens. Before the predicted edge the tree is no deeper than in training, but it has more of them."
    )
