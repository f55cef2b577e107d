"""The word problem of a finite group: which element is the product of the word?  y_t = g_1 g_2 … g_t.

The product is read from left to right: its permutation applies g_1 first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from ..limits import PRODUCT, TABLE
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption

# Finite groups as permutations, from a few generators each: the closure of these under products. A product of groups
# moves the points of each by themselves. Elements are numbered in the order of their one-line notation, the identity
# first.

Permutations = list[list[int]]
FORMS = (
    "Zn or Cn (cyclic), Dn (of an n-gon), Sn, An, V4, Q8, Q16, Q32, F20, F21, PSL(2,q), PSL(3,q), M11, M12, powers as "
    "Z2^3 and products as S3xS3"
)
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
POINTS = 1000


def _cyclic(n: int) -> Permutations:
    return [[*range(1, n), 0]]


def _dihedral(n: int) -> Permutations:
    """Returns the dihedral group of order 2n."""
    return [*_cyclic(n), [-i % n for i in range(n)]]


def _symmetric(n: int) -> Permutations:
    return [[1, 0, *range(2, n)], *_cyclic(n)]


def _alternating(n: int) -> Permutations:
    if n == 3:
        return _cyclic(3)
    even = 1 - n % 2  # a cycle of odd length, of all points or all but the first
    return [[1, 2, 0, *range(3, n)], [*range(even), *range(even + 1, n), even]]


def _quaternion(order: int) -> Permutations:
    """a and b with b² = a^(m/2) and b a b⁻¹ = a⁻¹, m half the order, multiplied from the right to a^i b^j (i + m j)."""
    m = order // 2
    by_a = [(i + (1, -1)[j]) % m + m * j for j in (0, 1) for i in range(m)]
    by_b = [(i + m // 2 * j) % m + m * (1 - j) for j in (0, 1) for i in range(m)]
    return [by_a, by_b]


def _affine(p: int, factor: int) -> Permutations:
    """x -> x + 1 and x -> factor x, modulo p."""
    return [_cyclic(p)[0], [factor * x % p for x in range(p)]]


def _mathieu(n: int) -> Permutations:
    cycles: list[list[tuple[int, ...]]] = [
        [(3, 7, 11, 8), (4, 10, 5, 6)],
        [(1, 12), (2, 11), (3, 6), (4, 8), (5, 9), (7, 10)],
    ][: n - 10]
    more = [list(range(n)) for _ in cycles]
    for permutation, each in zip(more, cycles, strict=True):
        for cycle in each:
            for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                permutation[a - 1] = b - 1
    return [[*range(1, 11), 0, *range(11, n)], *more]


FIELDS = {q: (q, [0]) for q in (2, 3, 5, 7, 11, 13)} | {4: (2, [1, 1]), 8: (2, [1, 1, 0]), 9: (3, [2, 0])}
"""The field of q elements: its prime p, and x^k as a polynomial of lower degree. The coefficients of element e are the
digits of e to base p."""


def _linear(n: int, q: int) -> Permutations:
    """PSL(n,q) on the points of projective space, by the matrices of I + a E_01 and of the cycle of n axes."""
    p, power = FIELDS[q]
    k = len(power)

    def digits(e: int) -> list[int]:
        return [e // p**i % p for i in range(k)]

    def number(coefficients: Sequence[int]) -> int:
        return sum(c % p * p**i for i, c in enumerate(coefficients))

    def times(a: int, b: int) -> int:
        product = [int(c) for c in np.convolve(digits(a), digits(b))]
        while len(product) > k:  # x^(k + i) is x^i times `power`
            top = product.pop()
            for i, c in enumerate(power, start=len(product) - k):
                product[i] += top * c
        return number(product)

    def plus(a: int, b: int) -> int:
        return number([x + y for x, y in zip(digits(a), digits(b), strict=True)])

    inverse = {a: next(b for b in range(1, q) if times(a, b) == 1) for a in range(1, q)}

    def point(vector: Sequence[int]) -> tuple[int, ...]:
        scale = inverse[next(x for x in vector if x)]
        return tuple(times(scale, x) for x in vector)

    vectors = (tuple(int(v) // q**i % q for i in range(n)) for v in range(1, q**n))
    points = sorted({point(vector) for vector in vectors})
    place = {each: i for i, each in enumerate(points)}
    minus = number([-1]) if n == 2 else 1  # an even number of axes is turned by a matrix of determinant -1
    shears = [[(plus(v[0], times(p**i, v[1])), *v[1:]) for v in points] for i in range(k)]
    turned = [(*v[1:], times(minus, v[0])) for v in points]
    return [[place[point(image)] for image in images] for images in (*shears, turned)]


NAMED: dict[str, tuple[Callable[[int], Permutations], Sequence[int]]] = {
    "Z": (_cyclic, range(2, POINTS + 1)),
    "C": (_cyclic, range(2, POINTS + 1)),
    "D": (_dihedral, range(3, POINTS + 1)),
    "S": (_symmetric, range(2, 10)),
    "A": (_alternating, range(3, 10)),
    "V": (lambda n: [[1, 0, 3, 2], [2, 3, 0, 1]], [4]),
    "Q": (_quaternion, [8, 16, 32]),
    "F": (lambda n: _affine(*{20: (5, 2), 21: (7, 2)}[n]), [20, 21]),
    "M": (_mathieu, [11, 12]),
    "PSL(2,": (lambda q: _linear(2, q), list(FIELDS)),
    "PSL(3,": (lambda q: _linear(3, q), [2, 3, 4, 5]),
}


def group_generators(name: str) -> np.ndarray:
    """(k, n) the standard generators of the group, the different ones.

    >>> group_generators("D4").tolist(), group_generators("Z2xZ3").tolist()
    ([[1, 2, 3, 0], [0, 3, 2, 1]], [[1, 0, 2, 3, 4], [0, 1, 3, 4, 2]])
    """
    factors = []
    for part in name.split("x"):
        parsed = re.fullmatch(r"([ZCDSAVQFM]|PSL\([23],)([0-9]{1,9})\)?(?:\^([1-9]))?", part)
        if not parsed or (parsed[1][0] == "P") != (")" in part):
            raise Error(f"word-problem: group must be {FORMS}; got {name!r:.80}.")
        make, sizes = NAMED[parsed[1]]
        if int(parsed[2]) not in sizes:
            allowed = f"{sizes[0]}..{sizes[-1]}" if isinstance(sizes, range) else ", ".join(map(str, sizes))
            raise Error(f"word-problem: {parsed[1]}n needs n in {allowed}, got {name:.80}.")
        factors += [make(int(parsed[2]))] * int(parsed[3] or 1)
    widths = [len(factor[0]) for factor in factors]
    if sum(widths) > POINTS:
        raise Error(f"word-problem: a group moves at most {POINTS} points, got {name:.80} of {sum(widths)}.")
    rows: dict[tuple[int, ...], None] = {}
    for factor, width, start in zip(factors, widths, np.cumsum([0, *widths]).tolist(), strict=False):
        for permutation in factor:
            row = list(range(sum(widths)))
            row[start : start + width] = [start + i for i in permutation]
            rows[tuple(row)] = None
    return np.array(list(rows))


def group_elements(name: str) -> np.ndarray:
    """(G, n) the permutations of the group: element g takes point i to row g's entry i.

    >>> group_elements("A3").tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    generators = group_generators(name)
    new = np.arange(generators.shape[1], dtype=">u2")[None]  # so that bytes are in the order of the numbers
    known = {new[0].tobytes()}
    while len(new):
        products = generators[:, new].astype(">u2").reshape(-1, new.shape[1])
        fresh = {key for row in products if (key := row.tobytes()) not in known}
        known |= fresh
        if len(known) > PRODUCT:
            raise Error(f"word-problem: a group has at most {PRODUCT:,} elements, got {name:.80} of more.")
        new = np.frombuffer(b"".join(sorted(fresh)), dtype=">u2").reshape(-1, new.shape[1])
    return np.frombuffer(b"".join(sorted(known)), dtype=">u2").reshape(-1, new.shape[1]).astype(np.int64)


