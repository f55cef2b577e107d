"""The linear recurrence with diagonal transitions: every entry of the state goes its own way.

    x_t = a_t ∘ x_{t-1} + v_t

Torch's operators take about 2 √T steps: pieces of √T tokens side by side, each from zero, then what entered each.

    x_t = z_t + (a_t … a_s) x_{s-1}        s the piece's first token, z its states from zero

Shapes: B batch, T tokens, m pieces of c tokens, n entries of the state, real or complex.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ShapeError
from .kernels import Kernel, Op
from .ranks import Ranks
from .split_scan import split_scan

NAME = "diagonal_scan"


@dataclass(frozen=True)
class DiagonalCall:
    a: Tensor
    """(B,T,n) or (1,T,n)"""
    v: Tensor
    """(B,T,n)"""
    initial: Tensor
    """(B,n)"""


def oracle(call: DiagonalCall) -> Tensor:
    """Every state, (B,T,n): one token after another."""
    x, states = call.initial, []
    for t in range(call.v.shape[1]):
        x = call.a[:, t] * x + call.v[:, t]
        states.append(x)
    return torch.stack(states, 1)


def by_torch(call: DiagonalCall) -> Tensor:
    """As `oracle`."""
    T = call.v.shape[1]
    c = isqrt(T - 1) + 1
    m = -(-T // c)
    # (B,m,c,n) apart along c; slices of one tensor would each give it a gradient of its full size.
    a, v = (F.pad(part, (0, 0, 0, m * c - T)).unflatten(1, (m, c)) for part in (call.a, call.v))
    passed, alone = [a[:, :, 0]], [v[:, :, 0]]
    for a_t, v_t in zip(a.unbind(2)[1:], v.unbind(2)[1:], strict=True):
        passed.append(a_t * passed[-1])
        alone.append(a_t * alone[-1] + v_t)
    entered = [call.initial]
    for A, z in zip(passed[-1].unbind(1)[:-1], alone[-1].unbind(1)[:-1], strict=True):
        entered.append(A * entered[-1] + z)
    x = torch.stack(alone, 2) + torch.stack(passed, 2) * torch.stack(entered, 1)[:, :, None]
    return x.flatten(1, 2)[:, :T]


OP: Op[DiagonalCall] = Op(NAME, [Kernel("torch", by_torch, priority=1), Kernel("reference", oracle)])


class Entries:
    """The scan of one rank's piece of a sequence, for `split_scan.py`; inputs: a and v."""

    def states(self, start: Tensor, *inputs: Tensor) -> tuple[Tensor, None]:
        a, v = inputs
        if v.shape[1] == 0:
            return start.new_empty(len(start), 0, start.shape[1]), None
        return by_torch(DiagonalCall(a, v, start)), None

    def transfer(self, start: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        a, v = inputs
        P = a.prod(1).to(start.dtype).expand_as(start)
        return P, self.states(torch.zeros_like(start), a, v)[0][:, -1] if v.shape[1] else torch.zeros_like(start)

    def gradients(
        self, g: Tensor, states: Tensor, saved: None, needs: list[bool], start: Tensor, *inputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        """λ_t = g_t + a_{t+1}* λ_{t+1} is the gradient of v_t, and λ_t x_{t-1}* that of a_t."""
        a, v = inputs
        back = torch.cat([a[:, 1:], torch.ones_like(a[:, :1])], 1).conj().flip(1)
        lam = by_torch(DiagonalCall(back, g.flip(1), torch.zeros_like(start))).flip(1)
        before = torch.cat([start[:, None], states[:, :-1]], 1)
        da = (lam * before.conj()).sum_to_size(a.shape)
        of_start = a[:, 0].conj() * lam[:, 0]
        pairs = (of_start, start), (da, a), (lam, v)
        return tuple(x if like.is_complex() else x.real for x, like in pairs)

    def identity(self, start: Tensor) -> Tensor:
        return torch.ones_like(start)


def diagonal_scan(
    a: Tensor, v: Tensor, initial: Tensor | None = None, *, ranks: Ranks | None = None, backend: str = "auto"
) -> Tensor:
    """Every state, (B,T,n), of a (B,T,n) or (1,T,n), v (B,T,n) and the state before them, (B,n) or None for zero.

    ranks: the rows go on on other ranks, and these are this rank's tokens, 0 or more. `initial` counts on the first
    rank alone (split_scan.py).

    >>> import torch
    >>> a, v = torch.tensor([2.0, 2.0, 0.0]), torch.ones(3)
    >>> diagonal_scan(a.view(1, 3, 1), v.view(1, 3, 1)).flatten().tolist()
    [1.0, 3.0, 1.0]
    """
    if a.dim() != 3 or v.dim() != 3 or a.shape[1:] != v.shape[1:] or a.shape[0] not in (1, v.shape[0]):
        raise ShapeError(
            f"{NAME}: v must be (B,T,n) and a (B,T,n) or (1,T,n), got a {list(a.shape)}, v {list(v.shape)}."
        )
    B, T, n = v.shape
    if T == 0 and ranks is None:
        raise ShapeError(f"{NAME}: there must be at least one token, got T = 0.")
    if initial is None:
        initial = v.new_zeros(B, n)
    if initial.shape != (B, n):
        raise ShapeError(f"{NAME}: initial must be (B,n) = {[B, n]}, got {list(initial.shape)}.")
    if ranks is None:
        return OP.run(DiagonalCall(a, v, initial), backend)
    # A state is complex if anything is.
    kind = torch.promote_types(torch.promote_types(a.dtype, v.dtype), initial.dtype)
    return split_scan(Entries(), ranks, initial.to(kind), a, v)[0]


__all__ = ["OP", "diagonal_scan"]
