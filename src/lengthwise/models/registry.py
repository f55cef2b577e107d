"""From a name to a model: presets, any Hugging Face config, or a class of your own, all behind one call.

build("regular-gpt", vocab_size=2, num_outputs=2, width=64)
build("hf:configs/llama.json", vocab_size=2, num_outputs=2, num_hidden_layers=3)
build("my_package.models:Mine", vocab_size=2, num_outputs=2)      or "path/to/file.py:Mine"

A class of your own is any `nn.Module` from (B,T) integers to (B,T,N) logits. It is called with the options you set, and
with `vocab_size`, as large as the task's tokens and outputs need, if its `__init__` takes one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from .. import own_code
from ..errors import Error, UnknownName, in_words
from ..foreign_code import blaming
from ..limits import within_memory
from ..options import Option, Schema, schema, take
from ..own_code import OTHER_MODELS
from . import hugging_face
from .modelling import LengthwiseForCausalLM
from .presets import PRESETS
from .token_classifier import PresetClassifier, TokenClassifier

HF = "hf:"


def build(
    name: str,
    *,
    vocab_size: int,
    num_outputs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    source: str | None = None,
    **options: Any,
) -> TokenClassifier:
    """A model with random weights reading `vocab_size` tokens and giving `num_outputs` logits a position.

    Without `num_outputs` it is a language model, with a logit for every token of the vocabulary.
    `settings` are options too, for those whose name is taken here: `settings={"vocab_size": 32}` for an `hf:` model.
    `source`: what `source(name)` must be now; other code or another config is refused.

    >>> import torch
    >>> build("lstm", vocab_size=2, num_outputs=3, width=8)(torch.tensor([[0, 1, 1]]), last=True).shape
    torch.Size([1, 1, 3])
    """
    sizes = [vocab_size] if num_outputs is None else [vocab_size, num_outputs]
    if not all(isinstance(size, int) and size >= 1 for size in sizes):
        got = f"{in_words(vocab_size)} and {in_words(num_outputs)}"
        raise Error(f"vocab_size and num_outputs must be at least 1, got {got}.")
    if not isinstance(name, str):
        raise Error(f"A model is built by its name, got {name!r}. Known: {', '.join(PRESETS)}.")
    options = {**(settings or {}), **options}
    with within_memory(name, "Build a smaller model."):
        return _build(name, vocab_size, num_outputs, options, source)


def _build(
    name: str, vocab_size: int, num_outputs: int | None, values: dict[str, Any], digest: str | None
) -> TokenClassifier:
    logits = vocab_size if num_outputs is None else num_outputs
    if name.startswith(HF):
        if digest and source(name) != digest:
            raise Error(f"{name}: the config has changed since the experiment was planned. Restore it, or plan anew.")
        return hugging_face.build(name, name.removeprefix(HF), vocab_size, logits, values)
    if ":" in name:
        kind = own_code.load(name, nn.Module, digest)
        values = take(_class_options(kind), values, name)
        if "vocab_size" in inspect.signature(kind).parameters:
            values = {"vocab_size": max(vocab_size, logits), **values}
        with blaming(name, f"could not be built with {values or 'no options'}"):
            return TokenClassifier(kind(**values), logits, name)
    values = take(options(name), values, name)
    return PresetClassifier(LengthwiseForCausalLM(PRESETS[name](vocab_size, num_outputs, **values)), logits, name)


def _class_options(kind: type) -> Schema:
    """Returns what `__init__` takes besides the vocabulary. Its values are the class's own affair, and go unchecked."""
    parameters = inspect.signature(kind).parameters.values()
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "vocab_size"]
    return {p.name: Option(p.name, Any, p.default) for p in takes}


def options(name: str) -> Schema:
    """The options a model takes, by name.

    >>> {name: option.default for name, option in options("lstm").items()}
    {'width': 64, 'layers': 1, 'dropout': 0.0}
    """
    if name.startswith(HF):
        return hugging_face.options(name.removeprefix(HF))
    if ":" in name:
        return _class_options(own_code.load(name, nn.Module))
    if name not in PRESETS:
        raise UnknownName("model", name, PRESETS, also=OTHER_MODELS)
    return schema(PRESETS[name], keyword_only=True)


def available() -> dict[str, str]:
    """Every preset, in one line each."""
    return {name: (preset.__doc__ or "").strip().splitlines()[0] for name, preset in PRESETS.items()}


def source(name: str) -> str | None:
    """A digest of the code or config outside this library that the name stands for; None for presets.

    Who asks for it has named the code himself: this process may then load runs of it without `trust`.
    """
    if name.startswith(HF):
        return hugging_face.source(name.removeprefix(HF))
    if ":" in name:
        return own_code.ask_for(name, nn.Module)
    options(name)  # raises for an unknown name
    return None
