"""What a built model answers in each state of its machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, ShapeError

Labels = Sequence | np.ndarray | Tensor | None
"""For each state a class, a boolean (1 accept, 0 reject), or a row of booleans, one for each output; None: the state
itself."""
CONFIDENCE = 4.0
"""Logits are this or its negative: sure, and still with a gradient to train on."""


def label_table(what: str, machine: Semiautomaton, labels: Labels) -> Tensor:
    """(n, S) booleans: the right outputs in each state. `what` is built."""
    n = machine.num_states
    given = torch.arange(n) if labels is None else torch.as_tensor(labels)
    if given.dim() == 2 and given.dtype == torch.bool and len(given) == n and given.shape[1] > 0:
        return given
    if given.shape != (n,) or given.is_floating_point() or given.is_complex():
        raise ShapeError(
            f"{what}: labels must be {n} whole numbers or booleans, one for each state, or ({n}, outputs) "
            f"booleans; got {given.dtype} of shape {tuple(given.shape)}."
        )
    if given.min() < 0:
        raise Error(f"{what}: labels are classes 0, 1, …, got {int(given.min())}.")
    return F.one_hot(given.long(), 2 if given.dtype == torch.bool else -1).bool()
