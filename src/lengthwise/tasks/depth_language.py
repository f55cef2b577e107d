"""D_n = (a D_{n-1} b)*, D_0 = {ε}: brackets a b, balanced and never nested more than n deep."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, LengthError
from ..limits import DEPTH
from ..options import Inherited, at_least
from .formal_language import FormalLanguage, WordSource

# Words of D_n as the papers grow them: block beside block, each about three quarters of the room that is left.
#
#     fill(n, room): until the room is used up, append  a fill(n-1, l-2) b  with l ~ N(0.75 room, (0.075 room)^2)
#
# where l is rounded to an even number between 2 and the room left, and l = 2 where n = 1 (D_0 is the empty word).
# Blocks grow from the outside in, so long words are deep rather than wide.
#
# Shapes: B batch, T tokens, N depth.

MEAN, SPREAD = 0.75, 0.1
"""A block's mean length as a share of its room, and its standard deviation as a share of that mean."""


class NestedWords:
    """Draws words of D_N by nesting blocks: a is 0, b is 1.

    >>> word = NestedWords(2).draw(8, 1, torch.Generator().manual_seed(0))[0]
    >>> "".join("ab"[s] for s in word)
    'aababbab'
    """

    def __init__(self, depth: int):
        self.depth = depth

    def possible(self, length: int) -> bool:
        return length >= 0 and length % 2 == 0

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) words, written left to right; `room` is a stack: what each open block may still hold."""
        if not self.possible(length):
            raise LengthError(f"D_{self.depth} has words of even length only, got {length}.")
        N = min(self.depth, max(1, length // 2))
        # Lengths are counted in pairs ab, as floats that hold whole numbers, to save conversions.
        factor = torch.randn(length, batch, generator=generator, dtype=torch.float64).mul_(SPREAD).add_(1).numpy()
        width = N + 2
        place = np.arange(batch) * width  # where in `room` the innermost open block of each row is
        room = np.zeros(batch * width)
        room[place] = length // 2
        # Blocks opened at depth N - 1 enclose the empty word alone: a mean of 0 becomes the least length.
        mean = np.tile(np.where(np.arange(width) < N - 1, MEAN, 0.0), batch)
        strings = np.empty((length, batch), dtype=bool)
        for t in range(length):
            left = room.take(place)
            block = np.rint(left * mean.take(place) * factor[t])
            # With no room left `block` is 0: the open block closes.
            block = np.minimum(np.maximum(block, 1), left)
            room[place] = left - block
            # Where nothing opens this writes -1 one level up, which the next block to open there overwrites.
            room[place + 1] = block - 1
            closes = left == 0
            strings[t] = closes
            place += 1 - 2 * closes
        return torch.from_numpy(np.ascontiguousarray(strings.T)).long()


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
        **shared: Inherited,
    ):
        self.depth = depth
        self.growth = positives
        super().__init__(f"d-{depth}", depth_machine(depth), {"positives": positives}, **shared)
        if self.weights is not None and positives == "nesting":
            raise Error(
                f'{self.name}: probabilities need positives="uniform", got "nesting", whose words are grown without '
                'them. Set positives="uniform", or leave probabilities out.'
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
