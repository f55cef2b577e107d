"""Chains drawn backwards, many at once: a random answer, in which `operators` times a random number is replaced.

    number  ->  a op b      with a op b = number, every operator as likely, and of its pairs (a, b) each as likely

Brackets stand around a op b just where the text would otherwise be calculated in another order:

    before it - and op is + or -;    before it /;    before or after it * or / and op is + or -

and where they stand depends on the two neighbours alone. Read backwards, a replacement is a reduction that leaves the
rest of the line as it is, so the chain is the history reversed, its lines joined by "=".

A number is kept as one integer, with all that follows it in its line: what it is, how many brackets open before it and
close after it, and the operator behind these. So a replacement moves one array.

Shapes: B batch, n operators, V numbers.
"""

from __future__ import annotations

import numpy as np

from .symbols import OPERATORS, Numbers

NONE = len(OPERATORS)
"""No operator: the end of the line, or a bracket is next."""
OPEN, CLOSE, NEXT = 12, 28, 44
"""The bits from which on the brackets before and after a number are counted, and its operator stands."""
MANY = (1 << 16) - 1


def _needs_brackets() -> np.ndarray:
    """[before, op, after] whether a op b needs brackets between these two operators."""
    needs = np.zeros((NONE + 1, NONE, NONE + 1), dtype=np.int64)
    plus, minus, times, over = range(NONE)
    needs[minus, [plus, minus]] = 1
    needs[over] = 1
    needs[times, [plus, minus]] = 1
    for after in (times, over):
        needs[:, [plus, minus], after] = 1
    return needs


NEEDS_BRACKETS = _needs_brackets()


class ChainSampler:
    def __init__(self, numbers: Numbers):
        V = self.count = numbers.count
        grid = [(a, b) for a in range(V) for b in range(V)]
        results = [[numbers.apply(op, a, b) for a, b in grid] for op in OPERATORS]
        keys = np.array([[-1 if r is None else op * V + r for r in row] for op, row in enumerate(results)])
        order = np.argsort(keys.ravel(), kind="stable")
        order = order[np.count_nonzero(keys < 0) :]
        # The pairs of operator and result stand together, from `starts` on.
        self.left, self.right = np.array(grid)[order % len(grid)].T
        self.counts = np.bincount(keys.ravel()[order], minlength=NONE * V)
        self.starts = self.counts.cumsum() - self.counts

    def __call__(self, operators: int, batch: int, rng: np.random.Generator) -> np.ndarray:
        """(B, T) tokens, each row with its chain from the left, and <end> behind it."""
        line = rng.integers(self.count, size=(batch, 1)) | NONE << NEXT
        lines = [line]
        for _ in range(operators):
            line = self._replace(line, rng)
            lines.append(line)
        return self._write(np.concatenate(lines[::-1], axis=1))

    def _replace(self, line: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The lines (B, k) with one number more."""
        B, k = line.shape
        rows, at = np.arange(B), rng.integers(k, size=B)
        number = line[rows, at]
        opened, closed = number >> OPEN & MANY, number >> CLOSE & MANY
        following = number >> NEXT
        before = np.where((opened > 0) | (at == 0), NONE, line[rows, at - 1] >> NEXT)
        after = np.where(closed > 0, NONE, following)
        op = rng.integers(NONE, size=B)
        pairs = op * self.count + (number & (1 << OPEN) - 1)
        pair = self.starts[pairs] + (rng.random(B) * self.counts[pairs]).astype(np.int64)
        bracket = NEEDS_BRACKETS[before, op, after]
        column = np.arange(k + 1)
        longer = line[rows[:, None], column - (column > at[:, None])]
        longer[rows, at] = self.left[pair] | opened + bracket << OPEN | op << NEXT
        longer[rows, at + 1] = self.right[pair] | closed + bracket << CLOSE | following << NEXT
        return longer

    def _write(self, numbers: np.ndarray) -> np.ndarray:
        """(B, T) tokens from the numbers of all lines, the longest line first."""
        V, (B, S) = self.count, numbers.shape
        bracket_open, bracket_close, equals, end = range(V + NONE, V + NONE + 4)
        symbols, counts = np.ones((2, B, S, 4), dtype=np.int64)
        symbols[..., 0], counts[..., 0] = bracket_open, numbers >> OPEN & MANY
        symbols[..., 1] = numbers & (1 << OPEN) - 1
        symbols[..., 2], counts[..., 2] = bracket_close, numbers >> CLOSE & MANY
        symbols[..., 3] = np.array([*range(V, V + NONE), equals])[numbers >> NEXT]
        counts[:, -1, 3] = 0  # nothing follows the answer
        widths = counts.reshape(B, -1).sum(1)
        tokens = np.full((B, int(widths.max())), end)
        tokens[np.arange(tokens.shape[1]) < widths[:, None]] = np.repeat(symbols.ravel(), counts.ravel())
        return tokens
