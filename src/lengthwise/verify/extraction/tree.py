"""The algebra of a trained tree model, found without labels: cluster its nodes, close the clusters, compare.

1. Nodes of random words at ten levels are cut into clusters, the coarsest cut first (clustering.py).
2. The node function is run on the centres. What falls farther than the radius from every centre is a centre too, until
   nothing is added: then the nodes of all words, level by level (levels.py), have a centre each.
3. The finite algebra must say what the model itself says, of random words and of all short ones. The coarsest cut of
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
from ...seeds import generator
from ..claim import Claim
from ..prove.node import Node
from .agreement import Sample, coarsest
from .algebra import Algebra
from .answers import read
from .clustering import Cut, check_time, cuts
from .extracted import Extracted
from .levels import levels
from .transitions import Transitions

ELEMENTS = Limit("ELEMENTS", 1000, "clusters of nodes", "Train the model further, so that its nodes fall into fewer")
LEVELS = 10
POOL = 192
"""Random nodes kept at each level."""
PASSES = 20


@torch.no_grad()
def find_algebra(model: nn.Module, claim: Claim, sample: Sample, seed: int = 0, until: float = inf) -> Extracted:
    """The algebra of the model over all words after which `claim` asks something."""
    network = Node(model)
    tried = cuts(_sample(network, Transitions(claim), seed), seed)
    build = lambda cut: _close(network, Transitions(claim), claim, cut, until)  # noqa: E731
    algebra, agreement, refused = coarsest(tried, build, sample)
    return Extracted("tree", algebra, agreement, sample.count, len(algebra), model, refused)


def _sample(network: Node, transitions: Transitions, seed: int) -> Tensor:
    """(M,D) nodes of random words at every level, full ones and first ones, no two alike."""
    draw = generator("nodes", seed)
    S, C = len(transitions.symbols), network.chunk
    symbols = torch.arange(S)[torch.from_numpy(transitions.kept(transitions.symbols, opening=False))]
    full = symbols[torch.randint(len(symbols), (POOL,), generator=draw)]
    x, acts = network.leaves(S)[full], transitions.symbols[full.numpy()]
    first, first_acts = x[:0], acts[:0]
    points = []
    for _ in range(LEVELS):
        made = []
        for m in range(1, C + 1):
            heads, head_acts = (torch.cat([first, x]), np.concatenate([first_acts, acts])) if m < C else (x, acts)
            places = torch.randint(len(x), (4 * POOL, m), generator=draw)
            places[:, 0] = torch.randint(len(heads), (4 * POOL,), generator=draw)
            act = head_acts[places[:, 0].numpy()]
            for j in range(1, m):
                act = transitions.composed(act, acts[places[:, j].numpy()])
            kept = np.flatnonzero(transitions.kept(act, opening=m < C))[:POOL]
            taps = torch.cat([heads[places[kept, :1]], x[places[kept, 1:]]], 1)
            made.append((network.of(taps) if len(kept) else x[:0], act[kept]))
        x, acts = made[-1]
        first, first_acts = torch.cat([y for y, _ in made[:-1]]), np.concatenate([a for _, a in made[:-1]])
        points += [x, first]
        if not len(x):
            break
    return torch.unique(torch.cat(points).cpu(), dim=0)


class _Closing:
    """The table so far: what is asked of it is computed by the network, and snapped to a centre or made one."""

    def __init__(self, network: Node, symbols: int, cut: Cut, until: float):
        ELEMENTS.check(len(cut.centres), "extract")
        self.network, self.radius, self.until = network, cut.radius, until
        self.leaves = network.leaves(symbols)
        self.centres = cut.centres.to(self.leaves)
        self.begin()

    def begin(self) -> None:
        self.table: dict[tuple[int, ...], int] = {}
        self.spread, self.added = 0.0, False

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        check_time(self.until)
        keys = list(map(tuple, inputs.tolist()))
        if new := [key for key in dict.fromkeys(keys) if key not in self.table]:
            vectors = torch.cat([self.leaves, self.centres])
            nodes = self.network.of(vectors[torch.tensor(new, device=vectors.device)])
            self.table.update(zip(new, self._snapped(nodes), strict=True))
        return np.array([self.table[key] for key in keys])

    def _snapped(self, nodes: Tensor) -> list[int]:
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


def _close(network: Node, transitions: Transitions, claim: Claim, cut: Cut, until: float) -> Algebra:
    closing = _Closing(network, len(transitions.symbols), cut, until)
    for _ in range(PASSES):
        closing.begin()
        for _ in levels(transitions, network.chunk, closing):
            pass
        if not closing.added:
            break
    else:
        raise Error(f"extract: the clusters were not closed after {PASSES} passes. Train the model further.")
    # Only what some word needs is an element: a cluster may be of nodes that another cut of the cloud explains.
    S = len(transitions.symbols)
    number = _numbered(closing.table, S)
    used = list(number)
    table = {tuple(x if x < S else S + number[x - S] for x in inputs): number[e] for inputs, e in closing.table.items()}
    said, margins = read(network.head(closing.centres[used]), claim.several)
    return Algebra(
        symbols=claim.machine.symbols,
        chunk=network.chunk,
        table=table,
        said=tuple(said),
        margins=tuple(margins),
        centres=closing.centres[used].cpu(),
        radius=closing.radius,
        spread=closing.spread,
    )


def _numbered(table: dict[tuple[int, ...], int], symbols: int) -> dict[int, int]:
    """The elements of a table in the order in which short products make them, however the clusters were found."""
    number: dict[int, int] = {}
    count = len(set(table.values()))
    while len(number) < count:
        known = [
            (len(inputs), tuple(x if x < symbols else symbols + number[x - symbols] for x in inputs), e)
            for inputs, e in table.items()
            if e not in number and all(x < symbols or x - symbols in number for x in inputs)
        ]
        for *_, e in sorted(known):
            number.setdefault(e, len(number))
    return number
