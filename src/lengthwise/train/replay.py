"""A step's backward pass as a CUDA graph: recorded once for each shape of batch, then replayed.

A small model's step is hundreds of kernels of a few microseconds each, and Python takes longer to launch one than the
GPU to run it. A replay launches them all at once, on tensors that lie where they lay. So nothing may be recorded that
reads a number back, brings one from the CPU, or does something in Python that is to be done at every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MOST = 256
"""Recordings that are kept: steps of further shapes are launched."""
READ_BACK = ("_local_scalar_dense", "nonzero", "_unique2")
"""Operations for which the CPU waits for the GPU."""


class Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: Sequence[Tensor]
    gradients: Sequence[Tensor | None]
    """Of each weight, where the graph writes it."""
    result: Tensor


class Replayer:
    """Runs a backward pass by its recording, where there is one or one can be made."""

    def __init__(self):
        self._refused = False
        self.forget()

    def forget(self) -> None:
        """Give back the memory of all recordings."""
        self._recordings: dict[Hashable, Recording] = {}
        self._seen: set[Hashable] = set()
        self._owners: Sequence[object] = ()
        self._shared: dict[str, Any] = {}

    def run(
        self,
        owners: Sequence[object],
        kind: Hashable,
        compute: Callable[..., Tensor],
        tensors: Sequence[Tensor],
        weights: Sequence[Tensor],
    ) -> Tensor:
        """What `compute` returns of these tensors, with the gradients that it adds to those of the weights.

        All that `compute` does besides reading the tensors follows from the owners of the weights and from `kind`.
        """
        device = weights[0].device
        if len(owners) != len(self._owners) or any(a is not b for a, b in zip(owners, self._owners, strict=True)):
            self.forget()
            self._owners = owners
        key = (kind, tuple((tensor.shape, tensor.dtype) for tensor in tensors))
        # A replay writes gradients, and cannot add to any.
        if self._refused or any(weight.grad is not None for weight in weights):
            return compute(*(tensor.to(device) for tensor in tensors))
        with torch.cuda.device(device):
            recording = self._recordings.get(key)
            if recording is None:
                inputs = [tensor.to(device, copy=True) for tensor in tensors]
                # The first time of a shape is not recorded: what is made once, such as tables, is made then.
                if key not in self._seen:
                    self._seen.add(key)
                    with _ReadsBack() as look:
                        result = compute(*inputs)
                    self._refused = look.seen
                    return result
                recording = self._record(compute, inputs, weights) if len(self._recordings) < MOST else None
                if recording is None:
                    return compute(*inputs)
                self._recordings[key] = recording
            else:
                for place, tensor in zip(recording.inputs, tensors, strict=True):
                    place.copy_(tensor.pin_memory() if tensor.device.type == "cpu" else tensor, non_blocking=True)
            recording.graph.replay()
        for weight, gradient in zip(weights, recording.gradients, strict=True):
            weight.grad = gradient
        return recording.result.clone()

    def _record(
        self, compute: Callable[..., Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor]
    ) -> Recording | None:
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        # All share memory, which is of one pool and stream: a result is cloned and gradients go before the next replay.
        self._shared = self._shared or {"pool": torch.cuda.graph_pool_handle(), "stream": torch.cuda.Stream()}
        try:
            with torch.cuda.graph(graph, **self._shared):
                result = compute(*inputs)
        except RuntimeError as error:
            torch.cuda.set_stream(current)
            self._refused = True
            self.forget()
            for weight in weights:
                weight.grad = None
            why = error.__context__ or error
            warnings.warn(f"A step cannot be replayed, and is launched every time: {why}", stacklevel=2)
            return None
        return Recording(graph, inputs, [weight.grad for weight in weights], result)


class _ReadsBack(TorchDispatchMode):
    """Sees whether something is read back from a GPU, or brought to it."""

    seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        result = func(*args, **kwargs)
        devices = {x.device.type for x in tree_leaves((args, kwargs, result)) if isinstance(x, Tensor)}
        between = name in READ_BACK or (name in ("_to_copy", "copy_") and len(devices) > 1)
        self.seen |= between and devices != {"cpu"}
        return result
