"""What the ops ask of the tensors they are given."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch._C._functorch import (  # pyright: ignore[reportMissingImports]
    get_unwrapped,
    is_functorch_wrapped_tensor,
)


def readable(*tensors: Tensor | None) -> bool:
    """True if numbers can be looked at: not in a compiled graph or a stack, nor where the CPU would wait for a GPU."""
    if torch.compiler.is_compiling():
        return False
    return not any(x is not None and (x.device.type != "cpu" or is_functorch_wrapped_tensor(x)) for x in tensors)


def mapped(*tensors: Tensor | None) -> bool:
    """True if torch.func maps or differentiates this call; a compiled graph is not looked into."""
    if torch.compiler.is_compiling():
        return False
    return any(x is not None and is_functorch_wrapped_tensor(x) for x in tensors)


def stack_size(*tensors: Tensor) -> int:
    """Returns how many calls torch.func.vmap makes of this one; 1 outside of it."""
    size = 1
    if torch.compiler.is_compiling():
        return size
    for x in tensors:
        whole = x
        while is_functorch_wrapped_tensor(whole):
            whole = get_unwrapped(whole)
        if whole is not x and x.numel():
            size = max(size, whole.numel() // x.numel())
    return size


def without_autocast(like: Tensor):
    """A block of code in which autocast is off: what is given in half precision is summed in single."""
    device = like.device.type
    # Asking is cheaper than turning off what is off, which counts where one token is decoded.
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def are_edges(cu_seqlens: Tensor, T: int) -> bool:
    """True if cu_seqlens is [0, …, T], never falling; where it cannot be looked at it is believed."""
    if not readable(cu_seqlens):
        return True
    edges = cu_seqlens.tolist()
    return len(edges) > 1 and edges[0] == 0 and edges[-1] == T and edges == sorted(edges)
