"""Single vectors, off by rounding alone: what a code's node is, and how far the model's arithmetic may be from it.

Beside a bound of every entry, `Balls` has one of the whole: |δ|, Euclid's. A map W takes δ into a ball of

    σ |δ|,    σ the largest singular value of W

where entries bounded one by one give Σ_j |W_ij| e_j, √D times as much for a matrix without order, and D after two.

Shapes: N vectors side by side, D entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .affine import Affine
from .enclosures import OWN, ROOT_ULPS, SMOOTH, gamma, upper

SQUARINGS = 6
MORE = 1 + 2.0**-36
"""What is computed on the way to a bound, and not itself widened by `upper`, is wider by this."""


@dataclass(frozen=True)
class Points(Affine):
    """With bounds entry by entry, which each map takes through by its absolute values."""

    def spread(self) -> Affine:
        return self


@dataclass(frozen=True)
class Balls(Points):
    """With a bound of |δ| too, where there are no directions."""

    known: tuple[Tensor, Tensor] | None = None
    """Some e, and the ball of what has this very e. An operation that makes another e thereby forgets the ball."""

    def ball(self) -> Tensor:
        """(N,1)"""
        of_entries = upper(self.e.norm(dim=-1, keepdim=True))
        known = self.known is not None and self.known[0] is self.e
        return torch.minimum(of_entries, self.known[1]) if known else of_entries  # pyright: ignore

    def _within(self, e: Tensor, ball: Tensor) -> Balls:
        """These vectors, off by no more than e and than the ball."""
        ball = upper(ball)
        e = upper(torch.minimum(e, ball), self.c.abs())
        return replace(self, e=e, known=(e, ball))

    def linear(self, W: Tensor, b: Tensor | None = None) -> Affine:
        made, ball = super().linear(W, b), self.ball()
        assert isinstance(made, Balls)
        new = made.e - self.e @ W.abs().T
        """What is rounded here; more than that, for `made.e` was widened."""
        e = torch.minimum(made.e, W.norm(dim=1) * MORE * ball + new)
        return made._within(e, largest_singular_value(W) * ball + new.norm(dim=1, keepdim=True))

    def _sum(self, other: Affine, sign: int) -> Affine:
        made = super()._sum(other, sign)
        if made.c.dim() != 2 or not (isinstance(other, Balls) and isinstance(made, Balls)):
            return made
        new = made.e - (self.e + other.e)
        return made._within(made.e, self.ball() + other.ball() + new.norm(dim=1, keepdim=True))

    def relu(self) -> Affine:
        """Numbers are no farther apart afterwards, and what is surely below 0 is 0."""
        if self.G.shape[1]:
            return super().relu()
        made = replace(self, c=self.c.clamp(min=0))
        return made._within(torch.where(self.c + self.e < 0, 0.0, self.e), self.ball())

    def smooth(self, name: str) -> Affine:
        made, slope = super().smooth(name), SMOOTH[name].slope(self.c).abs()
        assert isinstance(made, Balls)
        new = made.e - slope * self.e
        ball = slope.amax(1, keepdim=True) * MORE * self.ball() + new.norm(dim=1, keepdim=True)
        return made._within(made.e, ball)

    def norm(self, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Affine:
        """The exact norm at c; then what δ moves it by; then the roundings, as `Affine.norm` bounds them.

            y = g d/s + b,   d = x - μ,   s² = |d|²/D + eps

        d/s has the slope (I - d dᵀ/(D s²))/s, whose singular values are between 0 and 1/s. Between c and c + δ no d is
        farther from that of c than |δ|, which bounds s from below.
        """
        if self.G.shape[1]:
            return super().norm(weight, bias, eps, centred)
        at_c = replace(self, e=torch.zeros_like(self.e), known=None).exactly()
        at_c = Points(at_c.c, at_c.G, at_c.e, at_c.directions, at_c.arithmetic).norm(weight, bias, eps, centred)
        u, D, ball, size = self.arithmetic.u, self.c.shape[-1], self.ball(), self.magnitude()
        g, b = weight.abs(), 0.0 if bias is None else bias.abs()
        mean, square = size.mean(-1, keepdim=True), (size * size).mean(-1, keepdim=True)
        d = self.c - self.c.mean(-1, keepdim=True) if centred else self.c
        unsure = 2.0**-36 * size.norm(dim=1, keepdim=True)
        variance = ((d.norm(dim=1, keepdim=True) - unsure - ball).clamp(min=0) ** 2 / D + eps) / MORE
        off_variance = 4 * gamma(D + 4, u) * (square + eps)
        left = variance - off_variance
        top = torch.where(left > 2.0**-60, left, 0.0).rsqrt() * MORE
        """1/s at most, as computed too; infinite where it is not certain."""
        d = d.abs() + unsure + ball
        off_top = 0.5 * off_variance * top**3 + (2 * ROOT_ULPS * u + 64 * OWN) * top
        off_d = gamma(D + 2, u) * mean + gamma(8, u) * (size + mean)
        off = d * off_top + (top + off_top) * off_d
        largest = d * top + off
        off = g * (off + gamma(3, u) * largest)
        off = off + gamma(2, u) * (g * largest + off + b) + at_c.e
        moved = top * ball
        made = replace(self, c=at_c.c)
        ball = g.max() * moved * MORE + off.norm(dim=1, keepdim=True)
        return made._within(g * moved * MORE + off, ball)


class Followed(Points):
    """What was rounded before a norm is followed as it is, with its sign; so are the norm's cancellations."""

    def norm(self, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Affine:
        return Affine.norm(Affine.spread(self), weight, bias, eps, centred)


class FollowedFurther(Points):
    """As much as `Affine` follows, but for the roundings inside the feed-forward's hidden layer."""

    def spread(self) -> Affine:
        return self if self.c.shape[-1] > getattr(self.directions, "width", 0) else Affine.spread(self)


def largest_singular_value(W: Tensor) -> float:
    """An upper bound of |W|, a few per cent too large: |W|² = |B| for B = W Wᵀ, and |B|² = |B²| again and again.

    The last is no more than in Frobenius' norm. B is made symmetric after each product, so that Weyl's bound of its
    eigenvalues covers what was rounded: `slack`, relative to Frobenius' norm of what was squared, which is 1.
    """
    W = W.double()
    B = W @ W.T if W.shape[0] <= W.shape[1] else W.T @ W
    sizes, slack = [], 2.0**-36
    first = float(W.norm()) ** 2 * slack
    for _ in range(SQUARINGS):
        B = (B + B.T) / 2
        size = float(B.norm()) * MORE
        if not 0 < size < float("inf"):
            return float(W.norm()) * MORE
        sizes.append(size)
        B = B / size
        B = B @ B
    most = float(B.norm()) * MORE
    for size in reversed(sizes):
        most = size * (most + slack) ** 0.5
    return (most + first) ** 0.5 * MORE
