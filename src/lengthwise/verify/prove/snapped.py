"""Proof of a snapped tree model: its nodes are centres, each of which stands for what words do to the machine.

Let f_i be the map of the machine's states that centre c_i stands for. Where for all tuples of symbols, and of centres,

    node(x_1, …, x_p)    is within the radius of c_k and nearer to it than to any other centre,  f_k = f_1 ; … ; f_p
    head(c_i)            is right after the state that f_i leads to from the start

(p = 1 … C, older taps missing; words that no question follows left out), every node of every word is the centre of its
word's map, by induction on the tree, and the answer is right at every length. Nodes are computed here in float64 alone:
the checker says whether any arithmetic may lead elsewhere. The maps are found by running the network from the symbols
on: where one centre would stand for two maps, nothing is proved. No table is given, so none can be that of the machine
instead of the network's.

Shapes: N centres, M tuples, m taps, D model width, Q states.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...models import LengthwiseForCausalLM
from ...models.snapped_nodes import SnappedLayer
from .. import certificate as certificates
from ..checker import Rejected
from ..claim import Claim
from ..extraction.transitions import Transitions
from ..verdict import Proof, Unknown
from .boxes import CONDITIONS, leads
from .node import Node, Plain, refusal

AT_ONCE = 32


def prove_snapped(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof of a model that `snap` made: for float32, or else for evaluation in float64."""
    if reason := refusal(model, snapped=True):
        return reason
    node = Node(model, snapped=True)
    layer = node.layer
    if not isinstance(layer, SnappedLayer):
        return "its nodes are not snapped to centres, as verify.extract(model).snap() does"
    N, S, C = len(layer.centres), claim.machine.num_symbols, node.chunk
    if sum(N**m + S**m for m in range(1, C + 1)) > CONDITIONS.most:
        return f"its {N} centres make {CONDITIONS.surpassed}"
    found = _Induction(node, layer, claim, time.monotonic() + seconds).proof()
    if not isinstance(found, dict):
        return found
    reason: Exception | None = None
    for arithmetic in ("float32", "float64"):
        try:
            certificates.accepted(node.model, claim, {**found, "arithmetic": arithmetic})
            return {**found, "arithmetic": arithmetic}
        except Rejected as rejected:
            reason = reason or rejected
    return Unknown(f"the checker does not accept the centres: {str(reason).removesuffix('.')}")


class _Induction:
    def __init__(self, node: Node, layer: SnappedLayer, claim: Claim, ends: float):
        self.node, self.claim, self.ends = node, claim, ends
        self.centres, self.radius = layer.centres.detach().double().cpu(), layer.radius
        self.transitions = Transitions(claim)
        self.room = float("inf")

    @torch.no_grad()
    def proof(self) -> Proof | Unknown:
        symbols = range(self.claim.machine.num_symbols)
        leaves = self.node.leaf_vectors(symbols, torch.float64).detach().cpu()
        acts: dict[int, int] = {}
        done: set[tuple[int, ...]] = set()
        todo, vectors, own = (
            self._tuples(list(symbols), set()),
            leaves,
            dict(enumerate(self.transitions.symbols.tolist())),
        )
        while todo:
            for m in range(1, self.node.chunk + 1):
                each = [t for t in todo if len(t) == m]
                for i in range(0, len(each), AT_ONCE):
                    if time.monotonic() > self.ends:
                        return Unknown("the check of the centres had no time")
                    if failed := self._check(each[i : i + AT_ONCE], vectors, own, acts):
                        return failed
            if vectors is not leaves:
                done |= set(todo)
            vectors, own = self.centres, acts
            todo = self._tuples(sorted(acts), done)
        if missing := len(self.centres) - len(acts):
            return Unknown(f"{missing} of {len(self.centres)} centres are reached by no word. Extract and snap again")
        return self._read(acts)

    def _tuples(self, of: list[int], done: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [t for m in range(1, self.node.chunk + 1) for t in product(of, repeat=m) if t not in done]

    def _check(self, tuples: list[tuple[int, ...]], vectors: Tensor, own: dict[int, int], acts: dict) -> Unknown | None:
        """Note the map of the centre of each node; or say what fails."""
        numbers = np.array([[own[i] for i in each] for each in tuples])
        act = numbers[:, 0]
        for column in numbers.T[1:]:
            act = self.transitions.composed(act, column)
        kept = np.flatnonzero(self.transitions.kept(act, opening=len(tuples[0]) < self.node.chunk))
        if not len(kept):
            return None
        places = torch.tensor([tuples[i] for i in kept])
        nearest, room = self._nearest(self.node.combine([Plain(vectors[column]) for column in places.T]).x)
        self.room = min(self.room, float(room.min()))
        if not self.room > 0:
            return Unknown("a node may lie outside the radius of its centre, or nearer to another", -self.room)
        for centre, number in zip(nearest.tolist(), act[kept].tolist(), strict=True):
            if acts.setdefault(centre, number) != number:
                return Unknown(f"centre {centre} stands for words that do different things to the machine")
        return None

    def _nearest(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """(M,) the centre of each node, and how much nearer it is than the next and than the radius."""
        distance = torch.cdist(nodes, self.centres, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.argmin(1)
        least = distance.gather(1, nearest[:, None])[:, 0]
        others = distance.scatter(1, nearest[:, None], torch.inf).min(1).values
        return nearest, torch.minimum(others, torch.tensor(self.radius)).sub(least).nan_to_num(nan=-torch.inf)

    def _read(self, acts: dict[int, int]) -> Proof | Unknown:
        order = sorted(acts)
        states = self.transitions.states(np.array([acts[i] for i in order]))
        logits = self.node.logits(Plain(self.centres[order])).x.numpy()
        lead = leads(logits, logits, self.claim.answers[states])[self.claim.asked[states]]
        margin = min(self.room, float(lead.min()))
        if not margin > 0:
            return Unknown("the head is not surely right on one of the centres", -margin)
        numbers = sorted(set(acts.values()))
        return {
            "kind": "tree-boxes",
            "inference": "snapped",
            "margin": margin,
            "proof": {
                "elements": [self.transitions.of(number).tolist() for number in numbers],
                "centres": [{"element": numbers.index(acts[i]), "centre": self.centres[i].tolist()} for i in order],
                "radius": self.radius,
            },
        }
