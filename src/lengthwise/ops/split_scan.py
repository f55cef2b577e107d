"""A linear recurrence over a sequence that is divided among ranks: one exchange of states forwards, one backwards.

A piece does to the state before it what one long step does,

    s_{r+1} = P_r s_r + z_r        P_r the product of its transitions, z_r its last state from zero

so every rank finds the state s_r that enters its piece from the (P, z) of the earlier ones, and scans from there. The
gradient comes back in the same way. y_r is what a piece alone gives for the state that enters it, and μ_r what its last
state gets from all later pieces:

    μ_r = y_{r+1} + P_{r+1}* μ_{r+1},    μ of the last rank = 0

The size of what is exchanged does not depend on the length: P and z forwards, y backwards. Only the ranks between the
first and the last need P, for the first scans from the initial state at once, and nothing follows the last. A P of
blocks of width b costs b times the steps of a scan, and keeps nothing.

Shapes: R ranks, B batch, T tokens of this rank's piece; of states and transitions as the recurrence has them.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from .ranks import Ranks


class SplitRecurrence(Protocol):
    """A scan of one piece; `inputs` are its transitions and what is added, as `split_scan` was given them."""

    def states(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Any]:
        """(B,T,…), and what else the gradients need."""
        ...

    def transfer(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        """P and z; of `start` only the shape counts."""
        ...

    def gradients(
        self, g: Tensor, states: Tensor, saved: Any, needs: list[bool], start: Tensor, *inputs: Any
    ) -> tuple[Tensor | None, ...]:
        """Those of start and of every input that are needed, from the gradient g of the states."""
        ...

    def identity(self, start: Tensor) -> Tensor:
        """The P of a piece without tokens."""
        ...


def times(P: Tensor, x: Tensor) -> Tensor:
    """P x, of diagonal or square transitions."""
    return P * x if P.dim() == x.dim() else (P @ x.unsqueeze(-1)).squeeze(-1)


def entering(P: Tensor, z: Tensor, start: Tensor) -> Tensor:
    """s (R,…), the state that enters each piece, of P and z (R,…).

    >>> entering(torch.tensor([[2.0], [3.0]]), torch.tensor([[1.0], [5.0]]), torch.tensor([4.0])).flatten().tolist()
    [4.0, 9.0]
    """
    s = [start]
    for P_r, z_r in zip(P[:-1], z[:-1], strict=True):
        s.append(times(P_r, s[-1]) + z_r)
    return torch.stack(s)


def leaving(P: Tensor, y: Tensor) -> Tensor:
    """μ (R,…), what the last state of each piece gets from the later pieces, of P and y (R,…)."""
    mu = [torch.zeros_like(y[0])]
    for P_r, y_r in zip(P[1:].flip(0), y[1:].flip(0), strict=True):
        adjoint = P_r.conj() if P_r.dim() == y_r.dim() else P_r.mH
        mu.append(y_r + times(adjoint, mu[-1]))
    return torch.stack(mu[::-1])


def split_scan(scan: SplitRecurrence, ranks: Ranks, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
    """The states of this rank's piece, and the last of them; `start` is the state before the first rank's piece."""
    return _Split.apply(scan, ranks, start, *inputs)  # pyright: ignore[reportReturnType]


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scan: SplitRecurrence, ranks: Ranks, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        first, last = ranks.rank == 0, ranks.rank == ranks.size - 1
        states = saved = None
        # Of the first rank z is the true last state, so that it alone need know the initial one.
        P, z = torch.zeros_like(scan.identity(start)), torch.zeros_like(start)
        if first:
            states, saved = scan.states(start, *inputs)
            z = states[:, -1] if states.shape[1] else start
        elif not last:
            P, z = scan.transfer(start, *inputs)
        if ranks.size > 2:
            both = ranks.gather(torch.cat([P.flatten(), z.flatten()]))
            P_all = both[:, : P.numel()].view(-1, *P.shape)
            z_all = both[:, P.numel() :].view(-1, *z.shape)
        else:
            P_all, z_all = P.expand(ranks.size, *P.shape), ranks.gather(z) if ranks.size > 1 else z[None]
        if not first:
            start = entering(P_all, z_all, torch.zeros_like(start))[ranks.rank]
            states, saved = scan.states(start, *inputs)
        assert states is not None
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        ctx.save_for_backward(start, states, P_all, *tensors)
        ctx.scan, ctx.ranks, ctx.kept = scan, ranks, saved
        ctx.given = [isinstance(x, Tensor) for x in inputs]
        return states, (states[:, -1].clone() if states.shape[1] else start.clone())

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Any, ...]:
        (g, g_final), scan, ranks = grad_outputs, ctx.scan, ctx.ranks
        start, states, P_all, *tensors = ctx.saved_tensors
        left = iter(tensors)
        inputs = [next(left) if present else None for present in ctx.given]
        needs, T = list(ctx.needs_input_grad[2:]), states.shape[1]
        first, last = ranks.rank == 0, ranks.rank == ranks.size - 1

        def gradients(added: Tensor, needs: list[bool]) -> tuple[Tensor | None, ...]:
            """Returns the gradients where the last state gets this much besides what its token's output gets."""
            if T == 0:
                return added, *(None if x is None else torch.zeros_like(x) for x in inputs)
            whole = g.clone()
            whole[:, -1] += added
            return scan.gradients(whole, states, ctx.kept, needs, start, *inputs)

        only_start = [True, *(False for _ in inputs)]
        results, y = None, torch.zeros_like(start)
        if last and not first:
            results = gradients(g_final, [True, *needs[1:]])
            y = results[0]
        elif not first:
            y = gradients(g_final, only_start)[0]
        if ranks.size > 1:
            mu = leaving(P_all, ranks.gather(y))[ranks.rank]
        else:
            mu = torch.zeros_like(start)
        if results is None:
            results = gradients(g_final + mu, needs)
        return None, None, results[0] if first else None, *results[1:]


__all__ = ["SplitRecurrence", "entering", "leaving", "split_scan"]
