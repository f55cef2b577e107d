"""Do a model's outputs fall into as many clusters as the task has transitions, at every depth the same ones?

All outputs of all blocks at all positions are one cloud of points (blocks.py). How many clusters it has is found
without looking at the task (groups.py). Where the task has a machine, the clusters are then held against it (truth.py):
in RegularGPT group l stands at position i for the transition made by tokens i - C^(l+1) + 1 … i (§7.3 of the paper); a
model whose blocks see all tokens before i can stand there for the state of the machine.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, NonFiniteError, ShapeError
from ..models import TokenClassifier
from ..seeds import generator
from ..tasks import Task
from .blocks import Block, blocks
from .groups import groups, principal
from .truth import Truth, compare

KEPT = 5000
"""Points kept for a drawing, where there are more."""


@dataclass(frozen=True)
class Depth:
    """The outputs of one pass through one block."""

    name: str
    reach: int | None
    """How many of the newest tokens an output can depend on; None: all."""
    sizes: tuple[int, ...]
    """How many stand in each cluster."""


@dataclass(frozen=True)
class Clusters:
    model: str
    task: str | None
    length: int
    strings: int
    count: int
    most: int
    """More clusters than this were not looked for."""
    sizes: tuple[int, ...]
    """Outputs in each cluster, the largest first."""
    distance: float | None
    """Between the closest two centres; None for one cluster."""
    radius: float
    """Of the widest cluster: the root mean square distance from its centre."""
    profile: tuple[tuple[int, float, float], ...]
    """How the count was found: k, fall and apart (groups.py)."""
    depths: tuple[Depth, ...]
    truth: Truth | None
    """None where the task has no machine."""
    explained: tuple[float, ...]
    """Share of the variance along the two axes of `points`."""
    points: tuple[tuple[float, float], ...]
    """The outputs along their first two principal axes (a sample, where there are many)."""
    members: tuple[int, ...]
    """The cluster of each of `points`."""

    def to_json(self) -> dict[str, Any]:
        finite = tuple(tuple(x if math.isfinite(x) else None for x in row) for row in self.profile)
        return {**asdict(self), "profile": finite}


def clusters(
    classifier: TokenClassifier, tokens: Tensor, *, task: Task | None = None, most: int = 12, seed: int = 0
) -> Clusters:
    """The clusters of all block outputs while `classifier` reads `tokens` (B,T); `task` is what they are held against.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("parity")
    >>> untrained = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16)
    >>> found = clusters(untrained, task.test_set(100, 1).tokens, task=task)
    >>> sum(found.sizes), [depth.reach for depth in found.depths]
    (700, [2, 4, 8, 16, 32, 64, 128])
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"clusters: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    if most < 1:
        raise Error(f"clusters: most must be at least 1, got {most}.")
    read = blocks(classifier, tokens)
    points = _points(classifier, read)
    found = groups(points, most, seed)
    spread = (points - found.centres[found.members]).pow(2).sum(1)
    between = torch.pdist(found.centres)
    members = np.split(found.members.numpy(), np.cumsum([b.output.shape[0] * b.output.shape[1] for b in read])[:-1])
    flat, shares = principal(points, 2)
    kept = torch.randperm(len(points), generator=generator("kept", seed))[:KEPT].sort().values
    machine = task.machine if task else None
    return Clusters(
        model=classifier.name,
        task=task.name if task else None,
        length=tokens.shape[1],
        strings=tokens.shape[0],
        count=found.count,
        most=most,
        sizes=_sizes(found.members.numpy(), found.count),
        distance=float(between.min()) if len(between) else None,
        radius=max(float(spread[found.members == i].mean().sqrt()) for i in range(found.count)),
        profile=found.profile,
        depths=tuple(Depth(b.name, b.reach, _sizes(m, found.count)) for b, m in zip(read, members, strict=True)),
        truth=compare(machine, tokens.numpy(), read, members) if machine else None,
        explained=tuple(shares.tolist()),
        points=tuple((round(x, 4), round(y, 4)) for x, y in flat[kept].tolist()),
        members=tuple(found.members[kept].tolist()),
    )


def _points(classifier: TokenClassifier, read: list[Block]) -> Tensor:
    """(N, D) all outputs."""
    if len(widths := {block.output.shape[2] for block in read}) > 1:
        raise Error(
            f"{classifier.name}: the outputs of all its blocks must be of one width to be compared, got widths "
            f"{', '.join(map(str, sorted(widths)))}."
        )
    points = torch.cat([block.output.flatten(0, 1) for block in read]).double().cpu()
    if not torch.isfinite(points).all():
        raise NonFiniteError(f"{classifier.name}: its blocks put out NaN or infinity. Ask for shorter strings.")
    return points


def _sizes(members: np.ndarray, count: int) -> tuple[int, ...]:
    return tuple(np.bincount(members, minlength=count).tolist())
