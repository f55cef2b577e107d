"""How often the best constant answer is exactly right.

Nothing tells one object from another, nor one box from another (but by name), so all answers that are relabellings of
each other are equally likely. With n the sizes of the boxes at the end, sorted, and |n| the number of answers of these
sizes, P(best constant answer) = max over n of P(n) / |n|.
All boxes: |n| = N!/Π(times each size occurs)! · M!/(Π n_b! (M - Σ n_b)!). One box: |n| = M!/(n! (M - n)!).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import factorial, prod


def answers(sizes: tuple[int, ...], objects: int) -> int:
    """|n|: how many answers have these sizes, in any order."""
    nowhere = factorial(objects - sum(sizes))
    orders = factorial(len(sizes)) // prod(factorial(times) for times in Counter(sizes).values())
    return orders * (factorial(objects) // (prod(map(factorial, sizes)) * nowhere))


def best_share(sizes: Iterable[tuple[int, ...]], objects: int) -> float:
    """The share of the best constant answer among stories whose boxes end with these sizes, each sorted."""
    found = Counter(sizes)
    return max(count / answers(n, objects) for n, count in found.items()) / found.total()
