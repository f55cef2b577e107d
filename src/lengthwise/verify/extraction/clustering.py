"""Ways to cut a cloud of points into clusters, the coarsest first, by nothing but the distances between them.

The points are joined by the shortest tree that links them all. Cutting its k longest edges leaves k + 1 clusters, and
the cut is worth a try where the next edge is much shorter:

    h_1 >= h_2 >= …       the edges;      h_k / h_(k+1) >= RATIO

insight's own count of groups (k_means.py), which is right where noise links clusters by chains of points, is one more.
Which of these cuts is right, these numbers do not say: tree.py and states.py try one after another.

Shapes: N points, k clusters, D dimensions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import Error
from ...insight.k_means import find_groups
from ...seeds import generator

RATIO = 1.3
SAMPLE = 1200
"""A tree is drawn through so many of the points."""
TRIED = 12
"""The cuts tried are the coarsest so many."""
SAME = 1e-5
"""Points that are closer than this share of the largest distance are one."""


class TimeOver(Error):
    """The seconds that an extraction was given are over."""


def check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeOver("extract: the time was over. Give it more seconds, or none.")


@dataclass(frozen=True, eq=False)
class Cut:
    centres: Tensor
    """(k,D)."""
    radius: float
    """Half the least distance between two centres; for one cluster, twice that of its farthest point."""


def cuts(points: Tensor, seed: int = 0) -> Iterator[Cut]:
    """The cuts of (N,D) points, all of them into one cluster first.

    >>> clouds = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 5.0]]).repeat(40, 1)
    >>> clouds += 0.1 * torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    >>> [len(cut.centres) for cut in cuts(clouds)][:3]
    [1, 2, 3]
    """
    points = points.double()
    if len(points) > SAMPLE:
        points = points[torch.randperm(len(points), generator=generator("cuts", seed))[:SAMPLE]]
    edges = _shortest_tree(points)
    heights = torch.tensor([height for height, _, _ in edges] + [0.0])
    least = SAME * float(heights.max()) if len(edges) else 0.0
    found = {1, *(k + 1 for k in range(1, len(edges) + 1) if _falls(heights, k, least))}
    for count in sorted(found)[:TRIED]:
        yield _cut(points, _members(edges, count, len(points)))
    counted = find_groups(points, seed=seed)
    if counted.count not in found:
        yield _cut(points, counted.members)


def _falls(heights: Tensor, k: int, least: float) -> bool:
    """Whether the k longest edges stand out from the next."""
    return bool(heights[k - 1] > least) and bool(heights[k - 1] >= RATIO * heights[k].clamp(min=least))


def _shortest_tree(points: Tensor) -> list[tuple[float, int, int]]:
    """The edges of the shortest tree through all points, the longest first (Prim)."""
    N = len(points)
    distance = torch.full((N,), torch.inf, dtype=points.dtype)
    nearest = torch.zeros(N, dtype=torch.long)
    outside = torch.ones(N, dtype=torch.bool)
    edges, new = [], 0
    for _ in range(N - 1):
        outside[new] = False
        step = (points - points[new]).pow(2).sum(1).sqrt()
        closer = outside & (step < distance)
        distance, nearest = torch.where(closer, step, distance), torch.where(closer, new, nearest)
        new = int(torch.where(outside, distance, torch.inf).argmin())
        edges.append((float(distance[new]), int(nearest[new]), new))
    return sorted(edges, key=lambda edge: -edge[0])


def _members(edges: list[tuple[float, int, int]], count: int, N: int) -> Tensor:
    """(N,) the cluster of each point when the count - 1 longest edges are cut."""
    parent = list(range(N))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for _, i, j in edges[count - 1 :]:
        parent[root(i)] = root(j)
    return torch.unique(torch.tensor([root(i) for i in range(N)]), return_inverse=True)[1]


def _cut(points: Tensor, members: Tensor) -> Cut:
    count = int(members.max()) + 1
    centres = torch.stack([points[members == i].mean(0) for i in range(count)])
    if count == 1:
        return Cut(centres, 2 * float((points - centres).pow(2).sum(1).max().sqrt()) + 1e-6)
    return Cut(centres, float(torch.pdist(centres).min()) / 2)
