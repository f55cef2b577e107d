"""Consolidate a trained model: teach it the algebra of its machine until boxes around its states close.

With a centre c_m for each element m of a tree's algebra, or each state of the machine that a recurrence follows,
learned beside the weights, and with a size σ_i for each entry of a box, the loss is what the proof by boxes asks for
(prove/boxes.py, prove/recurrence.py):

    mean |f(c_a, ...) - c_m|² + mean max_i |f(c_a, ...) - c_m|_i    closure, over all products that the machine has
    mean max_i relu(Σ_j |df_i/dx_j| σ_j/σ_i - CONTRACTION)           what is near the centres comes nearer
    mean relu(MARGIN - lead of the right output on c_m)             the head

It begins with the model's own weights and with the centres where its own states settle. Rates fall to a fiftieth. Where
only rounding stands between the boxes and their closing, L-BFGS in float64 on the closure alone comes last.

Shapes: N centres, M conditions, n numbers of a state.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...models import LengthwiseForCausalLM
from ..algebra import Algebra
from ..claim import Claim
from ..prove import boxes as trees
from ..prove import node, recurrence
from ..verdict import Proof, Unknown

CONTRACTION = 0.4
"""Row sums above this are taught down."""
MARGIN = 5.0
EVERY = 100
"""Steps between two looks at whether a proof is worth trying."""
JACOBIANS = 24
"""Conditions a step whose Jacobians are taken: half of them those that were worst when last seen."""
NEARER = 0.7
"""Row sums below this are tried."""
CLOSED = 1e-6
"""Closure to which L-BFGS goes on: about what weights rounded to float32 can keep."""
RATE, CENTRES_RATE, SCALE_RATE = 1e-3, 3e-3, 1e-2

Boxes = trees.TreeBoxes | recurrence.StateBoxes
Log = Callable[[str], None]


def refusal(model: nn.Module) -> str | None:
    """Why this model cannot be consolidated here; None where it can."""
    tree, over_time = trees.refusal(model), recurrence.refusal(model)
    return None if tree is None or over_time is None else f"{tree}; {over_time}"


def consolidate(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0) -> LengthwiseForCausalLM | str:
    """A copy of the model, taught for at most so many seconds and less where its proof goes through; or why not."""
    if reason := refusal(model):
        return reason
    made, _ = taught(model, claim, seconds)
    return made  # pyright: ignore[reportReturnType]


def taught(
    model: nn.Module, claim: Claim, seconds: float = 300.0, seed: int = 0, log: Log | None = None
) -> tuple[nn.Module, Proof | Unknown | str]:
    """`consolidate`, and the last attempt at a proof: it, or why there is none."""
    if reason := refusal(model):
        return model, reason
    ends = time.monotonic() + seconds
    was_asked = {name: p.requires_grad for name, p in model.named_parameters()}
    model = copy.deepcopy(model).eval().requires_grad_(True)
    rate_of_weights, nearer = RATE, NEARER
    if trees.refusal(model) is None:
        tree = node.Node(model)
        boxes = trees.TreeBoxes(tree, claim, Algebra(claim, tree.chunk))
        start, prove = trees.settled_centres(boxes), trees.prove_tree_boxes
    else:
        boxes = recurrence.StateBoxes(recurrence.Cell(model), claim)
        start, prove = recurrence.settled(boxes, rounds=20), recurrence.prove_recurrence
        rate_of_weights, nearer = 3 * RATE, 1.5
    if start is None or not bool(torch.isfinite(start).all()):
        return model, Unknown("the model has no state to begin with for an element of the machine's algebra")
    closure = Closure(boxes, seed)
    centres = nn.Parameter(start.float())
    scale = nn.Parameter(torch.zeros(start.shape[1]))
    weights = list(model.parameters())
    rates = [rate_of_weights, CENTRES_RATE, SCALE_RATE]
    groups = [{"params": each} for each in (weights, [centres], [scale])]
    optimiser = torch.optim.Adam(groups, betas=(0.9, 0.98))
    found: Proof | Unknown | str = Unknown("there was no time to consolidate")
    step, wait = 0, 0
    while time.monotonic() < ends:
        left = (ends - time.monotonic()) / seconds
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
        off, rows, head = (float(part.detach()) for part in parts)
        if log:
            log(
                f"step {step}: off {off:.2e} (at most {closure.worst:.1e}), row sums above by {rows:.2e} (at most "
                f"{closure.largest:.2f}), margin short by {head:.1e}"
            )
        wait -= EVERY
        if closure.largest < nearer and head < MARGIN / 2 and closure.worst < 0.2 and wait <= 0:
            polish(closure, weights, centres, min(ends, time.monotonic() + 0.3 * seconds), log)
            found = prove(model, claim, max(1.0, ends - time.monotonic()))
            if isinstance(found, dict) and found["arithmetic"] == "float32":
                break
            optimiser.state.clear()
            wait = 3 * EVERY
            if log:
                log(f"step {step}: {found if not isinstance(found, dict) else 'proved for float64 alone'}")
    for name, p in model.named_parameters():
        p.requires_grad_(was_asked[name])
    return model, found


def polish(closure: Closure, weights: list[nn.Parameter], centres: nn.Parameter, ends: float, log: Log | None) -> None:
    """L-BFGS in float64 on the closure alone: a hinge on Jacobians has kinks, which it cannot take.

    The weights are then rounded to what they were stored as.
    """
    stored = [(p, p.dtype) for p in [*weights, centres]]
    for p, _ in stored:
        p.data = p.data.double()
        p.grad = None
    optimiser = torch.optim.LBFGS(
        [*weights, centres], max_iter=20, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0.0
    )
    known = closure.boxes.logits(centres).detach()

    def again() -> Tensor:
        optimiser.zero_grad()
        off = closure.boxes.images(centres) - centres[closure.boxes.results]
        closure.worst = float(off.detach().abs().max())
        loss = (off**2).sum() + 1e-3 * ((closure.boxes.logits(centres) - known) ** 2).mean()
        loss.backward()
        return loss

    for _ in range(10):
        before = closure.worst
        optimiser.step(again)  # pyright: ignore[reportArgumentType]
        if closure.worst < CLOSED or time.monotonic() > ends or closure.worst > 0.999 * before:
            break
    for p, dtype in stored:
        p.data = p.data.to(dtype)
        p.grad = None
    if log:
        log(f"L-BFGS: off at most {closure.worst:.1e}")


class Closure:
    """The three parts of the loss, over the conditions of a proof by boxes."""

    def __init__(self, boxes: Boxes, seed: int):
        self.boxes = boxes
        self.draw = torch.Generator().manual_seed(seed)
        self.worst, self.largest = float("inf"), float("inf")
        """How far an image lies from its centre, and the largest row sum last seen."""
        self.seen = torch.full((len(boxes.results),), torch.inf)

    def __call__(self, centres: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        off = self.boxes.images(centres) - centres[self.boxes.results]
        self.worst = float(off.detach().abs().max())
        closure = (off**2).sum(1).mean() + off.abs().amax(1).mean()
        return closure, self.contraction(centres, scale), self.head(centres)

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
