"""Proof by boxes over time: a set of hidden states for each state of the machine, for RNN, GRU and LSTM.

With a box B_q for each state q that words lead to, and h_0 = 0 in a set of its own,

    cell(0, s)  lies in B_{δ(start, s)}
    cell(h, s)  lies in B_{δ(q, s)}        for h in B_q
    head(h)     is right                   for h in B_q

for every symbol s. Then by induction over the tokens the hidden state after every word lies in the box of the machine's
state, and the answer is right at every length. A hidden state is that of all layers, and for the LSTM h and c of each:
(h^1, c^1, h^2, c^2, …). The cell is what the model computes, rounding included.

    rnn:  h' = tanh(W x + b + U h + b')
    lstm: i, f, o = σ(…), g = tanh(…), c' = f c + i g, h' = o tanh(c')
    gru:  r, z = σ(…), n = tanh(W_n x + b_n + r (U_n h + b'_n)), h' = n + z (h - n)

Shapes: N sets, S symbols, D width, n = D · layers · (2 for the LSTM).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from ...errors import Error
from ...mixers.recurrent import Recurrent
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from ...models.layers import Layer
from ..claim import Claim
from ..verdict import Proof, Unknown
from .affine import Affine, Directions
from .boxes import LEAST_RADIUS, grow, middle, shown
from .enclosures import FLOAT32, FLOAT64, Arithmetic
from .node import Form, Plain, gaps, inner_of

AT_ONCE = 32
MOST = 20_000


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
    """One step of a recurrent model, over plain tensors or enclosures."""

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

    def step(self, x: Form, state: list[Form]) -> list[Form]:
        """From an embedded token and the parts of the state to the parts of the next."""
        after: list[Form] = []
        for k, cell in enumerate(self.cells):
            own = state[k * self.parts : (k + 1) * self.parts]
            made = self._lstm(cell, x, *own) if self.parts == 2 else getattr(self, f"_{self.kind}")(cell, x, *own)
            after += made
            x = made[0].spread()
        return after

    def _maps(self, cell: nn.RNNBase, x: Form, h: Form) -> tuple[Form, Form]:
        W, U, b, c = (
            _like(getattr(cell, f"{name}_l0"), x) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return x.linear(W, b), h.linear(U, c)

    def _rnn(self, cell: nn.RNNBase, x: Form, h: Form) -> list[Form]:
        a, b = self._maps(cell, x, h)
        return [(a + b).smooth("tanh")]

    def _lstm(self, cell: nn.RNNBase, x: Form, h: Form, c: Form) -> list[Form]:
        a, b = self._maps(cell, x, h)
        D, gates = self.width, a + b
        i, f, o = (gates.entries(slice(k * D, k * D + D)).smooth("sigmoid") for k in (0, 1, 3))
        g = gates.entries(slice(2 * D, 3 * D)).smooth("tanh")
        c = (f * c + i * g).spread()
        return [o * c.smooth("tanh"), c]

    def _gru(self, cell: nn.RNNBase, x: Form, h: Form) -> list[Form]:
        a, b = self._maps(cell, x, h)
        D = self.width
        gates = a.entries(slice(0, 2 * D)) + b.entries(slice(0, 2 * D))
        r, z = (gates.entries(slice(k * D, k * D + D)).smooth("sigmoid") for k in (0, 1))
        n = (a.entries(slice(2 * D, 3 * D)) + r * b.entries(slice(2 * D, 3 * D))).spread().smooth("tanh").spread()
        return [between(n, h, z)]

    def logits(self, state: list[Form]) -> Form:
        h = state[-self.parts]
        return h.linear(_like(self.model.head.weight, h)[self.outputs], _like(self.model.head.bias, h, self.outputs))

    def tokens(self, dtype: torch.dtype) -> Tensor:
        """(S,D) every token, embedded; with gradients."""
        table, scale = self.model.embedding.weight.to(dtype), self.model.config.embedding_scale
        return table if scale == 1 else table * scale

    def split(self, state: Tensor) -> list[Tensor]:
        return list(state.split(self.width, -1))


def _like(weight: Tensor | None, x: Form, part: slice | None = None) -> Any:
    if weight is None:
        return None
    weight = weight.to(x.x.dtype) if isinstance(x, Plain) else weight.detach().double()
    return weight if part is None else weight[part]


def between(n: Form, h: Form, z: Form) -> Form:
    """n + z (h - n), or (1 - z) n + z h: within 8 roundings of twice |n| + |h| either way, as |z| <= 1."""
    if isinstance(n, Plain):
        return Plain(n.x + z.x * (h.x - n.x))
    own = n.arithmetic
    exact = n.exactly() + z.exactly() * (h.exactly() - n.exactly())
    return exact.rounded(16 * own.u * (n.magnitude() + h.magnitude()), own)


def prove_recurrence(model: nn.Module, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof of an RNN, GRU or LSTM, evaluated in float32 as it is stored."""
    return _prove(model, claim, seconds, FLOAT32)


def prove_recurrence_in_float64(model: nn.Module, claim: Claim, seconds: float = 60.0) -> Proof | Unknown | str:
    """The proof for evaluation in float64 alone."""
    return _prove(model, claim, seconds, FLOAT64)


def _prove(model: nn.Module, claim: Claim, seconds: float, arithmetic: Arithmetic) -> Proof | Unknown | str:
    if reason := refusal(model):
        return reason
    ends = time.monotonic() + seconds
    boxes = StateBoxes(Cell(model), claim)
    if len(boxes.froms) > MOST:
        return f"the machine has {len(boxes.froms):,} transitions, more than {MOST:,}"
    centres = settled(boxes)
    if not bool(torch.isfinite(centres).all()):
        return Unknown("the model's states do not stay finite")
    radii = grow(
        lambda r: boxes.needed(centres, r, arithmetic),
        torch.full_like(centres, LEAST_RADIUS),
        ends,
        lambda r: boxes.margin(centres, r, arithmetic),
    )
    if isinstance(radii, Unknown):
        return radii
    margin = boxes.margin(centres, radii, arithmetic)
    return shown("recurrence-boxes", arithmetic, margin, boxes.to_json(centres, radii))


