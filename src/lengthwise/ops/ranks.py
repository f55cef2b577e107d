"""The ranks among which one sequence is divided, and what they tell each other.

    gathered(x)[r] = x of rank r         backwards: what all ranks have for x, added up
    total(x)       = Σ_r x of rank r     backwards: the gradient of the sum, to each rank
    same(x)        = x, equal on all     backwards: 1/R of the gradient, to each rank

Suppose that every rank has one and the same loss, a `total` of parts or a function of what is the `same`, and calls
backward. Then the gradients of the weights, added up over the ranks (`add_gradients`), are those of one process that
has the whole sequence.

Shapes: R ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import Error


class Ranks:
    """The processes of a group of torch.distributed, in the order in which they hold a sequence."""

    def __init__(self, group: dist.ProcessGroup | None = None):
        """`group`: None is the group of all processes."""
        if not dist.is_available() or not dist.is_initialized():
            raise Error(
                "A sequence is divided among the ranks of a process group, and this process is in none. Start it with "
                "torchrun, and call torch.distributed.init_process_group() first."
            )
        self.rank, self.size, self.group = dist.get_rank(group), dist.get_world_size(group), group
        if self.rank < 0:
            raise Error("A sequence is divided among the ranks of a process group, and this process is not in it.")
        self.received = 0
        """How many bytes came from other ranks, sums of gradients of weights aside."""

    def gathered(self, x: Tensor) -> Tensor:
        """(R,…) of x (…), which has one shape and precision on all ranks."""
        return _Gathered.apply(x, self)  # pyright: ignore[reportReturnType]

    def total(self, x: Tensor) -> Tensor:
        """The sum over the ranks."""
        return _Total.apply(x, self)  # pyright: ignore[reportReturnType]

    def same(self, x: Tensor) -> Tensor:
        """x, which every rank has computed alike."""
        return _Same.apply(x, self.size)  # pyright: ignore[reportReturnType]

    def add_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Make the gradients of weights those of the whole sequence, on every rank. One that no rank has stays None."""
        own = [p for p in parameters if p.requires_grad]
        if not own or self.size == 1:
            return
        has = torch.tensor([p.grad is not None for p in own], dtype=torch.float32, device=own[0].device)
        for p, found in zip(own, self.add(has).tolist(), strict=True):
            if found:
                p.grad = self.add(torch.zeros_like(p) if p.grad is None else p.grad)

    # What follows knows nothing of gradients; all else is made of it.

    def gather(self, x: Tensor) -> Tensor:
        flat = (torch.view_as_real(x) if x.is_complex() else x).detach().contiguous()
        parts = [torch.empty_like(flat) for _ in range(self.size)]
        if flat.numel():
            dist.all_gather(parts, flat, group=self.group)
        self._note(flat)
        gathered = torch.stack(parts)
        return torch.view_as_complex(gathered) if x.is_complex() else gathered

    def scatter_sum(self, x: Tensor) -> Tensor:
        """Of x (R,…) the sum over the ranks, and of that this rank's part."""
        own = torch.empty_like(x[0]).contiguous()
        if own.numel():
            dist.reduce_scatter(own, list(x.contiguous()), group=self.group)
        self._note(own)
        return own

    def add(self, x: Tensor) -> Tensor:
        x = x.detach().clone()
        dist.all_reduce(x, group=self.group)
        return x

    def _note(self, x: Tensor) -> None:
        self.received += (self.size - 1) * x.numel() * x.element_size()


@dataclass(frozen=True, eq=False)
class Piece:
    """The part of every row that this rank holds; the rows go on on the other ranks."""

    ranks: Ranks
    lengths: tuple[int, ...]
    """How many tokens each rank holds: 0 or more."""

    @property
    def first(self) -> int:
        """How many tokens come before those of this rank."""
        return sum(self.lengths[: self.ranks.rank])

    @property
    def total(self) -> int:
        return sum(self.lengths)

    def last_token(self, x: Tensor) -> Tensor:
        """(B,1,D): of x (B,T,D) the last token of the rows, on every rank."""
        owner = max(r for r, n in enumerate(self.lengths) if n)
        own = x[:, -1:] if x.shape[1] else x.sum(1, keepdim=True)
        return self.ranks.gathered(own)[owner]


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.gather(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.scatter_sum(grad_outputs[0]), None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks) -> Tensor:
        return ranks.add(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0], None


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        ctx.size = size
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0] / ctx.size, None


__all__ = ["Piece", "Ranks"]
