"""The models that are compared: so many layers of standard attention, or with chain attention in them, else alike."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class Attention(NamedTuple):
    """A column of the paper's tables.

    >>> Attention("chain", 2).label, Attention("standard", 5).label
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