class StateBoxes:
    """The conditions of the induction: sets 0, 1, … for the states that words lead to, and the initial vector apart."""

    def __init__(self, cell: Cell, claim: Claim):
        self.cell, self.claim = cell, claim
        delta, start = claim.machine.delta, claim.machine.start
        seen = list(dict.fromkeys(int(t) for t in delta[start]))
        for q in seen:  # grows while we walk it
            seen += [int(t) for t in dict.fromkeys(delta[q].tolist()) if t not in seen]
        self.states = seen
        """The machine's state of each set."""
        number = {q: i for i, q in enumerate(seen)}
        S = claim.machine.num_symbols
        N = len(seen)
        pairs = [(N, s, number[int(delta[start, s])]) for s in range(S)]
        pairs += [(i, s, number[int(delta[q, s])]) for i, q in enumerate(seen) for s in range(S)]
        self.froms, self.symbols, self.results = (torch.tensor(column) for column in zip(*pairs, strict=True))
        """Each transition: from a set (N: the initial vector) by a symbol to a set."""
        asked = [i for i, q in enumerate(seen) if claim.asked[q]]
        self.asked = torch.tensor(asked, dtype=torch.long)
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[[seen[i] for i in asked]]))

    def images(self, centres: Tensor) -> Tensor:
        """(M,n) where the transitions lead from the centres."""
        table = torch.cat([centres, centres.new_zeros(1, self.cell.size)])[self.froms]
        x = Plain(self.cell.tokens(centres.dtype)[self.symbols])
        after = self.cell.step(x, [Plain(part) for part in self.cell.split(table)])
        return torch.cat([part.x for part in after], -1)

    def inner(self) -> list[Tensor]:
        """The conditions whose taps are sets."""
        return [(self.froms < len(self.states)).nonzero()[:, 0]]

    def row_sums(self, centres: Tensor, rows: Tensor, scale: Tensor) -> Tensor:
        """(m,n) Σ_j |d state'_i / d state_j| scale_j / scale_i at these conditions, with gradients."""
        x = self.cell.tokens(centres.dtype)[self.symbols[rows]]

        def one(h: Tensor, x: Tensor) -> Tensor:
            after = self.cell.step(Plain(x[None]), [Plain(part[None]) for part in self.cell.split(h)])
            return torch.cat([part.x[0] for part in after])

        return vmap(jacrev(one))(centres[self.froms[rows]].detach(), x).abs().mul(scale).sum(2) / scale

    def logits(self, centres: Tensor) -> Tensor:
        return self.cell.logits([Plain(part) for part in self.cell.split(centres[self.asked])]).x

    @torch.no_grad()
    def needed(self, centres: Tensor, radii: Tensor, arithmetic: Arithmetic) -> Tensor:
        """(N,n) how far the states that belong to a set may be from its centre."""
        far = torch.zeros_like(centres)
        zero = centres.new_zeros(1, self.cell.size)
        c, r = torch.cat([centres, zero]), torch.cat([radii, zero])
        raw, scale = self.cell.model.embedding.weight.detach().double(), self.cell.model.config.embedding_scale
        for part in range(0, len(self.froms), AT_ONCE):
            here = slice(part, part + AT_ONCE)
            directions = Directions()
            x = Affine.points(raw[self.symbols[here]], directions, arithmetic)
            x = x if scale == 1 else x.scaled(scale)
            whole = Affine.boxes(c[self.froms[here]], r[self.froms[here]], directions, arithmetic)
            D = self.cell.width
            state = [whole.entries(slice(k, k + D)) for k in range(0, self.cell.size, D)]
            after = self.cell.step(x, state)
            target = self.results[here]
            image, reach = torch.cat([a.c for a in after], -1), torch.cat([a.radius() for a in after], -1)
            off = ((image - centres[target]).abs() + reach) * (1 + 2.0**-40)
            far = far.scatter_reduce(0, target[:, None].expand_as(off), off, "amax")
        return torch.nan_to_num(far, nan=torch.inf)

    @torch.no_grad()
    def margin(self, centres: Tensor, radii: Tensor, arithmetic: Arithmetic) -> float:
        if not len(self.asked):
            return float("inf")
        whole = Affine.boxes(centres[self.asked], radii[self.asked], Directions(), arithmetic)
        D = self.cell.width
        state = [whole.entries(slice(k, k + D)) for k in range(0, self.cell.size, D)]
        return float(gaps(self.cell.logits(state), self.right, self.claim.several).min())

    def to_json(self, centres: Tensor, radii: Tensor) -> dict:
        """The initial vector is a set of radius 0 beside the others."""
        zero = [0.0] * self.cell.size
        sets = [{"state": int(self.claim.machine.start), "centre": zero, "radius": zero}]
        for q, c, r in zip(self.states, centres.tolist(), radii.tolist(), strict=True):
            sets.append({"state": q, "centre": c, "radius": r})
        return {"sets": sets}


@torch.no_grad()
def settled(boxes: StateBoxes, rounds: int = 200) -> Tensor:
    """(N,n) the middle of where the transitions lead from the centres, again and again, in float64."""
    centres = torch.zeros(len(boxes.states), boxes.cell.size, dtype=torch.float64)
    for _ in range(rounds):
        centres = middle(boxes.images(centres), boxes.results, len(centres))
    return centres
