"""From a name to a model: presets, any Hugging Face config, or a class of your own, all behind one call.

build("regular-gpt", vocab_size=2, num_outputs=2, width=64)
build("hf:configs/llama.json", vocab_size=2, num_outputs=2, num_hidden_layers=3)
build("my_package.models:Mine", vocab_size=2, num_outputs=2)      or "path/to/file.py:Mine"
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import Error, UnknownName
from . import hugging_face, outside
from .modelling import LengthwiseForCausalLM
from .presets import PRESETS
from .token_classifier import PresetClassifier, TokenClassifier

HF = "hf:"


def build(
    name: str, *, vocab_size: int, num_outputs: int, settings: Mapping[str, Any] | None = None, **options: Any
) -> TokenClassifier:
    """A model with random weights reading `vocab_size` tokens and giving `num_outputs` logits a position.

    `settings` are options too, for those whose name is taken here: `settings={"vocab_size": 32}` for an `hf:` model.

    >>> import torch
    >>> build("lstm", vocab_size=2, num_outputs=3, width=8)(torch.tensor([[0, 1, 1]]), last=True).shape
    torch.Size([1, 1, 3])
    """
    if vocab_size < 1 or num_outputs < 1:
        raise Error(f"vocab_size and num_outputs must be at least 1, got {vocab_size} and {num_outputs}.")
    options = {**(settings or {}), **options}
    if name.startswith(HF):
        return hugging_face.build(name, name.removeprefix(HF), vocab_size, num_outputs, options)
    if ":" in name:
        return outside.build(name, vocab_size, num_outputs, options)
    known = _settings(name)
    for option in options:
        if option not in known:
            raise UnknownName(f"setting of model {name!r}", option, known)
    hints = get_type_hints(PRESETS[name])
    for option, value in options.items():
        _check(name, option, value, hints[option], known[option])
    config = PRESETS[name](vocab_size, num_outputs, **options)
    return PresetClassifier(LengthwiseForCausalLM(config), num_outputs, name)


def options(name: str) -> dict[str, Any]:
    """The settings a model takes, with their defaults ("required" where there is none).

    >>> options("lstm")
    {'width': 64, 'layers': 1, 'dropout': 0.0}
    """
    if name.startswith(HF):
        return hugging_face.options(name.removeprefix(HF))
    return outside.settings(name) if ":" in name else _settings(name)


def available() -> dict[str, str]:
    """Every preset, in one line each."""
    return {name: (preset.__doc__ or "").strip().splitlines()[0] for name, preset in PRESETS.items()}


def source(name: str) -> str | None:
    """A digest of the code or config outside this library that the name stands for; None for presets."""
    if name.startswith(HF):
        return hugging_face.source(name.removeprefix(HF))
    if ":" in name:
        return outside.source(name)
    _settings(name)
    return None


WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    list[int]: "a list of whole numbers",
    list[float]: "a list of numbers",
}
"""What an option of a preset may be, besides one of a `Literal`'s words."""


def _check(name: str, option: str, value: Any, hint: Any, default: Any) -> None:
    """Raise unless the value is what the preset says it takes."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if any(_fits(value, kind) for kind in kinds):
        return
    choices = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    words = [WORDS[kind] for kind in kinds if kind in WORDS]
    if choices and (isinstance(value, str) or not words):
        raise UnknownName(f"{option} of model {name!r}", str(value), choices)
    expected = " or ".join([*map(repr, choices), *words])
    raise Error(f"{name}: {option} must be {expected}, got {value!r}. The default is {default!r}.")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, (list, tuple)) and all(_fits(part, get_args(kind)[0]) for part in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _settings(name: str) -> dict[str, Any]:
    if name not in PRESETS:
        raise UnknownName("model", name, PRESETS)
    parameters = inspect.signature(PRESETS[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
