"""Presets whose layers are torch's recurrent networks, stacked as they are.

>>> lstm(vocab_size=2, width=32).mixer
{'name': 'lstm'}
"""

from __future__ import annotations

from ..config import LengthwiseConfig
from .shared_options import Dropout, Layers, Width


def _recurrent(cell: str, vocab_size: int, num_outputs: int | None, width: int, layers: int, dropout: float):
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={"name": cell},
        depth={"name": "fixed", "layers": layers},
        block={"kind": "bare"},
        final_norm=False,
        dropout=dropout,
    )


def rnn(
    vocab_size: int, num_outputs: int | None = None, *, width: Width = 64, layers: Layers = 1, dropout: Dropout = 0.0
) -> LengthwiseConfig:
    """A recurrent network with tanh."""
    return _recurrent("rnn", vocab_size, num_outputs, width, layers, dropout)


def lstm(
    vocab_size: int, num_outputs: int | None = None, *, width: Width = 64, layers: Layers = 1, dropout: Dropout = 0.0
) -> LengthwiseConfig:
    """A long short-term memory."""
    return _recurrent("lstm", vocab_size, num_outputs, width, layers, dropout)


def gru(
    vocab_size: int, num_outputs: int | None = None, *, width: Width = 64, layers: Layers = 1, dropout: Dropout = 0.0
) -> LengthwiseConfig:
    """A gated recurrent unit."""
    return _recurrent("gru", vocab_size, num_outputs, width, layers, dropout)
