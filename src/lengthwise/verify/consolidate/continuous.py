"""Consolidate a trained model: teach it the algebra of its machine until boxes around its states close.

With a centre c_m for each element m of a tree's algebra, learned beside the weights, and with a size σ_i for each entry
of a box, the loss is what the proof by boxes asks for (prove/boxes.py):

    mean |f(c_a, ...) - c_m|² + mean max_i |f(c_a, ...) - c_m|_i    closure, over all products that the machine has
    mean max_i relu(Σ_j |df_i/dx_j| σ_j/σ_i - CONTRACTION)           what is near the centres comes nearer
    mean relu(MARGIN - lead of the right output on c_m)             the head

It begins with the model's own weights and with the centres where its own states settle. Rates fall to a fiftieth. Where
what is near the centres comes nearer, Gauss and Newton's steps in float64 on the closure alone come last: they make it
exact, which Adam does not, and leave out the contraction, whose kinks they could not take.

Shapes: N centres, M conditions, n numbers of a state.
"""

from __future__ import annotations

import copy
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..algebra import MachineAlgebra
from ..claim import Claim
from ..prove import boxes as trees
from ..prove import node
from ..verdict import Proof, Unknown
from .gate import REFUSED
from .neurons import TaughtTree, own_sets

CONTRACTION = 0.4
"""Row sums above this are taught down."""
MARGIN = 5.0
EVERY = 100
"""Steps between two looks at whether a proof is worth trying."""
JACOBIANS = 24
"""Conditions a step whose Jacobians are taken: half of them those that were worst when last seen."""
NEARER = 0.5
"""Row sums below this are tried."""
NEAR = 0.3
"""Nodes of centres that are this near where they should be are tried. Gauss and Newton take farther ones too, and with
them away what the head and the contraction were taught."""
LAST = 0.2
"""The share of the time that is kept for a closure that no proof has been found of: snapped, its nodes may be right."""
SNAPS = 0.02
"""Nodes of centres that are this near where they should be are right when snapped."""
CLOSED = 1e-5
"""Closure to which Gauss-Newton goes on. What rounding in float32 may add in the worst order is ten times as much."""
DAMPING = 1e-6
SLOPES = 500_000_000
"""More slopes than these do not fit a memory of a few GiB, and Adam's closure must do."""
ROWS = 256
"""Residuals whose slopes are taken at a time."""
RATE, CENTRES_RATE, SCALE_RATE = 1e-3, 3e-3, 1e-2


def taught(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0, seed: int = 0) -> TaughtTree:
    """A copy of a model that is not refused, taught for at most so many seconds, less where its proof goes through."""
    ends = time.monotonic() + seconds
    was_asked = {name: p.requires_grad for name, p in model.named_parameters()}
    model = copy.deepcopy(model).eval().requires_grad_(True)
    tree = node.Node(model)
    boxes = trees.TreeBoxes(tree, claim, MachineAlgebra(claim, tree.chunk))
    start = trees.settled_centres(boxes)
    if start is None or not bool(torch.isfinite(start).all()):
        raise Error(f"{REFUSED}: it has no state to begin with for an element of the machine's algebra.")
    before = boxes.images(start).detach()
    closure = Closure(boxes, seed)
    centres = nn.Parameter(start.float())
    scale = nn.Parameter(torch.zeros(start.shape[1]))
    weights = list(model.parameters())
    rates = [RATE, CENTRES_RATE, SCALE_RATE]
    groups = [{"params": each} for each in (weights, [centres], [scale])]
    optimiser = torch.optim.Adam(groups, betas=(0.9, 0.98))
    found: Proof | Unknown = Unknown("there was no time to consolidate")
    step, wait = 0, 0
    while time.monotonic() < ends - LAST * seconds:
        left = (ends - time.monotonic()) / seconds - LAST
        rate = min(step / 50, max(left, 0.0) ** 0.5, 1.0)
        for group, base in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = base * max(rate, 0.02)
        optimiser.zero_grad()
        parts = closure(centres, scale.exp())
        torch.stack(parts).sum().backward()
        nn.utils.clip_grad_norm_([*weights, centres], 1.0)
        optimiser.step()
        step += 1
        if step % EVERY:
            continue
        head = float(parts[2].detach())
        wait -= EVERY
        if closure.largest < NEARER and head < MARGIN / 2 and closure.worst < NEAR and wait <= 0:
            close(closure, weights, centres, min(ends, time.monotonic() + 0.3 * seconds))
            proof = trees.prove_tree_boxes(model, claim, max(1.0, ends - time.monotonic()))
            found = Unknown(proof) if isinstance(proof, str) else proof
            if isinstance(found, dict) and found["arithmetic"] == "float32":
                break
            optimiser.state.clear()
            wait = 3 * EVERY
    else:
        leave_contraction(closure, weights, centres, time.monotonic() + 0.7 * LAST * seconds)
        close(closure, weights, centres, ends)
    for name, p in model.named_parameters():
        p.requires_grad_(was_asked[name])
    return TaughtTree(model, found, own_sets(before, boxes.results, centres), len(start))


