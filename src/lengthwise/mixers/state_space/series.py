"""Power series cut off at z^T, one coefficient a token: their product is the causal convolution.

Shapes: … any, T coefficients.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SHORT = 128
"""Up to this length T² multiplications are faster than a transform's (measured on a CPU)."""


def convolve(u: Tensor, k: Tensor) -> Tensor:
    """u k mod z^T, (B,…,T) or (…,T) and (…,T): by a product with k's matrix, or where T is long by a Fourier transform
    of at least twice the length, which wraps nothing.

    >>> convolve(torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 10.0, 100.0])).round().tolist()
    [1.0, 12.0, 120.0]
    """
    T = u.shape[-1]
    if T <= SHORT:
        return multiply(_toeplitz(k), u)
    n = _size(2 * T)
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(k, n), n)[..., :T]


def multiply(M: Tensor, u: Tensor) -> Tensor:
    """M u: (…,N,T) and (…,T) or, the batch of them at once, (B,…,T)."""
    if u.ndim < M.ndim:
        return (M @ u[..., None])[..., 0]
    return _moved(M @ _moved(u, 0, -1), -1, 0)


def _moved(x: Tensor, a: int, b: int) -> Tensor:
    # torch.compile lays out what it generates itself, and knows no function with a derivative forward.
    return x.movedim(a, b).contiguous() if torch.compiler.is_compiling() else _Moved.apply(x, a, b)


class _Moved(torch.autograd.Function):
    """x.movedim(a, b), laid out anew, and so is its gradient: products of strided matrices are done one by one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, a: int, b: int) -> Tensor:
        return x.movedim(a, b).clone(memory_format=torch.contiguous_format)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, ctx.a, ctx.b = inputs

    @staticmethod
    def backward(ctx, *grads: Tensor):
        return _Moved.apply(*grads, ctx.b, ctx.a), None, None

    @staticmethod
    def jvp(ctx, *tangents):
        return _Moved.apply(tangents[0], ctx.a, ctx.b)


def _toeplitz(k: Tensor) -> Tensor:
    """The lower triangular matrix (…,T,T) with k_{i-j} at i, j.

    >>> _toeplitz(torch.tensor([1, 2, 3])).tolist()
    [[1, 0, 0], [2, 1, 0], [3, 2, 1]]
    """
    T = k.shape[-1]
    # k and T zeros, again and again, in rows of 2T - 1: each begins one number further back.
    rows = F.pad(k, (0, T))[..., None, :].expand(*k.shape[:-1], T, 2 * T).flatten(-2)
    return rows[..., : T * (2 * T - 1)].unflatten(-1, (T, 2 * T - 1))[..., :T].mT


def _size(n: int) -> int:
    """The next 2^i, 3 · 2^i or 5 · 2^i: a large prime would make the transform several times slower.

    >>> [_size(n) for n in (2, 7, 9, 80, 998)]
    [2, 8, 10, 80, 1024]
    """
    return min(m << (-(-n // m) - 1).bit_length() for m in (1, 3, 5))


def delay(u: Tensor) -> Tensor:
    """z u."""
    return F.pad(u, (1, 0))[..., :-1]


def reciprocal(d: Tensor) -> Tensor:
    """1/d mod z^T of (…,T) with d_0 = 1: by substitution, or where T is long by Newton's iteration, every round
    of which doubles what is right.

    >>> reciprocal(torch.tensor([1.0, -2.0, 0.0, 0.0])).round().tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    T = d.shape[-1]
    if T <= SHORT:
        one = torch.eye(T, 1, dtype=d.dtype, device=d.device).expand(*d.shape, 1)
        return torch.linalg.solve_triangular(_toeplitz(d), one, upper=False, unitriangular=True)[..., 0]
    h = torch.ones_like(d[..., :1])
    while h.shape[-1] < T:
        m = min(2 * h.shape[-1], T)
        h = F.pad(h, (0, m - h.shape[-1]))
        h = 2 * h - convolve(h, convolve(h, d[..., :m]))
    return h
