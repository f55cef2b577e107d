"""How far the chains hold that a model writes for problems of arithmetic: right at the end, valid throughout, or wrong
from which step on.

score_chains(classifier, task, length=6, strings=1000).first_wrong  # {3: 17, 6: 2}: 17 chains go wrong at step 3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..evaluate.generation import write_answers
from ..models import TokenClassifier
from ..tasks.arithmetic_steps import ArithmeticSteps, Judgement


@dataclass(frozen=True)
class ChainScores:
    """Counts of chains, so that those of several seeds can be added."""

    chains: int
    right: int
    """Chains that end in the right number alone, however they came there."""
    valid: int
    """Chains whose every step follows from the one before, down to a number, which is then right."""
    first_wrong: dict[int, int]
    """The others by their first step, counted from 1, that is wrong or missing."""

    def holding(self, step: int) -> float:
        """The share of chains in which nothing is wrong up to this step.

        >>> ChainScores(10, 7, 6, {1: 1, 3: 3}).holding(2)
        0.9
        """
        return 1 - sum(count for wrong, count in self.first_wrong.items() if wrong <= step) / self.chains

    def to_json(self) -> dict[str, Any]:
        wrong = {str(step): count for step, count in self.first_wrong.items()}
        return {"chains": self.chains, "right": self.right, "valid": self.valid, "first_wrong": wrong}


def score_chains(
    classifier: TokenClassifier, task: ArithmeticSteps, length: int, strings: int, seed: int = 0
) -> ChainScores:
    """Judges the chains written to the first `strings` test problems of `length` operators."""
    tokens = task.test_set(length, strings, seed).tokens
    return count_chains(task.judge(tokens, write_answers(classifier, task, tokens)))


def count_chains(judged: Iterable[Judgement]) -> ChainScores:
    judged = list(judged)
    wrong = Counter(step for each in judged if (step := each.first_wrong_step) is not None)
    return ChainScores(
        len(judged),
        sum(each.right for each in judged),
        sum(each.valid for each in judged),
        dict(sorted(wrong.items())),
    )


def add_chains(parts: Iterable[ChainScores]) -> ChainScores:
    """Joins the scores of several seeds."""
    parts = list(parts)
    wrong = sum((Counter(part.first_wrong) for part in parts), Counter())
    return ChainScores(
        sum(part.chains for part in parts),
        sum(part.right for part in parts),
        sum(part.valid for part in parts),
        dict(sorted(wrong.items())),
    )
