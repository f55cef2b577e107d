"""The loop and its adjoint compiled by numba, where that is installed, and shared among threads: the blocks of a token
lie together, one after another is read once, and its gradient written once, so a row needs no chunks.

    x_t = A_t x_{t-1} + v_t;        λ_t = g_t + A_{t+1}^T λ_{t+1},    dA_t = λ_t x_{t-1}^T,    dv_t = λ_t

Threads share rows, or the blocks of few rows; those that sum gradients of one table have a sum each.

Shapes: as in the package, the tokens of A and v in one dimension (B T,h,b,b) or a table's rows (V,h,b,b); index and
rows (B,T), or (0,0) where there are none; S states to begin from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .loops import Loops

FOUND = find_spec("numba") is not None
LEAST = 2**12
"""Numbers of states below which a call is not worth the import, a third of a second once."""
ALONE = 2**15
"""Blocks to multiply that are worth a thread: about a millisecond."""
SUMS = 2**18
"""Numbers of a table's gradient up to which the loop sums it, in a cache; larger ones by `gradients.of_table`."""


def refused(A: Tensor) -> str:
    """Why these cannot be given to compiled loops, or nothing."""
    # While a graph is made nothing is imported: whether it is there must do.
    if not (FOUND if torch.compiler.is_compiling() else _importable()):
        return "numba is not installed, or cannot be imported: pip install 'lengthwise[cpu]'"
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "a trace cannot record it"
    if A.device.type != "cpu":
        return f"it runs on a CPU, got A on {A.device.type}"
    if any(stride == 0 and n > 1 for n, stride in zip(A.shape, A.stride(), strict=True)):
        return "A is one block spread over many places, which it would copy to each"
    return ""


@cache
def _importable() -> bool:
    if FOUND:
        with suppress(ImportError):  # as where it does not know this NumPy yet
            _loops(1, torch.float32)
            return True
    return False


class Gradients(NamedTuple):
    lam: Tensor
    """(B,T,h,b)"""
    after: Tensor
    """(B,h,b), what the state before the first token gets."""
    dA: Tensor | None
    """As A; None where it was not asked for, or a table is too large."""


def states_of(A: Tensor, v: Tensor, start: Tensor, rows: Tensor | None, index: Tensor | None) -> Tensor:
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    states = start.new_empty(B, T, h, b)
    given = *(_tokens(x, index, start.dtype) for x in (A, v)), start.contiguous(), _places(rows), _places(index), states
    _share(_loops(b, start.dtype).forward, B, h, T, lambda _: given)
    return states


def adjoint_of(g, A, start, rows, index, states, *, outer: bool) -> Gradients:
    B, T, h, b = g.shape
    lam, after = torch.empty_like(states), torch.empty(B, h, b, dtype=g.dtype)
    g, A = g.contiguous(), _tokens(A, index, g.dtype)
    if index is None:
        found = [torch.empty_like(A)] if outer else []
    else:
        found = [torch.zeros_like(A) for _ in range(_threads(B, h, T) if outer and A.numel() <= SUMS else 0)]
    none = A.new_empty(0, h, b, b)
    common = A, g, start.contiguous(), _places(rows), _places(index), states, lam, after

    def given(thread: int):
        dA = found[thread % len(found)] if found else none
        return *common, dA

    _share(_loops(b, g.dtype).backward, B, h, T, given)
    dA = None if not found else found[0] if len(found) == 1 else torch.stack(found).sum(0)
    return Gradients(lam, after, dA if dA is None or index is not None else dA.view(B, T, h, b, b))


def _loops(b: int, kind: torch.dtype) -> Loops:
    from .loops import loops

    return loops(b, str(kind).removeprefix("torch."))


def _tokens(x: Tensor, index: Tensor | None, kind: torch.dtype) -> Tensor:
    """(B T,…) or (V,…)"""
    return (x if index is not None else x.flatten(0, 1)).to(kind).contiguous()


def _places(x: Tensor | None) -> Tensor:
    return torch.empty(0, 0, dtype=torch.long) if x is None else x.contiguous()


def _threads(B: int, h: int, T: int) -> int:
    return max(1, min(torch.get_num_threads(), max(B, h), B * T * h // ALONE))


def _share(loop: Callable, B: int, h: int, T: int, given: Callable[[int], tuple[Tensor, ...]]) -> None:
    """`loop` of all rows and blocks, by torch's number of threads or fewer. `given`: a thread's arrays."""
    many = _threads(B, h, T)
    by_rows = many <= B
    edges = [i * (B if by_rows else h) // many for i in range(many + 1)]
    failed: list[BaseException] = []

    def run(i: int) -> None:
        part = edges[i], edges[i + 1]
        arrays = [x.detach().resolve_neg().numpy() for x in given(i)]
        where = (*part, 0, h) if by_rows else (0, B, *part)
        try:
            loop(*arrays, *where)
        except OSError:  # compiled, but the disk that should keep it is full
            loop(*arrays, *where)

    def guarded(i: int) -> None:
        try:
            run(i)
        except BaseException as error:
            failed.append(error)

    others = [threading.Thread(target=guarded, args=(i,)) for i in range(1, many)]
    for thread in others:
        thread.start()
    guarded(0)
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
