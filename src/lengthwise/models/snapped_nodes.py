"""Nodes of a tree replaced by the nearest of finitely many centres: then the network is exactly a finite algebra.

    y = c_i,    i = argmin_j |x - c_j|,    |x - c_i| <= radius

It is still the network that composes: every node is computed from the nodes below it, and only then replaced. A node
that is farther from every centre than the radius is an error (in compiled code, which cannot look, it is not a number).
While training, and where `continuous` nodes are asked for, nothing is replaced.

Shapes: B batch, T tokens, D model width, N centres.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import Error
from ..mixers import Layout, Level, Mixer
from ..mixers.base import FIRST, from_end
from .config import Block
from .layers import Layer

ROWS = 1 << 14
"""Nodes compared with all centres at a time."""


class SnappedLayer(Layer):
    """The layer of a group whose nodes are snapped."""

    centres: Tensor

    def __init__(self, width: int, mixer: Mixer, block: Block, dropout: float, *, centres: int, radius: float):
        super().__init__(width, mixer, block, dropout)
        if centres < 1 or not radius >= 0:
            raise Error(
                f"depth: snapped nodes have at least 1 centre and a radius of at least 0, got {centres} and {radius}."
            )
        self.radius = radius
        self.register_buffer("centres", torch.zeros(centres, width))

    def forward(self, x: Tensor, layout: Layout, level: Level = FIRST, *, stride: int = 1, **options: Any) -> Tensor:
        y = super().forward(x, layout, level, stride=stride, **options)
        if self.training or options.get("continuous"):
            return y
        real = None if layout.real is None else layout.real[:, from_end(x.shape[1], stride)]
        return snap(y, self.centres, self.radius, real)


def snap(x: Tensor, centres: Tensor, radius: float, real: Tensor | None = None) -> Tensor:
    """The nearest centre of each node (…,D); `real` (…) says which of them are nodes at all.

    >>> snap(torch.tensor([[0.9, 0.0], [0.0, 0.2]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), 0.25).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    parts = [
        torch.cdist(rows, centres, compute_mode="donot_use_mm_for_euclid_dist").min(-1)
        for rows in x.reshape(-1, x.shape[-1]).split(ROWS)
    ]
    distance, nearest = (torch.cat(each).view(x.shape[:-1]) for each in zip(*parts, strict=True))
    outside = ~(distance <= radius)
    if real is not None:
        outside = outside & real
    snapped = centres[nearest]
    if torch.compiler.is_compiling():
        return torch.where(outside[..., None], torch.nan, snapped)
    if outside.any():
        far = float(distance[outside].max())
        raise Error(
            f"snapped nodes: a node is {far:.3g} from the nearest of {len(centres)} centres, "
            f"and at most {radius:.3g} is allowed. Read words like those it was extracted from, or use the raw model."
        )
    return snapped
