"""Models that are right but for one thing, which is known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lengthwise import tasks, theory
from lengthwise.automata import Semiautomaton

PARITY = tasks.get("parity")


def right_model(task=PARITY):
    return theory.exact_classifier(task)


class Broken(nn.Module):
    """Says the opposite of a right model wherever `spoilt` is true of a word."""

    def __init__(self, inner: nn.Module, spoilt):
        super().__init__()
        self.inner, self.spoilt = inner, spoilt
        self.read: list[tuple[int, int]] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.read.append(tuple(tokens.shape))
        logits = self.inner(tokens, last=True)
        wrong = torch.tensor([bool(self.spoilt(row)) for row in tokens.numpy()])
        return torch.where(wrong[:, None, None], -logits, logits)


def longest_run(word: np.ndarray) -> int:
    breaks = np.flatnonzero(np.diff(word)) + 1
    return int(np.diff([0, *breaks, len(word)]).max())


def contains(part: list[int]):
    wanted = bytes(part)
    return lambda word: wanted in word.astype(np.uint8).tobytes()


def parity_that_counts_runs(longest: int):
    """A block-diagonal LRNN, its weights written down, that says the parity until it has read a run so long."""

    def step(state, s):
        parity, last, run, over = state
        if over:
            return parity ^ s, 0, 0, True
        run = run + 1 if s == last else 1
        return (parity ^ s, 0, 0, True) if run == longest else (parity ^ s, s, run, False)

    machine = Semiautomaton.from_function(step, (0, -1, 0, False), 2)
    labels = [[(parity ^ over) == 0, (parity ^ over) == 1] for parity, _, _, over in machine.states]
    return theory.block_lrnn(machine, torch.tensor(labels))
