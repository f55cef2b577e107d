"""The loops that numba compiles. The inner ones go along A's rows, which lie together in memory, so that they become
vector instructions. Blocks up to 8 wide are unrolled and their sums stay in registers; those of wider ones in memory.

Shapes: as in `numba.py`, whose arrays these are. A loop does the batch's rows low to high and the blocks first to last.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

UNROLLED = 8


class Loops(NamedTuple):
    forward: Any
    backward: Any


def _place(_, like, size):
    """Returns room for so many numbers of this type on the stack: registers, once the loops over them are unrolled."""

    def code(context, builder, *_):
        return cgutils.alloca_once(builder, context.get_value_type(like.dtype), size=max(1, size.literal_value))

    return types.CPointer(like.dtype)(like, size), code


place: Any = intrinsic(prefer_literal=True)(_place)


def loops(b: int, dtype: str) -> Loops:
    """For blocks of this width and numbers of this type: compiled when first called, kept on disk where that can be."""
    # Without the compiler there is no stack to place anything on.
    compiles = not config.DISABLE_JIT  # pyright: ignore[reportAttributeAccessIssue]
    return _loops(b if b <= UNROLLED and compiles else 0, dtype)


@cache
def _loops(width: int, dtype: str) -> Loops:
    """`width`: 0 for any."""

    def forward(A, v, start, start_row, index, states, low, high, first, last):
        _, T, h, b = states.shape
        b = width or b
        table, begins = len(index) > 0, len(start_row) > 0
        x = np.zeros((h, b), states.dtype)
        y = carray(place(states, width), width) if width else np.zeros(b, states.dtype)
        for n in range(low, high):
            if not begins:  # else the first token does
                x[:] = start[n]
            for t in range(T):
                at = index[n, t] if table else n * T + t
                if begins and start_row[n, t] >= 0:
                    x[:] = start[start_row[n, t]]
                for k in range(first, last):
                    for i in range(b):
                        s = v[at, k, i]
                        for j in range(b):
                            s += A[at, k, i, j] * x[k, j]
                        y[i] = s
                    for i in range(b):
                        x[k, i] = states[n, t, k, i] = y[i]

    def backward(A, g, start, start_row, index, states, lam, after, dA, low, high, first, last):
        _, T, h, b = states.shape
        b = width or b
        table, begins, outer = len(index) > 0, len(start_row) > 0, len(dA) > 0
        y = np.zeros((h, b), states.dtype)
        x = carray(place(states, width), width) if width else np.zeros(b, states.dtype)
        to = carray(place(states, width), width) if width else np.zeros(b, states.dtype)
        for n in range(low, high):
            y[:] = 0
            for t in range(T - 1, -1, -1):
                at = index[n, t] if table else n * T + t
                begin = begins and start_row[n, t] >= 0
                for k in range(last - 1, first - 1, -1):  # as memory is gone through: downwards
                    if t > 0 and not begin:
                        for j in range(b):
                            x[j] = states[n, t - 1, k, j]
                    else:
                        row = start_row[n, t] if begin else n
                        for j in range(b):
                            x[j] = start[row, k, j]
                    for j in range(b):
                        to[j] = 0
                    for i in range(b):
                        l = g[n, t, k, i] + y[k, i]
                        lam[n, t, k, i] = l
                        for j in range(b):
                            to[j] += A[at, k, i, j] * l
                        if outer and table:
                            for j in range(b):
                                dA[at, k, i, j] += l * x[j]
                        elif outer:
                            for j in range(b):
                                dA[at, k, i, j] = l * x[j]
                    for j in range(b):
                        y[k, j] = 0 if begin else to[j]
            after[n, first:last] = y[first:last]

    for loop in (forward, backward):
        # Files on disk are named by this. In one file of several entries two processes can mix up which is which.
        loop.__qualname__ = f"{loop.__name__}{width}{dtype}"
    # Sums may be taken in any order; NaN and infinity stay what they are.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return Loops(*(njit(loop, cache=True, **options) for loop in (forward, backward)))
    except RuntimeError:  # no directory to keep them in can be written to
        return Loops(*(njit(loop, **options) for loop in (forward, backward)))
