"""Score strings at every test length.

The strings of a length are a function of (task, length, seed) alone: every model is tested on the same ones.
Where the task scores "generated" the model writes its answer, else the right one stands before its eyes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from ..tasks.base import Task
from ..tasks.generated_answers import GeneratedAnswers
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
    classifier.eval()
    for length in lengths:
        if str(length) not in scores.correct:
            right, overflowed = 0, 0
            for part in task.test_parts(length, samples, seed):
                if isinstance(task, GeneratedAnswers):
                    written = write_answers(classifier, task, part.tokens, autocast=autocast, share=share)
                    right += int(task.is_right(part.tokens, written).sum())
                    continue
                counted = count_right(classifier, task, part, device=device, autocast=autocast, share=share)
                right, overflowed = right + counted.right, overflowed + counted.overflowed
            scores.correct[str(length)] = right
            if overflowed:
                scores.overflowed[str(length)] = overflowed
            if after:
                after(scores)
    return scores
