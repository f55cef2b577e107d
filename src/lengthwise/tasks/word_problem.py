"""The word problem of a finite group: which element is the product of the word?  y_t = g_1 g_2 … g_t.

The product is read from left to right: its permutation applies g_1 first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from .base import SupervisionOption
from .groups import element_names, element_numbers, generator_numbers, group_elements
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


class WordProblem(IndependentSymbols):
    """Words over a group's elements, or over some `generators` of it (permutations); the answer is the product.

    Groups are Zn, Sn and An. From S5 (and A5) on, word problems are as hard as those of regular languages can be.

    >>> from lengthwise import tasks
    >>> task = tasks.get("word-problem", group="S3", generators=[[1, 0, 2], [1, 2, 0]], supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 0]])
    >>> task.vocabulary, task.elements
    (('102', '120'), ('012', '021', '102', '120', '201', '210'))
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 0]]),
     tensor([[2, 5, 1, 3, 1]]))
    """

    def __init__(
        self,
        group: Annotated[str, "The group: Zn, Sn or An, such as Z5, S5, A5."] = "S5",
        generators: Annotated[
            Literal["all"] | Sequence[Sequence[int]], "The elements that words are made of: all, or some permutations."
        ] = "all",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        elements = group_elements(group)
        names = element_names(group, elements)
        if isinstance(generators, str):
            letters = np.arange(len(elements))
        else:
            letters = generator_numbers(group, elements, generators)
            generators = elements[letters].tolist()
        self.elements = tuple(names)
        self.permutations = elements
        self.letters = elements[letters]
        # Element q, then letter s: i -> s(q(i)).
        table = element_numbers(elements, self.letters[:, elements]).T
        machine = Semiautomaton(table, symbols=[names[g] for g in letters])
        self.setup("word-problem", machine, torch.arange(len(elements)), supervision, probabilities)
        self.params = {"group": group, "generators": generators, **self.params}

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        # Points move by permutations; the group's own table, which is the machine, is not consulted.
        B, T = tokens.shape
        n = self.letters.shape[1]
        letters = self.letters.ravel()
        start = tokens.cpu().numpy().T[:, :, None] * n
        points = np.empty((T, B, n), dtype=np.int64)
        here = np.broadcast_to(np.arange(n), (B, n))
        for t in range(T):
            points[t] = here = letters.take(start[t] + here)
        return torch.from_numpy(np.ascontiguousarray(element_numbers(self.permutations, points).T)).to(tokens.device)
