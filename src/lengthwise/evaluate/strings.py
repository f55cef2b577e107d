"""Score strings at every test length.

The strings of a length are a function of (task, length, seed) alone: every model is tested on the same ones.
Where the task scores "generated" the model writes its answer, else the right one stands before its eyes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import NonFiniteError
from ..models.token_classifier import evaluating
from ..tasks.base import GeneratedAnswers, Task
from ..train.counting import count_right
from .generation import write_answers


class StringScores(NamedTuple):
    """The test's counts per length; a length is written as in JSON."""

    correct: dict[str, float]
    overflowed: dict[str, int]
    """Strings with a logit that is not finite; a length without any is left out."""


def score_strings(
    classifier: nn.Module,
    task: Task,
    lengths: tuple[int, ...],
    samples: int,
    seed: int,
    *,
    device: torch.device,
    autocast: str = "fp32",
    share: int = 1,
    known: StringScores | None = None,
    after: Callable[[StringScores], None] | None = None,
) -> StringScores:
    """Right and overflowed strings per length. `known` lengths are not tested again; `after` hears each."""
    scores = StringScores(dict(known.correct), dict(known.overflowed)) if known else StringScores({}, {})
    with evaluating(classifier):
        for length in lengths:
            if str(length) not in scores.correct:
                right, overflowed = 0, 0
                for part in task.test_parts(length, samples, seed):
                    if isinstance(task, GeneratedAnswers):
                        counts = count_written(classifier, task, part.tokens, autocast, share)
                    else:
                        counted = count_right(classifier, task, part, device=device, autocast=autocast, share=share)
                        counts = counted.right, counted.overflowed
                    right, overflowed = right + counts[0], overflowed + counts[1]
                scores.correct[str(length)] = right
                if overflowed:
                    scores.overflowed[str(length)] = overflowed
                if after:
                    after(scores)
    return scores


def count_written(
    classifier: nn.Module, task: GeneratedAnswers, tokens: Tensor, autocast: str = "fp32", share: int = 1
) -> tuple[int, int]:
    """Returns how many of the answers that the model writes are right, and at how many prompts it overflowed."""
    try:
        written = write_answers(classifier, task, tokens, autocast=autocast, share=share)
    except NonFiniteError:
        if len(tokens) == 1:
            return 0, 1
        # It refuses a batch for one of its strings.
        each = [count_written(classifier, task, row[None], autocast, share) for row in tokens]
        return sum(right for right, _ in each), sum(overflowed for _, overflowed in each)
    return int(task.is_right(tokens, written).sum()), 0
