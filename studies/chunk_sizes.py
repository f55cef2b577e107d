"""Which chunk size learns which task, and why a larger one fails: accuracies beside the tuples there are to learn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from lengthwise import tasks
from lengthwise.automata import Semiautomaton, transition_monoid
from lengthwise.errors import Error
from lengthwise.lab import Experiment, Run, accuracy, plan, score
from lengthwise.models import groups
from lengthwise.recipes import Cell, Grid, Recipe, Scale
from lengthwise.recipes.papers.regulargpt import table_1
from lengthwise.report import Panel, Table, heat_map, percent
from lengthwise.seeds import generator
from lengthwise.tasks import Task

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "even-pairs": ("even-pairs", {}),
    "parity": ("parity", {}),
    "cycle-navigation": ("cycle-navigation", {}),
    "modular-arithmetic": ("modular-arithmetic", {"leading_plus": True}),
    "d-4": ("d-4", {}),
    "tomita-5": ("tomita-5", {}),
    "word-problem S3": ("word-problem", {"group": "S3"}),
    "word-problem A5": ("word-problem", {"group": "A5"}),
}
HARD = "modular-arithmetic"
CHUNKS = (2, 3, 4, 5, 8)
HARD_CHUNKS, HARD_THICKNESS = (2, 3, 4), (1, 2, 3)
TRAINED, TESTED = (1, 40), (41, 500)


class ChunkSetting(NamedTuple):
    seeds: int
    lengths: int
    """How many lengths beyond training are tested, about."""
    train: dict[str, Any]
    hard: dict[str, Any]
    """What is different in the map of modular arithmetic."""


SETTINGS: dict[Scale, ChunkSetting] = {
    "smoke": ChunkSetting(
        1,
        2,
        {
            "model.width": 16,
            "training.steps": 2,
            "training.batch": 8,
            "training.validation_samples": 16,
            "tests.samples": 4,
        },
        {},
    ),
    "laptop": ChunkSetting(
        1,
        12,
        {"model.width": 64, "training.steps": 1000, "tests.samples": 64},
        {"model.width": 128, "training.steps": 1500, "training.betas": (0.9, 0.98)},
    ),
    "paper": ChunkSetting(
        3,
        48,
        {
            "model.width": 256,
            "training.lr": 3e-4,
            "training.steps": 100_000,
            "training.validate_every": 1000,
            "tests.samples": 512,
        },
        {"training.betas": (0.9, 0.98)},
    ),
}


class ChunkKey(NamedTuple):
    task: str
    """A label of `TASKS`."""
    chunk: int
    thickness: int
    hard: bool
    """Of the map of modular arithmetic, where training is longer."""


Runs = Mapping[ChunkKey, list[Run]]


def recipe(scale: Scale) -> Recipe:
    """RegularGPT with chunk sizes from 2 to 8 on eight tasks, and why larger chunks fail."""
    setting = SETTINGS[scale]
    keys = [ChunkKey(label, C, 1, False) for label in TASKS for C in CHUNKS]
    keys += [ChunkKey(HARD, C, K, True) for C in HARD_CHUNKS for K in HARD_THICKNESS]

    def report(finished: Runs, device: str) -> list[Panel]:
        wide = {key: runs for key, runs in finished.items() if not key.hard}
        hard = {key: runs for key, runs in finished.items() if key.hard}
        why = {label: explained(label, setting) for label in dict.fromkeys(key.task for key in wide)}
        scores = [
            Accuracy(key.task, key.chunk, _mean(runs, False), _mean(runs, True), _majority(runs))
            for key, runs in wide.items()
        ]
        panels = [_beyond(wide), _inside(wide), *counted(why), together(scores, why)] if wide else []
        return panels + ([_hard(hard)] if hard else [])

    return Recipe(
        title="RegularGPT: which chunk size for which task",
        description=(
            "The paper finds that C = 3 fails on Modular Arithmetic where C = 2 learns it, and explains this by the "
            "number of transitions that a node composes at once. Here chunk sizes from 2 to 8 get the same number of "
            "steps on eight tasks. Beside the accuracies stand the number of tuples of transitions that a node must "
            "know, the number of nodes that training shows, and how many tuples of long strings training never shows."
        ),
        grid=Grid([Cell(key, partial(planned, key, setting), label=key.task) for key in keys]),
        report=report,
    )


@cache
def task_of(label: str) -> tasks.Task:
    name, params = TASKS[label]
    return tasks.get(name, **params)


def planned(key: ChunkKey, setting: ChunkSetting) -> list[Experiment]:
    """Lengths grow as they are learned: without that nothing of modular arithmetic is."""
    task = task_of(key.task)
    lengths = table_1.thinned(task.lengths(*TESTED), setting.lengths)
    return plan(
        task,
        ["regular-gpt"],
        seeds=setting.seeds,
        test_lengths=[*(task.lengths(*TRAINED) if key.task == HARD else []), *lengths],
        settings={
            **setting.train,
            **(setting.hard if key.hard else {}),
            "training.lengths": TRAINED,
            "training.curriculum": "growing",
            "model.chunk": key.chunk,
            "model.thickness": key.thickness,
        },
    )


def explained(label: str, setting: ChunkSetting) -> Causes:
    """For all chunk sizes, with as many training strings as the runs had."""
    task = task_of(label)
    count = setting.train["training.steps"] * setting.train.get("training.batch", 128)
    return causes(task, CHUNKS, TRAINED, count, task.lengths(*TESTED)[-1], setting.train["tests.samples"])


def _lengths(run: Run, beyond: bool) -> list[int]:
    return [n for n in run.experiment.tests.lengths if (n > TRAINED[1]) == beyond]


def _mean(runs: Sequence[Run], beyond: bool) -> float:
    return statistics.fmean(score(run, _lengths(run, beyond)) for run in runs)


def _majority(runs: Sequence[Run]) -> float:
    return statistics.fmean(runs[0].result["baseline"][str(n)] for n in _lengths(runs[0], True))


def _map(title: str, caption: str, wide: Runs, beyond: bool, names: Mapping[str, str]) -> Panel:
    labels = list(dict.fromkeys(key.task for key in wide))
    scores = {(key.task, key.chunk): _mean(runs, beyond) for key, runs in wide.items()}
    values = [[scores.get((label, C)) for C in CHUNKS] for label in labels]
    rows, columns = [names.get(label, label) for label in labels], [f"C={C}" for C in CHUNKS]
    return heat_map(title, caption, rows, columns, values, corner="accuracy, %", low=0, high=1, percent=True)


def _beyond(wide: Runs) -> Panel:
    runs = next(iter(wide.values()))
    e = runs[0].experiment
    names = {key.task: f"{key.task} (majority {percent(_majority(mine))})" for key, mine in wide.items()}
    return _map(
        f"Beyond training: mean accuracy at {TESTED[0]}–{TESTED[1]}",
        f"Mean over {len(runs)} seed{'s' if len(runs) > 1 else ''} and the lengths tested, {e.tests.samples} "
        f"strings each, after {e.training.steps:,} steps of {e.training.batch} strings, lengths growing from "
        f"{e.training.curriculum.grow_from} to {TRAINED[1]}, width {e.model.options['width']}, K = 1. All cells are "
        "trained alike: what is low here was not learned in so many steps, which is not to say it cannot be.",
        wide,
        True,
        names,
    )


def _inside(wide: Runs) -> Panel:
    return _map(
        f"In training: mean accuracy at {TRAINED[0]}–{TRAINED[1]}",
        "The same runs at lengths trained on. Where this is low the task was not learned in the steps given; where it "
        "is high and the accuracy beyond is not, it was learned without the recursion.",
        wide,
        False,
        {},
    )


def solved(run: Run) -> int:
    """The length up to which the run is right at every length tested; 0 where not even at the first."""
    held = 0
    for n in run.experiment.tests.lengths:
        if accuracy(run, n) < RIGHT:
            break
        held = n
    return held


def _hard(hard: Runs) -> Panel:
    runs = next(iter(hard.values()))
    e = runs[0].experiment
    lengths = {(key.chunk, key.thickness): statistics.fmean(map(solved, mine)) for key, mine in hard.items()}
    values = [[lengths.get((C, K)) for K in HARD_THICKNESS] for C in HARD_CHUNKS]
    best = max(_mean(mine, True) for mine in hard.values())
    return heat_map(
        "Modular arithmetic: the longest length learned",
        f"The length up to which at least {100 * RIGHT:.0f}% of the strings are right at every length tested (mean of "
        f"{len(runs)} seed{'s' if len(runs) > 1 else ''}), after {e.training.steps:,} steps with lengths growing to "
        f"{TRAINED[1]}, width {e.model.options['width']}. The + in front pairs each operator with a number: chunks of "
        f"2 and 4 hold whole pairs, chunks of 3 cut them. The best cell has {percent(best)}% at {TESTED[0]} to "
        f"{TESTED[1]} tokens, the majority answer {percent(_majority(runs))}%.",
        [f"C={C}" for C in HARD_CHUNKS],
        [f"K={K}" for K in HARD_THICKNESS],
        values,
        corner="tokens",
        low=0,
    )


# Why larger chunks fail: the tuples a node must know beside those that training shows, and whether it goes together.
#
# The counts are those of transition_tuples.py, for the tasks and chunk sizes of a map of accuracies. Nothing is trained
# here.

RIGHT = 0.95
DRAWN = 400_000
"""No more training strings than this are looked through."""


class Why(NamedTuple):
    """What a node must know, and what training shows (transition_tuples.py)."""

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


class Accuracy(NamedTuple):
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
    tree, possible = TransitionTree(task.machine), task.lengths(*lengths)
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


def together(cells: Sequence[Accuracy], found: Mapping[str, Causes]) -> Panel:
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
    return Table(
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
        data={
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


# What a node of RegularGPT has to know: the C-tuples of transitions it must compose, and how many training shows.
#
# A node of group l composes the transitions of its C children. It is a function of a C-tuple, and one function for all
# groups, since their weights are shared. With M the transition monoid of the task's machine that is up to |M|^C tuples:
#
#     needed   tuples that a complete chunk can have, the most of any group: the product of the numbers of transitions
#              that its children can have (a child of group l covers C^l tokens, and not every word is asked)
#     shown    nodes in all training strings
#     new      the share of the nodes of long strings whose tuple no training string had
#
# A missing child is the pad, a kind of its own that changes nothing.
#
# Shapes: B batch, T tokens, N elements of the monoid.

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Tuples are told apart by a 64-bit hash: among millions of them a collision is not to be expected."""


