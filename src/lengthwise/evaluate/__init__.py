"""What a trained model is worth: strings right at every length, and the perplexity of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .far_tokens import FarScores, Needle, Variables, score_far_tokens
    from .strings import StringScores, score_strings
    from .text import Loss, Way, losses_by_length

__all__ = [
    "FarScores",
    "Loss",
    "Needle",
    "StringScores",
    "Variables",
    "Way",
    "losses_by_length",
    "score_far_tokens",
    "score_strings",
]

__getattr__, __dir__ = lazy_names(__name__)
