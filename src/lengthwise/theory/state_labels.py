"""What a built model answers in each state of its machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, ShapeError
from ..train.counting import memory_free

Labels = Sequence | np.ndarray | Tensor | None
"""For each state a class, a boolean (1 accept, 0 reject), or a row of booleans, one for each output; None: the state
itself."""
CONFIDENCE = 4.0
"""Logits are this or its negative: sure, and still with a gradient to train on."""


def label_table(what: str, machine: Semiautomaton, labels: Labels) -> Tensor:
    """(n, S) booleans: the right outputs in each state. `what` is built."""
    n = machine.num_states
    classes = torch.arange(n) if labels is None else torch.as_tensor(labels)
    if classes.dim() == 2 and classes.dtype == torch.bool and len(classes) == n and classes.shape[1] > 0:
        return classes
    if classes.shape != (n,) or classes.is_floating_point() or classes.is_complex():
        raise ShapeError(
            f"{what}: labels must be {n} whole numbers or booleans, one for each state, or ({n}, outputs) "
            f"booleans; got {classes.dtype} of shape {tuple(classes.shape)}."
        )
    if classes.min() < 0:
        raise Error(f"{what}: labels are classes 0, 1, …, got {int(classes.min())}.")
    return F.one_hot(classes.long(), 2 if classes.dtype == torch.bool else -1).bool()


def check_size(made: str, entries: int, instead: str) -> None:
    """Raises unless twice so many weights fit the memory that is free, as they do while they are built."""
    size, free = entries * torch.get_default_dtype().itemsize, memory_free(torch.device("cpu"))
    if 2 * size > free:
        raise Error(
            f"{made} {size / 2**30:.3g} GiB of weights, and twice that while they are built; "
            f"{free / 2**30:.3g} GiB are free. {instead}"
        )
