"""The language of any regular expression: `tasks.get("regex:(ab|ba)*")`."""

from __future__ import annotations

from collections.abc import Sequence

from ..automata import from_regex
from .language import Language


class Regex(Language):
    """Membership in the language of `pattern` (or its next symbols).

    >>> import torch
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
