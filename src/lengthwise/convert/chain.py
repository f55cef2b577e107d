"""`to_chain`: a Hugging Face model with chain attention in the layers of your choice, its weights kept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

from torch import nn
from transformers import PreTrainedModel

from ..errors import Error
from ..mixers.chain import Gamma
from ..models.presets.attention import layer_numbers
from .chained import CHAINED, attention_of
from .families import fields_of, take_over, variant_of


def to_chain(
    model: nn.Module,
    gamma: float = 0.9,
    layers: Literal["all", "last"] | Sequence[int] = "all",
    *,
    learn_gamma: bool = False,
    paths: Literal["mean", "sum"] = "mean",
    exclude_diagonal: bool = True,
) -> PreTrainedModel:
    """The model with chain attention in `layers` ("all", "last" or a list); all its weights are taken over.

    `gamma`: 0 gives the model's own logits, and the paper's is 0.9. `learn_gamma`: one per head, from there on learned.
    `paths`, `exclude_diagonal`: as in the mixer "chain"; the defaults are the paper's.
    Dropout on attention weights is set to 0, with a warning: chain attention never holds these weights.
    Use what is returned, and no longer what was given; give a `copy.deepcopy` to keep both.
    """
    kind = variant_of(model, CHAINED, "to_chain", "chain attention")
    options = {"learn_gamma": learn_gamma, "paths": paths, "exclude_diagonal": exclude_diagonal}
    config = _config(model, kind, gamma, layers, options)
    _check_layers(model, config)
    chained = take_over(model, kind, config)
    chained.install()
    return chained.train(model.training)


def _config(model: Any, kind: Any, gamma: float, layers: str | Sequence[int], options: dict[str, Any]) -> Any:
    """The model's config as that of its chained kind, or an Error with the reason why not."""
    old, name = model.config, type(model).__name__
    if getattr(old, "add_cross_attention", False):
        raise Error(f"to_chain: {name} has cross attention, whose keys are another text's: no chains lead through it.")
    window = getattr(old, "sliding_window", None)
    if window is not None and window < old.max_position_embeddings:
        raise Error(
            f"to_chain: {name} attends within a sliding window of {window} tokens, shorter than its "
            f"{old.max_position_embeddings} positions, and chains would lead out of it. For texts no longer than the "
            "window it changes nothing: set model.config.sliding_window = None."
        )
    if old._attn_implementation not in ("eager", "sdpa"):
        raise Error(
            f"to_chain: {name} must have attention implementation 'sdpa' or 'eager', whose masks are understood, "
            f'got {old._attn_implementation!r}. Use model.set_attn_implementation("sdpa").'
        )
    dropout = attention_of(kind.config_class).dropout_name
    if rate := getattr(old, dropout):
        warnings.warn(
            f"to_chain: {dropout} = {rate} becomes 0, for chain attention never holds the weights it would drop.",
            stacklevel=3,
        )
    chosen = layer_numbers("to_chain: layers", layers, old.num_hidden_layers)
    if not isinstance(gamma, int | float):
        raise Error(f"to_chain: gamma is a number, got {gamma!r}.")
    Gamma(1, gamma, options["learn_gamma"])  # raises unless γ is in range
    fields = {**fields_of(old), dropout: 0.0}
    if window is not None:
        fields["sliding_window"] = None  # as no text is longer, and the cache would cut its keys off
    return kind.config_class(**fields, chain_layers=chosen, gamma=float(gamma), **options)


def _check_layers(model: Any, config: Any) -> None:
    """Raises unless the attention of the chosen layers is the model's own."""
    kind = attention_of(config)
    for i in config.chain_layers:
        own = getattr(getattr(model.base_model, kind.layers_name)[i], kind.own_name)
        expected = type(model).__module__
        if type(own).__module__ != expected:
            place = f"{model.base_model_prefix}.{kind.layers_name}.{i}.{kind.own_name}"
            raise Error(
                f"to_chain: {place} must be the model's own attention, got {type(own).__name__} of "
                f"{type(own).__module__}. Leave layer {i} out of layers, or put the original back."
            )
