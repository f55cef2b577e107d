"""Does a language model use what stands far back? Questions about a fact in a long prompt, with exact answers.

    score_far_tokens(model, tokenizer, documents, Needle(keys=4), lengths=[512, 2048])

Perplexity beside it says how well the model predicts text; most of that can be had from the last tokens alone.
"""

from .needle import Needle
from .scores import FarScores, score_far_tokens
from .variables import Variables

__all__ = ["FarScores", "Needle", "Variables", "score_far_tokens"]
