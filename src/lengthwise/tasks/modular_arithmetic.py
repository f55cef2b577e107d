"""Modular arithmetic: the value of an expression over + - *, modulo `modulus`; * binds tighter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..options import at_least
from .base import SupervisionOption, Task

# Well-formed bracketed expressions of one length, each equally likely, and the distribution of their values.
#
#     E = T | E + T | E - T,    T = F | T * F,    F = digit | ( E )
#
# Read from left to right, an expression is either about to have an operand (a digit or an opening bracket) or just had
# one (an operator or a closing bracket comes). All that matters for how it can go on is r, the number of tokens left,
# and d, the number of open brackets; which of the two it is follows from them, for r - d is odd before an operand:
#
#     N(r, d) = m N(r-1, d) + N(r-1, d+1)    before an operand
#     N(r, d) = 3 N(r-1, d) + N(r-1, d-1)    after one,    N(0, 0) = 1
#
# so a bracket comes next with its term's share, and digits and operators are uniform. Any odd length is possible; the
# number of open brackets grows like the square root of the length. The shares are kept as 32-bit floats: 200 MB of
# them at length 10,000.
#
# Shapes: B batch, T tokens.


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


# The value of an arithmetic expression, modulo m, after every token; and the machine of those without brackets.
#
# An expression is read with two numbers: s, the sum of the finished terms, and p, the signed product of the unfinished
# one. Every token is then one linear step, s <- s + flush p and p <- factor p + sign:
#
#     operand v: p <- v p      +: s, p <- s + p, 1      -: s, p <- s + p, -1      *: nothing      value: s + p
#
# An open bracket starts a pair of its own, and its value is an operand of the pair outside.
# Tokens: digits 0..m-1, then + - * ( ).
#
# Shapes: B batch, T tokens, m modulus.


def evaluate_nested(tokens: np.ndarray, m: int) -> np.ndarray:
    """(B, T) the value, inside the innermost open bracket, of every prefix that ends in a digit or ")".

    >>> evaluate_nested(np.array([[2, 7, 8, 1, 5, 2, 9]]), 5)[:, [0, 3, 5, 6]]  # 2*(1+2)
    array([[2, 1, 3, 1]])
    """
    columns = np.ascontiguousarray(tokens.T)
    # A bracket is read as an operand 0, and what it stands for takes that one's place.
    factor = np.array([*range(m), 0, 0, 1, 0, 0]).take(columns)
    sign = np.array([0] * m + [1, -1, 0, 0, 0]).take(columns)
    flush = np.abs(sign)
    opens, closes = columns == m + 3, columns == m + 4
    sign[opens] = 1  # a bracket begins with s, p = 0, 1
    move = opens.astype(np.int64) - closes
    # One row of pairs per word, wide enough for malformed words too.
    below, above = int(closes.sum(0).max()), int(opens.sum(0).max())
    place = np.arange(tokens.shape[0]) * (below + above + 1) + below
    S, P = np.zeros((2, tokens.shape[0] * (below + above + 1)), dtype=np.int64)
    # An empty product, except before a leading +, where there is no term to finish.
    P[place] = columns[0] != m
    keep = (~opens).astype(np.int64)
    values = np.empty_like(columns)
    value = np.zeros_like(columns[0])
    for t in range(len(columns)):
        place += move[t]
        s, p = S.take(place), P.take(place)
        operand = np.where(closes[t], value, factor[t])
        s = keep[t] * s + flush[t] * p
        p = (operand * p + sign[t]) % m
        S[place], P[place] = s, p
        values[t] = value = (s + p) % m
    return np.ascontiguousarray(values.T)


def flat_machine(m: int, leading_plus: bool) -> tuple[Semiautomaton, Tensor, Tensor]:
    """The machine of expressions without brackets, the value in each of its states, and which states have one.

    State (2 s + operator) m + p: `operator` is 1 where an operator must come next. Two states follow these: the
    dead one, where a word goes that is no prefix of an expression, and with a leading + the start.

    >>> machine, values, _ = flat_machine(5, leading_plus=False)
    >>> machine.num_states, int(values[machine.state_after("1+2-4")])
    (51, 4)
    """
    s, operator, p = (a.reshape(-1, 1) for a in np.indices((m, 2, m)))
    dead, start = 2 * m * m, 2 * m * m + 1

    def number(s: np.ndarray, operator: int, p: np.ndarray) -> np.ndarray:
        return (2 * (s % m) + operator) * m + p % m

    digits = np.where(operator == 0, number(s, 1, p * np.arange(m)), dead)
    one = np.ones_like(p)
    operators = np.hstack([number(s + p, 0, one), number(s + p, 0, -one), number(s, 0, p)])
    table = np.hstack([digits, np.where(operator == 1, operators, dead)])
    table = np.vstack([table, np.full(m + 3, dead)])
    values = np.append(np.where(operator == 1, (s + p) % m, 0), 0)
    whole = np.append(np.broadcast_to(operator == 1, p.shape), False)
    begin = number(np.zeros(1, dtype=np.int64), 0, np.ones(1, dtype=np.int64))[0]
    if leading_plus:
        table = np.vstack([table, np.full(m + 3, dead)])
        table[start, m] = begin
        values, whole = np.append(values, 0), np.append(whole, False)
        begin = start
    symbols = [*(str(d) for d in range(m)), *"+-*"]
    return Semiautomaton(table, begin, symbols=symbols), torch.from_numpy(values), torch.from_numpy(whole)


class ModularArithmetic(Task):
    """Digits and operators alternate, so lengths are odd; with `brackets`, any well-formed expression of the length.

    With `leading_plus` a + comes first (and lengths are even), which pairs every operator with the number after it.
    A prefix that is no expression has no question. With brackets every expression of the length is equally likely.

    >>> from lengthwise import tasks
    >>> task = tasks.get("modular-arithmetic", supervision="prefix")
    >>> tokens = torch.tensor([[1, 5, 2, 6, 4, 7, 3]])
    >>> task.write(tokens[0]), tokens, task.answer(tokens), task.asked(tokens).int()
    ('1+2-4*3',
     tensor([[1, 5, 2, 6, 4, 7, 3]]),
     tensor([[1, 0, 3, 0, 4, 0, 1]]),
     tensor([[1, 0, 1, 0, 1, 0, 1]], dtype=torch.int32))
    """

    def __init__(
        self,
        modulus: Annotated[int, at_least(2, at_most=100), "How many digits there are; values are taken modulo it."] = 5,
        brackets: Annotated[bool, "Whether expressions have brackets, which only a stack can follow."] = False,
        leading_plus: Annotated[bool, "Whether a + comes first, so that lengths are even."] = False,
        supervision: SupervisionOption = "last",
    ):
        self.name = "modular-arithmetic"
        m = self.outputs = self.modulus = modulus
        self.supervision = supervision
        self.brackets, self.leading_plus = brackets, leading_plus
        self.vocabulary = (*(str(d) for d in range(m)), *"+-*", *("()" if brackets else ""))
        self.bracketed = BracketedExpressions(m, 3)
        if not brackets:
            self.machine, self.readout, self.answered = flat_machine(m, leading_plus)

    def problem(self, length: int) -> str | None:
        plus = int(self.leading_plus)
        if length > plus and length % 2 != plus:
            return None
        why = (
            "operators stand between operands, brackets come in pairs"
            if self.brackets
            else "digits and operators alternate"
        )
        if plus:
            why = f"a + comes first, then {why}"
        near = [n for n in (length - 1, length + 1) if n > plus and n % 2 != plus] or [1 + plus]
        return f"length must be {'even' if plus else 'odd'} ({why}), got {length}. Use {' or '.join(map(str, near))}."

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        m, plus = self.modulus, int(self.leading_plus)
        tokens = torch.full((batch, length), m)
        if self.brackets:
            tokens[:, plus:] = self.bracketed.draw(length - plus, batch, generator)
        else:
            operands = (length - plus + 1) // 2
            tokens[:, plus::2] = torch.randint(m, (batch, operands), generator=generator)
            tokens[:, plus + 1 :: 2] = torch.randint(m, m + 3, (batch, operands - 1), generator=generator)
        return tokens

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        if self.machine is not None and self.readout is not None:
            return self.readout.to(tokens.device)[self.machine.run(tokens)]
        values = torch.from_numpy(evaluate_nested(tokens.cpu().numpy(), self.modulus)).to(tokens.device)
        return values.masked_fill_(~self.complete(tokens), 0)

    def asked(self, tokens: Tensor) -> Tensor:
        mask = self.complete(tokens)
        if self.supervision == "last":
            mask[:, :-1] = False
        return mask

    def complete(self, tokens: Tensor) -> Tensor:
        """(B, T) booleans: which prefixes are expressions themselves."""
        m = self.modulus
        if not self.brackets:
            return tokens < m
        opening, closing = tokens == m + 3, tokens == m + 4
        depth = (opening.to(torch.int8) - closing.to(torch.int8)).cumsum(1)
        return (depth == 0) & ((tokens < m) | closing)

    def baseline(self, length: int) -> float:
        self.check(length)
        if self.brackets:
            return float(self.bracketed.value_shares(length - self.leading_plus).max())
        assert self.machine is not None
        assert self.readout is not None
        *_, pi = self.machine.state_probabilities(islice(self._weights(), length))
        return float(np.bincount(self.readout.numpy(), weights=pi).max())

    def _weights(self) -> Iterator[np.ndarray]:
        """(S,) symbol probabilities, place after place."""
        digit, operator, first = np.zeros((3, len(self.vocabulary)))
        digit[: self.modulus] = 1 / self.modulus
        operator[self.modulus :] = 1 / 3
        first[self.modulus] = 1.0
        if self.leading_plus:
            yield first
        yield from cycle([digit, operator])
