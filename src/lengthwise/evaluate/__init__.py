"""What a trained model is worth: strings right at every length, and the perplexity of text."""

from .far_tokens import FarScores, Needle, Variables, score_far_tokens
from .strings import StringScores, score_strings
from .text import Loss, Way, losses_by_length, perplexity

__all__ = [
    "FarScores",
    "Loss",
    "Needle",
    "StringScores",
    "Variables",
    "Way",
    "losses_by_length",
    "perplexity",
    "score_far_tokens",
    "score_strings",
]
