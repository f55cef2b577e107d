"""Proof by boxes over time: sets of hidden states for each state of the machine, for RNN, GRU and LSTM.

A set i is a box B_i and the machine's state q_i that it belongs to, and each symbol s leads it to a set i·s of the
state δ(q_i, s). With h_0 = 0 in a set of its own, of the first state,

    cell(0, s)  lies in B_(0·s)
    cell(h, s)  lies in B_(i·s)    for h in B_i
    head(h)     is right           for h in B_i

for every symbol s. Then by induction over the tokens the hidden state after every word lies in a box of the machine's
state, and the answer is right at every length. A hidden state is that of all layers, and for the LSTM h and c of each:
(h^1, c^1, h^2, c^2, …). The cell is what the model computes, rounding included.

One set for each state of the machine is seldom enough, for a layer of thresholds cannot follow every machine so: the
next state of parity is the exclusive or of state and symbol. So the sets are found: from 0 on each state that a symbol
leads to is a set of its own, unless it is near one of the same state of the machine that is there. What is near is
tried from coarse to fine.

The radii begin at what the slopes at the centres ask for, r = |J| r + off, where off is how far the transitions lead
from the centres. Where that grows without end no boxes of these sets close; elsewhere a few rounds of the checker's own
bounds do the rest.

Shapes: N sets, M transitions between them, S symbols, D width, n = D · layers · (2 for the LSTM).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import jacrev, vmap

from ...errors import Error
from ...mixers.recurrent import Recurrent, step
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from ...models.layers import Layer
from .. import certificate as certificates
from ..checker.mean_value import box, mean_value
from ..checker.network import Recurrence
from ..claim import Claim
from ..verdict import Proof, Unknown
from .boxes import CONDITIONS, LEAST_RADIUS, SLOPES, grow, leads, linear_radii, off_centre, settled, shown
from .node import inner_of

AT_ONCE = 32
NEAR = (0.5, 0.1, 0.02)
"""How far apart, in their largest entry, states are one set, in turn."""


def refusal(model: nn.Module) -> str | None:
    """Why this model is no recurrence of torch's cells; None where it is."""
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Fixed):
        return "the model is none of the recurrent networks rnn, gru and lstm"
    layers = inner.depth.layers
    if not all(type(layer) is Layer and type(layer.mixer) is Recurrent and not layer.residual for layer in layers):
        return "the model's layers are not recurrences alone"
    if not all(isinstance(layer.mixer_norm, nn.Identity) for layer in layers):  # pyright: ignore
        return "the model's layers are not recurrences alone"
    if inner.position.at_input or inner.places_for_mixers or type(inner.head) is not nn.Linear:
        return "the model has positions, or another head than a linear map"
    if inner.training and inner.config.dropout:
        return "dropout draws: call eval() first"
    return None


