"""Which networks are consolidated: those that learned their machine from strings. Any other would be compiled.

The network answers words of the lengths that it was trained on, drawn apart from training, each right answer of a
length as often as any other. So a network that always says the same is right on no more than its share of them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ...automata import WordSampler
from ...seeds import generator
from ..claim import Claim
from ..falsification.reading import Reader
from .teaching import CannotBeTaught

LEARNED = 0.95
"""The least share of right answers."""
WORDS, EACH = 640, 16
"""Words of all lengths, and at least of each."""
KINDS, MOST_LENGTHS = 64, 40
"""Of more right answers, or lengths, than these, so many are asked for."""


def checked_to_have_learned(model: nn.Module, claim: Claim, lengths: tuple[int, ...]) -> float:
    """The share of right answers, if it is enough. Everything that consolidates asks here, and nowhere else."""
    right = share_right(model, claim, lengths)
    between = f"held-out words of {lengths[0]} to {lengths[-1]} symbols"
    if right is None:
        raise CannotBeTaught(f"nothing is asked after {between}, so nobody can see what it has learned")
    if right < LEARNED:
        raise CannotBeTaught(
            f"it answers {right:.1%} of {between} as that machine does, and {LEARNED:.0%} is the least. It has not "
            "learned the machine: taught it now, it would be compiled. Train it for longer"
        )
    return right


def share_right(model: nn.Module, claim: Claim, lengths: tuple[int, ...]) -> float | None:
    """The model's share of right answers on words of these lengths; None where none of them has a question."""
    wrong: list[np.ndarray] = []
    with Reader(model, claim) as reader:
        for words in held_out_words(claim, lengths):
            wrong.append(reader.read(words).wrong)
    return 1 - float(np.concatenate(wrong).mean()) if wrong else None


def held_out_words(claim: Claim, lengths: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """(B,T) of each length: of each right answer that words of this length have, as many as of any other.

    >>> from lengthwise import tasks
    >>> from lengthwise.verify.claim import claim_of
    >>> [words.shape for words in held_out_words(claim_of(tasks.get("parity")), (1, 40))]
    [(320, 1), (320, 40)]
    """
    rows = claim.answers.reshape(len(claim.asked), -1)
    kinds = np.unique(rows[claim.asked], axis=0)
    kinds = kinds[:: -(-len(kinds) // KINDS)]
    samplers = []
    for kind in kinds:
        states = np.flatnonzero(claim.asked & (rows == kind).all(1))
        samplers.append(WordSampler(claim.machine.with_accepting(states.tolist())))
    lengths = lengths[:: -(-len(lengths) // MOST_LENGTHS)]
    each, drawn = max(EACH, WORDS // len(lengths)), []
    for length in lengths:
        possible = [sampler for sampler in samplers if sampler.possible(length)]
        words = [
            sampler.draw(length, -(-each // len(possible)), generator("held-out words", seed, length, i))
            for i, sampler in enumerate(possible)
        ]
        if words:
            drawn.append(torch.cat(words).numpy())
    return drawn