def element_names(name: str, elements: np.ndarray) -> list[str]:
    """The name of each element: how far a rotation turns, or the one-line notation of another permutation."""
    if re.fullmatch(r"[ZC][0-9]+", name):
        return [str(g) for g in range(len(elements))]
    if elements.shape[1] > len(DIGITS):
        return [".".join(map(str, element)) for element in elements.tolist()]
    return ["".join(DIGITS[i] for i in element) for element in elements.tolist()]


class ElementNumbers:
    """The numbers of a group's elements, by the images of a few points which tell them apart."""

    def __init__(self, elements: np.ndarray):
        kinds, points = np.zeros(len(elements), dtype=np.int64), []
        for point, images in enumerate(elements.T):
            finer = np.unique(kinds * len(images) + images, return_inverse=True)[1].ravel()
            if finer.max() > kinds.max():
                kinds, points = finer, [*points, point]
        self.points = np.array(points, dtype=np.int64)
        """(b,)"""
        # A number in mixed radix, whose digits are the ranks of the images among all of that point.
        self.weights, radix = np.zeros((len(points), elements.shape[1]), dtype=np.int64), 1
        for row, point in zip(self.weights, points, strict=True):
            orbit = np.unique(elements[:, point])
            row[orbit], radix = radix * np.arange(len(orbit)), radix * len(orbit)
        keys = self._keys(elements[:, self.points])
        self.order = np.argsort(keys)
        self.keys = keys[self.order]

    def _keys(self, images: np.ndarray) -> np.ndarray:
        n = self.weights.shape[1]
        return self.weights.take(images + n * np.arange(images.shape[-1])).sum(-1)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(…) the element that takes these points to `images` (…,b)."""
        return self.order[np.searchsorted(self.keys, self._keys(images))]


def letter_numbers(group: str, elements: np.ndarray, generators: str | Sequence[Sequence[int]]) -> np.ndarray:
    """The element numbers of the symbols that words are made of, which must be different elements of the group."""
    if generators == "all":
        return np.arange(len(elements))
    if isinstance(generators, str):
        own = group_generators(group).tolist()
        inverses = np.argsort(own, 1).tolist() if generators == "inverses" else []
        generators = list(dict.fromkeys(map(tuple, own + inverses)))
    known = {tuple(element): g for g, element in enumerate(elements.tolist())}
    numbers = [known.get(tuple(permutation), -1) for permutation in generators]
    if not numbers or -1 in numbers or len(set(numbers)) < len(numbers):
        raise Error(
            f'word-problem: generators must be "all", "standard", "inverses" or different permutations in {group}, '
            f"such as {elements[-1].tolist()}, got {list(generators)}."
        )
    return np.array(numbers)


class WordProblem(IndependentSymbols):
    """Words over a group's elements, or over some `generators` of it (permutations); the answer is the product.

    From S5 (and A5) on, word problems are as hard as those of regular languages can be. Large groups need few
    generators. With `held_out_pairs` every training string lacks, and every test string has, one of them side by side.

    >>> from lengthwise import tasks
    >>> task = tasks.get("word-problem", group="S3", generators=[[1, 0, 2], [1, 2, 0]], supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 0]])
    >>> task.vocabulary, task.elements
    (('102', '120'), ('012', '021', '102', '120', '201', '210'))
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 0]]),
     tensor([[2, 5, 1, 3, 1]]))
    """

    def __init__(
        self,
        group: Annotated[str, f"The group: {FORMS}."] = "S5",
        generators: Annotated[
            Literal["all", "standard", "inverses"] | Sequence[Sequence[int]],
            "The elements that words are made of: all, the few by which the group is defined, these and their "
            "inverses, or some permutations.",
        ] = "all",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
        held_out_pairs: Annotated[
            Sequence[Sequence[int]] | None,
            "Ordered pairs of symbols, by their numbers, which are side by side in every test string and in no "
            "training string; None: none.",
        ] = None,
    ):
        elements = group_elements(group)
        names = element_names(group, elements)
        letters = letter_numbers(group, elements, generators)
        if not isinstance(generators, str):
            generators = elements[letters].tolist()
        TABLE.check(len(elements) * len(letters), f"word-problem: {group} with these generators")
        self.elements = tuple(names)
        self.permutations = elements
        self.letters = elements[letters]
        self.numbers = ElementNumbers(elements)
        # Element q, then letter s: i -> s(q(i)).
        moved = self.letters[:, elements[:, self.numbers.points]]
        machine = Semiautomaton(self.numbers(moved).T, symbols=[names[g] for g in letters])
        params = {"group": group, "generators": generators}
        super().__init__("word-problem", machine, torch.arange(len(elements)), params, supervision, probabilities)
        self.held_out_pairs = None
        if held_out_pairs is not None:
            self.held_out_pairs = self._pairs(held_out_pairs)
            self.params["held_out_pairs"] = [list(pair) for pair in held_out_pairs]
            self.shortest = 2

    def _pairs(self, pairs: Sequence[Sequence[int]]) -> np.ndarray:
        """(S,S) booleans: which symbol may not follow which in training, where all elements can still be reached."""
        S = len(self.vocabulary)
        if not pairs or not all(len(pair) == 2 and all(0 <= s < S for s in pair) for pair in pairs):
            raise Error(
                f"word-problem: held_out_pairs are pairs of symbols 0..{S - 1}, at least one, got {list(pairs)}."
            )
        held = np.zeros((S, S), dtype=bool)
        held[tuple(np.array(pairs).T)] = True
        reached = [_reached(self.machine.delta, follows) for follows in (~held, ~np.zeros_like(held))]
        if reached[0] < reached[1]:
            raise Error(
                f"word-problem: without held_out_pairs {list(pairs)} training sees {reached[0]} of {reached[1]} "
                'elements. Hold fewer out, or use generators="inverses".'
            )
        return held

    def held_out(self, tokens: Tensor) -> Tensor | None:
        if self.held_out_pairs is None:
            return None
        held = torch.from_numpy(self.held_out_pairs).to(tokens.device)
        return held[tokens[:, :-1], tokens[:, 1:]].any(1)

    def baseline(self, length: int) -> float:
        if self.held_out_pairs is None:
            return super().baseline(length)
        self.check(length)
        # Of strings without such a pair, by their last symbol: to multiply by one permutes the elements.
        places, pi = self.machine.delta.T, np.zeros(self.machine.delta.T.shape)
        pi[np.arange(len(pi)), places[:, 0]] = self.weights
        for _ in range(length - 1):
            came = (~self.held_out_pairs).T @ pi
            np.put_along_axis(pi, places, self.weights[:, None] * came / came.sum(), 1)
        of_elements = pi.sum(0)
        return float(of_elements.max() / of_elements.sum())

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        # Points move by permutations; the group's own table, which is the machine, is not consulted.
        B, T = tokens.shape
        n = self.letters.shape[1]
        letters = self.letters.ravel()
        start = tokens.cpu().numpy().T[:, :, None] * n
        points = np.empty((T, B, len(self.numbers.points)), dtype=np.int64)
        here = np.broadcast_to(self.numbers.points, points.shape[1:])
        for t in range(T):
            points[t] = here = letters.take(start[t] + here)
        return torch.from_numpy(np.ascontiguousarray(self.numbers(points).T)).to(tokens.device)


def _reached(delta: np.ndarray, follows: np.ndarray) -> int:
    """Returns how many states words lead to in which each symbol may be followed by those."""
    seen = np.zeros(delta.shape, dtype=bool)  # by the last symbol
    seen[delta[0], np.arange(len(follows))] = True
    while True:
        more = seen.copy()
        for last, s in zip(*np.nonzero(follows), strict=True):
            more[delta[seen[:, last], s], s] = True
        if np.array_equal(more, seen):
            return int(seen.any(1).sum())
        seen = more
