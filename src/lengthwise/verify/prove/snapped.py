"""Proof of a snapped tree model: its nodes are centres, each of which stands for what words do to the machine.

Let f_i be the map of the machine's states that centre c_i stands for. Where for all tuples of symbols, and of centres,

    node(x_1, …, x_p)    is within the radius of c_k and nearer to it than to any other centre,  f_k = f_1 ; … ; f_p
    head(c_i)            is right after the state that f_i leads to from the start

(p = 1 … C, older taps missing; words that no question follows left out), every node of every word is the centre of its
word's map, by induction on the tree, and the answer is right at every length. Nodes are computed here in float64 alone:
the checker says whether any arithmetic may lead elsewhere. The maps are found by running the network from the symbols
on: where one centre would stand for two maps, nothing is proved. No table is given, so none can be that of the machine
instead of the network's.

Shapes: n nodes side by side, N centres, D model width.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor, nn

from ...models import LengthwiseForCausalLM
from ...models.snapped_nodes import SnappedLayer
from .. import certificate as certificates
from ..algebra import Need
from ..checker import Rejected
from ..claim import Claim
from ..verdict import Proof, Unknown
from .boxes import CONDITIONS
from .codes import Exploration, NotProved
from .node import Node
from .node import refusal as no_node


def refusal(model: nn.Module) -> str | None:
    """Why the nodes of this model are no centres, or None if they are."""
    if reason := no_node(model, snapped=True):
        return reason
    if not isinstance(Node(model).layer, SnappedLayer):
        return "its nodes are not snapped to centres, as verify.extract(model).snap() does"
    return None


def prove_snapped(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof of a model that `snap` made: for float32, or else for evaluation in float64."""
    if reason := refusal(model):
        return reason
    node = Node(model)
    layer: SnappedLayer = node.layer
    N, S, C = len(layer.centres), claim.machine.num_symbols, node.chunk
    if sum(N**m + S**m for m in range(1, C + 1)) > CONDITIONS.most:
        return f"its {N} centres make {CONDITIONS.surpassed}"
    explored = Exploration(SnappedNode(node, layer), Need(claim, chunk=1), claim, time.monotonic() + seconds)
    try:
        explored.look()
    except NotProved as stop:
        return Unknown(stop.why, stop.by_how_much)
    elements, owner = explored.elements()
    met = explored.chosen[:, 0]
    if missing := N - len(met):
        return Unknown(f"{missing} of {N} centres are reached by no word. Extract and snap again")
    centres = layer.centres.detach().double().tolist()
    found: Proof = {
        "kind": "tree-boxes",
        "inference": "snapped",
        "margin": explored.margin,
        "proof": {
            "elements": elements,
            "centres": [{"element": owner[i], "centre": centres[met[i]]} for i in np.argsort(met)],
            "radius": layer.radius,
        },
    }
    reason: Exception | None = None
    for arithmetic in ("float32", "float64"):
        try:
            certificates.accepted(node.model, claim, {**found, "arithmetic": arithmetic})
            return {**found, "arithmetic": arithmetic}
        except Rejected as rejected:
            reason = reason or rejected
    return Unknown(f"the checker does not accept the centres: {str(reason).removesuffix('.')}")


class SnappedNode:
    """Centres as codes of one choice: the nearest of them, if it is within the radius."""

    noun, undecided = "centre", "a node may lie outside the radius of its centre, or nearer to another"
    groups = 1

    def __init__(self, node: Node, layer: SnappedLayer):
        self.node, self.radius = node, layer.radius
        self.centres = layer.centres.detach().double().cpu()

    def vectors(self, chosen: np.ndarray) -> Tensor:
        return self.centres[chosen[:, 0]]

    def codes(self, nodes: Tensor) -> tuple[np.ndarray, np.ndarray]:
        distance = torch.cdist(nodes, self.centres, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.argmin(1, keepdim=True)
        least = distance.gather(1, nearest)[:, 0]
        others = distance.scatter(1, nearest, torch.inf).min(1).values
        gap = others.clamp(max=self.radius).sub(least).nan_to_num(nan=-torch.inf)
        return nearest.numpy(), gap.numpy()