def leave_contraction(closure: Closure, weights: list[nn.Parameter], centres: nn.Parameter, ends: float) -> None:
    """Closure and head alone, which the contraction may hold up: enough for nodes that are snapped."""
    optimiser = torch.optim.Adam([{"params": weights}, {"params": [centres], "lr": CENTRES_RATE}], lr=RATE)
    while time.monotonic() < ends:
        off, head = closure.off(centres), closure.head(centres)
        if closure.worst < SNAPS and float(head.detach()) < MARGIN / 2:
            break
        optimiser.zero_grad()
        (off + head).backward()
        nn.utils.clip_grad_norm_([*weights, centres], 1.0)
        optimiser.step()


def close(closure: Closure, weights: list[nn.Parameter], centres: nn.Parameter, ends: float) -> None:
    """Gauss and Newton's steps in float64 until the closure is exact; the weights are then rounded as they are stored.

    With r the residuals f(c_a, ...) - c_m and J their slopes by all weights, the least step that takes them away,
    (J Jᵀ + damping) y = r and then -Jᵀ y, so small that the contraction stays what it was taught to be. The centres
    stay where they are, and with them the head: free ones may all meet in one point, where everything closes.
    """
    boxes, parameters = closure.boxes, weights
    if len(boxes.results) * centres.shape[1] * sum(p.numel() for p in parameters) > SLOPES:
        return
    stored = [p.dtype for p in parameters]
    centres = nn.Parameter(centres.detach().double())
    for p in parameters:
        p.data, p.grad = p.data.double(), None

    def residuals() -> Tensor:
        return (boxes.images(centres) - centres[boxes.results]).flatten()

    r, damping = residuals(), DAMPING
    while time.monotonic() < ends and float(r.detach().abs().max()) > CLOSED:
        J = slopes(r, parameters)
        K = (J @ J.T).double()
        K.diagonal().add_(damping * K.diagonal().mean())
        step = J.T.mv(torch.linalg.solve(K, r.detach()).float()).double()
        before = [p.data for p in parameters]
        with torch.no_grad():
            for p, d in zip(parameters, step.split([p.numel() for p in parameters]), strict=True):
                p.data = p.data - d.view_as(p)
        after = residuals()
        if float(after.detach().norm()) < float(r.detach().norm()):
            r, damping = after, max(0.1 * damping, DAMPING)
            continue
        for p, data in zip(parameters, before, strict=True):
            p.data = data
        r, damping = residuals(), 100 * damping
        if damping > 1e3:
            break
    for p, dtype in zip(parameters, stored, strict=True):
        p.data, p.grad = p.data.to(dtype), None
    with torch.no_grad():
        closure.worst = float(residuals().abs().max())


def slopes(r: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    """(R,P) of all residuals by all parameters, in float32; what no residual depends on, as the head, has none."""
    parts: list[Tensor] = []
    for rows in torch.eye(len(r), dtype=r.dtype).split(ROWS):
        by = torch.autograd.grad(r, parameters, rows, True, is_grads_batched=True, allow_unused=True)
        flat = [
            r.new_zeros(len(rows), p.numel()) if d is None else d.flatten(1)
            for p, d in zip(parameters, by, strict=True)
        ]
        parts.append(torch.cat(flat, 1).float())
    return torch.cat(parts)


class Closure:
    """The three parts of the loss, over the conditions of a proof by boxes."""

    def __init__(self, boxes: trees.TreeBoxes, seed: int):
        self.boxes = boxes
        self.draw = torch.Generator().manual_seed(seed)
        self.worst, self.largest = float("inf"), float("inf")
        """How far an image lies from its centre, and the largest row sum last seen."""
        self.seen = torch.full((len(boxes.results),), torch.inf)

    def __call__(self, centres: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.off(centres), self.contraction(centres, scale), self.head(centres)

    def off(self, centres: Tensor) -> Tensor:
        off = self.boxes.images(centres) - centres[self.boxes.results]
        self.worst = float(off.detach().abs().max())
        return (off**2).sum(1).mean() + off.abs().amax(1).mean()

    def contraction(self, centres: Tensor, scale: Tensor) -> Tensor:
        total = centres.new_zeros(())
        for rows in self.boxes.inner():
            if len(rows) > JACOBIANS:
                worst = self.seen[rows].topk(JACOBIANS // 2).indices
                rows = rows[torch.cat([worst, torch.randint(len(rows), (JACOBIANS // 2,), generator=self.draw)])]
            sums = self.boxes.row_sums(centres, rows, scale)
            self.seen[rows] = sums.detach().amax(1)
            above = F.relu(sums - CONTRACTION)
            total = total + above.amax(1).mean() + 0.05 * above.sum(1).mean()
        self.largest = float(self.seen[torch.cat(self.boxes.inner())].max())
        return total

    def head(self, centres: Tensor) -> Tensor:
        logits, right = self.boxes.logits(centres), self.boxes.right
        if self.boxes.claim.several:
            return F.relu(MARGIN - torch.where(right.bool(), logits, -logits)).mean()
        lead = logits.gather(1, right[:, None]) - logits
        own = F.one_hot(right, logits.shape[1]).bool()
        return F.relu(MARGIN - lead).masked_fill(own, 0.0).sum(1).mean()
