"""Recurrent networks, torch's own: RNN with tanh, LSTM, GRU. The state is their hidden state after the last token.

    rnn: h_t = tanh(W x_t + U h_{t-1} + b);  lstm and gru as in torch.nn

Padded or packed rows are first brought, each sequence alone, to the left of a row of its own.

Shapes: B batch, T tokens, N sequences, D model width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..positions import Layout
from .base import Mixer, Traits
from .sequences import Sequences

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


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

    def _by_sequence(self, x: Tensor, layout: Layout, state: RecurrentState | None) -> tuple[Tensor, RecurrentState]:
        parts = 2 if isinstance(self.cell, nn.LSTM) else 1
        hidden = x.new_zeros(parts, 1, x.shape[0], x.shape[2]).unbind() if state is None else state.hidden
        sequences = torch.zeros_like(layout.positions) if layout.sequences is None else layout.sequences
        last = sequences[:, 0] if state is None or state.sequence is None else state.sequence
        found = Sequences(layout)
        if len(found) == 0:
            return torch.zeros_like(x), RecurrentState(hidden, last)

        # A row's first sequence goes on from the state if it is the one the state ended in; all others start anew.
        goes_on = found.opens & (found.sequence == last[found.owner]) & (state is not None)
        starts = tuple(torch.where(goes_on[:, None], h[:, found.owner], 0.0) for h in hidden)

        lengths = found.lengths.cpu()
        packed = pack_padded_sequence(found.apart(x), lengths, batch_first=True, enforce_sorted=False)
        packed_y, ends = self._run(packed, starts)
        y = found.together(pad_packed_sequence(packed_y, batch_first=True)[0])

        kept, owner = found.closes, found.owner[found.closes]
        hidden = tuple(h.index_copy(1, owner, e[:, kept].to(h.dtype)) for h, e in zip(hidden, ends, strict=True))
        return y, RecurrentState(hidden, last.index_copy(0, owner, found.sequence[kept]))
