"""Table 1 and Figure 3: how many standard layers do chains of references need, where one of ChaCAL's is enough?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ....lab import Run
from ....report import Panel, record_table
from ....report.formatting import count, duration
from ....tasks.boxes import layers_needed
from ...base import Recipe, Scale
from ...common.curves import beside_published, curves, ended
from ...common.grid import Cell, Grid
from ...common.rules import differences_from_paper
from .chains import PAPER_BLOCKS, RULES, SIZE, TOY, AttentionColumn, plan_chains

LADDER: dict[Scale, int] = {"smoke": 3, "laptop": 8, "overnight": PAPER_BLOCKS, "paper": PAPER_BLOCKS}
"""Blocks of the texts on which all models are compared."""
DESCRIPTION = (
    "A text has blocks of 8 tokens, and every block but the first is a shuffle of references to the block before it. "
    "For every token the model names its whole chain of references, down to the value at its end. A score is the share "
    "of right entries, over all tokens and the entries of their chains. By Theorem 1 a Transformer needs "
    "ceil(log2(depth + 1)) layers for chains of that depth; one layer of chain attention sums chains of every length."
)


CHAIN, CHAIN_SUM = AttentionColumn("chain", 1), AttentionColumn("chain", 1, ", sum of paths")
SUM = {"model.paths": "sum"}


class ChainsKey(NamedTuple):
    """A line of the table."""

    blocks: int
    attention: AttentionColumn


def recipe(scale: Scale) -> Recipe:
    """One ChaCAL layer and standard attention of one to five layers on chains of references, beside the paper's."""

    def report(finished: Mapping[ChainsKey, list[Run]], device: str) -> list[Panel]:
        drawn = []
        for blocks in sorted({key.blocks for key in finished}):
            mine = {key.attention.label: runs for key, runs in finished.items() if key.blocks == blocks}
            title = f"Learning chains in {blocks * SIZE} tokens"
            caption = "Mean over seeds, on strings kept out of training (Figure 3)."
            drawn.append(curves(title, f"{caption} {_beside(finished, blocks)}".strip(), mine))
        sentence = _beside(finished, max(key.blocks for key in finished))
        models = [key.attention.label for key in finished]
        drawn += differences_from_paper(RULES, scale, ["reference-chains"], models, "Heads and betas are as published.")
        return [replace(_table(scale, finished), finding=sentence), *drawn]

    return Recipe(
        title="ChaCAL, Table 1: chains of references",
        description=DESCRIPTION,
        grid=Grid(list(_cells(scale))),
        report=report,
    )


def _cells(scale: Scale) -> Iterator[Cell[ChainsKey]]:
    def cell(attention: AttentionColumn, blocks: int, changed: Mapping[str, Any]) -> Cell[ChainsKey]:
        plan = partial(plan_chains, scale, attention, blocks, changed)
        return Cell(ChainsKey(blocks, attention), plan, label=attention.label)

    for attention in TOY:
        yield cell(attention, LADDER[scale], {})
    yield cell(CHAIN_SUM, LADDER[scale], SUM)
    if scale == "laptop":
        # The published length, for the models of one layer: standard attention is soon as good as it gets.
        yield cell(AttentionColumn("standard", 1), PAPER_BLOCKS, {"seeds": 1})
        yield cell(CHAIN, PAPER_BLOCKS, {"seeds": 1, "training.steps": 3000})
        longer = {"seeds": 1, "training.steps": 5000, "training.lr": 3e-3, **SUM}
        yield cell(CHAIN_SUM._replace(besides=", sum of paths, 5,000 steps of 3e-3"), PAPER_BLOCKS, longer)


def _beside(finished: Mapping[ChainsKey, list[Run]], blocks: int) -> str:
    """The models that stand beside a published row; on texts of another length than the published there is none."""
    if blocks != PAPER_BLOCKS:
        return ""
    mine = {
        key.attention.label: (ended(runs)["mean"], TOY[key.attention].accuracy)
        for key, runs in finished.items()
        if key.attention in TOY and key.blocks == blocks
    }
    return beside_published(f"Accuracy after all steps, on {blocks * SIZE} tokens", mine)


def _table(scale: Scale, finished: Mapping[ChainsKey, list[Run]]) -> Panel:
    records = [
        {
            "model": key.attention.label,
            "tokens": key.blocks * SIZE,
            **ended(runs),
            "published": TOY.get(key.attention) if key.blocks == PAPER_BLOCKS else None,
        }
        for key, runs in sorted(finished.items(), key=lambda item: item[0].blocks)
    ]
    columns = {
        "model, layers": lambda row: row["model"],
        "tokens": lambda row: str(row["tokens"]),
        "layers needed": lambda row: str(layers_needed(row["tokens"] // SIZE - 1)),
        "size": lambda row: count(row["parameters"]),
        "runs": lambda row: str(row["seeds"]),
        "loss": lambda row: f"{row['loss']:.3f}",
        "accuracy, max / mean ± std": lambda row: row["words"],
        "published loss, accuracy": lambda row: row["published"].words(2) if row["published"] else "–",
        "training": lambda row: duration(row["train_seconds"]),
    }
    caption = (
        "Loss on validation strings, accuracy in % on test strings, at the last checkpoint; guessing is right in "
        "12.5%. Published: on 128 tokens; it stands beside such runs alone."
    )
    if LADDER[scale] < PAPER_BLOCKS:
        caption += " The models with several standard layers are compared on shorter texts."
    return record_table("Measured beside published", caption, records, columns)
