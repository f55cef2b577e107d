"""A state space in steps: one for every channel, diagonal or, as S4's, diagonal plus rank one.

    x_t = a x_{t-1} - p r_t + b u_t,    r_t = Re(q · x_{t-1}),    y_t = Re(c · x_t)

Without p and q this is a convolution of u with Re(c a^k b). With them r_t is one more input, which its own past
decides. As power series in z, one coefficient a token, where V(w) is the one of Re(w a^k):

    r = z V(q b) u - z V(q p) r      so      r = L u  with  L = h z V(q b),  h = 1 / (1 + z V(q p))
    y = V(c b) u - V(c p) r          so      y = K u  with  K = V(c b) - V(c p) L

This is Woodbury's identity, as in S4; but cutting a series off at z^T is exact, where S4's generating function at the
roots of unity wraps around, for which C must then be corrected by Ā^T.

Shapes: B batch, T tokens, D channels, n complex entries of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .series import convolve, delay, multiply, reciprocal


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
        return self._series(powers(self.a, T))[0]

    def run(self, u: Tensor, x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """y (B,D,T) and the last state, of u (B,D,T) after the state x, by convolution."""
        T = u.shape[-1]
        a_k = powers(self.a, T + 1)
        back = a_k[..., :T].flip(-1)
        K, coupled = self._series(a_k[..., :T])
        y, end = convolve(u, K), _sum(self.b[..., None] * back, u)
        if x is not None:
            y, end = y + _real(self.c * x, a_k[..., 1:]), end + a_k[..., T] * x
        if coupled is not None and self.coupling is not None:
            (L, h, V_cp), (p, q) = coupled, self.coupling
            r = convolve(u, L)
            if x is not None:
                of_x = convolve(_real(q * x, a_k[..., :T]), h)
                y, r = y - convolve(of_x, V_cp), r + of_x
            end = end - _sum(p[..., None] * back, r)
        return y, end

    def _series(self, a_k: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor] | None]:
        """K, and with coupling L, h and V(c p); (D,T) each."""
        if self.coupling is None:
            return _real(self.c * self.b, a_k), None
        p, q = self.coupling
        rows = torch.stack([self.c * self.b, self.c * p, q * self.b, q * p])
        V_cb, V_cp, V_qb, V_qp = _real(rows, a_k).unbind()
        z_qp = delay(V_qp)
        h = reciprocal(z_qp + (torch.arange(z_qp.shape[-1], device=z_qp.device) == 0))
        L = convolve(delay(V_qb), h)
        return V_cb - convolve(V_cp, L), (L, h, V_cp)


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
    """Re Σ_n w a^k: (…,D,n) and (D,n,T) -> (…,D,T)."""
    return multiply(torch.cat([a_k.real, -a_k.imag], 1).mT, torch.cat([w.real, w.imag], -1))


def _sum(w: Tensor, u: Tensor) -> Tensor:
    """Σ_t w u: (D,n,T) and (B,D,T) -> (B,D,n)."""
    return torch.complex(*multiply(torch.cat([w.real, w.imag], 1), u).chunk(2, -1))
