"""A state space in steps: one for every channel, diagonal or, as S4's, diagonal plus rank one.

    x_t = a x_{t-1} - p r_t + b u_t,    r_t = Re(q · x_{t-1}),    y_t = Re(c · x_t)

Without p and q this is a convolution of u with Re(c a^k b). With them r_t is one more input, which its own past
decides. As power series in z, one coefficient a token, where V(w) is the one of Re(w a^k):

    r = z V(q b) u - z V(q p) r      so      r = L u  with  L = z V(q b) / d,  d = 1 + z V(q p)
    y = V(c b) u - V(c p) r          so      y = K u  with  K = V(c b) - V(c p) L

This is Woodbury's identity, as in S4; but cutting a series off at z^T is exact, where S4's generating function at the
roots of unity wraps around, for which C must then be corrected by Ā^T.

Shapes: B batch, T tokens, D channels, n complex entries of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Power series cut off at z^T, one coefficient a token: their product is the causal convolution.
#
# Shapes: … any, R series at once, T coefficients.

SHORT, LONG = 40, 256
"""Up to SHORT coefficients a product with a series' matrix is faster than a transform. Above it the matrix leaves the
cache, and pays if about T - SHORT series share it; above LONG it was not tried (measured on a CPU)."""


def convolve(u: Tensor, k: Tensor) -> Tensor:
    """u k mod z^T, (…,R,T) and (…,1,T): by a product with k's matrix, or where T is long by a Fourier transform of at
    least twice the length, which wraps nothing.

    >>> convolve(torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[1.0, 10.0, 100.0]])).round().tolist()
    [[1.0, 12.0, 120.0]]
    """
    R, T = u.shape[-2:]
    if min(LONG, SHORT + R) >= T:
        return u @ _toeplitz(k[..., 0, :]).mT
    n = _size(2 * T)
    return torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(k, n), n)[..., :T]


def transposed(M: Tensor) -> Tensor:
    """Mᵀ laid out anew, and so is its gradient: a third of the time of moving dimensions."""
    # torch.compile lays out what it generates itself, and knows no function with a derivative forward.
    return M.T.contiguous() if torch.compiler.is_compiling() else _Transposed.apply(M)


class _Transposed(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(M: Tensor) -> Tensor:
        return M.T.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *grads: Tensor):
        return _Transposed.apply(*grads)

    jvp = backward


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


def quotient(u: Tensor, d: Tensor) -> Tensor:
    """u / d mod z^T, (…,R,T) and (…,1,T) with d_0 = 1: by substitution, or where T is long as a product with 1/d, which
    begins so and goes on by Newton's iteration, every round of which doubles what is right.

    >>> quotient(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.tensor([[1.0, -2.0, 0.0, 0.0]])).round().tolist()
    [[1.0, 2.0, 4.0, 8.0]]
    """
    T = d.shape[-1]
    if T <= SHORT:
        return torch.linalg.solve_triangular(_toeplitz(d[..., 0, :]), u.mT, upper=False, unitriangular=True).mT
    h = quotient(torch.eye(1, SHORT, dtype=d.dtype, device=d.device).expand_as(d[..., :SHORT]), d[..., :SHORT])
    while h.shape[-1] < T:
        m = min(2 * h.shape[-1], T)
        h = F.pad(h, (0, m - h.shape[-1]))
        h = 2 * h - convolve(h, convolve(h, d[..., :m]))
    return convolve(u, h)


class Coupling(NamedTuple):
    """The rank-one part of a `System`, (D,n) each."""

    p: Tensor
    q: Tensor


class System(NamedTuple):
    a: Tensor
    """(D,n) complex, as b and c."""
    b: Tensor
    c: Tensor
    coupling: Coupling | None = None

    def step(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """y (B,D) and the state after u (B,D), from the state before it, x (B,D,n)."""
        after = self.a * x + self.b * u[..., None]
        if self.coupling is not None:
            p, q = self.coupling
            after = after - p * (q * x).sum(-1, keepdim=True).real
        return (self.c * after).sum(-1).real, after

    def kernel(self, T: int) -> Tensor:
        """K (D,T)."""
        return self._series(powers(self.a, T))[0][:, 0]

    def run(self, u: Tensor, x: Tensor | None = None, *, ends: bool = True) -> tuple[Tensor, Tensor | None]:
        """y (D,B,T) of u (D,B,T) after the state x, (D,B,n), by convolution, and if it `ends` the state after u."""
        T = u.shape[-1]
        a_k = powers(self.a, T + 1)
        K, coupled = self._series(a_k[..., :T])
        y, r = convolve(u, K), 0
        if x is not None:
            y = y + _real(self.c[:, None] * x, a_k[..., 1:])
            if coupled is not None:
                _, q, _, d, V_cp = coupled
                r = quotient(_real(q[:, None] * x, a_k[..., :T]), d)
                y = y - convolve(r, V_cp)
        if not ends:
            return y, None
        back = a_k[..., :T].flip(-1)
        end = _sum(self.b[..., None] * back, u) + (0 if x is None else a_k[:, None, :, T] * x)
        if coupled is not None:
            p, _, L, *_ = coupled
            end = end - _sum(p[..., None] * back, r + convolve(u, L))
        return y, end

    def _series(self, a_k: Tensor) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """K (D,1,T), and with coupling p, q and the series L, d and V(c p)."""
        if self.coupling is None:
            return _real((self.c * self.b)[:, None], a_k), None
        p, q = self.coupling
        rows = torch.stack([self.c * self.b, self.c * p, q * self.b, q * p], 1)
        V_cb, V_cp, V_qb, V_qp = _real(rows, a_k).split(1, 1)
        d = F.pad(V_qp, (1, 0), value=1)[..., :-1]
        L = quotient(delay(V_qb), d)
        return V_cb - convolve(V_cp, L), (p, q, L, d, V_cp)


def powers(a: Tensor, T: int) -> Tensor:
    """a^0 … a^(T-1), (D,n,T)."""
    a_k = torch.ones_like(a)[..., None]
    # A squaring doubles the error it is given, so they are done in double.
    square = a.to(torch.complex128)
    while a_k.shape[-1] < T:
        a_k = torch.cat([a_k, a_k * square.to(a.dtype)[..., None]], -1)
        square = square * square
    return a_k[..., :T]


def _real(w: Tensor, a_k: Tensor) -> Tensor:
    """Re Σ_n w a^k: (D,R,n) and (D,n,T) -> (D,R,T)."""
    return torch.cat([w.real, w.imag], -1) @ torch.cat([a_k.real, -a_k.imag], 1)


def _sum(w: Tensor, u: Tensor) -> Tensor:
    """Σ_t w u: (D,n,T) and (D,B,T) -> (D,B,n)."""
    return torch.complex(*(u @ torch.cat([w.real, w.imag], 1).mT).chunk(2, -1))
