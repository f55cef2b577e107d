"""How numbers stand in Coq: exact, as whole multiples of one 2^-scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..checker.intervals import Array

LEAST_SCALE = 44


def scale_of(numbers: Iterable[Array]) -> int:
    """The scale at which all of these numbers are whole."""
    return max(LEAST_SCALE, *map(bits, numbers))


def bits(x: Array) -> int:
    """The least p for which all of these numbers are whole multiples of 2^-p."""
    mantissa, exponent = np.frexp(x[x != 0])
    whole = (mantissa * 2.0**53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return int((53 - exponent - zeros).max(initial=0))


def whole_numbers(x: Array, scale: int) -> list[Any]:
    """x 2^scale, exactly."""
    if x.ndim > 1:
        return [whole_numbers(row, scale) for row in x]
    fractions = [number.as_integer_ratio() for number in x.tolist()]
    return [numerator * (2**scale // denominator) for numerator, denominator in fractions]


def z(k: int) -> str:
    return f"({k})%Z"


def zs(row: Iterable[int | str]) -> str:
    return f"[{'; '.join(map(str, row))}]%Z"


def ns(row: Iterable[int]) -> str:
    return f"[{'; '.join(str(int(k)) for k in row)}]"


def pairs(row: Iterable[Sequence[int]]) -> str:
    return zs(map(pair, row))


def pair(ends: Sequence[int]) -> str:
    return f"({ends[0]}, {ends[1]})"


def listed(entries: Iterable[str]) -> str:
    return "[" + ";\n  ".join(entries) + "]"


def rows(W: Array, b: Array, scale: int) -> str:
    """Rows of a matrix, each with its entry of the bias."""
    each = zip(whole_numbers(W, scale), whole_numbers(b, scale), strict=True)
    return listed(f"({zs(w)}, {z(k)})" for w, k in each)
