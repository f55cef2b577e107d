"""Equal words once: where a layer's input is a function of the token alone, a row for every word says all of it.

    x_t = table[token_t]

A mixer that looks up (mixers/base.py) then runs its networks on V rows instead of B T.

Shapes: B batch, T tokens, V words of the vocabulary, D model width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Words(NamedTuple):
    tokens: Tensor
    """(B,T)"""
    table: Tensor | None
    """(V,D); None where nobody would look it up, or there are no fewer words than tokens."""


def hooked(module: nn.Module) -> bool:
    """Whether anybody may want to see, or change, what passes a part of it, forwards or backwards."""
    if torch.nn.modules.module._has_any_global_hook():
        return True
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(m, kind) for m in module.modules() for kind in kinds)
