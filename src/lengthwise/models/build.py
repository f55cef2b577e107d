"""From a name to a model: presets, any Hugging Face config, or a class of your own, all behind one call.

    build("regular-gpt", vocab_size=2, num_outputs=2, width=64)
    build("hf:configs/llama.json", vocab_size=2, num_outputs=2, num_hidden_layers=3)
    build("my_package.models:Mine", vocab_size=2, num_outputs=2)      or "path/to/file.py:Mine"

Shapes: B batch, T tokens, S outputs.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from ..errors import UnknownName
from .modelling import LengthwiseForCausalLM
from .presets import PRESETS


class Tagger(nn.Module):
    """Any model as the bench sees it: `tagger(tokens, last=False)` -> logits (B, T or 1, S)."""

    inner: nn.Module
    """The wrapped model."""
    stackable: bool
    """Whether torch.func.vmap can run it over stacked parameters."""

    def forward(self, tokens: Tensor, last: bool = False) -> Tensor:
        raise NotImplementedError


class PresetTagger(Tagger):
    def __init__(self, inner: LengthwiseForCausalLM):
        super().__init__()
        self.inner = inner
        self.stackable = all(m.stackable for m in inner.mixers())

    def forward(self, tokens: Tensor, last: bool = False) -> Tensor:
        return self.inner(tokens, logits_to_keep=1 if last else 0).logits


def build(name: str, *, vocab_size: int, num_outputs: int, **options: Any) -> Tagger:
    """A model with random weights reading `vocab_size` tokens and giving `num_outputs` logits a position.

    >>> import torch
    >>> build("lstm", vocab_size=2, num_outputs=3, width=8)(torch.tensor([[0, 1, 1]]), last=True).shape
    torch.Size([1, 1, 3])
    """
    preset = _preset(name)
    for option in options:
        if option not in _settings(preset):
            raise UnknownName(f"setting of model {name!r}", option, _settings(preset))
    return PresetTagger(LengthwiseForCausalLM(preset(vocab_size, num_outputs, **options)))


def _preset(name: str):
    if name not in PRESETS:
        raise UnknownName("model", name, PRESETS)
    return PRESETS[name]


def _settings(preset) -> dict[str, Any]:
    parameters = inspect.signature(preset).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def options(name: str) -> dict[str, Any]:
    """The settings a model takes, with their defaults."""
    return _settings(_preset(name))


def available() -> dict[str, str]:
    """Every preset, in one line each."""
    return {name: (preset.__doc__ or "").strip().splitlines()[0] for name, preset in PRESETS.items()}


def source(name: str) -> str | None:
    """A digest of the code or config outside this library that the name stands for; None for presets."""
    _preset(name)
    return None
