"""Random words of any length after which the answer is still open until the end, and how often a model is right there.

A uniform word of a million symbols says little of most languages: long before its end the machine is in a state that it
never leaves. So a word is a walk among the states from which two answers, or else any, can still come. Its last symbols
lead to a state of the answer that is wanted, each answer in turn, where one can be reached.

Shapes: B words, T symbols, Q states, S symbols of the machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from ...automata import live_states
from ...seeds import derive
from ...verify import Claim
from ...verify.falsification.reading import Reader

LAST = 64
"""So many symbols at the end lead to the answer that is wanted."""


def long_words(claim: Claim, length: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(B,T) words of this length, or of the first shorter one that has a question, and (B,) their right answers.

    >>> from lengthwise import tasks, verify
    >>> words, answers = long_words(verify.claim_of(tasks.get("tomita-5")), 1001, 4, seed=0)
    >>> words.shape, answers.tolist()
    ((4, 1000), [0, 1, 0, 1])
    """
    delta, rng = claim.machine.delta, np.random.default_rng(derive("long words", seed, length))
    answers = claim.answers if not claim.several else np.unique(claim.answers, axis=0, return_inverse=True)[1].ravel()
    kinds = np.unique(answers[claim.asked])
    targets = [claim.asked & (answers == kind) for kind in kinds]
    leads = [live_states(claim.machine.with_accepting(np.flatnonzero(states).tolist())) for states in targets]
    open_ = np.sum(leads, axis=0)
    lengths = range(length, max(0, length - claim.machine.num_states - 1), -1)
    # First a length at which words of every answer exist, else any.
    for T, others in [*((T, 0) for T in lengths), *((T, len(kinds)) for T in lengths)]:
        head = max(0, T - LAST)
        heads = [_walk(delta, claim.machine.start, [open_ > 1, open_ > 0], head, rng) for _ in range(count)]
        words, ends_at = [], []
        for i, (word, q) in enumerate(heads):
            turned = [targets[i % len(kinds)], *targets[:others]]
            ends = (_ending(delta, q, states, T - head, rng) for states in turned)
            if (ending := next((e for e in ends if e is not None), None)) is None:
                break
            words.append(word + ending[0])
            ends_at.append(ending[1])
        else:
            return np.array(words), answers[ends_at]
    raise ValueError("no word near this length has a question")


def wrong_words(model: nn.Module, claim: Claim, length: int, count: int, device: str) -> np.ndarray:
    """(B,T) those of `count` such words after which the model, a classifier, does not say what is right."""
    return wrong_among(long_words(claim, length, count, seed=0)[0], model, claim, device)


def wrong_among(words: np.ndarray, model: nn.Module, claim: Claim, device: str) -> np.ndarray:
    """(B,T) those of these words after which the model does not say what is right."""
    with Reader(model.to(device), claim) as reader:  # which reads a recurrence piece by piece
        return words[reader.read(words).wrong]


def _walk(
    delta: np.ndarray, q: int, preferred: list[np.ndarray], steps: int, rng: np.random.Generator
) -> tuple[list[int], int]:
    """Random symbols that keep to the first of these sets of states that can be kept to, and the state after them."""
    choices: list[list[int]] = []
    for row in delta:
        allowed = next(
            (those for states in preferred if len(those := np.flatnonzero(states[row]))),
            np.arange(len(row)),
        )
        choices.append(allowed.tolist())
    table, word = delta.tolist(), []
    for u in rng.random(steps).tolist():
        symbols = choices[q]
        word.append(symbols[int(u * len(symbols))])
        q = table[q][word[-1]]
    return word, q


def _ending(
    delta: np.ndarray, q: int, states: np.ndarray, steps: int, rng: np.random.Generator
) -> tuple[list[int], int] | None:
    """So many random symbols from q into these states, and the state that is reached; None where none lead there."""
    within: list[Any] = [states]
    for _ in range(steps):
        within.append(within[-1][delta].any(1))
    if not within[steps][q]:
        return None
    word = []
    for left in range(steps - 1, -1, -1):
        word.append(int(rng.choice(np.flatnonzero(within[left][delta[q]]))))
        q = int(delta[q, word[-1]])
    return word, q
