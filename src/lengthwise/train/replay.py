"""A step's backward pass as a CUDA graph: recorded once for each shape of batch, then replayed.

A small model's step is hundreds of kernels of a few microseconds each, and Python takes longer to launch one than the
GPU to run it. A replay launches them all at once, on tensors that lie where they lay.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: Sequence[Tensor]
    gradients: Sequence[Tensor | None]
    """Of each weight, where the graph writes it."""
    result: Tensor


class Replayer:
    """Runs a backward pass by its recording, where there is one or one can be made."""

    def __init__(self):
        self._recordings: dict[Hashable, Recording] = {}
        self._seen: set[Hashable] = set()
        self._refused = False

    def run(
        self, key: Hashable, compute: Callable[..., Tensor], tensors: Sequence[Tensor], weights: Sequence[Tensor]
    ) -> Tensor:
        """What `compute` returns of these tensors, and the gradients that it makes of the weights, which have none.

        All that `compute` does besides reading the tensors and weights follows from `key`.
        """
        key = (key, tuple((tensor.shape, tensor.dtype) for tensor in tensors))
        if (recording := self._recordings.get(key)) is None:
            device = weights[0].device
            inputs = [tensor.to(device) for tensor in tensors]
            # The first time of a shape is not recorded: what is made once, such as tables and handles, is made then.
            if self._refused or key not in self._seen:
                self._seen.add(key)
                return compute(*inputs)
            if (recording := self._record(compute, inputs, weights)) is None:
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
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                result = compute(*inputs)
        except RuntimeError as error:
            # Some operation waits for the GPU: then every step is launched as it was.
            self._refused = True
            for weight in weights:
                weight.grad = None
            warnings.warn(f"A step cannot be replayed, and is launched every time: {error}", stacklevel=2)
            return None
        return Recording(graph, inputs, [weight.grad for weight in weights], result)
