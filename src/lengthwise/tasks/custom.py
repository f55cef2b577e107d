"""Tasks from a description of your own: a regular expression, or the table of any finite machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..automata import Semiautomaton, from_regex
from ..options import at_least
from .base import Supervision, SupervisionOption, Task
from .formal_language import EndOption, FormalLanguage, NegativesOption, ProtocolOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


class Regex(FormalLanguage):
    """Membership in the language of `pattern` (or its next symbols).

    >>> from lengthwise import tasks
    >>> task = tasks.get("regex", pattern="(ab|ba)*", protocol="next")
    >>> tokens = torch.tensor([[0, 1, 1, 0]])
    >>> tokens, task.answer(tokens).int().mT  # may a come next, may b?
    (tensor([[0, 1, 1, 0]]),
     tensor([[[0, 1, 1, 1],
              [1, 1, 0, 1]]], dtype=torch.int32))
    """

    def __init__(
        self,
        pattern: Annotated[str, "The regular expression, over single characters."],
        alphabet: Annotated[str | None, "All symbols, in their order; None: those in the pattern."] = None,
        protocol: ProtocolOption = "membership",
        negatives: NegativesOption = "mixed",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
        end: EndOption = False,
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

    def __init__(
        self, machine: Semiautomaton, supervision: Supervision = "last", probabilities: Sequence[float] | None = None
    ):
        self.setup("machine", machine, torch.arange(machine.num_states), supervision, probabilities)
        self.params = {**machine.to_json(), "protocol": "states", "supervision": supervision}
        self.params["probabilities"] = self.probabilities

    def answer(self, tokens: Tensor) -> Tensor:
        return self.machine.run(tokens)


def machine_task(
    delta: Annotated[Sequence[Sequence[int]], "The table: a row for each state, with the next state for each symbol."],
    start: Annotated[int, at_least(0), "The state before the first symbol."] = 0,
    accepting: Annotated[Sequence[int] | None, "The accepting states; None: the machine has no language."] = None,
    symbols: Annotated[Sequence[str] | None, "How each symbol is written; None: 0, 1, …"] = None,
    protocol: Annotated[
        Literal["states", "membership", "next"] | None,
        "The question; None: membership where there are accepting states, else the state.",
    ] = None,
    negatives: NegativesOption = "mixed",
    supervision: SupervisionOption = "last",
    probabilities: ProbabilitiesOption = None,
    end: EndOption = False,
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
