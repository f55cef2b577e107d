"""torch.func.vmap over a function of autograd: the stacked dimension is one more batch dimension, so fold it into the
batch.

Shapes: N stacked, B batch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def folded(function, info, in_dims, inputs):
    """What `function` gives for every one of the N stacked inputs, and where its stacked dimension is."""
    N = info.batch_size
    # For an argument that is not a tensor in_dims holds a structure of Nones.
    dims = [at if isinstance(x, Tensor) else None for x, at in zip(inputs, in_dims, strict=True)]
    moved = [x if at is None else x.movedim(at, 0) for x, at in zip(inputs, dims, strict=True)]
    B = moved[0].shape[0 if dims[0] is None else 1]
    outputs = function.apply(*(_fold(x, at is not None, N, B) for x, at in zip(moved, dims, strict=True)))
    unfolded = tuple(None if x is None else x.unflatten(0, (N, B)) for x in outputs)
    return unfolded, tuple(None if x is None else 0 for x in outputs)


def _fold(x, stacked: bool, N: int, B: int):
    """(N,B,…) or (B,…) -> (N·B,…); what a batch of several shares stays so if the stack shares it too."""
    if not isinstance(x, Tensor) or (not stacked and x.shape[0] == 1 and B > 1):
        return x
    x = x if stacked else x.expand(N, *x.shape)
    return torch.flatten(x.expand(N, B, *x.shape[2:]), 0, 1)
