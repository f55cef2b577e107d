"""The loop and its adjoint compiled by numba, where that is installed, and shared among threads.

Every block is read once and its gradient is written once, in the order in which they lie, so a row needs no chunks.

    x_t = A_t x_{t-1} + v_t;        λ_t = g_t + A_{t+1}^T λ_{t+1},    dA_t = λ_t x_{t-1}^T,    dv_t = λ_t

Threads divide the rows among them, or the blocks where rows are few. Each sums the gradient of a table by itself.

Shapes: as in the package, the tokens of A and v in one dimension (B T,h,b,b) or a table's rows (V,h,b,b); index and
start_row (B,T), or (0,0) where there are none; S states to begin from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..checks import stack_size
from .call import ScanCall

if TYPE_CHECKING:
    from .numba_loops import Loops

INSTALLED = find_spec("numba") is not None
LEAST = 2**12
"""Numbers of states below which a call is not worth the import, a third of a second once."""
ALONE = 2**15
"""Blocks to multiply that are worth a thread: about a millisecond."""
SUMS = 2**18
"""Numbers of a table's gradient up to which the loop sums it, in a cache; larger ones by `autograd.of_table`."""


def worthwhile(call: ScanCall) -> bool:
    """True if there is enough to do, in a stack for all of its members together."""
    (B, T), (h, b) = call.batch, call.start.shape[-2:]
    return B * T * h * b * stack_size(call.A, call.v, call.start) >= LEAST


def supports(call: ScanCall) -> str | None:
    """Returns why the loops cannot take this call, if they cannot."""
    A = call.A
    # While a graph is made nothing is imported: whether it is there must do.
    if not (INSTALLED if torch.compiler.is_compiling() else _importable()):
        return "numba is not installed, or cannot be imported (pip install 'lengthwise[cpu]')"
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "torch.jit.trace cannot record compiled loops"
    if A.device.type != "cpu":
        return f"A is on {A.device.type}, and the loops run on a CPU"
    if any(stride == 0 and n > 1 for n, stride in zip(A.shape, A.stride(), strict=True)):
        return "A is one block spread over many places, and the loops would copy it to each"
    return None


@cache
def _importable() -> bool:
    if INSTALLED:
        with suppress(ImportError):  # as where it does not know this NumPy yet
            _loops(1, torch.float32)
            return True
    return False


def states_of(call: ScanCall) -> Tensor:
    (B, T), (h, b), dtype = call.batch, call.v.shape[-2:], call.start.dtype
    states = call.start.new_empty(B, T, h, b)
    transitions, inputs = _by_token(call.A, call.index, dtype), _by_token(call.v, call.index, dtype)
    arrays = transitions, inputs, call.start.contiguous(), _or_empty(call.start_row), _or_empty(call.index), states
    _share(_loops(b, dtype).forward, B, h, T, lambda _: arrays)
    return states


def adjoint_of(g, A, start, start_row, index, states, *, outer: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """λ (B,T,h,b), what the state before the first token gets, (B,h,b), and dA as A.

    `outer`: whether dA is needed; it is None where it is not, or where a table is too large.
    """
    B, T, h, b = g.shape
    lam, after = torch.empty_like(states), torch.empty(B, h, b, dtype=g.dtype)
    g, A = g.contiguous(), _by_token(A, index, g.dtype)
    if index is None:
        sums = [torch.empty_like(A)] if outer else []
    else:
        sums = [torch.zeros_like(A) for _ in range(_threads(B, h, T) if outer and A.numel() <= SUMS else 0)]
    none = A.new_empty(0, h, b, b)
    common = A, g, start.contiguous(), _or_empty(start_row), _or_empty(index), states, lam, after

    def arrays_of(thread: int):
        dA = sums[thread % len(sums)] if sums else none
        return *common, dA

    _share(_loops(b, g.dtype).backward, B, h, T, arrays_of)
    dA = None if not sums else sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
    return lam, after, dA if dA is None or index is not None else dA.view(B, T, h, b, b)


def _loops(b: int, dtype: torch.dtype) -> Loops:
    from .numba_loops import loops

    return loops(b, str(dtype).removeprefix("torch."))


def _by_token(x: Tensor, index: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(B T,…) or (V,…)"""
    return (x if index is not None else x.flatten(0, 1)).to(dtype).contiguous()


def _or_empty(x: Tensor | None) -> Tensor:
    return torch.empty(0, 0, dtype=torch.long) if x is None else x.contiguous()


def _threads(B: int, h: int, T: int) -> int:
    return max(1, min(torch.get_num_threads(), max(B, h), B * T * h // ALONE))


def _share(loop: Callable, B: int, h: int, T: int, arrays_of: Callable[[int], tuple[Tensor, ...]]) -> None:
    """`loop` over all rows and blocks, by torch's number of threads or fewer. `arrays_of`: what a thread is given."""
    threads = _threads(B, h, T)
    by_rows = threads <= B
    edges = [i * (B if by_rows else h) // threads for i in range(threads + 1)]
    failures: list[BaseException] = []

    def run(i: int) -> None:
        part = edges[i], edges[i + 1]
        arrays = [x.detach().resolve_neg().numpy() for x in arrays_of(i)]
        bounds = (*part, 0, h) if by_rows else (0, B, *part)
        try:
            loop(*arrays, *bounds)
        except OSError:  # compiled, but the disk that should keep it is full
            loop(*arrays, *bounds)

    def guarded(i: int) -> None:
        try:
            run(i)
        except BaseException as error:
            failures.append(error)

    others = [threading.Thread(target=guarded, args=(i,)) for i in range(1, threads)]
    for thread in others:
        thread.start()
    guarded(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]
