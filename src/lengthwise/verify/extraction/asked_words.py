"""Words after which something is asked, to compare a model with what was extracted from it: all short ones, or as many
as are drawn of each of some lengths."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...automata import WordSampler
from ...errors import Error
from ...seeds import generator
from ..claim import Claim

ALL = 256
"""Of a length with no more words than this, all are taken."""
EACH = 64
LENGTHS = (*range(1, 18), 31, 32, 33, 64, 100, 127, 243, 257, 500)


def asked_words(claim: Claim, seed: int = 0, lengths: tuple[int, ...] = LENGTHS, each: int = EACH) -> list[Tensor]:
    """(B,T) words of every one of these lengths that has some.

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
            words.append(sampler.draw(length, each, generator("asked words", seed, length)))
    if not words:
        raise Error(f"extract: this machine asks nothing after words of {lengths[0]} to {lengths[-1]} symbols.")
    return words
