"""How many groups a cloud of points falls into, and which, found by k-means at every k.

d_k is the least distance between two of k centres. While k is no more than the number of groups, k-means has only to
part groups, and all its centres lie far apart; at the first k beyond it must cut a group in two, and d falls at once.
So the number of groups is the first k at which d falls and k-means parts its closest two groups well:

    fall_k  = d_k / d_(k+1)                            at least 1.65
    apart_k = least of |c_i - c_j| / (s_i + s_j)       at least 3;   s: root mean square along the line c_i - c_j

A Gaussian cut in two has apart 1.3, an even line 1.7, a ring 2.2: those are one group. Three in a row have fall 1.5 at
two: those are three. Being the first, k counts the coarser of groups within groups. Distances between centres say
little about how far noise spreads the points in other directions, which is what spoils silhouettes in a space of many
dimensions.

Shapes: N points, D dimensions, k groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..seeds import generator

FALL, APART = 1.65, 3.0
SAMPLE = 2000
"""The number of groups is found on so many of the points."""
RESTARTS, STEPS, CANDIDATES = 10, 60, 4


@dataclass(frozen=True, eq=False)
class Groups:
    count: int
    members: Tensor
    """(N,) the group of each point, 0 the largest."""
    centres: Tensor
    """(k, D)."""
    profile: tuple[tuple[int, float, float], ...]
    """k, fall and apart for every k looked at."""


def find_groups(points: Tensor, most: int = 12, seed: int = 0) -> Groups:
    """The groups of (N, D) points, at most `most`.

    >>> three = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]).repeat(50, 1)
    >>> find_groups(three + torch.randn(150, 2, generator=torch.Generator().manual_seed(0))).count
    3
    """
    draw = generator("groups", seed)
    flat = principal_components(points, most)[0]
    sample = flat if len(flat) <= SAMPLE else flat[torch.randperm(len(flat), generator=draw)[:SAMPLE]]
    # Fewer than four points a group are no evidence of one.
    parts = [_k_means(sample, k, draw) for k in range(2, min(most + 1, len(sample) // 4) + 1)]
    profile = _profile(sample, parts)
    count = next((k for k, fall, apart in profile if fall >= FALL and apart >= APART), 1)
    centres = parts[count - 2] if count > 1 else flat.mean(0, keepdim=True)
    assert centres is not None
    members = torch.cdist(flat, centres).argmin(1)
    order = torch.bincount(members, minlength=count).argsort(descending=True, stable=True)
    members = order.argsort()[members]
    return Groups(count, members, torch.stack([points[members == i].mean(0) for i in range(count)]), profile)


def principal_components(points: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(N, count) the points along their first principal axes, and (count,) the share of the variance along each."""
    x = points.double() - points.double().mean(0)
    variances, axes = torch.linalg.eigh(x.T @ x / len(x))
    variances, axes = variances.flip(0)[:count].clamp(min=0), axes.flip(1)[:, :count]
    # An axis has no direction of its own: point it to where its largest entry is positive, the same on every machine.
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    return x @ axes, variances / x.pow(2).sum(1).mean().clamp(min=1e-300)


def _profile(points: Tensor, parts: list[Tensor | None]) -> tuple[tuple[int, float, float], ...]:
    """k, fall and apart for every k but the last, or up to the k at which all points of a group are one."""
    profile = []
    for centres, beyond in pairwise(parts):
        if centres is None:
            break
        fall = math.inf if beyond is None else _least_distance(centres) / max(_least_distance(beyond), 1e-300)
        profile.append((len(centres), fall, _apart(points, centres)))
    return tuple(profile)


def _least_distance(centres: Tensor) -> float:
    return float(torch.pdist(centres).min())


def _apart(points: Tensor, centres: Tensor) -> float:
    """Returns how far apart the closest two groups stand, in spreads along the line between them."""
    members = torch.cdist(points, centres).argmin(1)
    least = math.inf
    for i in range(len(centres)):
        for j in range(i):
            line = centres[i] - centres[j]
            one, other = (((points[members == m] - centres[m]) @ line).pow(2).mean().sqrt() for m in (i, j))
            width = float(line @ line)
            least = min(least, width / max(float(one + other), 1e-12 * width))
    return least


def _k_means(points: Tensor, k: int, draw: torch.Generator) -> Tensor | None:
    """(k, D) the best centres of several starts; None where there are fewer than k different points."""
    settled = [_settle(points, start) for _ in range(RESTARTS) if (start := _start(points, k, draw)) is not None]
    return min(
        settled, key=lambda centres: float(torch.cdist(points, centres).min(1).values.pow(2).sum()), default=None
    )


def _start(points: Tensor, k: int, draw: torch.Generator) -> Tensor | None:
    """k-means++: each further centre a point drawn by its squared distance, the best of a few candidates."""
    chosen = torch.randint(len(points), (1,), generator=draw)
    distance = (points - points[chosen]).pow(2).sum(1)
    floor = 1e-20 * float(points.pow(2).sum(1).max())
    for _ in range(k - 1):
        if float(distance.max()) <= floor:
            return None
        drawn = torch.multinomial(distance, CANDIDATES, replacement=True, generator=draw)
        nearer = torch.minimum(distance, torch.cdist(points[drawn], points).pow(2))
        best = nearer.sum(1).argmin()
        chosen, distance = torch.cat([chosen, drawn[best, None]]), nearer[best]
    return points[chosen]


def _settle(points: Tensor, centres: Tensor) -> Tensor:
    """Lloyd's steps from these centres."""
    for _ in range(STEPS):
        members = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, members, points)
        counts = torch.bincount(members, minlength=len(centres))[:, None]
        moved = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres
