"""Do a model's outputs fall into as many clusters as the task has transitions, at every depth the same ones?

All outputs of all blocks at all positions are one cloud of points (block_outputs.py). How many clusters it has is found
without looking at the task (k_means.py). Where the task has a machine, the clusters are then held against it
(machine_truth.py): in RegularGPT group l stands at position i for the transition made by tokens i - C^(l+1) + 1 … i
(§7.3 of the paper); a model whose blocks see all tokens before i can stand there for the state of the machine.
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
from .block_outputs import BlockOutput, read_blocks
from .k_means import find_groups, principal_components
from .machine_truth import MachineTruth, compare_with_machine

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
    """How the count was found: k, fall and apart (k_means.py)."""
    depths: tuple[Depth, ...]
    truth: MachineTruth | None
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


def find_clusters(
    classifier: TokenClassifier, tokens: Tensor, *, task: Task | None = None, most: int = 12, seed: int = 0
) -> Clusters:
    """The clusters of all block outputs while `classifier` reads `tokens` (B,T); `task` is what they are held against.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("parity")
    >>> untrained = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16)
    >>> clusters = find_clusters(untrained, task.test_set(100, 1).tokens, task=task)
    >>> sum(clusters.sizes), [depth.reach for depth in clusters.depths]
    (700, [2, 4, 8, 16, 32, 64, 128])
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"find_clusters: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    if most < 1:
        raise Error(f"find_clusters: most must be at least 1, got {most}.")
    outputs = read_blocks(classifier, tokens)
    points = _points(classifier, outputs)
    groups = find_groups(points, most, seed)
    spread = (points - groups.centres[groups.members]).pow(2).sum(1)
    between = torch.pdist(groups.centres)
    members = np.split(groups.members.numpy(), np.cumsum([b.output.shape[0] * b.output.shape[1] for b in outputs])[:-1])
    flat, shares = principal_components(points, 2)
    sample = torch.randperm(len(points), generator=generator("kept", seed))[:KEPT].sort().values
    machine = task.machine if task else None
    return Clusters(
        model=classifier.name,
        task=task.name if task else None,
        length=tokens.shape[1],
        strings=tokens.shape[0],
        count=groups.count,
        most=most,
        sizes=_sizes(groups.members.numpy(), groups.count),
        distance=float(between.min()) if len(between) else None,
        radius=max(float(spread[groups.members == i].mean().sqrt()) for i in range(groups.count)),
        profile=groups.profile,
        depths=tuple(Depth(b.name, b.reach, _sizes(m, groups.count)) for b, m in zip(outputs, members, strict=True)),
        truth=compare_with_machine(machine, tokens.numpy(), outputs, members) if machine else None,
        explained=tuple(shares.tolist()),
        points=tuple((round(x, 4), round(y, 4)) for x, y in flat[sample].tolist()),
        members=tuple(groups.members[sample].tolist()),
    )


def _points(classifier: TokenClassifier, outputs: list[BlockOutput]) -> Tensor:
    """(N, D) all outputs."""
    if len(widths := {block.output.shape[2] for block in outputs}) > 1:
        raise Error(
            f"{classifier.name}: the outputs of all its blocks must have one width to be compared, got widths "
            f"{', '.join(map(str, sorted(widths)))}."
        )
    points = torch.cat([block.output.flatten(0, 1) for block in outputs]).double().cpu()
    if not torch.isfinite(points).all():
        raise NonFiniteError(f"{classifier.name}: its blocks put out NaN or infinity. Ask for shorter strings.")
    return points


def _sizes(members: np.ndarray, count: int) -> tuple[int, ...]:
    return tuple(np.bincount(members, minlength=count).tolist())
