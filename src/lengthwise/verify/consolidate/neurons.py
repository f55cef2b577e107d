"""Consolidate a trained tree: every neuron of its feed-forward serves one element of the machine's algebra.

A post-norm node of the taps of condition k, with the element m(k) as their product, is

    node = norm(x_k + W2 act(a_k)),    a_k = W1 x_k + b1,    x_k what the feed-forward reads

Neuron j serves the element m(j): its column of W2 is α n_m(j), and the loss asks

    a_kj <= -SHUT                                   where m(j) is not m(k)
    a_kj >= OPEN    for the largest of them         where m(j) is m(k)
    lead of the right output >= LEAD on c_m,        c_m = g n_m + b, for the norm's weight g and bias b

Then node = norm(x_k + α t n_m) for some t > OPEN, which is c_m but for x_k / (α t): whatever moves the taps a little
moves t, which the norm takes out, and x_k, which is next to nothing. So what is near the centres comes much nearer, and
boxes close in float32, whose rounding moves a node by about 1e-4.

The n_m are orthogonal to each other, of mean 0, and as near to where the trained network's own nodes are as such
vectors can be. So the taps of all conditions are known from the start, and what is taught is a threshold for each
neuron: attention, the first norm and W1 descend, from where training left them. At the end a neuron that is the most
open one of no condition is taken out of W2. The feed-forward of what comes out does no more than name the product.

Shapes: N elements, K conditions, H neurons, D width.
"""

from __future__ import annotations

import time
from copy import deepcopy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...mixers import Layout, Level
from ...models import LengthwiseForCausalLM
from ..algebra import MachineAlgebra
from ..claim import Claim
from ..prove import boxes as trees
from ..prove.node import Node, tree_of
from .teaching import CannotBeTaught, TaughtCopy, descend, prove_harder, release, right_gap

SHUT, OPEN, LEAD = 4.0, 12.0, 5.0
BEYOND = 0.5
"""What is taught is more than is asked by this. Where boxes do not close, SHUT is one more, and OPEN four."""
ALPHA = 1e4
RATE, STEPS = 3e-3, 5000


@torch.no_grad()
def own_sets(images: Tensor, owner: Tensor, centres: Tensor) -> int:
    """Returns the number of elements most of whose nodes (K,D) lie nearer to their set's centre than to any other."""
    near = torch.cdist(images.double(), centres.double()).argmin(1) == owner
    share = torch.zeros(len(centres), dtype=torch.float64).scatter_reduce(
        0, owner, near.double(), "mean", include_self=False
    )
    return int((share > 0.5).sum())


def teach_neurons(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0) -> TaughtCopy:
    """Returns a copy that was taught, and whether it was proved."""
    if isinstance(reason := tree_of(model), str):
        raise CannotBeTaught(reason)
    ends = time.monotonic() + seconds
    copy = deepcopy(model).eval().requires_grad_(True)
    node = Node(copy)
    if not node.layer.post or not isinstance(node.layer.feed_norm, nn.LayerNorm):
        raise CannotBeTaught("its layer does not end with a layer norm, which takes out how open a neuron is")
    algebra = MachineAlgebra(claim, node.chunk)
    if len(algebra) >= node.width:
        no_room = f"no orthogonal places for the {len(algebra)} elements of the machine's algebra"
        raise CannotBeTaught(f"its width of {node.width} has {no_room}")
    boxes = trees.TreeBoxes(node, algebra)
    start = first_nodes(boxes)
    neurons = Neurons(boxes, start)
    own = own_sets(boxes.images(start), boxes.results, neurons.centres)
    proof = prove_harder(
        lambda harder: neurons.teach(SHUT + harder, OPEN + 4 * harder, ends),
        lambda left: trees.prove_tree_boxes(copy, claim, left),
        ends,
    )
    release(copy, model)
    return TaughtCopy(copy, own, len(start), "sets", proof)


@torch.no_grad()
def first_nodes(boxes: trees.TreeBoxes) -> Tensor:
    """Returns (N,D) a node for each element: the mean of those made of leaves, or else of elements that have one."""
    S, taps, results = len(boxes.symbols), boxes.taps.numpy(), boxes.results.numpy()
    known = np.zeros(len(boxes.algebra), dtype=bool)
    nodes = torch.zeros(len(known), boxes.node.width, dtype=torch.float64)
    leaves = (taps <= S).all(1)
    while not known.all():
        ready = leaves | (((taps <= S) | known[np.maximum(taps - S - 1, 0)]).all(1) & ~(taps[:, -1] <= S))
        new = ready & ~known[results]
        if not new.any():
            raise CannotBeTaught("it has no node to begin with for an element of the machine's algebra")
        images = boxes.images(nodes)
        for m in set(results[new].tolist()):
            nodes[m] = images[torch.from_numpy(new & (results == m))].mean(0)
            known[m] = True
    return nodes


