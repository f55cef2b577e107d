"""Patterns of words, whatever is asked after them: `pattern(machine, length, rows, rng) -> (B,T)`, B at most `rows`.

Shapes: B words, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...automata import Semiautomaton

PROBABILITIES = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99)
"""How likely one symbol is; the others share the rest. Also: how likely the symbol before is to come again."""
LONGEST_RUN = 130
TOURED = 1 << 13
"""Symbols of a tour; longer words repeat it."""

Rng = np.random.Generator


def random(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Symbols drawn each by itself: all alike in a third of the words, else one of them favoured or avoided."""
    S = machine.num_symbols
    words = rng.integers(S, size=(rows, length))
    for row in range(rows // 3, rows):
        p, favoured = rng.choice(PROBABILITIES), rng.integers(S)
        others = (favoured + rng.integers(1, max(2, S), size=length)) % S
        words[row] = np.where(rng.random(length) < p, favoured, others)
    return words


def sticky(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """The symbol before comes again with some probability, so that runs of many lengths follow one another."""
    fresh = rng.integers(machine.num_symbols, size=(rows, length))
    p = rng.choice(PROBABILITIES, size=(rows, 1))
    begins = rng.random((rows, length)) >= p
    begins[:, 0] = True
    last = np.maximum.accumulate(np.where(begins, np.arange(length), 0), axis=1)
    return np.take_along_axis(fresh, last, 1)


def constant(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """One symbol throughout."""
    return np.repeat(_some(np.arange(machine.num_symbols), rows, rng)[:, None], length, 1)


def alternating(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Two symbols in turn."""
    return _two(machine, rows, rng)[:, np.arange(length) % 2]


def one_odd(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """One symbol throughout but at one place: the first, the last, a middle one, or any."""
    pairs = _two(machine, rows, rng)
    places = np.resize([0, length - 1, length // 2, *rng.integers(length, size=5)], len(pairs))
    return np.where(np.arange(length) == places[:, None], pairs[:, 1:], pairs[:, :1])


def runs(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Two symbols in runs of one length, among them powers of two and their neighbours."""
    each = {k + d for k in 2 ** np.arange(1, 20) for d in (-1, 0, 1)} | set(range(2, 18))
    lengths = _some(np.array([r for r in sorted(each) if r < length], dtype=np.intp), rows, rng)
    pairs = np.resize(_two(machine, rows, rng), (len(lengths), 2))
    return np.take_along_axis(pairs, np.arange(length)[None] // lengths[:, None] % 2, 1)


def growing_runs(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Runs of 1, 2, 3, … symbols, or as many downwards, so that the last or the first is about √(2 T)."""
    pairs = _two(machine, rows, rng)
    # Run k begins after k (k + 1) / 2 symbols.
    number = ((np.sqrt(8 * np.arange(length) + 1) - 1) // 2).astype(np.intp)
    words = pairs[:, number % 2]
    words[1::2] = words[1::2, ::-1]
    return words


def one_run(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """A run of one symbol in a random word: of every length, at the end, at the beginning, or anywhere."""
    lengths = _some(np.arange(2, min(length, LONGEST_RUN) + 1), rows, rng)
    words = rng.integers(machine.num_symbols, size=(len(lengths), length))
    for word, run in zip(words, lengths, strict=True):
        start = rng.choice([0, length - run, rng.integers(length - run + 1)])
        word[start : start + run] = rng.integers(machine.num_symbols)
    return words


def blocks(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """A random block again and again."""
    words = np.empty((rows, length), dtype=np.intp)
    for word in words:
        word[:] = np.resize(rng.integers(machine.num_symbols, size=rng.integers(2, 34)), length)
    return words


def de_bruijn(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Every block of some length once, from any of them on."""
    S, orders = machine.num_symbols, []
    while S > 1 and S ** (len(orders) + 1) <= min(length, 1 << 16):
        orders.append(len(orders) + 1)
    words = [np.resize(_de_bruijn(S, k), length) for k in _some(np.array(orders[-4:], dtype=int), rows, rng)]
    return np.array([np.roll(word, -rng.integers(length)) for word in words], dtype=np.intp).reshape(-1, length)


def transitions(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Every transition of the machine: from each state its symbols in turn."""
    return _tours(machine, length, rows, rng, pairs=False)


def pairs(machine: Semiautomaton, length: int, rows: int, rng: Rng) -> np.ndarray:
    """Every two transitions in a row, also those that random words seldom have."""
    return _tours(machine, length, rows, rng, pairs=True)


PATTERNS: tuple[Callable[[Semiautomaton, int, int, Rng], np.ndarray], ...] = (
    constant,
    alternating,
    one_odd,
    one_run,
    random,
    sticky,
    runs,
    growing_runs,
    blocks,
    de_bruijn,
    transitions,
    pairs,
)


def _some(values: np.ndarray, rows: int, rng: Rng) -> np.ndarray:
    """At most so many of the values, in their order."""
    return values if len(values) <= rows else values[np.sort(rng.choice(len(values), rows, replace=False))]


def _two(machine: Semiautomaton, rows: int, rng: Rng) -> np.ndarray:
    """(B,2) two different symbols; of an alphabet of one, that one twice."""
    S = machine.num_symbols
    if S == 1:
        return np.zeros((1, 2), dtype=np.intp)
    numbers = _some(np.arange(S * (S - 1)), rows, rng)
    first = numbers // (S - 1)
    return np.stack([first, (first + 1 + numbers % (S - 1)) % S], 1)


def _de_bruijn(symbols: int, order: int) -> np.ndarray:
    """The word whose cyclic blocks of this order are all there are: its Lyndon words in their order."""
    word, cycle = [-1], []
    while word:
        word[-1] += 1
        if order % len(word) == 0:
            cycle += word
        word = [word[i % len(word)] for i in range(order)]
        while word and word[-1] == symbols - 1:
            word.pop()
    return np.array(cycle, dtype=np.intp)


def _tours(machine: Semiautomaton, length: int, rows: int, rng: Rng, pairs: bool) -> np.ndarray:
    """Walks that leave each place by its symbols in turn, so that they come to take them all.

    A place is a state, with `pairs` after each transition that leads to it.
    """
    delta, S = machine.delta.tolist(), machine.num_symbols
    words = np.empty((min(rows, 3), length), dtype=np.intp)
    for word in words:
        order, tour = rng.permutation(S).tolist(), []
        taken: dict[tuple[int, ...], int] = {}
        place: tuple[int, ...] = (machine.start,)
        for _ in range(min(length, TOURED)):
            turn = taken[place] = taken.get(place, -1) + 1
            tour.append(s := order[turn % S])
            target = delta[place[-1]][s]
            place = (place[-1], s, target) if pairs else (target,)
        word[:] = np.resize(np.array(tour, dtype=np.intp), length)
    return words
