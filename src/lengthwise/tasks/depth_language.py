"""D_n = (a D_{n-1} b)*, D_0 = {ε}: brackets a b, balanced and never nested more than n deep."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..automata import Semiautomaton
from ..errors import Error
from ..limits import DEPTH
from ..options import at_least
from .base import SupervisionOption
from .formal_language import EndOption, FormalLanguage, NegativesOption, ProtocolOption, WordSource
from .independent_symbols import ProbabilitiesOption
from .nested_words import NestedWords


class DepthLanguage(FormalLanguage):
    """Membership in D_n (or its next symbols). Odd lengths are possible, though none of their words is in D_n.

    Accepted words are grown by nesting blocks, as in the papers, or drawn uniformly from all of their length.
    Beware of counting: nine in ten uniform negatives have unequal numbers of a and b, and so have all near misses of
    even length, since the one edit that keeps the length is a substitution. Protocol "next" leaves no such shortcut.

    >>> import torch
    >>> from lengthwise import tasks
    >>> task = tasks.get("d-2", supervision="prefix")
    >>> tokens = torch.tensor([[0, 0, 1, 1, 0, 1, 1, 0]])
    >>> task.write(tokens[0]), tokens, task.answer(tokens)
    ('aabbabba',
     tensor([[0, 0, 1, 1, 0, 1, 1, 0]]),
     tensor([[0, 0, 0, 1, 0, 1, 0, 0]]))
    >>> tasks.get("d-2").baseline(40), tasks.get("d-2").baseline(41)
    (0.5, 1.0)
    """

    may_lack_positives = True

    def __init__(
        self,
        depth: Annotated[int, at_least(1, at_most=DEPTH), "How deep brackets may be nested."],
        positives: Annotated[
            Literal["nesting", "uniform"], "The accepted words: grown by nesting blocks, or any of their length."
        ] = "nesting",
        protocol: ProtocolOption = "membership",
        negatives: NegativesOption = "mixed",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
        end: EndOption = False,
    ):
        self.depth = depth
        self.growth = positives
        params = {"positives": positives}
        name = f"d-{depth}"
        super().__init__(name, depth_machine(depth), params, protocol, negatives, supervision, probabilities, end)
        if probabilities is not None and positives == "nesting":
            raise Error(
                f'{name}: probabilities need positives="uniform", got "nesting", whose words are grown without them. '
                'Set positives="uniform", or leave probabilities out.'
            )

    @property
    def positives(self) -> WordSource:
        return NestedWords(self.depth) if self.growth == "nesting" else self.uniform_positives


def depth_machine(depth: int) -> Semiautomaton:
    """State q is the depth; the last state is the dead one.

    >>> depth_machine(1).delta.tolist()
    [[1, 2], [2, 0], [2, 2]]
    """
    level = np.arange(depth + 1)
    dead = depth + 1
    down = np.where(level > 0, level - 1, dead)
    return Semiautomaton([*zip(level + 1, down, strict=True), (dead, dead)], accepting={0}, symbols="ab")
