"""Recurrent networks, torch's own: RNN with tanh, LSTM, GRU. The state is their hidden state after the last token.

    rnn: h_t = tanh(W x_t + U h_{t-1} + b);  lstm and gru as in torch.nn

Padded or packed rows are first brought, each sequence alone, to the left of a row of its own.

Training may make it steady (train/steady.py): with noise it goes token by token, and `unsteadiness` says how far a
state that is off leads the next one off.

Shapes: B batch, T tokens, N sequences, D model width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import jacrev, vmap
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..positions import Layout
from .base import Mixer, Traits
from .unpacked_rows import UnpackedRows

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
STEPS = {"rnn": torch.rnn_tanh_cell, "lstm": torch.lstm_cell, "gru": torch.gru_cell}


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
    _met: tuple[Tensor, tuple[Tensor, ...]]
    """(N,D) the tokens that were last read with noise, and (N,D) the parts of the states that they led to."""

    def __init__(self, width: int, *, cell: str):
        super().__init__()
        self.cell = CELLS[cell](width, width, batch_first=True)
        self._step = STEPS[cell]

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

    def step(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The parts of the state, (B,D) each, after a token (B,D)."""
        cell = self.cell
        weights = cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0
        after = self._step(x, state if len(state) == 2 else state[0], *weights)
        return after if isinstance(after, tuple) else (after,)

    def _run_with_noise(self, x: Tensor, hidden: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        own = self.cell.weight_ih_l0.dtype
        states, y = [], []
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(own)
            parts = 2 if isinstance(self.cell, nn.LSTM) else 1
            state = x.new_zeros(parts, *x[:, 0].shape).unbind() if hidden is None else tuple(h[0] for h in hidden)
            for token in x.unbind(1):
                state = self.step(token, state)
                y.append(state[0])
                state = tuple(h + self.noise * torch.randn_like(h) for h in state)
                states.append(state)
        met = zip(*states, strict=True)
        self._met = x.flatten(0, 1), tuple(torch.stack(part, 1).flatten(0, 1).detach() for part in met)
        return torch.stack(y, 1), tuple(h[None] for h in state)

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Σ_i max(0, Σ_j |∂s'_i/∂s_j| - slope)², s' the state after s and a token: the mean over so many drawn pairs.

        They are drawn from what was last read with noise, the token apart from the state.
        """
        x, parts = self._met
        tokens, at = torch.randint(len(x), (2, states), device=x.device)

        def after(state: Tensor, token: Tensor) -> Tensor:
            own = tuple(part[None] for part in state.chunk(len(parts)))
            return torch.cat(self.step(token[None], own), -1)[0]

        slopes = vmap(jacrev(after))(torch.cat([part[at] for part in parts], -1), x[tokens])
        return F.relu(slopes.abs().sum(-1) - slope).square().sum(-1).mean()

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

        kept, owner = unpacked.closes, unpacked.owner[unpacked.closes]
        hidden = tuple(h.index_copy(1, owner, e[:, kept].to(h.dtype)) for h, e in zip(hidden, ends, strict=True))
        return y, RecurrentState(hidden, last.index_copy(0, owner, unpacked.sequence[kept]))
