"""The stories that are held out for the test: a rule on the description alone.

The signature has one digit a box: how many objects it holds at first, as Kim & Schuster split; where every occupied box
holds one, which (its number from 1). Read as a number in base 4, Σ 4^box digit, about a seventh of all signatures leave
the remainder 2 modulo 7. A test description's signature never occurs in training, though all its parts do.
"""

from __future__ import annotations

import numpy as np

from .vocabulary import GLUE, STOP

MODULUS, REMAINDER = 7, 2


def is_held_out(signatures: np.ndarray) -> np.ndarray:
    """(B,) booleans, from signatures (B, N)."""
    weights = np.resize([1, 4, 2], signatures.shape[1])  # 4^box modulo 7
    return signatures @ weights % MODULUS == REMAINDER


def signatures_of_places(where: np.ndarray, boxes: int, which: bool) -> np.ndarray:
    """(B, N) signatures from where each object is, (B, M); with `which`, by the object instead of the count."""
    B, M = where.shape
    weights = np.tile(np.arange(1, M + 1) if which else np.ones(M), B)
    return tally(np.repeat(np.arange(B), M), where.ravel(), weights, B, boxes + 1)[:, :boxes]


def signatures_of_tokens(tokens: np.ndarray, boxes: int, which: bool) -> np.ndarray:
    """(B, N) signatures from tokens (B, T): an object of the description belongs to the next box named after it."""
    ended = (tokens == STOP).argmax(1)
    first = tokens[:, : int(ended.max(initial=0))]
    first = np.where(np.arange(first.shape[1]) < ended[:, None], first, 0) - len(GLUE)
    letter = (first >= 0) & (first < boxes)
    clause = letter.cumsum(1) - letter
    box = np.zeros((len(tokens), first.shape[1] + 1), dtype=np.int64)
    row, at = np.nonzero(letter)
    box[row, clause[row, at]] = first[row, at]
    row, at = np.nonzero(first >= boxes)
    weights = first[row, at] - boxes + 1 if which else np.ones(len(row))
    return tally(row, box[row, clause[row, at]], weights, len(tokens), boxes)


def tally(row: np.ndarray, column: np.ndarray, weights: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) sums of weights."""
    sums = np.bincount(row * columns + column, weights=weights, minlength=rows * columns)
    return sums.astype(np.int64).reshape(rows, columns)
