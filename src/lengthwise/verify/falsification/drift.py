"""Where states drift: the length at which the margin, as it falls with length, is predicted to reach 0.

Rounding and leaking states lose margin with every token, or with every group of a tree, of which there are log n:

    m(n) = a - b n        or        m(n) = a - b log n

Both are fitted by least squares to the least margin seen at each length; the one that fits better predicts, if it falls
by more than its own uncertainty and more than rounding alone.

>>> crossing({n: 10 - 0.001 * n for n in (64, 128, 256, 512, 1024)})
10000
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

FEWEST = 5
"""Lengths that a prediction needs."""
SHORTEST = 16
"""Shorter words have not drifted yet."""
SURE = 3.0
"""A fall is one if it is so many times its standard error,"""
FINEST = 2.0**-20
"""and such a share of the margin, for rounding moves a margin too."""
FARTHEST = 10**12


def crossing(margins: Mapping[int, float]) -> int | None:
    """The length at which the least margins, by length, are predicted to reach 0; None where they do not fall.

    The longer half of the lengths is asked, for margins that fall at first may stay where they are.
    """
    lengths = sorted(n for n, m in margins.items() if n >= SHORTEST and 0 < m < math.inf)
    lengths = lengths[-max(FEWEST, len(lengths) // 2) :]
    if len(lengths) < FEWEST:
        return None
    m = np.array([margins[n] for n in lengths])
    line, curve = _fit(np.array(lengths, dtype=float), m), _fit(np.log(lengths), m)
    best = min(line, curve, key=lambda fit: fit.residual)
    if best.fall <= max(SURE * best.uncertainty, FINEST * m.mean()):
        return None
    at = best.zero if best is line else math.exp(min(best.zero, math.log(FARTHEST) + 1))
    return math.ceil(round(at, 6)) if lengths[-1] < at < FARTHEST else None


class _Fit(NamedTuple):
    residual: float
    """The standard deviation around the line."""
    fall: float
    uncertainty: float
    """The standard error of the fall from the shortest length to the longest."""
    zero: float
    """Where the line is 0."""


def _fit(x: np.ndarray, m: np.ndarray) -> _Fit:
    from_mean, mean, far = x - x.mean(), m.mean(), x[-1] - x[0]
    spread = float((from_mean**2).sum())
    slope = float((from_mean * m).sum()) / spread
    residual = float(np.sqrt(((m - mean - slope * from_mean) ** 2).sum() / (len(x) - 2)))
    zero = float(x.mean() - mean / slope) if slope else math.inf
    return _Fit(residual, -slope * far, residual * far / math.sqrt(spread), zero)
