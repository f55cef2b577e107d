"""One Hugging Face model configured by data, presets of it, and models you bring.

>>> import torch
>>> from lengthwise import models
>>> classifier = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16, heads=2)
>>> classifier(torch.tensor([[0, 1, 1, 0]])).shape
torch.Size([1, 4, 2])
"""

from . import presets
from .config import Block, LengthwiseConfig
from .depth import groups
from .layers import Layer
from .modelling import LengthwiseForCausalLM, LengthwiseModel
from .registry import available, build, options, source
from .token_classifier import TokenClassifier, equal_tokens

__all__ = [
    "Block",
    "Layer",
    "LengthwiseConfig",
    "LengthwiseForCausalLM",
    "LengthwiseModel",
    "TokenClassifier",
    "available",
    "build",
    "equal_tokens",
    "groups",
    "options",
    "presets",
    "source",
]


def __dir__() -> list[str]:
    return sorted(__all__)
