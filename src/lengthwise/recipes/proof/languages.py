"""Two families of languages for the proof tables: of random machines, and of patterns that are decided for good.

random      the smallest machines of 3 to 12 states over two symbols, drawn with every table and answer equally likely
absorbing   42 regular expressions over a and b, in each of which some prefix decides what every longer word is

The second family is our own. Published work that certifies recurrent networks on 42 absorbing patterns does not list
them, so nothing here replicates it.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...automata import Semiautomaton, from_regex, minimise
from ...seeds import derive
from ...tasks import Task, from_machine

SIZES = range(3, 13)
TESTED = 500
"""Words in a random language, and out of it, must exist near this length."""


def random_machine(number: int) -> Semiautomaton:
    """The machine of this number: of 3 states for 0, of 4 for 1, and again of 3 for 10.

    >>> [random_machine(i).num_states for i in (0, 1, 9, 10)]
    [3, 4, 12, 3]
    """
    Q, rng = SIZES[number % len(SIZES)], np.random.default_rng(derive("random machine", number))
    while True:
        accepting = np.flatnonzero(rng.random(Q) < 0.5).tolist()
        machine = minimise(Semiautomaton(rng.integers(0, Q, (Q, 2)).tolist(), 0, accepting))
        if machine.num_states == Q and _lasting(from_machine(machine)):
            return machine


def _lasting(task: Task) -> bool:
    return all(any(task.problem(n) is None for n in range(top - 9, top + 1)) for top in (40, TESTED))


def absorbing_patterns() -> list[str]:
    """
    >>> patterns = absorbing_patterns()
    >>> len(patterns), patterns[0], patterns[14], patterns[-4]
    (42, '(a|b)*a(a|b)*', 'a(a|b)*', '(a|b)a(a|b)*')
    """
    any_ = "(a|b)*"
    words = {k: ["".join(w) for w in product("ab", repeat=k)] for k in (1, 2, 3)}
    all_words = words[1] + words[2] + words[3]
    patterns = [f"{any_}{w}{any_}" for w in all_words]  # contains w
    patterns += [f"{w}{any_}" for w in all_words]  # begins with w
    patterns += [any_.join(["", *w, ""]) for w in ("aa", "bb", *words[3])]  # has the letters of w, in their order
    patterns += ["(a|b)" * k + w + any_ for k in (1, 2) for w in "ab"]  # has w at place k
    return patterns


def absorbing(machine: Semiautomaton) -> bool:
    """Whether some state is never left."""
    return bool((machine.delta == np.arange(machine.num_states)[:, None]).all(1).any())


def pattern_machine(pattern: str) -> Semiautomaton:
    return minimise(from_regex(pattern, "ab"))