class Cell:
    """One step of a recurrent model, over tensors of any precision."""

    def __init__(self, model: nn.Module):
        if reason := refusal(model):
            raise Error(f"cell: {reason}. A preset rnn, gru or lstm has one.")
        self.model: LengthwiseForCausalLM = inner_of(model)  # pyright: ignore[reportAttributeAccessIssue]
        self.cells: list[nn.RNNBase] = [layer.mixer.cell for layer in self.model.depth.layers]  # pyright: ignore
        self.kind = {nn.RNN: "rnn", nn.GRU: "gru", nn.LSTM: "lstm"}[type(self.cells[0])]
        self.width: int = self.model.config.width
        self.parts = 2 if self.kind == "lstm" else 1
        self.size = self.width * len(self.cells) * self.parts
        outputs = getattr(model, "num_outputs", None)
        self.outputs = slice(0, self.model.head.weight.shape[0] if outputs is None else outputs)

    def step(self, x: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        """From an embedded token and the parts of the state to the parts of the next."""
        after: list[Tensor] = []
        for k, cell in enumerate(self.cells):
            after += step(cell, x, state[k * self.parts : (k + 1) * self.parts])
            x = after[-self.parts]
        return after

    def logits(self, state: Sequence[Tensor]) -> Tensor:
        h, head = state[-self.parts], self.model.head
        bias = None if head.bias is None else head.bias[self.outputs].to(h.dtype)
        return F.linear(h, head.weight[self.outputs].to(h.dtype), bias)

    def tokens(self, dtype: torch.dtype) -> Tensor:
        """(S,D) every token, embedded; with gradients."""
        table, scale = self.model.embedding.weight.to(dtype), self.model.config.embedding_scale
        return table if scale == 1 else table * scale

    def split(self, state: Tensor) -> list[Tensor]:
        return list(state.split(self.width, -1))


def prove_recurrence(model: nn.Module, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof of an RNN, GRU or LSTM, evaluated in float32 as it is stored."""
    return _prove(model, claim, seconds, "float32")


def prove_recurrence_in_float64(model: nn.Module, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof for evaluation in float64 alone."""
    return _prove(model, claim, seconds, "float64")


def _prove(model: nn.Module, claim: Claim, seconds: float, arithmetic: str) -> Proof | Unknown | str:
    if reason := refusal(model):
        return reason
    ends = time.monotonic() + seconds
    cell, found = Cell(model), Unknown("there was no time to find boxes")
    for near in NEAR:
        sets = explored(cell, claim, near, ends)
        if isinstance(sets, Unknown):
            return sets if near == NEAR[0] else found
        found = _closed(*sets, ends, arithmetic)
        if isinstance(found, dict) or time.monotonic() > ends:
            break
    return found


def _closed(boxes: StateBoxes, centres: Tensor, ends: float, arithmetic: str) -> Proof | Unknown:
    network = certificates.network_of(boxes.cell.model, Recurrence, arithmetic)
    if isinstance(network, str):
        return Unknown(network)
    centres = settled(boxes, centres)
    start = radii_of_slopes(boxes, centres)
    if start is None:
        return Unknown("the slopes at its states let errors grow, so no boxes around them close")
    radii = grow(
        lambda r: boxes.needed(network, centres, r),
        start,
        ends,
        lambda r: boxes.margin(network, centres, r),
    )
    if isinstance(radii, Unknown):
        return radii
    margin = boxes.margin(network, centres, radii)
    return shown("recurrence-boxes", arithmetic, margin, boxes.to_json(centres, radii))


Transition = tuple[int, int, int]
"""From a set by a symbol to a set; the first is -1 for the initial vector."""


class StateBoxes:
    """The conditions of the induction: sets 0, 1, …, each of a state of the machine, and the initial vector apart."""

    def __init__(self, cell: Cell, claim: Claim, states: list[int], transitions: list[Transition]):
        self.cell, self.claim, self.states = cell, claim, states
        self.froms, self.symbols, self.results = torch.tensor(transitions).T.contiguous()
        """(M,) each transition: from a set (N: the initial vector) by a symbol to a set."""
        self.froms = self.froms.where(self.froms >= 0, torch.tensor(len(states)))
        asked = [i for i, q in enumerate(states) if claim.asked[q]]
        self.asked = torch.tensor(asked, dtype=torch.long)
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[[states[i] for i in asked]]))

    def images(self, centres: Tensor) -> Tensor:
        """(M,n) where the transitions lead from the centres."""
        table = torch.cat([centres, centres.new_zeros(1, self.cell.size)])[self.froms]
        return torch.cat(self.cell.step(self.cell.tokens(centres.dtype)[self.symbols], self.cell.split(table)), -1)

    def slopes(self, centres: Tensor) -> Tensor:
        """(M,n,n) the sizes of ∂s'_i/∂s_j at the centre that each transition leads from."""
        table = torch.cat([centres, centres.new_zeros(1, self.cell.size)])[self.froms]

        def after(state: Tensor, token: Tensor) -> Tensor:
            return torch.cat(self.cell.step(token, self.cell.split(state)))

        return vmap(jacrev(after), chunk_size=AT_ONCE)(table, self.cell.tokens(centres.dtype)[self.symbols]).abs()

    def needed(self, network: Recurrence, centres: Tensor, radii: Tensor) -> Tensor:
        """(N,n) how far the states that belong to a set may be from its centre."""
        far, zero = torch.zeros_like(centres), centres.new_zeros(1, self.cell.size)
        c, r = (torch.cat([x, zero]).numpy() for x in (centres, radii))
        for part in range(0, len(self.froms), AT_ONCE):
            here = slice(part, part + AT_ONCE)
            sets, target = self.froms[here].numpy(), self.results[here]
            image = mean_value(network.step(box(c[sets], r[sets]), self.symbols[here].numpy()))
            off = off_centre(image.lo, image.hi, centres[target])
            far = far.scatter_reduce(0, target[:, None].expand_as(off), off, "amax")
        return far

    def margin(self, network: Recurrence, centres: Tensor, radii: Tensor) -> float:
        if not len(self.asked):
            return float("inf")
        logits = mean_value(network.answer(box(centres[self.asked].numpy(), radii[self.asked].numpy())))
        return float(leads(logits.lo, logits.hi, self.right.numpy()).min())

    def to_json(self, centres: Tensor, radii: Tensor) -> dict:
        """The initial vector is a set of radius 0 beside the others."""
        zero = [0.0] * self.cell.size
        sets = [{"state": int(self.claim.machine.start), "centre": zero, "radius": zero}]
        for q, c, r in zip(self.states, centres.tolist(), radii.tolist(), strict=True):
            sets.append({"state": q, "centre": c, "radius": r})
        return {"sets": sets}


