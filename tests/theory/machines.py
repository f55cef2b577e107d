"""Machines, words and regular expressions that are drawn, for every construction of a model."""

import torch
from hypothesis import strategies as st

from lengthwise.automata import Semiautomaton


def random_machine(n, symbols, seed=0, start=0):
    return Semiautomaton(torch.randint(n, (n, symbols), generator=torch.Generator().manual_seed(seed)), start)


def words(machine, batch, length, seed=0):
    return torch.randint(machine.num_symbols, (batch, length), generator=torch.Generator().manual_seed(seed))


LETTERS = st.sampled_from("ab")
PATTERNS = st.recursive(
    LETTERS,
    lambda r: st.one_of(
        st.tuples(r, r).map("".join), st.tuples(r, r).map(lambda p: f"({p[0]}|{p[1]})"), r.map(lambda p: f"({p})*")
    ),
    max_leaves=8,
)
