"""Tomita's seven languages over 0 and 1, small and each awkward in its own way."""

from __future__ import annotations

from typing import Annotated

from ..automata import Semiautomaton
from ..options import at_least
from .base import SupervisionOption
from .formal_language import EndOption, FormalLanguage, NegativesOption, ProtocolOption
from .independent_symbols import ProbabilitiesOption

MACHINES = {
    1: ("1*", [[1, 0], [1, 1]], {0}),
    2: ("(10)*", [[2, 1], [0, 2], [2, 2]], {0}),
    # States: in no such run; after an odd run of 1s; in an odd, in an even run of 0s after one; spoilt.
    3: (
        "no odd run of 1s immediately followed by an odd run of 0s",
        [[0, 1], [2, 0], [3, 4], [2, 1], [4, 4]],
        {0, 1, 3},
    ),
    4: ("no 000", [[1, 0], [2, 0], [3, 0], [3, 3]], {0, 1, 2}),
    5: ("an even number of 0s and an even number of 1s", [[1, 2], [0, 3], [3, 0], [2, 1]], {0}),
    6: ("the number of 0s less that of 1s is divisible by 3", [[1, 2], [2, 0], [0, 1]], {0}),
    7: ("0*1*0*1*", [[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], {0, 1, 2, 3}),
}
"""What is in each language, its machine's table (columns 0 and 1), and the accepting states."""


class Tomita(FormalLanguage):
    """Membership in a Tomita language (or its next symbols). Lengths at which one class is empty raise.

    >>> import torch
    >>> from lengthwise import tasks
    >>> task = tasks.get("tomita-5", supervision="prefix")
    >>> tokens = torch.tensor([[0, 0, 1, 0, 1, 0]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 0, 1, 0, 1, 0]]),
     tensor([[0, 1, 0, 0, 0, 1]]))
    """

    def __init__(
        self,
        number: Annotated[int, at_least(1, at_most=7), "Which of the seven languages."],
        protocol: ProtocolOption = "membership",
        negatives: NegativesOption = "mixed",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
        end: EndOption = False,
    ):
        _, table, accepting = MACHINES[number]
        machine = Semiautomaton(table, accepting=accepting)
        super().__init__(f"tomita-{number}", machine, {}, protocol, negatives, supervision, probabilities, end)
