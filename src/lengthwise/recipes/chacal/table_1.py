"""Table 1 and Figure 3: how many standard layers do chains of references need, where one of ChaCAL's is enough?"""

from __future__ import annotations

from typing import Any

from ...lab import Run
from ...report import Panel, text_table
from ...report.formatting import count, duration
from ...tasks.boxes import layers_needed
from ..base import Recipe, Scale
from .learning import curves, ended
from .published import TOY
from .toy import PAPER_BLOCKS, SIZE, toy

LADDER: dict[Scale, int] = {"smoke": 3, "laptop": 8, "paper": PAPER_BLOCKS}
"""Blocks of the texts on which all models are compared."""
SUM = "ChaCAL 1, sum of paths"

DESCRIPTION = (
    "Texts of blocks of 8 tokens; every block but the first is a shuffle of references to the block before it. For "
    "every token its whole chain of references is asked, down to the value at its end. A score is the share of right "
    "entries, over all tokens and the entries of their chains. By Theorem 1 a Transformer needs ceil(log2(depth + 1)) "
    "layers for chains of that depth; one layer of chain attention sums chains of every length."
)


def table_1(scale: Scale) -> Recipe:
    """Standard attention of one to five layers and one ChaCAL layer on chains of references, beside the published."""
    blocks = LADDER[scale]
    parts = {(label, blocks): toy(scale, label, blocks) for label in TOY}
    parts[SUM, blocks] = toy(scale, "ChaCAL 1", blocks, model__paths="sum")
    if scale == "laptop":
        # The published length, for the models of one layer: standard attention is soon as good as it gets.
        for label, steps in [("Standard 1", 1500), ("ChaCAL 1", 3000)]:
            parts[label, PAPER_BLOCKS] = toy(scale, label, PAPER_BLOCKS, seeds=1, training__steps=steps)
        longer: dict[str, Any] = {"seeds": 1, "training__steps": 5000, "training__lr": 3e-3, "model__paths": "sum"}
        parts[f"{SUM}, 5,000 steps of 3e-3", PAPER_BLOCKS] = toy(scale, "ChaCAL 1", PAPER_BLOCKS, **longer)

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine = {key: [found[e.hash] for e in of if e.hash in found] for key, of in parts.items()}
        mine = {key: of for key, of in mine.items() if of}
        drawn = []
        for n in sorted({n for _, n in mine}):
            of = {label: runs for (label, size), runs in mine.items() if size == n}
            title = f"Learning chains in {n * SIZE} tokens"
            drawn.append(curves(title, "Mean over seeds, strings never trained on (Figure 3 of the paper).", of))
        return [_table(scale, mine), *drawn] if mine else []

    return Recipe(
        title="ChaCAL, Table 1: chains of references",
        description=DESCRIPTION,
        experiments=[e for of in parts.values() for e in of],
        panels=panels,
    )


def _table(scale: Scale, mine: dict[tuple[str, int], list[Run]]) -> Panel:
    rows, data = [], []
    for (label, blocks), runs in sorted(mine.items(), key=lambda item: item[0][1]):
        numbers: dict[str, Any] = ended(runs)
        published = TOY.get(label)
        said = f"{published.loss:.2f}, {published.accuracy:.1f} ± {published.std:.1f}" if published else "–"
        data.append({"model": label, "tokens": blocks * SIZE, **numbers, "published": published})
        rows.append(
            [
                label,
                str(blocks * SIZE),
                str(layers_needed(blocks - 1)),
                count(numbers["parameters"]),
                str(numbers["seeds"]),
                f"{numbers['loss']:.3f}",
                numbers["words"],
                said,
                duration(numbers["train_seconds"]),
            ]
        )
    head = ["model, layers", "tokens", "layers needed", "size", "runs", "loss", "accuracy, max / mean ± std",
            "published loss, accuracy", "training"]  # fmt: skip
    caption = (
        "Loss on validation strings, accuracy in % on test strings, at the last checkpoint; guessing is right in "
        "12.5%. Published: 128 tokens, width 512, 24,000 steps of 128 texts."
    )
    if scale != "paper":
        caption += (
            f" Shrunk here ({scale}): width, steps, batch and seeds, at a higher learning rate; the "
            "ladder of standard layers is climbed on shorter texts."
        )
    return text_table("Measured beside published", caption, head, rows, data)
