"""The columns of the paper's tables, and the numbers printed in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from ...common.rules import table_of


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

    def words(self, places: int) -> str:
        """The loss with so many decimal places, and the accuracy."""
        return f"{self.loss:.{places}f}, {self.accuracy:.1f} ± {self.std:.1f}"


def _figures(rows: Mapping[str, Sequence[float]]) -> dict[AttentionColumn, Figures]:
    """By column, from the kind of attention and the number of layers."""
    columns = {name: cast(Any, name.split()) for name in rows}
    return {AttentionColumn(kind, int(layers)): Figures(*rows[name]) for name, (kind, layers) in columns.items()}


TOY = _figures(table_of(f"{__package__}.chains")["published"])
"""Table 1."""
BOXES = {form: _figures(rows) for form, rows in table_of(f"{__package__}.table_2")["published"].items()}
"""Table 2, by the form of the stories."""