class TransitionTree:
    """The ground truth of RegularGPT's tree over a machine: the transition at every node, by number.

    >>> tree = TransitionTree(Semiautomaton([[0, 1], [1, 0]]))
    >>> tree.size, [len(found) for found in tree.tuples(np.array([[0, 1, 1, 0, 1]]), 2)]
    (2, [3, 2, 1])
    """

    def __init__(self, machine: Semiautomaton):
        self.monoid = transition_monoid(machine)
        self.size = len(self.monoid)
        self.tokens = np.array(self.monoid.generators)

    @cached_property
    def table(self) -> np.ndarray:
        """(N+1, N+1) the element that i and then j make; the pad is number N."""
        N = self.size
        words = {word: i for i, word in enumerate(self.monoid.words)}
        table = np.empty((N + 1, N + 1), dtype=np.int32)
        table[:N, 0] = np.arange(N)
        for j, word in enumerate(self.monoid.words[1:], start=1):
            table[:N, j] = self.monoid.cayley[table[:N, words[word[:-1]]], word[-1]]
        table[N], table[:, N] = np.arange(N + 1), np.arange(N + 1)
        return table

    def tuples(self, tokens: np.ndarray, chunk: int) -> list[np.ndarray]:
        """For each group of strings (B,T), the hashes of the tuples at its nodes, those that the last answer needs."""
        x, found = self.tokens[tokens], []
        for _ in range(groups(tokens.shape[1], chunk)):
            x = np.pad(x, [(0, 0), (-x.shape[1] % chunk, 0)], constant_values=self.size)
            children = x.reshape(len(x), -1, chunk)
            found.append(_hashed(children).ravel())
            x = children[..., 0]
            for j in range(1, chunk):
                x = self.table[x, children[..., j]]
        return found

    def needed(self, places: tuple[np.ndarray, np.ndarray], chunk: int, length: int) -> int:
        """The most tuples that complete chunks of one group can have in strings of `length`.

        `places`: the elements that tokens at an even and at an odd distance from the last one can be: where symbols
        alternate, so do the kinds of chunks of odd size.
        """
        most, kinds = 0, list(places)
        for _ in range(groups(length, chunk)):
            # The children of the node at distance i stand at C i + j, the newest first.
            rows = [[kinds[(chunk * i + j) % 2] for j in range(chunk)] for i in range(2)]
            most = max(most, *(int(np.prod([float(len(child)) for child in row])) for row in rows))
            kinds = [self._products(row[::-1]) for row in rows]
        return most

    def _products(self, factors: list[np.ndarray]) -> np.ndarray:
        found = factors[0]
        for factor in factors[1:]:
            found = np.unique(self.table[np.ix_(found, factor)])
        return found


