"""`hf:PATH`: any Hugging Face causal language model, from its config alone, with random weights.

PATH is a folder with a `config.json`, or such a file. Nothing is looked up on a network.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig

from ..auto_classes import MODEL_TYPES
from ..errors import Error, ShapeError
from ..options import Option, Schema, take
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


def build(name: str, path: str, vocab_size: int, num_outputs: int, given: dict[str, Any]) -> TokenClassifier:
    config = _config(path, take(options(path), given, name))
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
    return hashlib.sha256(json.dumps(_read(path), sort_keys=True).encode()).hexdigest()


def _read(path: str) -> dict[str, Any]:
    try:
        file = Path(path).expanduser()
        file = file / "config.json" if file.is_dir() else file
        data = json.loads(file.read_text(), object_hook=_number)
    except FileNotFoundError as error:
        raise Error(f"hf:{path}: must be a folder with a config.json, or such a file, and there is none.") from error
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).rstrip(".")
        raise Error(f"hf:{path}: must be a folder with a config.json, or such a file; reading it: {said}.") from error
    if not isinstance(data, dict) or str(data.get("model_type")) not in CONFIG_MAPPING:
        found = data.get("model_type") if isinstance(data, dict) else type(data).__name__
        raise Error(f"hf:{path}: model_type must be an architecture transformers knows, got {found!r}.")
    if data["model_type"] in MODEL_TYPES:
        data.pop("auto_map", None)  # no setting of the model: with or without it, it is the same experiment
    return data


def _number(found: dict[str, Any]) -> Any:
    """What JSON has no number for (Mamba-2's longest time step is infinite) transformers writes as an object."""
    return float(found["__float__"]) if found.keys() == {"__float__"} else found


def _config(path: str, options: dict[str, Any]) -> PreTrainedConfig:
    data = _read(path)
    kind = CONFIG_MAPPING[data["model_type"]]
    try:
        aliases = getattr(kind, "attribute_map", {})
        return kind.from_dict({**data, **{aliases.get(k, k): v for k, v in options.items()}})
    except Exception as error:
        raise Error(f"hf:{path}: not a valid {data['model_type']} config: {error}") from error
