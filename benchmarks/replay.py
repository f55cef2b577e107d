"""Steps on a GPU, launched kernel by kernel and replayed from a recording, and how far apart their weights end.

The tests that need a GPU hold both to each other in double precision. In single precision sums by atomics may
come in another order every time: two launched trainings were not compared.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

import torch
from rich.table import Table

from lengthwise.lab.job import make_trainer
from lengthwise.recipes.papers.lrnn import table_2
from lengthwise.recipes.papers.regulargpt import table_1
from lengthwise.train import Trainer
from lengthwise.train.strategies import Stacked

STEPS, WARM, REPEATS = 30, 3, 2
NETWORKS = {
    "RegularGPT as published, width 256": lambda: table_1.planned("paper", "cycle-navigation", "regular-gpt C=2"),
    "RegularGPT, width 64": lambda: table_1.planned("overnight", "cycle-navigation", "regular-gpt C=2"),
    "Transformer of five layers, width 64": lambda: table_1.planned("overnight", "parity", "transformer-xl"),
    "LRNN as published, Sum(5)": lambda: table_2.planned("overnight", "modular-sum", "block-lrnn"),
    "LRNN as published, ModArith(5)": lambda: table_2.planned("overnight", "modular-arithmetic", "block-lrnn"),
    "LRNN automaton, ModArith(5)": lambda: table_2.planned("overnight", "modular-arithmetic", "block-lrnn automaton"),
    "S4, Sum(5)": lambda: table_2.planned("overnight", "modular-sum", "s4"),
}


def steps_of(trainer: Trainer) -> tuple[float, torch.Tensor]:
    """The seconds of a step of strings as long as they get, and the weights in the end."""
    for state in trainer.states:
        state.model.train()
        trainer.objective.prepare(state, stacked=len(trainer.states) > 1)
        state.curriculum.lengths = state.curriculum.lengths[-1:]
    times = []
    for repeat in range(-WARM, REPEATS * STEPS):
        if repeat % STEPS == 0 and repeat >= 0:
            torch.cuda.synchronize()
            times.append(time.perf_counter())
        trainer.take_step(trainer.states)
    torch.cuda.synchronize()
    times.append(time.perf_counter())
    each = [(b - a) / STEPS for a, b in pairwise(times)]
    ends = [weight.detach().flatten() for state in trainer.states for weight in state.parameters.values()]
    return median(each), torch.cat(ends)


def row(name: str, count: int) -> tuple[str, ...]:
    found = []
    for replayed in (False, True):
        trainer = make_trainer(NETWORKS[name]()[:1] * count, "cuda")
        strategy = trainer.strategy = Stacked("cuda")
        if not replayed:
            strategy.replayer = None
        if not strategy.takes(trainer.states[0], trainer.data, trainer.objective):
            return name, str(count), "–", "–", "–", "is not stacked"
        found.append(steps_of(trainer))
    (launched, one), (replayed, other) = found
    gap = float((one - other).norm() / one.norm())
    milliseconds = (f"{1000 * each:.2f}" for each in (launched, replayed))
    return name, str(count), *milliseconds, f"{launched / replayed:.1f}", f"{gap:.0e}"


def table() -> Table:
    """One row a network and number of seeds; a ratio above 1 means that replaying is faster."""
    found = Table(title=f"Launched / replayed, milliseconds a step, {REPEATS * STEPS} steps")
    for column in ("network", "seeds", "launched", "replayed", "ratio", "gap of the weights"):
        found.add_column(column)
    if not torch.cuda.is_available():
        found.caption = "There is no GPU here."
        return found
    for name in NETWORKS:
        for count in (1, 3):
            found.add_row(*row(name, count))
    return found
