"""Power series cut off at z^T, one coefficient a token: their product is the causal convolution.

Shapes: … any, T coefficients.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def convolve(u: Tensor, k: Tensor) -> Tensor:
    """u k mod z^T, (…,T) both, by a Fourier transform of at least twice the length, which wraps nothing.

    >>> convolve(torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 10.0, 100.0])).round().tolist()
    [1.0, 12.0, 120.0]
    """
    T = u.shape[-1]
    n = _size(2 * T)
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(k, n), n)[..., :T]


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
    """1/d mod z^T of (…,T) with d_0 = 1, by Newton's iteration, every round of which doubles what is right.

    >>> reciprocal(torch.tensor([1.0, -2.0, 0.0, 0.0])).round().tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    T = d.shape[-1]
    h = torch.ones_like(d[..., :1])
    while h.shape[-1] < T:
        m = min(2 * h.shape[-1], T)
        h = F.pad(h, (0, m - h.shape[-1]))
        h = 2 * h - convolve(h, convolve(h, d[..., :m]))
    return h
