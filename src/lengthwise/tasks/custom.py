"""Tasks from a description of your own: a regular expression, or the table of any finite machine."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..automata import Semiautomaton, from_regex
from .base import Task
from .formal_language import FormalLanguage
from .independent_symbols import IndependentSymbols


class Regex(FormalLanguage):
    """Membership in the language of `pattern` (or its next symbols).

    >>> from lengthwise import tasks
    >>> task = tasks.get("regex", pattern="(ab|ba)*", protocol="next")
    >>> tokens = torch.tensor([[0, 1, 1, 0]])
    >>> task.write(tokens[0]), task.answer(tokens).int().tolist()
    ('abba',
     [[[0, 1], [1, 1], [1, 0], [1, 1]]])
    """

    def __init__(
        self,
        pattern: str,
        alphabet: str | None = None,
        protocol: str = "membership",
        negatives: str = "mixed",
        supervision: str = "last",
        probabilities: Sequence[float] | None = None,
        end: bool = False,
    ):
        machine = from_regex(pattern, alphabet)
        params = {"pattern": pattern, "alphabet": "".join(machine.symbols)}
        super().__init__("regex", machine, params, protocol, negatives, supervision, probabilities, end)


class MachineStates(IndependentSymbols):
    """Any symbols; the answer is the state of the machine.

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
        return self.machine.run(tokens)


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
    """The task of the machine with this table.

    `protocol` is "states" (which state is the machine in?), "membership" or "next" (see `FormalLanguage`). The default
    is "membership" for a machine with accepting states, and "states" for one without.
    """
    machine = Semiautomaton(delta, start, accepting, symbols)
    protocol = protocol or ("states" if accepting is None else "membership")
    if protocol == "states":
        return MachineStates(machine, supervision, probabilities)
    machine.need_accepting(f"protocol {protocol!r}")
    return FormalLanguage("machine", machine, machine.to_json(), protocol, negatives, supervision, probabilities, end)
