"""Well-formed bracketed expressions of one length, each equally likely, and the distribution of their values.

    E = T | E + T | E - T,    T = F | T * F,    F = digit | ( E )

Read from left to right, an expression is either about to have an operand (a digit or an opening bracket) or just had
one (an operator or a closing bracket comes). All that matters for how it can go on is r, the number of tokens left,
and d, the number of open brackets; which of the two it is follows from them, for r - d is odd before an operand:

    N(r, d) = m N(r-1, d) + N(r-1, d+1)    before an operand
    N(r, d) = 3 N(r-1, d) + N(r-1, d-1)    after one,    N(0, 0) = 1

so a bracket comes next with its term's share, and digits and operators are uniform. Any odd length is possible; the
number of open brackets grows like the square root of the length. The shares are kept as 32-bit floats: 200 MB of
them at length 10,000.

Shapes: B batch, T tokens.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class BracketedExpressions:
    """Draws expressions over `digits` digits and `operators` operators; tokens: digits, operators, ( and ).

    >>> BracketedExpressions(5, 3).draw(1, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1])
    """

    def __init__(self, digits: int, operators: int):
        self.digits = digits
        self.operators = operators
        self._shares = np.zeros((1, 1), dtype=np.float32)

    def bracket_shares(self, length: int) -> np.ndarray:
        """(R, D) how probable it is that a bracket comes next, r tokens before the end with d brackets open."""
        if len(self._shares) <= length:
            self._shares = self._count(max(length, min(2 * len(self._shares), length + 256)))
        return self._shares

    def _count(self, longest: int) -> np.ndarray:
        # With r tokens left of `longest`, and the same number needed to close, more than half cannot be open.
        depth = np.arange(longest // 2 + 2)
        shares = np.zeros((longest + 1, len(depth)), dtype=np.float32)
        counts = np.full(len(depth) + 2, -np.inf)  # log N(r, d) at d + 1; borders stay -inf
        counts[1] = 0.0
        for r in range(1, longest + 1):
            operand = (r - depth) % 2 == 1
            bracket = np.where(operand, counts[2:], counts[:-2])
            plain = counts[1:-1] + np.where(operand, np.log(self.digits), np.log(self.operators))
            total = np.logaddexp(bracket, plain)
            shares[r] = np.exp(bracket - np.where(total == -np.inf, 0.0, total))
            counts[1:-1] = total
        return shares

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) expressions."""
        shares = self.bracket_shares(length)
        draws = torch.rand(length, batch, generator=generator).numpy()
        depth = np.zeros(batch, dtype=np.int64)
        bracket = np.empty((length, batch), dtype=bool)
        operand = np.empty((length, batch), dtype=np.int64)
        for t in range(length):
            r = length - t
            operand[t] = (r - depth) & 1
            bracket[t] = draws[t] < shares[r].take(depth)
            depth += bracket[t] * (2 * operand[t] - 1)
        m, k = self.digits, self.operators
        before = torch.from_numpy(operand.T) == 1
        digit = torch.randint(m, (batch, length), generator=generator)
        operator = torch.randint(m, m + k, (batch, length), generator=generator)
        closing = torch.where(before, m + k, m + k + 1)
        return torch.where(torch.from_numpy(bracket.T), closing, torch.where(before, digit, operator)).contiguous()

    def value_shares(self, length: int) -> np.ndarray:
        """(m,) the share of expressions of this length that have each value modulo m."""
        m, n = self.digits, (length + 1) // 2
        pairs = np.indices((m, m))
        after = [
            (pairs[0] * pairs[1] % m).ravel(),
            ((pairs[0] + pairs[1]) % m).ravel(),
            ((pairs[0] - pairs[1]) % m).ravel(),
        ]
        # Counts grow by this factor with every two tokens; dividing by it keeps them in range.
        scale = 1 / (1 + np.sqrt(self.operators * m)) ** 2
        F, T, E = np.zeros((3, n, m))  # of expressions of 2 i + 1 tokens: factors, terms, all

        def joined(left: np.ndarray, right: np.ndarray, i: int, value: np.ndarray) -> np.ndarray:
            weights = left[:i].T @ right[:i][::-1]
            return scale * np.bincount(value, weights=weights.ravel(), minlength=m)

        for i in range(n):
            F[i] = scale * E[i - 1] if i else 1.0
            T[i] = F[i] + joined(T, F, i, after[0])
            E[i] = T[i] + joined(E, T, i, after[1]) + joined(E, T, i, after[2])
        return E[-1] / E[-1].sum()
