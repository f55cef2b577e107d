"""How often what was extracted says what the model says: after all short words, and after some that are drawn.

Nodes, or states, that are near are one, from coarse to fine: the coarsest whose machine always says what the model says
is taken, or else the one that fails least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ...automata import WordSampler
from ...errors import Error, TooLarge
from ...seeds import generator
from ..claim import Claim
from ..falsification.reading import Reader
from .algebra import Algebra
from .answers import said_by
from .moore import Moore

ALL = 256
"""Of a length with no more words than this, all are taken."""
EACH = 64
LENGTHS = (*range(1, 18), 31, 32, 33, 64, 100, 127, 243, 257, 500)


def asked_words(claim: Claim, seed: int = 0, lengths: tuple[int, ...] = LENGTHS) -> list[Tensor]:
    """(B,T) words after which something is asked, of every one of these lengths that has some.

    >>> from lengthwise import tasks
    >>> from lengthwise.verify.claim import claim_of
    >>> [list(words.shape) for words in asked_words(claim_of(tasks.get("parity")), lengths=(1, 2, 40))]
    [[2, 1], [4, 2], [64, 40]]
    """
    machine = claim.machine.with_accepting(np.flatnonzero(claim.asked).tolist())
    sampler, S, words = WordSampler(machine), machine.num_symbols, []
    for length in lengths:
        if not sampler.possible(length):
            continue
        if S**length <= ALL:
            every = torch.tensor(list(product(range(S), repeat=length)))
            words.append(every[torch.from_numpy(machine.accepts_state)[machine.run(every)[:, -1]]])
        else:
            words.append(sampler.draw(length, EACH, generator("asked words", seed, length)))
    if not words:
        raise Error(f"extract: this machine asks nothing after words of {lengths[0]} to {lengths[-1]} symbols.")
    return words


class Sample:
    """Words, and what a model says after them."""

    def __init__(self, reader: Reader, seed: int):
        self.words = asked_words(reader.claim, seed)
        self.answers = [said_by(reader, tokens) for tokens in self.words]
        self.count = sum(map(len, self.words))

    def agreement(self, finite: Algebra | Moore) -> float:
        """The share of words after which this says what the model says."""
        pairs = zip(self.words, self.answers, strict=True)
        alike = sum(a == b for tokens, own in pairs for a, b in zip(finite.answers(tokens), own, strict=True))
        return alike / self.count


F = TypeVar("F", Algebra, Moore)
SHARES = tuple(2.0 ** (1 - k / 2) for k in range(18))
"""How near is one, as a share of how far apart a few are: first, all are one."""


def coarsest(build: Callable[[float], F], sample: Sample) -> tuple[F, float, str | None]:
    """Returns what was built with the share that is taken, its agreement, and why others were not built."""
    best, refused = None, None
    for share in SHARES:
        try:
            finite = build(share)
        except TimeOver:
            raise
        except Error as error:
            refused = error
            if isinstance(error, TooLarge):  # finer ones have more
                break
            continue
        agreement = sample.agreement(finite)
        if best is None or agreement > best[1]:
            best = finite, agreement
        if agreement == 1:
            break
    if best is None:
        assert refused is not None
        raise refused
    return *best, None if refused is None else str(refused)


class TimeOver(Error):
    """The seconds that an extraction was given are over."""


def check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeOver("extract: the time was over. Give it more seconds, or none.")
