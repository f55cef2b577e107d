"""The algebra of a trained tree model, found without labels: take nodes that are near for one, close them, compare.

1. The node function is run on leaves and on centres. What falls farther than a radius from every centre is a centre,
   too, until none is added: then the nodes of all words, level by level (levels.py), have a centre each. A centre
   moves to the mean of what it replaced.
2. The finite algebra must say what the model itself says, of random words and of all short ones. The largest radius of
   which that is true is the one; of several that fail, the one that fails least.

A machine, where one is given, only says after which words something is asked. It assigns no element.

Shapes: M nodes, m taps, N elements, D model width.
"""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import Error
from ...limits import Limit
from ..claim import Claim
from ..prove.node import Node
from .agreement import Sample, check_time, coarsest
from .algebra import Algebra
from .answers import read
from .extracted import Extracted
from .levels import Transitions, levels

ELEMENTS = Limit("ELEMENTS", 1000, "clusters of nodes", "Train the model further, so that its nodes fall into fewer")
PASSES = 20


@torch.no_grad()
def find_algebra(model: nn.Module, claim: Claim, sample: Sample, until: float = inf) -> Extracted:
    """Returns the algebra of the model over all words after which `claim` asks something."""
    network = Node(model)
    leaves = network.leaves(claim.machine.num_symbols)
    pairs = torch.stack([leaves.repeat_interleave(len(leaves), 0), leaves.repeat(len(leaves), 1)], 1)
    nodes = torch.cat([network.of(leaves[:, None]), network.of(pairs)])
    apart = float(_distances(nodes, nodes).max()) + 1e-6
    build = lambda share: _close(network, Transitions(claim), claim, share * apart, until)  # noqa: E731
    algebra, agreement, refused = coarsest(build, sample)
    return Extracted("tree", algebra, agreement, sample.count, len(algebra), model, refused)


class _Closing:
    """The table so far: what is asked of it is computed by the network, and snapped to a centre or made one."""

    def __init__(self, network: Node, symbols: int, radius: float, until: float):
        self.network, self.radius, self.until = network, radius, until
        self.leaves = network.leaves(symbols)
        self.centres = self.leaves[:0]
        self.nodes: list[Tensor] = []
        self.table: dict[tuple[int, ...], int] = {}

    def begin(self) -> None:
        """The table anew, of centres in the middle of their nodes."""
        if self.nodes:
            owner = torch.tensor(list(self.table.values()), device=self.centres.device)
            for e in owner.unique().tolist():
                self.centres[e] = torch.cat(self.nodes)[owner == e].mean(0)
        self.table, self.nodes = {}, []
        self.spread, self.added = 0.0, False

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        check_time(self.until)
        keys = list(map(tuple, inputs.tolist()))
        if new := [key for key in dict.fromkeys(keys) if key not in self.table]:
            vectors = torch.cat([self.leaves, self.centres])
            nodes = self.network.of(vectors[torch.tensor(new, device=vectors.device)])
            self.table.update(zip(new, self._snapped(nodes), strict=True))
            self.nodes.append(nodes)
        return np.array([self.table[key] for key in keys])

    def _snapped(self, nodes: Tensor) -> list[int]:
        if not len(self.centres):
            self.centres, self.added = nodes[:1].clone(), True
        while True:
            distance, element = _distances(nodes, self.centres).min(1)
            outside = torch.nonzero(~(distance <= self.radius))[:, 0]
            if not len(outside):
                self.spread = max(self.spread, float(distance.max()))
                return element.tolist()
            ELEMENTS.check(len(self.centres) + 1, "extract")
            check_time(self.until)
            if not bool(nodes[outside[0]].isfinite().all()):
                raise Error("extract: a node of the model is not finite. Extract from a model whose numbers are.")
            self.centres = torch.cat([self.centres, nodes[outside[:1]]])
            self.added = True


def _distances(x: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(x.double(), centres.double(), compute_mode="donot_use_mm_for_euclid_dist")


def _close(network: Node, transitions: Transitions, claim: Claim, radius: float, until: float) -> Algebra:
    closing = _Closing(network, len(transitions.symbols), radius, until)
    for _ in range(PASSES):
        closing.begin()
        for _ in levels(transitions, network.chunk, closing):
            pass
        if not closing.added:
            break
    else:
        raise Error(f"extract: the clusters were not closed after {PASSES} passes. Train the model further.")
    # Only what some word needs is an element: nodes may have left a centre for another that is nearer.
    S, used = len(transitions.symbols), sorted(set(closing.table.values()))
    number = {e: i for i, e in enumerate(used)}
    table = {tuple(x if x < S else S + number[x - S] for x in inputs): number[e] for inputs, e in closing.table.items()}
    outputs, margins = read(network.head(closing.centres[used]), claim.several)
    return Algebra(
        symbols=claim.machine.symbols,
        chunk=network.chunk,
        table=table,
        said=tuple(outputs),
        margins=tuple(margins),
        centres=closing.centres[used].cpu(),
        radius=closing.radius,
        spread=closing.spread,
    )
