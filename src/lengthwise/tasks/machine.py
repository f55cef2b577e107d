"""Any machine as a task: its language where it has accepting states, else the state it is in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..automata import Semiautomaton
from .base import Task
from .free import FreeTask
from .language import Language


class States(FreeTask):
    """Free symbols; the answer is the machine's state.

    >>> from lengthwise import tasks
    >>> switch = Semiautomaton([[0, 1, 0], [1, 1, 0]])  # keep, on, off
    >>> task = tasks.from_machine(switch, supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 0, 2, 1]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 0, 2, 1]]),
     tensor([[0, 1, 1, 0, 1]]))
    """

    def __init__(self, machine: Semiautomaton, supervision: str = "last", probabilities: Sequence[float] | None = None):
        self.setup("machine", machine, torch.arange(machine.num_states), supervision, probabilities)
        self.params = {**machine.to_json(), "protocol": "states", **self.params}

    def answer(self, tokens: Tensor) -> Tensor:
        return self.ground.run(tokens)


def machine_task(
    delta: Sequence[Sequence[int]],
    start: int = 0,
    accepting: Sequence[int] | None = None,
    symbols: Sequence[str] | None = None,
    protocol: str | None = None,
    negatives: str = "mixed",
    supervision: str = "last",
    probabilities: Sequence[float] | None = None,
    end: bool = False,
) -> Task:
    """The task of the machine with this table. `protocol` is "states", "membership" or "next".

    Without it a machine with accepting states asks for membership, one without them for the state.
    """
    machine = Semiautomaton(delta, start, accepting, symbols)
    protocol = protocol or ("states" if accepting is None else "membership")
    if protocol == "states":
        return States(machine, supervision, probabilities)
    machine.need_accepting(f"protocol {protocol!r}")
    return Language("machine", machine, machine.to_json(), protocol, negatives, supervision, probabilities, end)
