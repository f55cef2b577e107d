"""The numbers printed in the paper, in %, as they stand there."""

from __future__ import annotations

from ...common.grid import Model

MODELS = {
    "rnn": Model("rnn", {}),
    "transformer-xl": Model("transformer-xl", {}),
    "regular-gpt C=2": Model("regular-gpt", {"model.chunk": 2}),
    "regular-gpt C=3": Model("regular-gpt", {"model.chunk": 3}),
}
"""The columns of Table 1. The paper's Transformer is a vanilla one with the relative positions of Transformer-XL."""

TABLE_1 = {
    "even-pairs": [(100.0, 100.0), (99.7, 73.2), (100.0, 89.3), (100.0, 96.6)],
    "modular-arithmetic": [(100.0, 100.0), (21.9, 20.3), (96.4, 82.6), (21.2, 20.5)],
    "parity": [(100.0, 98.9), (52.3, 50.1), (100.0, 100.0), (100.0, 88.7)],
    "cycle-navigation": [(100.0, 100.0), (21.7, 20.6), (100.0, 100.0), (100.0, 78.6)],
    "d-2": [(100.0, 100.0), (100.0, 80.1), (100.0, 100.0), (99.8, 96.5)],
    "d-3": [(100.0, 100.0), (100.0, 77.8), (100.0, 99.7), (98.6, 93.0)],
    "d-4": [(100.0, 100.0), (100.0, 82.6), (100.0, 98.7), (97.7, 91.6)],
    "d-12": [(100.0, 100.0), (100.0, 80.3), (100.0, 99.8), (94.1, 90.4)],
    "tomita-3": [(100.0, 100.0), (100.0, 94.4), (100.0, 99.7), (100.0, 99.9)],
    "tomita-4": [(100.0, 100.0), (100.0, 70.0), (100.0, 99.8), (100.0, 99.3)],
    "tomita-5": [(100.0, 100.0), (74.5, 74.5), (100.0, 99.8), (98.2, 84.1)],
    "tomita-6": [(100.0, 100.0), (50.0, 50.0), (100.0, 98.5), (100.0, 65.7)],
}
"""Max and mean of the accuracies by task, a pair for each of `MODELS`."""

PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Table 2: P(1) in the test strings of PARITY."""
TABLE_2 = {
    "length 40": {
        "rnn": [100.0, 100.0, 100.0, 100.0, 100.0],
        "transformer-xl": [98.4, 99.8, 99.6, 97.8, 77.2],
        "regular-gpt C=2": [100.0, 100.0, 100.0, 100.0, 100.0],
    },
    "lengths 41–500": {
        "rnn": [100.0, 100.0, 100.0, 100.0, 100.0],
        "transformer-xl": [50.1, 49.7, 50.3, 49.9, 50.0],
        "regular-gpt C=2": [100.0, 100.0, 100.0, 100.0, 100.0],
    },
}
"""Mean accuracy by setting and model, a number for each of `PROBABILITIES`."""
