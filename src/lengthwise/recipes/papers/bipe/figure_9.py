"""Figure 9: randomized positions, drawn from 4 or from 16 times the trained length."""

from __future__ import annotations

from ...base import Recipe, Scale
from ...common.grid import Model
from ...common.rules import settings_of
from ...common.text_grid import TextOptions, TextSource, growth, language_models
from .figure_4 import RULES, columns

WIDER = 16
"""From how many times the trained length places are drawn in the second column."""


def recipe(scale: Scale, **options: TextOptions) -> Recipe:
    """Randomized RoPE on text, with places from 4 times the trained length and from 16 times: --set text=…."""
    source = TextSource(**options)
    trained = settings_of(RULES[scale], "*", "*")["train_length"]
    drawn = columns("sentence", trained)["randomized"]
    wider = {**drawn.settings, "position_options": {"of": {"name": "rope"}, "longest": WIDER * trained}}
    both = {"randomized": drawn, f"randomized-{WIDER}": Model(drawn.preset, wider)}

    return Recipe(
        title="BiPE, Figure 9: how far randomized positions are drawn from",
        description=(
            "Randomized RoPE draws the places of a text's tokens, in order, from more places than the text has tokens, "
            "so that none of them is new in a longer text. The wider they lie, the less of them each training text "
            "sees: the paper finds that 16 times the trained length is worse than 4 times."
        ),
        grid=language_models(RULES[scale], scale, source, both),
        report=lambda finished, device: [growth(finished)],
    )
