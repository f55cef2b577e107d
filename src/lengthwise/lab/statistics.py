"""What the numbers in a table mean, computed from records alone.

c of n strings right at one length: accuracy a = c / n; where strings score in parts, c is the sum of their scores. The
score of a run over lengths is the papers': the *unweighted* mean of its per-length accuracies. Over seeds it becomes
a maximum and a mean ± sample standard deviation. The Wilson interval pools all strings of all seeds:

    (a + z²/2n ± z √(a(1−a)/n + z²/4n²)) / (1 + z²/n)

It says how well the test strings pin the accuracy of *these* trained models down, not how the next seed will do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..errors import Error
from ..evaluate.text import Loss

if TYPE_CHECKING:
    from . import Run

Checkpoint = Literal["last", "best"]
CHECKPOINTS: tuple[Checkpoint, ...] = ("last", "best")

MOST_COLUMNS = 8
EVENLY_SPACED = 4


def wilson(correct: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of accuracies compatible with `correct` of `n` (95% at z = 1.96).

    `correct` may be a sum of n scores in [0, 1]: of all such with mean a those that are 0 or 1 vary most, by
    a (1 - a), so the interval is then too wide rather than too narrow.

    >>> low, high = wilson(32, 32)
    >>> f"{low:.3f} {high:.3f}"
    '0.893 1.000'
    """
    if n < 1 or not 0 <= correct <= n:
        raise Error(f"wilson: correct must be in 0..n with n at least 1, got {correct} of {n}.")
    a = correct / n
    middle, half = a + z * z / (2 * n), z * math.sqrt(a * (1 - a) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return (0.0 if correct == 0 else max(0.0, low)), (1.0 if correct == n else min(1.0, high))


def student(freedom: int, share: float = 0.95) -> float:
    """t such that Student's distribution with so many degrees of freedom has this share in -t..t, exactly.

    With θ = atan(t / √ν) the share is (2/π)(θ + sin θ (cos θ + 2/3 cos³θ + …)) for odd ν, up to cos^(ν-2), and
    sin θ (1 + 1/2 cos²θ + 1·3/(2·4) cos⁴θ + …) for even ν: Abramowitz and Stegun 26.7.3 and 26.7.4.

    >>> [round(student(n), 3) for n in (1, 2, 4, 9, 30)]
    [12.706, 4.303, 2.776, 2.262, 2.042]
    """
    if freedom < 1 or not 0 < share < 1:
        raise Error(f"student: needs one degree of freedom at least and a share in 0..1, got {freedom} and {share}.")
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _share_within(angle, freedom) < share else (low, angle)
    return math.tan(low) * math.sqrt(freedom)


def _share_within(angle: float, freedom: int) -> float:
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if freedom == 1 else term
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95% interval of the mean of values drawn alike: mean ± t s/√n; None for a single value.

    >>> low, high = mean_interval([0.1, 0.2, 0.3])
    >>> f"{low:.3f} {high:.3f}"
    '-0.048 0.448'
    """
    n = len(values)
    if n < 2:
        return None
    mean, half = statistics.fmean(values), student(n - 1) * statistics.stdev(values) / math.sqrt(n)
    return mean - half, mean + half


def accuracy(run: Run, length: int, checkpoint: Checkpoint = "last") -> float:
    """The share of test strings of this length that the run got right, or the mean score where they have parts."""
    return run.result["checkpoints"][checkpoint]["correct"][str(length)] / run.result["samples"]


def overflowed(runs: Iterable[Run], lengths: Iterable[int], checkpoint: Checkpoint = "last") -> int:
    """Returns how many test strings at these lengths were wrong because their logits were not finite."""
    # Results of before these were counted have none: a run that overflowed failed.
    counts = [run.result["checkpoints"][checkpoint].get("overflowed", {}) for run in runs]
    return sum(of.get(str(n), 0) for n in set(lengths) for of in counts)


def score(run: Run, lengths: Iterable[int], checkpoint: Checkpoint = "last") -> float:
    """The unweighted mean of the accuracies at these lengths."""
    return statistics.fmean(accuracy(run, length, checkpoint) for length in lengths)


@dataclass(frozen=True)
class Summary:
    """Several seeds of one model over some lengths."""

    mean: float
    max: float
    std: float | None
    """Sample standard deviation over seeds; None for a single seed."""
    low: float
    high: float
    """The 95% Wilson interval of all strings pooled."""
    baseline: float
    """The accuracy of the best constant answer, averaged over the same lengths."""
    seeds: int
    strings: int


def summary(runs: Sequence[Run], lengths: Sequence[int], checkpoint: Checkpoint = "last") -> Summary:
    """The score over `lengths` of runs that differ in their seed only."""
    if not runs or not lengths:
        raise Error(f"summary: needs a run and a length at least, got {len(runs)} runs and {len(lengths)} lengths.")
    scores = [score(run, lengths, checkpoint) for run in runs]
    correct = sum(run.result["checkpoints"][checkpoint]["correct"][str(n)] for run in runs for n in lengths)
    strings = sum(run.result["samples"] for run in runs) * len(lengths)
    low, high = wilson(correct, strings)
    return Summary(
        mean=statistics.fmean(scores),
        max=max(scores),
        std=statistics.stdev(scores) if len(scores) > 1 else None,
        low=low,
        high=high,
        baseline=statistics.fmean(runs[0].result["baseline"][str(n)] for n in lengths),
        seeds=len(runs),
        strings=strings,
    )


@dataclass(frozen=True)
class Range:
    """One column of a table: the lengths averaged in it."""

    lengths: tuple[int, ...]
    train: tuple[int, int]
    """The training range; the lengths lie all inside it, all below or all beyond."""

    @property
    def trained(self) -> bool:
        return self.train[0] <= self.lengths[0] <= self.train[1]

    @property
    def beyond(self) -> bool:
        """Longer than any training string: what length generalisation is about. Shorter ones prove nothing of it."""
        return self.lengths[0] > self.train[1]

    @property
    def label(self) -> str:
        """
        >>> Range((41, 42, 500), train=(1, 40)).label, Range((4000,), train=(1, 40)).label
        ('41–500', '4,000')
        """
        first, last = self.lengths[0], self.lengths[-1]
        return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def ranges(train: tuple[int, int], lengths: Iterable[int]) -> list[Range]:
    """The columns for these test lengths.

    One column for the lengths inside the training range. Of the others, each run of at least four evenly spaced lengths
    is one column, their mean; a length in no such run has a column to itself. Where that would make more than eight
    columns (lengths without any pattern), all lengths below the training range are one column and all
    beyond it another.

    >>> [r.label for r in ranges((1, 40), [*range(1, 501), 1000, 2000, 4000])]
    ['1–40', '41–500', '1,000', '2,000', '4,000']
    """
    low, high = train
    lengths = sorted(set(lengths))
    inside = [n for n in lengths if low <= n <= high]
    below, beyond = [n for n in lengths if n < low], [n for n in lengths if n > high]
    columns = [Range(tuple(inside), train)] if inside else []
    outside = [Range(part, train) for side in (below, beyond) for part in _parts(side)]
    if len(columns) + len(outside) > MOST_COLUMNS:
        outside = [Range(tuple(side), train) for side in (below, beyond) if side]
    return sorted(columns + outside, key=lambda r: r.lengths)


def _parts(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Evenly spaced runs, taken greedily from the left; everything else alone."""
    parts, start = [], 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and lengths[end] - lengths[end - 1] == lengths[start + 1] - lengths[start]:
            end += 1
        if end - start < EVENLY_SPACED:
            end = start + 1
        parts.append(tuple(lengths[start:end]))
        start = end
    return parts


def perplexities(run: Run, which: str = "last") -> dict[int, float]:
    """Returns those of a run on text at every test length; NaN or infinite where the loss is no number or too great.

    `which`: "last" or, of a checkpoint that was trained on, "before".
    """
    scores = run.result["checkpoints"][which]
    if "losses" not in scores:
        return {run.experiment.tests.lengths[0]: scores["perplexity"]}
    return {int(n): Loss(mean, 0).perplexity for n, mean in scores["losses"].items()}
