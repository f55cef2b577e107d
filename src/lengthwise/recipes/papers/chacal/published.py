"""The columns of the paper's tables, and the numbers printed in them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class AttentionColumn(NamedTuple):
    """A column of the paper's tables: so many layers of standard attention, or with chain attention in them.

    >>> AttentionColumn("chain", 2).label, AttentionColumn("standard", 5).label
    ('ChaCAL 2', 'Standard 5')
    """

    kind: Literal["standard", "chain"]
    layers: int

    @property
    def label(self) -> str:
        return f"{'ChaCAL' if self.kind == 'chain' else 'Standard'} {self.layers}"

    @property
    def preset(self) -> str:
        return "chacal" if self.kind == "chain" else "transformer"

    def settings(self, chain_layers: Literal["all", "last"]) -> dict[str, Any]:
        """`chain_layers`: which layers have chain attention, where it is ChaCAL."""
        if self.kind == "chain":
            return {"model.layers": self.layers, "model.chain_layers": chain_layers}
        # What ChaCAL's preset has by itself.
        return {"model.layers": self.layers, "model.position": "learned", "model.initializer_range": 0.02}


class Figures(NamedTuple):
    loss: float
    accuracy: float
    """In %, the mean over runs."""
    std: float
    time: float | None = None
    """Training time relative to two standard layers."""


TOY = {
    AttentionColumn("standard", 1): Figures(1.20, 49.9, 0.5),
    AttentionColumn("standard", 2): Figures(0.54, 77.6, 2.8),
    AttentionColumn("standard", 3): Figures(0.21, 90.9, 5.2),
    AttentionColumn("standard", 4): Figures(0.03, 98.5, 2.7),
    AttentionColumn("standard", 5): Figures(0.00, 100.0, 0.0),
    AttentionColumn("chain", 1): Figures(0.00, 100.0, 0.0),
}
"""Table 1: 128 tokens in 16 blocks of 8, four runs each."""

BOXES = {
    "default": {
        AttentionColumn("standard", 2): Figures(0.0543, 45.1, 2.5, 1.0),
        AttentionColumn("standard", 3): Figures(0.0316, 65.3, 19.2, 1.46),
        AttentionColumn("standard", 4): Figures(0.0129, 83.7, 1.6, 1.90),
        AttentionColumn("standard", 5): Figures(0.0102, 84.6, 5.2, 2.37),
        AttentionColumn("chain", 2): Figures(0.0234, 70.6, 13.8, 1.36),
    },
    "advanced": {
        AttentionColumn("standard", 2): Figures(0.0626, 58.8, 1.2, 1.0),
        AttentionColumn("standard", 3): Figures(0.0198, 84.8, 6.4, 1.46),
        AttentionColumn("standard", 4): Figures(0.0075, 94.3, 4.0, 1.90),
        AttentionColumn("standard", 5): Figures(0.0040, 97.0, 1.7, 2.37),
        AttentionColumn("chain", 2): Figures(0.0012, 99.1, 0.7, 1.36),
    },
}
"""Table 2: exact match of all boxes; three runs each of the default form, four of the advanced."""
