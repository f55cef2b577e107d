"""The models that are compared: "Standard L" and "ChaCAL L", alike in all but their attention."""

from __future__ import annotations

from typing import Any, Literal


def attention(label: str, chain_layers: Literal["all", "last"]) -> tuple[str, dict[str, Any]]:
    """The preset and its settings.

    >>> attention("ChaCAL 2", "last")
    ('chacal', {'model.layers': 2, 'model.chain_layers': 'last'})
    """
    kind, layers = label.split(" ")
    if kind == "ChaCAL":
        return "chacal", {"model.layers": int(layers), "model.chain_layers": chain_layers}
    # What the preset of ChaCAL has by itself.
    return "transformer", {"model.layers": int(layers), "model.position": "learned", "model.initializer_range": 0.02}