class Neurons:
    """The goal of each neuron at each condition, and the weights that descend on it."""

    def __init__(self, boxes: trees.TreeBoxes, start: Tensor):
        self.boxes, self.layer = boxes, boxes.node.layer
        norm = self.layer.feed_norm
        g, b = norm.weight.detach().double(), norm.bias.detach().double()  # pyright: ignore
        n = orthogonal(torch.where(g.abs() > 1e-3, (start - b) / g, 0.0)) * start.shape[1] ** 0.5
        self.centres = (g * n + b).float()
        H, K = len(self.layer.up.weight), len(boxes.results)
        # As many neurons for an element as it has conditions, in proportion, and at least one.
        shared = boxes.results.sort().values[torch.arange(H) * K // H]
        shared[: len(n)] = torch.arange(len(n))
        self.other = shared != boxes.results[:, None]
        """(K,H) whether a neuron serves another element than the product."""
        self.columns = (ALPHA * n[shared].T).float()
        fixed = {id(p) for part in (self.layer.down, norm) for p in part.parameters()}
        self.weights = [p for p in boxes.node.model.parameters() if id(p) not in fixed]

    def teach(self, shut: float, open_: float, ends: float) -> str | None:
        """Returns why the neurons are not what they are to be, or None if they are."""
        worst = [0.0, 0.0]

        def loss(step: int) -> Tensor | None:
            nonlocal worst
            a, lead = self.arguments(), right_gap(self.boxes.logits(self.centres), self.boxes.right)
            most, own = a.masked_fill(~self.other, -torch.inf), a.masked_fill(self.other, -torch.inf).amax(1)
            worst = [float(x.detach()) for x in (-most.max(), own.min(), lead.min())]
            if worst[0] >= shut and worst[1] >= open_ and worst[2] >= LEAD:
                self.name(own=a.detach().masked_fill(self.other, -torch.inf))
                return None
            loss = F.relu(most + shut + BEYOND).sum(1).mean() + 10 * F.relu(open_ + BEYOND - own).mean()
            return loss + F.relu(LEAD + BEYOND - lead).mean()

        if descend(self.weights, loss, steps=STEPS, ends=ends, lr=RATE, betas=(0.9, 0.98)):
            return None
        return f"not all neurons open for one element alone: they are shut by {worst[0]:.2f} and open by {worst[1]:.2f}"

    def arguments(self) -> Tensor:
        """(K,H) of the activation."""
        boxes, up = self.boxes, self.layer.up
        table = torch.cat([boxes.node.leaves(len(boxes.symbols)), self.centres])
        a = table.new_zeros(self.other.shape)
        for rows, taps in boxes.by_size():
            x = torch.stack([table[t - 1] for t in taps], 1)
            level = Level(pad=boxes.node.model.pad)
            y = self.layer.mixer.at(x, layout=Layout.of(x), stride=len(taps), level=level)
            a = a.index_copy(0, rows, up(self.layer.mixer_norm(x[:, -1] + y[:, -1])))
        return a

    @torch.no_grad()
    def name(self, own: Tensor) -> None:
        """Writes what the neurons that are needed add to the node; the others add nothing."""
        needed = torch.zeros(own.shape[1], dtype=torch.bool)
        needed[own.argmax(1)] = True
        down = self.layer.down
        down.weight.copy_(self.columns * needed)
        if down.bias is not None:
            down.bias.zero_()


def orthogonal(vectors: Tensor) -> Tensor:
    """(N,D) unit vectors at right angles to each other and to (1, …, 1), the nearest to these; N < D."""
    D = vectors.shape[1]
    # Of the space at right angles to (1, …, 1) the columns after the first are a basis.
    basis = torch.linalg.qr(torch.cat([vectors.new_ones(D, 1), torch.eye(D, dtype=vectors.dtype)[:, : D - 1]], 1)).Q[
        :, 1:
    ]
    inside = vectors @ basis
    inside = inside / inside.norm(dim=1, keepdim=True).clamp(min=1e-6)
    U, _, V = torch.linalg.svd(inside, full_matrices=False)
    return U @ V @ basis.T
