"""What a trained model is worth: strings right at every length, and the perplexity of text."""

from .strings import StringScores, score_strings
from .text import perplexity

__all__ = ["StringScores", "perplexity", "score_strings"]
