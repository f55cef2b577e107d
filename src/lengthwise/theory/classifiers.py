"""A construction as the lab scores models: a token classifier that is right on every string of its task."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from ..models import LengthwiseForCausalLM
from ..models.token_classifier import PresetClassifier
from ..tasks import Task, get
from .regular_gpt_weights import regular_gpt

Construction = Callable[[Semiautomaton, Tensor], LengthwiseForCausalLM]
"""From a machine and its labels, a row of booleans for each state, to a model."""


def exact_classifier(task: Task | str, construction: Construction = regular_gpt) -> PresetClassifier:
    """The construction of the machine of `task`; `construction` may also be `theory.block_lrnn`.

    >>> from lengthwise import tasks
    >>> parity = tasks.get("parity")
    >>> batch = parity.test_set(500, 8)
    >>> bool((exact_classifier(parity)(batch.tokens).argmax(-1) == batch.targets).all())
    True
    """
    task = get(task) if isinstance(task, str) else task
    if task.machine is None or task.readout is None:
        raise Error(
            f"{task.name} {task.params}: a model can be built from a machine, and this task has none. "
            "Take one of regular languages, or pass a machine to theory.regular_gpt or theory.block_lrnn."
        )
    readout = task.readout if task.kind == "set" else F.one_hot(task.readout, task.outputs)
    return PresetClassifier(construction(task.machine, readout.bool()), task.outputs, f"built for {task.name}")
