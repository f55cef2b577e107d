"""torch.func.vmap over the scan: what is stacked is so many more rows of the batch, of the tables and of the starts.

Shapes: N stacked.
"""

from __future__ import annotations

import torch
from torch import Tensor


def folded(function, info, in_dims, inputs: dict):
    """What `function` gives for each of the N stacked inputs, by name as it takes them; each has all to itself."""
    N = info.batch_size
    dims = dict(zip(inputs, in_dims, strict=True))
    flat = {}
    for name, x in inputs.items():
        if isinstance(x, Tensor):
            x = x.expand(N, *x.shape) if dims[name] is None else x.movedim(dims[name], 0)
            flat[name] = x.flatten(0, 1)
        else:
            flat[name] = x
    if inputs["index"] is not None:
        flat["index"] = _shifted(flat["index"], N, len(flat["A"]) // N)
    if inputs["start_row"] is not None:
        row = flat["start_row"]
        flat["start_row"] = torch.where(row < 0, row, _shifted(row, N, len(flat["start"]) // N))
    outputs = function.apply(*flat.values())
    unfolded = tuple(None if x is None else x.view(N, len(x) // N, *x.shape[1:]) for x in outputs)
    return unfolded, tuple(None if x is None else 0 for x in outputs)


def _shifted(rows: Tensor, N: int, count: int) -> Tensor:
    """Row numbers (N B,T) of tables that now lie end to end, `count` rows for each of the N."""
    offset = torch.arange(N, device=rows.device).view(N, 1, 1) * count
    return (rows.unflatten(0, (N, -1)) + offset).flatten(0, 1)
