"""The ranks among which one sequence is divided, and what they tell each other.

    gathered(x)[r] = x of rank r         backwards: what all ranks have for x, added up
    total(x)       = Σ_r x of rank r     backwards: the gradient of the sum, to each rank
    same(x)        = x, equal on all     backwards: 1/R of the gradient, to each rank
    fetched(x)     = tokens of others    backwards: to each token, what all who fetched it have for it

Suppose that every rank has one and the same loss, a `total` of parts or a function of what is the `same`, and calls
backward. Then the gradients of the weights, added up over the ranks (`add_gradients`), are those of one process that
has the whole sequence.

Shapes: R ranks, B batch, T tokens of a piece, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
        for p, count in zip(own, self.add(has).tolist(), strict=True):
            if count:
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
        """Returns the sum over the ranks of x (R,…), and of that this rank's part."""
        own = torch.empty_like(x[0]).contiguous()
        if own.numel():
            dist.reduce_scatter(own, list(x.contiguous()), group=self.group)
        self._note(own)
        return own

    def add(self, x: Tensor) -> Tensor:
        x = x.detach().clone()
        dist.all_reduce(x, group=self.group)
        return x

    def exchange(self, sent: list[Tensor], like: list[Tensor]) -> list[Tensor]:
        """Returns what each rank has sent here, of `sent`, one for each; `like`: empty tensors of those shapes."""
        steps = []
        for peer in range(self.size):
            for step, x in ((dist.irecv, like[peer]), (dist.isend, sent[peer].contiguous())):
                if x.numel() and peer != self.rank:
                    steps.append(dist.P2POp(step, x, group=self.group, group_peer=peer))
        for work in dist.batch_isend_irecv(steps) if steps else []:
            work.wait()
        self.received += sum(x.numel() * x.element_size() for x in like)
        return like

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
        """The number of tokens before those of this rank."""
        return sum(self.lengths[: self.ranks.rank])

    @property
    def total(self) -> int:
        return sum(self.lengths)

    def last_token(self, x: Tensor) -> Tensor:
        """(B,1,D): of x (B,T,D) the last token of the rows, on every rank."""
        owner = max(r for r, n in enumerate(self.lengths) if n)
        own = x[:, -1:] if x.shape[1] else x.sum(1, keepdim=True)
        return self.ranks.gathered(own)[owner]

    def fetched(self, x: Tensor, wanted: Callable[[int, int], list[range]]) -> Tensor:
        """(B,N,D): of the rows, whose tokens here are x (B,T,D), those that this rank wants; 0 before the first token.

        `wanted`: of the first token and the number of tokens of a rank, the places that it wants, none of them its own.
        """
        return _Fetched.apply(x, self, wanted)  # pyright: ignore[reportReturnType]

    def shares(self, wanted: Callable[[int, int], list[range]], source: int, target: int) -> list[tuple[slice, slice]]:
        """Returns what the target wants of the source: where it lies in the source's piece, and in what is fetched."""
        lo, first = sum(self.lengths[:source]), sum(self.lengths[:target])
        spans, at = [], 0
        for span in wanted(first, self.lengths[target]):
            a, z = max(span.start, lo), min(span.stop, lo + self.lengths[source])
            if a < z:
                spans.append((slice(a - lo, z - lo), slice(at + a - span.start, at + z - span.start)))
            at += len(span)
        return spans


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.gather(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.scatter_sum(grad_outputs[0]), None


class _Fetched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, piece: Piece, wanted: Callable[[int, int], list[range]]) -> Tensor:
        own, ranks = piece.ranks.rank, piece.ranks
        out = [[source for source, _ in piece.shares(wanted, own, r)] for r in range(ranks.size)]
        here = [[place for _, place in piece.shares(wanted, r, own)] for r in range(ranks.size)]
        ctx.ranks, ctx.out, ctx.here, ctx.shape = ranks, out, here, x.shape
        N = sum(len(span) for span in wanted(piece.first, x.shape[1]))
        return _moved(ranks, x.detach(), out, here, N)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        return _moved(ctx.ranks, grad_outputs[0], ctx.here, ctx.out, ctx.shape[1]), None, None


def _moved(ranks: Ranks, x: Tensor, out: list[list[slice]], here: list[list[slice]], N: int) -> Tensor:
    """(B,N,D), to which what each rank sends is added where it belongs; of x (B,T,D) goes out what each is sent."""
    sent = [torch.cat([x[:, s] for s in slices], 1) if slices else x[:, :0] for slices in out]
    counts = [sum(s.stop - s.start for s in slices) for slices in here]
    came = ranks.exchange(sent, [x.new_empty(x.shape[0], n, x.shape[2]) for n in counts])
    y = x.new_zeros(x.shape[0], N, x.shape[2])
    for slices, part in zip(here, came, strict=True):
        for s, each in zip(slices, part.split([s.stop - s.start for s in slices], 1) if slices else (), strict=True):
            y[:, s] += each
    return y


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
