"""Lemma 1 of the RegularGPT paper: two layers of ReLU units multiply two binary matrices.

    ReLU([Flat(A), Flat(B)] W1 - 1) W2 = Flat(AB)          ReLU(a + b - 1) = ab  for a, b in {0, 1}

W1 in {0,1}^(2n² × n³) gives unit (i, j, k) the entries A_ik and B_kj; W2 = I_{n²} ⊗ 1_n sums over k.
Flat writes a matrix row after row.
"""

from __future__ import annotations

import torch
from torch import nn

from ..errors import Error


def binary_matrix_product(n: int) -> nn.Sequential:
    """The network for n × n matrices: (…, 2n²) -> (…, n²), exact for all binary A and B (the integer product).

    A product of transition matrices is one again, so it can be fed back.

    >>> A, B = torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([[0.0, 1], [1, 0]])
    >>> binary_matrix_product(2)(torch.cat([A.flatten(), B.flatten()])).view(2, 2).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise Error(f"binary_matrix_product: n (matrices are n × n) must be a whole number of at least 1, got {n!r}.")
    i, j, k = torch.cartesian_prod(*[torch.arange(n)] * 3).T
    unit = (i * n + j) * n + k
    pairs = torch.zeros(n**3, 2 * n**2)  # torch keeps a map as (out, in), the paper's matrix transposed
    pairs[unit, i * n + k] = 1
    pairs[unit, n**2 + k * n + j] = 1
    sums = torch.kron(torch.eye(n**2), torch.ones(1, n))
    with torch.device("meta"):  # so that no weight is drawn first
        net = nn.Sequential(nn.Linear(2 * n**2, n**3), nn.ReLU(), nn.Linear(n**3, n**2, bias=False))
    net.load_state_dict({"0.weight": pairs, "0.bias": torch.full((n**3,), -1.0), "2.weight": sums}, assign=True)
    return net
