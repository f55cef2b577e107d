"""Why larger chunks fail: the tuples a node must know beside those that training shows, and whether it goes together.

The counts are those of tuples.py, for the tasks and chunk sizes of a map of accuracies; nothing is trained here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import Error
from ...report import Panel, heat_map, text_table
from ...tasks import Task
from .tuples import Tree, new, nodes, places, training_strings

RIGHT = 0.95
DRAWN = 400_000
"""No more training strings than this are looked through."""


class Why(NamedTuple):
    """What a node must know, and what training shows (tuples.py)."""

    needed: int
    shown: int
    new: float

    @property
    def ratio(self) -> float:
        return math.log10(self.needed / self.shown)


class Causes(NamedTuple):
    """Of one task."""

    elements: int
    """Of the transition monoid."""
    longest: int
    """The length of the test strings."""
    drawn: int
    """Training strings that were looked through for tuples."""
    by_chunk: dict[int, Why]


class Cell(NamedTuple):
    """One cell of a map of accuracies."""

    task: str
    chunk: int
    inside: float
    """Accuracy at the training lengths."""
    beyond: float
    majority: float
    """The accuracy of the best constant answer beyond them."""

    @property
    def skill(self) -> float:
        """0 for the best constant answer, 1 for all right, beyond training."""
        return (self.beyond - self.majority) / (1 - self.majority)


def causes(task: Task, chunks: Sequence[int], lengths: tuple[int, int], count: int, longest: int, tests: int) -> Causes:
    """For `count` training strings, as many of each of these lengths, and `tests` strings of the `longest` length."""
    if task.machine is None:
        raise Error(f"{task.name} {task.params}: transitions need a machine, and this task has none.")
    tree, possible = Tree(task.machine), task.lengths(*lengths)
    strings = training_strings(task, possible, min(count, DRAWN))
    asked = task.test_set(longest, tests).tokens
    at = places(tree, strings)
    by_chunk = {
        C: Why(tree.needed(at, C, longest), round(count * nodes(possible, C)), new(tree, strings, asked, C))
        for C in chunks
    }
    return Causes(tree.size, longest, sum(map(len, strings)), by_chunk)


def counted(found: Mapping[str, Causes]) -> list[Panel]:
    """Two maps of task × chunk: tuples over nodes, and the nodes at test whose tuple is new."""
    chunks = list(next(iter(found.values())).by_chunk)
    columns = [f"C={C}" for C in chunks]
    ratios = heat_map(
        "Tuples a node must know, over the nodes that training shows: log₁₀",
        "Counted, not trained. Needed: the C-tuples of transitions that a complete chunk can have, the most of any "
        "group; at most |M|^C, M being the transition monoid of the task's machine. Shown: all nodes of as many "
        "training strings as the runs had, of all training lengths alike (growing lengths show fewer). Above 0 there "
        "are more tuples than nodes, so a model that is right has generalised over them.",
        [f"{label} (|M| = {of.elements})" for label, of in found.items()],
        columns,
        [[round(of.by_chunk[C].ratio, 2) for C in chunks] for of in found.values()],
        corner="log₁₀ needed / shown",
    )
    longest = sorted({of.longest for of in found.values()})
    drawn = max(of.drawn for of in found.values())
    unseen = heat_map(
        "Nodes of long strings whose tuple training never showed",
        f"Counted, not trained: the share of the nodes of test strings of {' or '.join(map(str, longest))} tokens "
        f"whose tuple is at no node of {drawn:,} training strings, wherever in the tree. A missing child is a kind of "
        "its own. That a transition looks alike in every group is assumed here, and need not be so in a trained model: "
        "with C = 8 no chunk above the first group is complete within 40 tokens.",
        list(found),
        columns,
        [[of.by_chunk[C].new for C in chunks] for of in found.values()],
        corner="share, %",
        low=0,
        high=1,
        percent=True,
    )
    return [ratios, unseen]


def together(cells: Sequence[Cell], found: Mapping[str, Causes]) -> Panel:
    """Whether the counts go together with the accuracies."""
    why = [found[cell.task].by_chunk[cell.chunk] for cell in cells]
    counts = {
        "tuples needed": [float(w.needed) for w in why],
        "needed / shown": [w.ratio for w in why],
        "nodes with a new tuple": [w.new for w in why],
        "C itself": [float(cell.chunk) for cell in cells],
    }
    skills, inside = [cell.skill for cell in cells], [cell.inside for cell in cells]
    both = {name: [rank_correlation(xs, inside), rank_correlation(xs, skills)] for name, xs in counts.items()}
    covered = [cell for cell, w in zip(cells, why, strict=True) if w.new == 0]
    failed = sum(cell.skill < RIGHT for cell in covered)
    return text_table(
        "Does it explain the accuracy?",
        f"Rank correlation (Spearman) over the {len(cells)} cells between each count and the accuracy at the training "
        "lengths, and the skill beyond them, (accuracy − majority) / (1 − majority). Measured: the accuracies, the "
        "counts, and whether they go together. Conjecture: that the one causes the other. C itself stands beside them "
        "as a check: a larger C also means fewer groups, and fewer nodes to learn from. "
        f"In {len(covered)} cells training showed every tuple of the test strings, and {failed} of them are still "
        f"below {100 * RIGHT:.0f}% skill: what fails there is not coverage, but learning a function of C arguments in "
        "so many steps.",
        ["", "in training", "beyond"],
        [[name, *("–" if rho is None else f"{rho:+.2f}" for rho in pair)] for name, pair in both.items()],
        {
            "correlations": {name: {"in_training": pair[0], "beyond": pair[1]} for name, pair in both.items()},
            "cells": [
                {**cell._asdict(), "skill": cell.skill, **w._asdict()} for cell, w in zip(cells, why, strict=True)
            ],
        },
    )


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Spearman's: the correlation of the ranks, equal values sharing theirs; None where all are equal.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 30, 25])
    0.8
    """
    a, b = _ranks(xs), _ranks(ys)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return round(float(np.corrcoef(a, b)[0, 1]), 9)


def _ranks(values: Sequence[float]) -> np.ndarray:
    given = np.asarray(values, dtype=float)
    return np.array([(given < v).sum() + ((given == v).sum() - 1) / 2 for v in given])
