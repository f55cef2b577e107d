"""`to_yarn`: a model with rotary positions for texts `factor` times as long as it was trained on.

    w_i -> a mixture of w_i and w_i / factor, by how often the pair turns in the trained length; logits sharper

`to_drope`: the same model without the turning, cos = 1 and sin = 0 at every place (DroPE, arXiv 2512.12167), to be
trained on for a while at the length it was trained at.

Llama and its like are changed as transformers has it, by their config alone (`rope_parameters`), and are saved as what
they are. Models of this library are changed likewise, BiPE's in the numbers of their segments. See `positions/rope.py`.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..errors import Error
from ..models import LengthwiseForCausalLM

STILL = 1e300
"""A factor that slows every angle down to nothing."""
UNKNOWN = "to_yarn: trained must say how many places the model was trained on: tokens, or of BiPE segments."


def to_yarn(model: nn.Module, factor: float, *, trained: int | None = None) -> PreTrainedModel:
    """The model for texts `factor` times as long.

    `trained`: how many places it was trained on; None: as its config says.
    BiPE's places are segments: give as `trained` how many of them its training texts had.
    Use what is returned, and no longer what was given; give a `copy.deepcopy` to keep both.
    """
    if not (isinstance(factor, int | float) and 1 < factor < 1e6):
        raise Error(f"to_yarn: factor must be a number above 1, how many times longer the texts become, got {factor}.")
    if trained is not None and not (type(trained) is int and trained >= 1):
        raise Error(f"to_yarn: trained must be a whole number of places, at least 1, got {trained!r}.")
    if isinstance(model, LengthwiseForCausalLM):
        return _own(model, float(factor), trained)
    if not isinstance(model, PreTrainedModel):
        raise Error(f"to_yarn: the model must be one of Hugging Face's, got {type(model).__name__}. Unwrap it.")
    return _like_llama(model, float(factor), trained)


def to_drope(model: nn.Module) -> PreTrainedModel:
    """The model without its rotary positions. Use what is returned, and no longer what was given."""
    if isinstance(model, LengthwiseForCausalLM):
        config: Any = copy.deepcopy(model.config)
        for spec in _ropes(config, "to_drope", "DroPE drops rotary positions"):
            spec.clear()
            spec["name"] = "none"
        return _with_config(model, config)
    if not isinstance(model, PreTrainedModel):
        raise Error(f"to_drope: the model must be one of Hugging Face's, got {type(model).__name__}. Unwrap it.")
    # So slow that in fp32 nothing turns; no buffer but the config says it, and so it is saved.
    return _turning(model, {**_rope_of(model, "to_drope"), "rope_type": "linear", "factor": STILL})


def _rope_of(model: Any, what: str) -> dict[str, Any]:
    rope = getattr(model.config, "rope_parameters", None)
    if getattr(model.base_model, "rotary_emb", None) is None or not isinstance(rope, dict) or "rope_type" not in rope:
        raise Error(
            f"{what}: {type(model).__name__} must have one kind of rotary positions for all its layers, and has none "
            "that are known. Choose a model with RoPE, such as a Llama."
        )
    return rope


def _turning(model: Any, rope: dict[str, Any]) -> PreTrainedModel:
    """The model with other rotary positions."""
    model.config.rope_parameters = rope
    rotary = type(model.base_model.rotary_emb)
    model.base_model.rotary_emb = rotary(config=model.config).to(next(model.parameters()).device)
    return model


def _like_llama(model: Any, factor: float, trained: int | None) -> PreTrainedModel:
    config, rope = model.config, _rope_of(model, "to_yarn")
    if (kind := rope["rope_type"]) != "default":
        raise Error(f"to_yarn: the model's rotary positions are scaled already ({kind}). Give the original.")
    if trained is None and getattr(config, "between_segments", False):
        raise Error(UNKNOWN)
    trained = int(trained or config.max_position_embeddings)
    config.max_position_embeddings = int(trained * factor)
    return _turning(model, {**rope, "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": trained})


def _own(model: LengthwiseForCausalLM, factor: float, trained: int | None) -> LengthwiseForCausalLM:
    config: Any = copy.deepcopy(model.config)
    ropes = _ropes(config, "to_yarn", "YaRN slows rotary positions down")
    if any(spec.get("scaling", "none") != "none" for spec in ropes):
        raise Error("to_yarn: the model's rotary positions are scaled already. Give the original.")
    if trained is None:
        raise Error(UNKNOWN)
    for spec in ropes:
        spec.update(scaling="yarn", factor=factor, trained=trained)
    return _with_config(model, config)


def _ropes(config: Any, what: str, why: str) -> list[dict[str, Any]]:
    """The rotary positions of a config, which change with it."""
    ropes = [spec for spec in _levels(config.position) if spec.get("name") == "rope"]
    if not ropes:
        raise Error(
            f"{what}: the model's position is {(config.position or {}).get('name', 'none')!r}, and {why}. "
            'Choose a model with position="rope", or with it between segments.'
        )
    return ropes


def _with_config(model: LengthwiseForCausalLM, config: Any) -> LengthwiseForCausalLM:
    """The model's weights under another config."""
    made: Any = LengthwiseForCausalLM(config)
    made.load_state_dict(model.state_dict())
    made.generation_config = model.generation_config
    weight = next(model.parameters())
    return made.to(weight.device, weight.dtype).train(model.training)


def _levels(position: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The encodings of a position: itself, or those of its levels."""
    if position is None:
        return []
    inner = [position[name] for name in ("inside", "between") if name in position]
    return [*inner, *position.get("levels", [])] or [position]
