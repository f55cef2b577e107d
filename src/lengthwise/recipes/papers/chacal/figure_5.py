"""Figure 5: how γ bears on what one ChaCAL layer learns, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ....lab import Experiment, Run
from ....report import Panel, line_chart, record_table
from ....report.formatting import table_number
from ...base import Recipe, Scale
from ...common.curves import curves, ended, first_at
from ...common.grid import Cell, Grid
from .chains import PAPER_BLOCKS, SIZE, AttentionColumn, plan_chains

GAMMAS: dict[Scale, list[float]] = {
    "smoke": [0.0, 0.9],
    "laptop": [0.0, 0.25, 0.5, 0.8, 0.9, 0.95, 0.99],
    "paper": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99],
}
BLOCKS: dict[Scale, int] = {"smoke": 3, "laptop": 8, "paper": PAPER_BLOCKS}
LEVEL = 0.99


def recipe(scale: Scale) -> Recipe:
    """One ChaCAL layer with different γ: its accuracy, and how many steps it needs to 99%."""
    blocks = BLOCKS[scale]
    seeds = {"smoke": 1, "laptop": 3, "paper": 4}[scale]

    def planned(gamma: float) -> list[Experiment]:
        return plan_chains(scale, AttentionColumn("chain", 1), blocks, {"model.gamma": gamma, "seeds": seeds})

    def report(finished: Mapping[float, list[Run]], device: str) -> list[Panel]:
        ends = {g: ended(runs) for g, runs in finished.items()}
        records = [{"gamma": g, **end, "first_at_99": first_at(finished[g], LEVEL)} for g, end in ends.items()]
        return [
            line_chart(
                "Accuracy against γ",
                "On test strings, after training. The paper: 100% from 0.5 on, fastest near 0.9, unstable from 0.98.",
                "γ",
                "accuracy",
                {"ChaCAL, one layer": (list(ends), [end["mean"] for end in ends.values()])},
                percent=True,
            ),
            record_table(
                "γ, accuracy, and steps to 99%",
                "Accuracy in %, max / mean ± std over seeds. Steps to 99%: the first validation with at least 99%.",
                records,
                {
                    "γ": lambda row: f"{row['gamma']:g}",
                    "accuracy": lambda row: row["words"],
                    "loss": lambda row: f"{row['loss']:.3f}",
                    "steps to 99%": lambda row: table_number(row["first_at_99"]),
                },
            ),
            curves(
                "Learning",
                "Accuracy on validation strings, mean over seeds.",
                {f"γ = {g:g}": runs for g, runs in finished.items()},
            ),
        ]

    return Recipe(
        title="ChaCAL, Figure 5: the choice of γ",
        description=(
            f"One ChaCAL layer learns chains of references in {blocks * SIZE} tokens. The runs differ in γ alone. With "
            "γ = 0 it is softmax attention, which can follow one reference and no more."
        ),
        grid=Grid([Cell(gamma, partial(planned, gamma)) for gamma in GAMMAS[scale]]),
        report=report,
    )
