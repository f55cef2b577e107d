"""`hf:PATH`: any Hugging Face causal language model, from its config alone, with random weights.

PATH is a folder with a `config.json`, or such a file; or an architecture that transformers has, with its default sizes
(`hf:mamba2`). Nothing is looked up on a network.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig

from ..errors import Error, ShapeError
from ..options import Option, Schema, take
from . import folders
from .token_classifier import TokenClassifier


class HuggingFaceClassifier(TokenClassifier):
    def __init__(self, inner: torch.nn.Module, num_outputs: int, name: str):
        super().__init__(inner, num_outputs, name)
        takes = inspect.signature(inner.forward).parameters
        self.settings = {"use_cache": False} if "use_cache" in takes else {}
        self.keeps = "logits_to_keep" in takes

    def logits(self, tokens: Tensor, last: bool) -> Tensor:
        keep = {"logits_to_keep": 1} if last and self.keeps else {}
        return self.inner(tokens, **self.settings, **keep).logits


def build(name: str, path: str, vocab_size: int, num_outputs: int, values: dict[str, Any]) -> TokenClassifier:
    config = _config(path, take(options(path), values, name))
    need, have = max(vocab_size, num_outputs), getattr(config, "vocab_size", None)
    if not isinstance(have, int) or have < need:
        raise ShapeError(
            f"{name}: the vocabulary must hold the task's {vocab_size} tokens and {num_outputs} outputs, so at least "
            f"{need}, got {have}. Use --set model.vocab_size={need}."
        )
    try:
        # The precision is the training's choice, whatever the checkpoint was stored in.
        inner = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except Exception as error:
        raise Error(f"{name}: no causal language model can be built from this config: {error}") from error
    return HuggingFaceClassifier(inner, num_outputs, name)


def options(path: str) -> Schema:
    """The fields of the config, whose own class checks their values, by all names they go by."""
    config = _config(path, {})
    fields = config.to_dict()
    aliases = {alias: fields.get(name) for alias, name in getattr(config, "attribute_map", {}).items()}
    return {name: Option(name, Any, default) for name, default in {**aliases, **fields}.items()}


def source(path: str) -> str:
    data = folders.read_config(_file(path), f"hf:{path}")
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _file(path: str) -> Path:
    try:
        place = Path(path).expanduser()
    except RuntimeError as error:  # a home of nobody
        raise Error(
            f"hf:{path}: must be a folder with a {folders.CONFIG}, or such a file; there is no such home."
        ) from error
    return place / folders.CONFIG if place.is_dir() else place


def _config(path: str, options: dict[str, Any]) -> PreTrainedConfig:
    return folders.config_of(_file(path), f"hf:{path}", options)
