"""Figure 6: what is left of BiPE-RoPE without one of its two levels, or with segments of a fixed length."""

from __future__ import annotations

from ...base import Recipe, Scale
from ...common.grid import Model
from ...common.rules import settings_of
from ...common.text_grid import SegmentOptions, TextSource, growth, language_models
from .figure_4 import RULES, columns

FIXED = (8, 16, 32)
"""Tokens of a segment, where segments have a fixed length."""


def recipe(scale: Scale, **options: SegmentOptions) -> Recipe:
    """BiPE-RoPE on text without one of its two levels, and with segments of a fixed length: --set text=…."""
    source = TextSource(**options)
    rule, trained = source.rule, settings_of(RULES[scale], "*", "*")["train_length"]
    whole = {"bipe-rope": columns(rule, trained)["bipe-rope"]}
    levels = {"inside": {"name": "learned", "rows": trained}, "between": {"name": "rope"}, "ends": rule}
    without = {
        "no places inside": {**levels, "inside": {"name": "none"}},
        "no places of segments": {**levels, "between": {"name": "none"}},
        **{f"segments of {n}": {**levels, "ends": n} for n in FIXED},
    }
    options = {"block": "llama", "position": "bilevel"}
    parts = {name: Model("transformer", {**options, "position_options": each}) for name, each in without.items()}

    return Recipe(
        title="BiPE, Figure 6: what its parts are for",
        description=(
            "BiPE-RoPE as it is, without the places inside segments, without the places of the segments, and with "
            "segments that end after a fixed number of tokens. The paper finds all of these worse than BiPE itself."
        ),
        grid=language_models(RULES[scale], scale, source, whole | parts),
        report=lambda finished, device: [growth(finished)],
    )
