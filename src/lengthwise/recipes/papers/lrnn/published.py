"""The numbers printed in the paper, as they stand there."""

from __future__ import annotations

from ...common.grid import Model

PUBLISHED = ("block-lrnn", "s4", "s4d", "liquid-s4")
"""The columns of Table 2; the first is the paper's own model, which it calls "Ours"."""
MODELS = {
    **{name: Model(name, {}) for name in PUBLISHED},
    "block-lrnn automaton": Model("block-lrnn", {"model.variant": "automaton"}),
}
"""What is trained; the last is a model of this library."""
LABELS = {"block-lrnn": "paper's “Ours”", "block-lrnn automaton": "automaton (this library)"}
"""How a model is called on the page, where its name does not say whose it is."""

TABLE_2 = {
    "modular-sum": (1.00, 0.27, 0.27, 0.27),
    "even-pairs": (0.99, 0.81, 0.82, 0.72),
    "modular-arithmetic": (1.00, 0.27, 0.27, 0.27),
}
"""Accuracy at length 500 (499) after training at 40 (39), one number for each of `PUBLISHED`."""
