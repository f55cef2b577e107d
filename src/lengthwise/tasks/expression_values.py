"""The value of an arithmetic expression, modulo m, after every token; and the machine of those without brackets.

An expression is read with two numbers: s, the sum of the finished terms, and p, the signed product of the unfinished
one. Every token is then one linear step, s <- s + flush p and p <- factor p + sign:

    operand v: p <- v p      +: s, p <- s + p, 1      -: s, p <- s + p, -1      *: nothing      value: s + p

An open bracket starts a pair of its own, and its value is an operand of the pair outside.
Tokens: digits 0..m-1, then + - * ( ).

Shapes: B batch, T tokens, m modulus.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton


def linear_steps(tokens: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """factor, sign and flush of every token. Brackets have those of an operand 0, which `evaluate_nested` replaces."""
    factor = np.array([*range(m), 0, 0, 1, 0, 0])
    sign = np.array([0] * m + [1, -1, 0, 0, 0])
    flush = np.abs(sign)
    return factor.take(tokens), sign.take(tokens), flush.take(tokens)


def evaluate_flat(tokens: np.ndarray, m: int) -> np.ndarray:
    """(B, T) the value of every prefix that ends in a digit (elsewhere some number), for expressions without brackets.

    >>> evaluate_flat(np.array([[1, 5, 2, 6, 4]]), 5)[:, ::2]  # 1+2-4
    array([[1, 3, 4]])
    """
    columns = np.ascontiguousarray(tokens.T)
    factor, sign, flush = linear_steps(columns, m)
    values = np.empty_like(columns)
    s, p = np.zeros_like(columns[0]), first_product(columns[0], m)
    for t in range(len(columns)):
        s += flush[t] * p
        p *= factor[t]
        p += sign[t]
        p %= m
        np.add(s, p, out=values[t])
    return np.ascontiguousarray(values.T) % m


def evaluate_nested(tokens: np.ndarray, m: int) -> np.ndarray:
    """(B, T) the value, inside the innermost open bracket, of every prefix that ends in a digit or ")".

    >>> evaluate_nested(np.array([[2, 7, 8, 1, 5, 2, 9]]), 5)[:, [0, 3, 5, 6]]  # 2*(1+2)
    array([[2, 1, 3, 1]])
    """
    columns = np.ascontiguousarray(tokens.T)
    factor, sign, flush = linear_steps(columns, m)
    opens, closes = columns == m + 3, columns == m + 4
    sign[opens] = 1  # a bracket begins with s, p = 0, 1
    move = opens.astype(np.int64) - closes
    # One row of pairs per word, wide enough for malformed words too.
    below, above = int(closes.sum(0).max()), int(opens.sum(0).max())
    place = np.arange(tokens.shape[0]) * (below + above + 1) + below
    S, P = np.zeros((2, tokens.shape[0] * (below + above + 1)), dtype=np.int64)
    P[place] = first_product(columns[0], m)
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


def first_product(first: np.ndarray, m: int) -> np.ndarray:
    """p before the first token: an empty product, except before a leading +, where there is no term to finish."""
    return (first != m).astype(np.int64)


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
