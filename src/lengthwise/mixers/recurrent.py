"""Recurrent networks, torch's own: RNN with tanh, LSTM, GRU. The state is their hidden state after the last token.

    rnn:  h' = tanh(W x + b + U h + b')
    gru:  r, z = σ(…), n = tanh(W_n x + b_n + r (U_n h + b'_n)), h' = n + z (h - n)
    lstm: i, f, o = σ(…), g = tanh(…), c' = f c + i g, h' = o tanh(c')

Padded or packed rows are first brought, each sequence alone, to the left of a row of its own.

Training may make it steady (train/steady.py): with noise it goes token by token, and `unsteadiness` says how far a
state that is off leads the next one off.

Shapes: B batch, T tokens, N sequences, D model width, n = D (2 D for the LSTM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import jacrev, vmap
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..positions import Layout
from .base import Mixer, Traits
from .unpacked_rows import UnpackedRows

LET_GO = 0.01
"""A unit that lets go of less counts as one that lets go of so much."""
CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


Parts = tuple[Tensor, ...]
"""The parts of a state: h, and for the LSTM c."""


def projected(cell: Any, x: Tensor) -> Tensor:
    """Returns what tokens (…,D) add to the arguments of a cell's functions."""
    return F.linear(x, cell.weight_ih_l0.to(x.dtype), cell.bias_ih_l0.to(x.dtype))


def transition(cell: Any, new: Tensor, state: Sequence[Tensor], forget: float = 0.0) -> tuple[Parts, Parts]:
    """The parts of the state after a projected token, and of each the gate by which a unit holds what it has, z or f.

    It is shut at a share `forget` of the units, drawn anew.
    """
    h, D = state[0], state[0].shape[-1]
    old = F.linear(h, cell.weight_hh_l0.to(h.dtype), cell.bias_hh_l0.to(h.dtype))
    if isinstance(cell, nn.RNN):
        return ((new + old).tanh(),), (torch.zeros_like(h),)

    def held(gate: Tensor) -> Tensor:
        return gate * (torch.rand_like(gate) >= forget) if forget else gate

    if isinstance(cell, nn.GRU):
        r, z = (new + old)[..., : 2 * D].sigmoid().chunk(2, -1)
        n, z = (new[..., 2 * D :] + r * old[..., 2 * D :]).tanh(), held(z)
        return (n + z * (h - n),), (z,)
    i, f, g, o = (new + old).chunk(4, -1)
    f = held(f.sigmoid())
    c = f * state[1] + i.sigmoid() * g.tanh()
    return (o.sigmoid() * c.tanh(), c), (torch.zeros_like(f), f)


class RecurrentState(NamedTuple):
    croppable = False
    hidden: tuple[Tensor, ...]
    """(1,B,D) each: h, and for the LSTM c."""
    sequence: Tensor | None
    """(B,) the packed sequence which the last token belonged to."""

    def select(self, rows: Tensor) -> RecurrentState:
        """These rows, in this order."""
        sequence = None if self.sequence is None else self.sequence[rows]
        return RecurrentState(tuple(h[:, rows] for h in self.hidden), sequence)


