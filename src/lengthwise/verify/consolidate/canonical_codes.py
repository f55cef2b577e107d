"""The codes that a trained model gives the elements of its machine: of each the one it gives most often.

Random trees are grown group by group, from leaf groups on, and their nodes' codes counted by the elements of their
words. An element that no tree had takes the code that the model makes of the codes of others.

Shapes: N elements, G groups of a code, C chunk, B nodes, D width, Q states.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...models import LengthwiseForCausalLM
from ...seeds import generator
from ..algebra import PAD, Conditions, MachineAlgebra
from ..checker.claim import product_of
from .closure import BLOCK, ClosureNetwork

NODES = 8192
"""Nodes of a group that are grown at a time."""
LEVELS = 8


@torch.no_grad()
def canonical_codes(
    model: LengthwiseForCausalLM, algebra: MachineAlgebra, conditions: Conditions, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """(N,G), no two alike; and (N,) which of them are those that the model gives most often, as far as words showed."""
    counts: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(len(algebra))]
    draw = generator("canonical", seed)
    nodes: Any = model.depth.layers[0].nodes
    network = ClosureNetwork(model, torch.zeros(0, nodes.groups, dtype=torch.long))
    leaves = conditions.taps.max(1) <= len(algebra.leaves)
    chosen = network.choices(network.table()[torch.from_numpy(conditions.taps[leaves])])
    results = conditions.results[leaves]
    _count(counts, chosen, results)
    # Leaf groups that begin a word stand at the beginning alone.
    whole = (conditions.taps[leaves] != PAD).all(1)
    if whole.any():
        grown, elements = chosen[torch.from_numpy(whole)], results[whole]
        for _ in range(LEVELS):
            picked = torch.randint(len(grown), (NODES, algebra.chunk), generator=draw)
            made = product_of([algebra.elements[elements[tap]] for tap in picked.numpy().T])
            needed = algebra.needs(made, begins=False)
            if not needed.any():
                break
            parts = picked[torch.from_numpy(needed)]
            grown, elements = network.choices(nodes.vectors(grown[parts])), algebra.numbers(made[needed])
            _count(counts, grown, elements)
    met = torch.tensor([bool(count) for count in counts])
    _reach_the_rest(network, conditions, counts, len(algebra.leaves))
    codes = _different(counts, nodes.groups, nodes.codes, draw)
    first = torch.tensor([count.most_common(1)[0][0] == tuple(code) for count, code in zip(counts, codes, strict=True)])
    return torch.tensor(codes), met & first


def _count(counts: list[Counter[tuple[int, ...]]], chosen: Tensor, elements: np.ndarray) -> None:
    for code, element in zip(chosen.tolist(), elements.tolist(), strict=True):
        counts[element][tuple(code)] += 1


def _reach_the_rest(
    network: ClosureNetwork, conditions: Conditions, counts: list[Counter[tuple[int, ...]]], leaves: int
) -> None:
    """Elements that were never met, from the codes of those that were."""
    while True:
        met = np.array([True] * (1 + leaves) + [bool(count) for count in counts])
        if met.all():
            return
        anything = (0,) * network.codes.shape[1]
        network.codes = torch.tensor([max(c, key=c.__getitem__) if c else anything for c in counts])
        wanted = np.flatnonzero(met[conditions.taps].all(1) & ~met[1 + leaves + conditions.results])[:BLOCK]
        chosen = network.choices(network.table()[torch.from_numpy(conditions.taps[wanted])])
        _count(counts, chosen, conditions.results[wanted])


def _different(
    counts: list[Counter[tuple[int, ...]]], groups: int, codes: int, draw: torch.Generator
) -> list[list[int]]:
    """Returns of each the most frequent code that no other, more frequent one has."""
    taken: set[tuple[int, ...]] = set()
    codes_of: dict[int, tuple[int, ...]] = {}
    for element in sorted(range(len(counts)), key=lambda i: -max(counts[i].values())):
        ranked = [code for code, _ in counts[element].most_common()]
        code = next((code for code in ranked if code not in taken), None)
        while code is None or code in taken:
            place, value = (int(torch.randint(n, (1,), generator=draw)) for n in (groups, codes))
            code = tuple(value if g == place else c for g, c in enumerate(code or ranked[0]))
        taken.add(code)
        codes_of[element] = code
    return [list(codes_of[element]) for element in range(len(counts))]
