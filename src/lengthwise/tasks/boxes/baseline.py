"""The baseline of Boxes: how often the best constant answer is exactly right.

Nothing tells one object from another, nor one box from another (but by name), so all answers that are relabellings of
each other are equally likely. With n the sizes of the boxes at the end, sorted, and |n| the number of answers of these
sizes, P(best constant answer) = max over n of P(n) / |n|.
All boxes: |n| = N!/Π(times each size occurs)! · M!/(Π n_b! (M - Σ n_b)!). One box: |n| = M!/(n! (M - n)!).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import factorial, prod

import numpy as np

from .forms import Form
from .story_sampler import StorySampler

STORIES = 16_384
"""How many stories the probabilities P(n) are estimated from."""


@lru_cache
def constant_answer_share(form: Form, boxes: int, objects: int, length: int) -> float:
    """The share of stories of `length` operations that the best constant answer answers right."""
    sampler = StorySampler(form, boxes, objects)
    sizes = sampler.sizes(sampler.end(length, STORIES, np.random.default_rng(0)))[:, :boxes]
    sizes = sizes[:, :1] if form.query else np.sort(sizes, 1)
    return best_share(map(tuple, sizes.tolist()), objects)


def count_answers(sizes: tuple[int, ...], objects: int) -> int:
    """|n|, the number of answers in which the boxes have these sizes, in any order."""
    nowhere = factorial(objects - sum(sizes))
    orders = factorial(len(sizes)) // prod(factorial(times) for times in Counter(sizes).values())
    return orders * (factorial(objects) // (prod(map(factorial, sizes)) * nowhere))


def best_share(sizes: Iterable[tuple[int, ...]], objects: int) -> float:
    """The share of the best constant answer among stories whose boxes end with these sizes, each sorted."""
    counts = Counter(sizes)
    return max(count / count_answers(n, objects) for n, count in counts.items()) / counts.total()
