"""`package.module:Class` and `path/to/file.py:Class`: a model of your own.

Any `nn.Module` from (B,T) integers to (B,T,N) logits. It is called with the options you set, and with `vocab_size`, as
large as the task's tokens and outputs need, if its `__init__` takes one.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from .. import own_code
from ..foreign_code import blaming
from ..options import Option, Schema, take
from .token_classifier import TokenClassifier


def build(
    name: str, vocab_size: int, num_outputs: int, given: dict[str, Any], source: str | None = None
) -> TokenClassifier:
    kind = own_code.load(name, nn.Module, source)
    given = take(_options(kind), given, name)
    if "vocab_size" in inspect.signature(kind).parameters:
        given = {"vocab_size": max(vocab_size, num_outputs), **given}
    with blaming(name, f"could not be built with {given or 'no options'}"):
        inner = kind(**given)
    return TokenClassifier(inner, num_outputs, name)


def options(name: str) -> Schema:
    """What `__init__` takes besides the vocabulary. Its values are the class's own affair, and are not checked."""
    return _options(own_code.load(name, nn.Module))


def _options(kind: type) -> Schema:
    parameters = inspect.signature(kind).parameters.values()
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "vocab_size"]
    return {p.name: Option(p.name, Any, p.default) for p in takes}


def source(name: str) -> str:
    """The digest of the class's code, which the caller hereby wants to run."""
    return own_code.ask_for(name, nn.Module)
