"""A Hugging Face model as another class with another config, which holds the very modules of the original."""

from __future__ import annotations

from typing import Any

import torch

UNLIKE = ("model_type", "architectures", "transformers_version")
"""Fields of a config that say what class it is of, and are not taken over."""


def fields_of(config: Any) -> dict[str, Any]:
    """What the config of the new class takes over from the old one."""
    return {name: value for name, value in config.to_dict().items() if name not in UNLIKE}


def take_over(model: Any, kind: Any, config: Any) -> Any:
    """A model of class `kind` with this config and the modules of `model`; the caller changes what is to be changed."""
    # Nothing is allocated: all that holds weights is then taken from the model.
    with torch.device("meta"):
        made = kind(config)
    old = model.config
    for name, child in model.named_children():
        setattr(made, name, child)
    for module in made.modules():
        if getattr(module, "config", None) is old:
            module.config = config
    made.generation_config = getattr(model, "generation_config", None)
    return made
