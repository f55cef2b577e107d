"""Where state spaces start: HiPPO-LegS, whose state is its input's past in Legendre polynomials, and diagonal kin.

    A_nk = -sqrt((2n+1)(2k+1))  for n > k,    -(n+1)  for n = k,    0  above;        B_n = sqrt(2n+1)

A + P Pᵀ with P_n = sqrt(n + 1/2) is -1/2 I plus a skew matrix, hence normal: V* A V = Λ - p p* for a unitary V. As A is
real, eigenvalues come in conjugate pairs, and one of each pair is enough: what is meant is twice the real part.

Shapes: N state, n = N/2 pairs.
"""

from __future__ import annotations

from math import pi

import numpy as np
import torch
from torch import Tensor

from ...errors import UnknownName


def legs(N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (N,N), B (N,) and P (N,)."""
    n = np.arange(N)
    A = -np.sqrt(np.outer(2 * n + 1, 2 * n + 1)) * np.tri(N, k=-1) - np.diag(n + 1.0)
    return A, np.sqrt(2 * n + 1.0), np.sqrt(n + 0.5)


def dplr(N: int) -> tuple[Tensor, Tensor, Tensor]:
    """Λ, p and B of LegS, each (n,) complex, in the coordinates where A is Λ - p p*."""
    A, B, P = legs(N)
    skew = A + np.outer(P, P) + np.eye(N) / 2
    imaginary, V = np.linalg.eigh(-1j * skew)
    # Sorted, so that the second half are the positive ones.
    imaginary, V = imaginary[N // 2 :], V[:, N // 2 :]
    Λ, p, b = -0.5 + 1j * imaginary, V.conj().T @ P, V.conj().T @ B
    return torch.from_numpy(Λ), torch.from_numpy(p), torch.from_numpy(b)


def diagonal(kind: str, N: int) -> tuple[Tensor, Tensor]:
    """Λ and B of S4D, each (n,) complex.

    "lin": -1/2 + iπn, Fourier's; "inv": -1/2 + i N/π (N/(2n+1) - 1); "legs": LegS without its rank-one part, and half
    its B, which for N without end is LegS.
    """
    k = np.arange(N // 2)
    if kind == "legs":
        Λ, _, b = dplr(N)
        return Λ, b / 2
    imaginary = {"lin": pi * k, "inv": N / pi * (N / (2 * k + 1) - 1)}
    if kind not in imaginary:
        raise UnknownName("initial of s4d", kind, ("lin", "inv", "legs"))
    Λ = torch.from_numpy(-0.5 + 1j * imaginary[kind])
    return Λ, torch.ones_like(Λ)