def _hashed(children: np.ndarray) -> np.ndarray:
    """One number for each row (..., C)."""
    keys = np.zeros(children.shape[:-1], dtype=np.uint64)
    for j in range(children.shape[-1]):
        keys = (keys ^ children[..., j].astype(np.uint64)) * MIX
        keys ^= keys >> np.uint64(29)
    return keys


def training_strings(task: Task, lengths: Sequence[int], count: int) -> list[Tensor]:
    """About `count` strings, as many of every length."""
    each = max(1, count // len(lengths))
    return [task.sample(n, each, generator("tuples", task.name, task.params, n)).tokens for n in lengths]


def places(tree: TransitionTree, strings: Iterable[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The elements of the tokens at an even and at an odd distance from the end."""
    seen: list[set[int]] = [set(), set()]
    for tokens in strings:
        for distance in (0, 1):
            seen[distance].update(np.unique(tokens.flip(1)[:, distance::2].numpy()).tolist())
    even, odd = (np.unique(tree.tokens[sorted(symbols)]) for symbols in seen)
    return even, odd


def nodes(lengths: Sequence[int], chunk: int) -> float:
    """The nodes of a string, of all groups, on average over these lengths.

    >>> nodes([5], 2), nodes([1, 4], 2)
    (6.0, 2.0)
    """
    return sum(-(-n // chunk ** (l + 1)) for n in lengths for l in range(groups(n, chunk))) / len(lengths)


def new(tree: TransitionTree, strings: Iterable[Tensor], tests: Tensor, chunk: int) -> float:
    """The share of the nodes of `tests` (B,T) whose tuple is at no node of `strings`."""
    known = np.unique(
        np.concatenate([np.unique(np.concatenate(tree.tuples(tokens.numpy(), chunk))) for tokens in strings])
    )
    asked = np.concatenate(tree.tuples(tests.numpy(), chunk))
    return float(1 - np.isin(asked, known).mean())