@torch.no_grad()
def explored(cell: Cell, claim: Claim, near: float, ends: float) -> tuple[StateBoxes, Tensor] | Unknown:
    """Sets of all states that the model comes to, and where it met each first, (N,n), in float64."""
    delta, S = claim.machine.delta, claim.machine.num_symbols
    x = cell.tokens(torch.float64)
    points = [torch.zeros(cell.size, dtype=torch.float64)]  # the initial vector, and then that of set i at i + 1
    states, transitions = [int(claim.machine.start)], list[Transition]()
    of_state, most = dict[int, list[int]](), CONDITIONS.most
    for i, point in enumerate(points):  # grows while we walk it
        after = torch.cat(cell.step(x, cell.split(point.expand(S, -1))), -1)
        if not bool(torch.isfinite(after).all()):
            return Unknown("the model's states do not stay finite")
        for s, image in enumerate(after):
            q = int(delta[states[i], s])
            known = of_state.setdefault(q, [])
            apart = (torch.stack([points[j] for j in known]) - image).abs().amax(1) if known else torch.empty(0)
            if known and float(apart.min()) <= near:
                to = known[int(apart.argmin())]
            else:
                to = len(points)
                points.append(image)
                states.append(q)
                known.append(to)
            transitions.append((i - 1, s, to - 1))
        if len(points) * S > most or time.monotonic() > ends:
            found = f"the model comes to more than {len(points) - 1:,} states that are {near} apart"
            return Unknown(f"{found}, {CONDITIONS.surpassed}" if len(points) * S > most else found)
    return StateBoxes(cell, claim, states[1:], transitions), torch.stack(points[1:])


@torch.no_grad()
def radii_of_slopes(boxes: StateBoxes, centres: Tensor) -> Tensor | None:
    """(N,n) a little more than r = |J| r + off, at least `LEAST_RADIUS`; None where it grows without end."""
    least = torch.full_like(centres, LEAST_RADIUS)
    if len(boxes.froms) * boxes.cell.size**2 > SLOPES:
        return least
    slopes, zero = boxes.slopes(centres), centres.new_zeros(1, boxes.cell.size)
    off = (boxes.images(centres) - centres[boxes.results]).abs()

    def needed(radii: Tensor) -> Tensor:
        return (slopes @ torch.cat([radii, zero])[boxes.froms][..., None])[..., 0] + off

    return linear_radii(needed, boxes.results, least)