class Recurrent(Mixer):
    # torch.nn's recurrences have no batching rule.
    traits = Traits(stackable=False)
    noise = 0.0
    """The standard deviation of what is added to every entry of the state after every token."""
    forget = 0.0
    """The share of units that let go of what they hold, with noise alone."""
    _met: tuple[Tensor, tuple[Tensor, ...]]
    """(N,D) the tokens that were last read with noise, and (N,D) the parts of the states that they led to."""

    def __init__(self, width: int, *, cell: str):
        super().__init__()
        self.cell = CELLS[cell](width, width, batch_first=True)

    def forward(
        self, x: Tensor, *, layout: Layout, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        if layout.plain:
            y, hidden = self._run(x, None if state is None else state.hidden)
            return y, RecurrentState(hidden, None)
        return self._by_sequence(x, layout, state)

    def _run(self, x, hidden: tuple[Tensor, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """torch's calling convention (a pair for the LSTM, else one tensor) made uniform."""
        if self.noise:
            return self._run_with_noise(x, hidden)
        # Not every processor has a bf16 LSTM: under autocast the cell runs on the CPU in its own precision.
        if torch.is_autocast_enabled("cpu"):
            own = next(self.cell.parameters()).dtype
            x, hidden = x.to(own), hidden and tuple(h.to(own) for h in hidden)
        with torch.autocast("cpu", enabled=False):
            if hidden is None:
                y, end = self.cell(x)
            else:
                y, end = self.cell(x, hidden if len(hidden) == 2 else hidden[0])
        return y, end if isinstance(end, tuple) else (end,)

    def _run_with_noise(self, x: Tensor, hidden: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        own = self.cell.weight_ih_l0.dtype
        states, y = [], []
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(own)
            parts = 2 if isinstance(self.cell, nn.LSTM) else 1
            state = x.new_zeros(parts, *x[:, 0].shape).unbind() if hidden is None else tuple(h[0] for h in hidden)
            for new in projected(self.cell, x).unbind(1):
                state, _ = transition(self.cell, new, state, self.forget)
                y.append(state[0])
                state = tuple(h + self.noise * torch.randn_like(h) for h in state)
                states.append(state)
        met = zip(*states, strict=True)
        self._met = x.flatten(0, 1), tuple(torch.stack(part, 1).flatten(0, 1).detach() for part in met)
        return torch.stack(y, 1), tuple(h[None] for h in state)

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Σ_i max(0, Σ_j |∂s'_i/∂s_j| / (1 - g_i) - slope)², s' the state after s and a token, g the gate that holds.

        The mean over so many drawn pairs: of states that were last met with noise, and of tokens apart from them.
        """
        x, parts = self._met
        tokens, at = torch.randint(len(x), (2, states), device=x.device)

        def after(state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
            new, held = transition(self.cell, projected(self.cell, token), state.chunk(len(parts)))
            return torch.cat(new), torch.cat(held)

        slopes, held = vmap(jacrev(after, has_aux=True))(torch.cat([part[at] for part in parts], -1), x[tokens])
        return F.relu(slopes.abs().sum(-1) / (1 - held).clamp_min(LET_GO) - slope).square().sum(-1).mean()

    def _by_sequence(self, x: Tensor, layout: Layout, state: RecurrentState | None) -> tuple[Tensor, RecurrentState]:
        parts = 2 if isinstance(self.cell, nn.LSTM) else 1
        hidden = x.new_zeros(parts, 1, x.shape[0], x.shape[2]).unbind() if state is None else state.hidden
        sequences = torch.zeros_like(layout.positions) if layout.sequences is None else layout.sequences
        last = sequences[:, 0] if state is None or state.sequence is None else state.sequence
        unpacked = UnpackedRows(layout)
        if len(unpacked) == 0:
            return torch.zeros_like(x), RecurrentState(hidden, last)

        # A row's first sequence goes on from the state if it is the one the state ended in; all others start anew.
        goes_on = unpacked.opens & (unpacked.sequence == last[unpacked.owner]) & (state is not None)
        starts = tuple(torch.where(goes_on[:, None], h[:, unpacked.owner], 0.0) for h in hidden)

        lengths = unpacked.lengths.cpu()
        packed = pack_padded_sequence(unpacked.take_apart(x), lengths, batch_first=True, enforce_sorted=False)
        packed_y, ends = self._run(packed, starts)
        y = unpacked.put_together(pad_packed_sequence(packed_y, batch_first=True)[0])

        closes, owner = unpacked.closes, unpacked.owner[unpacked.closes]
        hidden = tuple(h.index_copy(1, owner, e[:, closes].to(h.dtype)) for h, e in zip(hidden, ends, strict=True))
        return y, RecurrentState(hidden, last.index_copy(0, owner, unpacked.sequence[closes]))
