"""Why ChaCAL starts slowly, and what cures it: the paths' mean or their sum, γ given or learned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from lengthwise.lab import Run, load_model
from lengthwise.mixers import Chain
from lengthwise.recipes import Cell, Grid, Recipe, Scale, curve, curves, ended, first_at
from lengthwise.recipes.papers.chacal import AttentionColumn, plan_chains, table_1
from lengthwise.report import Panel, Table

BLOCKS: dict[Scale, int] = {"smoke": 3, "laptop": 8, "paper": table_1.PAPER_BLOCKS}
STANDARD, CHAIN = AttentionColumn("standard", 1), AttentionColumn("chain", 1)
WAYS: dict[str, tuple[AttentionColumn, dict[str, Any]]] = {
    "standard attention": (STANDARD, {}),
    "γ = 0.9, mean (the paper)": (CHAIN, {}),
    "γ = 0.9, sum": (CHAIN, {"model.paths": "sum"}),
    "γ learned from 0.5, mean": (CHAIN, {"model.gamma": 0.5, "model.learn_gamma": True}),
    "γ learned from 0.5, sum": (CHAIN, {"model.gamma": 0.5, "model.learn_gamma": True, "model.paths": "sum"}),
    "γ learned from 0.01 and 0.9, sum": (
        CHAIN,
        {"model.gamma": [0.01] * 4 + [0.9] * 4, "model.learn_gamma": True, "model.paths": "sum"},
    ),
    "γ learned from 0.9, sum": (CHAIN, {"model.gamma": 0.9, "model.learn_gamma": True, "model.paths": "sum"}),
}
EARLY = 0.2
"""The share of the training that is called its start."""
LEVELS = (0.5, 0.99)


def recipe(scale: Scale) -> Recipe:
    """Why ChaCAL starts slowly: learning curves of standard attention, of ChaCAL, and of four cures."""
    blocks = BLOCKS[scale]

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        caption = (
            "Mean over seeds. By the paper's theorem one layer of standard attention follows one reference of a chain."
        )
        rows, data = [], []
        for name, runs in finished.items():
            steps, values = curve(runs)
            early = values[max(i for i, s in enumerate(steps) if i == 0 or s <= EARLY * steps[-1])]
            end, gammas = ended(runs), learned(runs)
            firsts = [first_at(runs, level) for level in LEVELS]
            data.append({"way": name, "early": early, "gammas": gammas, "first": firsts, **end})
            words = "given" if not gammas else ", ".join(f"{g:.2f}" for g in gammas)
            text = ["–" if first is None else f"{first:,}" for first in firsts]
            rows.append([name, f"{100 * early:.1f}", *text, end["words"], words])
        head = ["one layer", f"after {EARLY:.0%}", *(f"steps to {level:.0%}" for level in LEVELS), "at the end", "γ"]
        note = "Accuracy in %. At the end: max / mean ± std on test strings. γ: each head's at the end, first seed."
        return [curves("The start", caption, finished), Table("The start in numbers", note, head, rows, data=data)]

    return Recipe(
        title="ChaCAL: the slow start and its cure",
        description=(
            "The mean over paths gives a reference one step away the weight 1 - γ, a tenth at γ = 0.9. So the layer's "
            "output and all its gradients are at first ten times smaller than those of softmax attention. The sum over "
            "paths, Y / (1 - γ), starts where softmax attention does. With it, heads that start at γ = 0.01 learn what "
            "a single reference tells, while other heads follow chains. All models have one layer, the same chains of "
            f"references in {blocks * table_1.SIZE} tokens, and the same training."
        ),
        grid=Grid(
            [Cell(name, partial(plan_chains, scale, model, blocks, changed)) for name, (model, changed) in WAYS.items()]
        ),
        report=report,
    )


def learned(runs: list[Run]) -> list[float]:
    """γ of every head of the first run's chain layers, where it is learned."""
    layers = [m for m in load_model(runs[0]).modules() if isinstance(m, Chain) and m.gamma.logit is not None]
    return [g for layer in layers for g in torch.as_tensor(layer.gamma(torch.empty(0))).tolist()]
