"""Conversions by name, as data: {"name": "chain", "gamma": 0.9} is `to_chain(model, gamma=0.9)`.

A list of them says how a pretrained checkpoint is changed, and can stand in a record or a config file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from ..errors import Error, UnknownName, in_words
from ..models.pretrained import Checkpoint
from ..options import schema, take
from .chained import to_chain
from .segmented import to_bipe
from .yarn import to_drope, to_yarn

Conversion = Mapping[str, Any]
"""The "name" of a conversion, and its options."""

CONVERSIONS: dict[str, Callable[..., PreTrainedModel]] = {
    "chain": to_chain,
    "bipe": to_bipe,
    "yarn": to_yarn,
    "drope": to_drope,
}
"""Each takes a model and its own options, and returns the converted model, whose weights it takes over."""


def load(checkpoint: Checkpoint, conversions: Sequence[Conversion] = ()) -> PreTrainedModel:
    """The checkpoint's model after these conversions, each made of the result of the one before."""
    for conversion in conversions:
        check(conversion)
    return apply(checkpoint.model(), conversions)


def apply(model: Any, conversions: Sequence[Conversion]) -> Any:
    """The model after these conversions. Use what is returned, and no longer what was given.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=2, n_head=2, attn_pdrop=0.0))
    >>> apply(model, [{"name": "chain", "gamma": 0.9, "layers": "last"}]).config.chain_layers
    [1]
    """
    for conversion in conversions:
        name, options = check(conversion)
        model = CONVERSIONS[name](model, **options)
    return model


def check(conversion: Conversion) -> tuple[str, dict[str, Any]]:
    """The name and the options of a conversion; raises where one of them is unknown, wrong or missing."""
    if not isinstance(conversion, Mapping) or "name" not in conversion:
        raise Error(f'A conversion needs a name, such as {{"name": "chain"}}, got {in_words(conversion)}.')
    name, options = conversion["name"], {key: value for key, value in conversion.items() if key != "name"}
    if name not in CONVERSIONS:
        raise UnknownName("conversion", str(name), CONVERSIONS)
    return name, take(schema(CONVERSIONS[name], without=("model",)), options, f"conversion {name!r}")
