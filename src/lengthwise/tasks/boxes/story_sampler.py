"""Random stories of boxes, drawn for all rows of a batch at once: the only loop is over the operations.

Shapes: B rows, N boxes, M objects, L operations. Every object is somewhere: in a box 0..N-1, or nowhere, which is
place N. A move, a remove and a put all carry j of the n objects of one place to another place.

An operation is uniform over move, remove and put and over boxes, and drawn again while it is invalid. So it is drawn
here in one go: a kind with weight (share of its boxes that are valid), then a valid box. The j objects are a non-empty
subset by coin flips, hence P(j) ~ n!/(j!(n-j)!), or for a put Poisson(1) at least 1 and at most n, P(j) ~ 1/j!.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, factorial

import numpy as np

from .forms import AT_FIRST, Form
from .phrases import ARE, CONTAINS, CONTAINS_NOTHING, EMPTY, IS, MOVE, MOVE_ALL, NOTHING, PUT, REMOVE, Phrases

Side = Callable[[np.ndarray], np.ndarray] | None
"""Tells which starts, given as places (B, M), a story may have: (B,) booleans. None: any start."""
FIRST_COUNTS = np.cumsum([np.exp(-2.0) * 2.0**k / factorial(k) for k in range(AT_FIRST)])
"""Poisson(2), clipped: P(count <= k) for k below the clip."""


def pick(mask: np.ndarray, u: np.ndarray) -> np.ndarray:
    """(B,) the number of one true entry of each column of (K, B) booleans, uniform if `u` is uniform in [0, 1)."""
    met = mask.cumsum(0)
    return np.where(met[-1] > 0, (met <= (u * met[-1]).astype(np.intp)).sum(0), 0)


def take(places: np.ndarray, n: np.ndarray, j: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """j of every row's n places, at random, in their order: the places of all rows lie one after another.

    The i-th draw is a rank among the n - i places that are left. It becomes one among all n by undoing the draws before
    it, the latest first: a rank not below the k-th draw's is one more among the places that were left before that.
    """
    rows = np.flatnonzero(j < n)
    i = np.arange(j[rows].max(initial=0))[:, None]
    left = n[rows] - i
    drawn = np.flatnonzero(i < j[rows])
    rank = np.zeros(left.shape, dtype=np.int8)  # of at most 100 objects
    rank.ravel()[drawn] = rng.random(len(drawn)) * left.ravel()[drawn]
    for k in reversed(range(len(i) - 1)):
        rank[k + 1 :] += rank[k + 1 :] >= rank[k]
    choice = np.repeat(j == n, n)
    choice[(rank + (n.cumsum() - n)[rows]).ravel()[drawn]] = True
    return places[choice.nonzero()[0]]


class StorySampler:
    """Draws stories of one form, with so many boxes and objects."""

    def __init__(self, form: Form, boxes: int, objects: int):
        self.form, self.boxes, self.objects = form, boxes, objects
        whole = [[float(j == n) for j in range(objects + 1)] for n in range(objects + 1)]
        coins = [[comb(n, j) / 2**n for j in range(objects + 1)] for n in range(objects + 1)]
        put = [[(j <= n) / factorial(j) for j in range(objects + 1)] for n in range(objects + 1)]
        shares = np.array([whole if form.contents == "always" else coins, coins, put])
        shares[:, 1:, 0] = 0.0
        if form.half:
            # A remove never empties a box; of a single object, which it never meets, let it take that.
            shares[1, range(2, objects + 1), range(2, objects + 1)] = 0.0
        ladder = shares.reshape(-1, objects + 1).cumsum(1)
        ladder /= ladder[:, -1:]
        self.ladder = (ladder + np.arange(len(ladder))[:, None]).ravel()
        """(3 (M+1) (M+1),) in row (operation, n): row number + P(at most j objects are taken of n)."""
        self.least = np.array([0, int(form.half), 0 if form.half else -1])
        """The box that a move, remove or put names first must hold more objects than this."""

    def __call__(self, length: int, batch: int, rng: np.random.Generator, side: Side = None) -> np.ndarray:
        """(batch, T) tokens of stories of `length` operations."""
        where = self.start(batch, rng, side)
        told = Phrases(self.boxes, self.objects)
        order = self.described(where) if self.form.half else self.shuffled(batch, rng)
        told.clauses(where, order, (NOTHING, IS, ARE))
        self.operate(where, length, rng, told)
        if self.form.query:
            told.clauses(where, rng.integers(self.boxes, size=(batch, 1)), (CONTAINS_NOTHING, CONTAINS, CONTAINS))
        else:
            told.clauses(where, self.described(where), (EMPTY, CONTAINS, CONTAINS))
        return told.tokens()

    def end(self, length: int, batch: int, rng: np.random.Generator) -> np.ndarray:
        """(B, M) where each object is in the end."""
        where = self.start(batch, rng, None)
        self.operate(where, length, rng, Phrases(self.boxes, self.objects))
        return where

    def start(self, batch: int, rng: np.random.Generator, side: Side) -> np.ndarray:
        """(B, M) where each object is at first."""
        where = self.placed(batch, rng)
        while side is not None and len(bad := np.flatnonzero(~side(where))):
            where[bad] = self.placed(len(bad), rng)
        return where

    def placed(self, batch: int, rng: np.random.Generator) -> np.ndarray:
        N = self.boxes
        if self.form.half:
            count = (self.shuffled(batch, rng) < N // 2).astype(np.int64)
        else:
            count = np.searchsorted(FIRST_COUNTS, rng.random((batch, N)), side="right")
        where = np.full((batch, self.objects), N, dtype=np.int8)
        box = np.repeat(np.tile(np.arange(N), batch), count.ravel())
        row = np.repeat(np.arange(batch), count.sum(1))
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        shuffle = rng.permuted(np.tile(np.arange(self.objects), (batch, 1)), axis=1)
        where[row, shuffle[row, rank]] = box
        return where

    def shuffled(self, batch: int, rng: np.random.Generator) -> np.ndarray:
        """(B, N) the boxes of each row in random order."""
        return rng.permuted(np.tile(np.arange(self.boxes), (batch, 1)), axis=1)

    def sizes(self, where: np.ndarray, numbered: bool = False) -> np.ndarray:
        """(B, N + 1) the number of objects in each place; `numbered`: the sum of their numbers from 1."""
        B, places = len(where), self.boxes + 1
        weights = np.tile(np.arange(1, self.objects + 1), B) if numbered else None
        sums = np.bincount((where + places * np.arange(B)[:, None]).ravel(), weights, B * places)
        return sums.astype(np.int64, copy=False).reshape(B, places)

    def described(self, where: np.ndarray) -> np.ndarray:
        """The boxes that an answer names, sorted: all (B, N), or in the advanced form the occupied ones (B, N/2)."""
        if not self.form.half:
            return np.tile(np.arange(self.boxes), (len(where), 1))
        empty = self.sizes(where)[:, : self.boxes] == 0
        return empty.argsort(1, kind="stable")[:, : self.boxes // 2]

    def operate(self, where: np.ndarray, length: int, rng: np.random.Generator, told: Phrases) -> None:
        """Carry out `length` random operations on `where`, and add a phrase for each to `told`."""
        size, rows, M = np.ascontiguousarray(self.sizes(where).T), np.arange(len(where)), self.objects
        for which, box, other, count in rng.random((length, 4, len(where))):
            verb = self.verb(size, which)
            a = pick(size[:-1] > self.least[verb], box)
            b = self.target(size, a, other)
            source = np.where(verb == 2, self.boxes, a)
            target = np.where(verb == 2, a, np.where(verb == 1, self.boxes, b))
            n = size[source, rows]
            row = verb * (M + 1) + n
            j = self.ladder.searchsorted(row + count, side="right") - row * (M + 1)
            moved = take(np.flatnonzero(where == source[:, None].astype(np.int8)), n, j, rng)
            where.ravel()[moved] = target[moved // M]
            size[source, rows] -= j
            size[target, rows] += j
            unnamed = (verb == 0) & (j == n) & (self.form.contents != "never")
            named = moved[~unnamed[moved // M]]
            template = np.where(unnamed, MOVE_ALL, np.array([MOVE, REMOVE, PUT])[verb])
            told.say(template, a, b, named, np.where(unnamed, 0, j), ends=True)

    def verb(self, size: np.ndarray, u: np.ndarray) -> np.ndarray:
        """(B,) 0 move, 1 remove, 2 put, each weighted by the share of boxes that are valid for it."""
        N = self.boxes
        if self.form.half:
            move = (N // 2) ** 2 / (N * (N - 1))  # ordered pairs of different boxes: occupied, then empty
            remove = (size[:N] > 1).sum(0) / N
            put = (size[N] > 0) / 2
        else:
            move = remove = (size[:N] > 0).sum(0) / N
            put = size[N] > 0
        x = u * (move + remove + put)
        return (x >= move).astype(np.int64) + (x >= move + remove)

    def target(self, size: np.ndarray, a: np.ndarray, u: np.ndarray) -> np.ndarray:
        """(B,) the box into which a move from box `a` goes: an empty one where half are occupied, else any other."""
        N = self.boxes
        return pick(size[:N] == 0, u) if self.form.half else (a + 1 + (u * (N - 1)).astype(np.int64)) % N
