"""torch.func.vmap over the op: what is stacked is so many more rows of the batch, of the tables and of the starts.

Shapes: N stacked.
"""

from __future__ import annotations

import torch
from torch import Tensor


def folded(function, info, in_dims, given: dict):
    """What `function` gives for each of the N stacked inputs, by name as it takes them; each has all to itself."""
    N = info.batch_size
    dims = dict(zip(given, in_dims, strict=True))
    flat = {}
    for name, x in given.items():
        if isinstance(x, Tensor):
            x = x.expand(N, *x.shape) if dims[name] is None else x.movedim(dims[name], 0)
            flat[name] = x.flatten(0, 1)
        else:
            flat[name] = x
    if given["index"] is not None:
        flat["index"] = _moved(flat["index"], N, len(flat["A"]) // N)
    if given["rows"] is not None:
        rows = flat["rows"]
        flat["rows"] = torch.where(rows < 0, rows, _moved(rows, N, len(flat["start"]) // N))
    found = function.apply(*flat.values())
    apart = tuple(None if x is None else x.view(N, len(x) // N, *x.shape[1:]) for x in found)
    return apart, tuple(None if x is None else 0 for x in found)


def _moved(x: Tensor, N: int, by: int) -> Tensor:
    """Numbers (N B,T) of things of which each of the N has so many."""
    offset = torch.arange(N, device=x.device).view(N, 1, 1) * by
    return (x.unflatten(0, (N, -1)) + offset).flatten(0, 1)
