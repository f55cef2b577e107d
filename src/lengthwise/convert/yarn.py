"""`to_yarn`: a model with rotary positions for texts `factor` times as long as it was trained on.

    w_i -> a mixture of w_i and w_i / factor, by how often the pair turns in the trained length; logits sharper

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


def _like_llama(model: Any, factor: float, trained: int | None) -> PreTrainedModel:
    config, rotary = model.config, getattr(model.base_model, "rotary_emb", None)
    rope = getattr(config, "rope_parameters", None)
    if rotary is None or not isinstance(rope, dict) or "rope_type" not in rope:
        raise Error(
            f"to_yarn: {type(model).__name__} must have one kind of rotary positions for all its layers, and has none "
            "that are known. YaRN slows their turning down. Choose a model with RoPE, such as a Llama."
        )
    if (kind := rope["rope_type"]) != "default":
        raise Error(f"to_yarn: the model's rotary positions are scaled already ({kind}). Give the original.")
    if trained is None and getattr(config, "between_segments", False):
        raise Error(UNKNOWN)
    trained = int(trained or config.max_position_embeddings)
    config.rope_parameters = {
        **rope,
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": trained,
    }
    config.max_position_embeddings = int(trained * factor)
    model.base_model.rotary_emb = type(rotary)(config=config).to(next(model.parameters()).device)
    return model


def _own(model: LengthwiseForCausalLM, factor: float, trained: int | None) -> LengthwiseForCausalLM:
    config: Any = copy.deepcopy(model.config)
    ropes = [spec for spec in _levels(config.position) if spec.get("name") == "rope"]
    if not ropes:
        raise Error(
            f"to_yarn: the model's position is {(config.position or {}).get('name', 'none')!r}, and YaRN slows rotary "
            'positions down. Choose a model with position="rope", or with it between segments.'
        )
    if any(spec.get("scaling", "none") != "none" for spec in ropes):
        raise Error("to_yarn: the model's rotary positions are scaled already. Give the original.")
    if trained is None:
        raise Error(UNKNOWN)
    for spec in ropes:
        spec.update(scaling="yarn", factor=factor, trained=trained)
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
