"""How SCROLLS scores what was written for a question, by the rules of its own evaluator. All scores are in percent.

    exact match   1 if the answer is one of the references once both are normalised
    f1            2 P R / (P + R), P and R the share of the answer's and of the reference's words that they have in
                  common, each as often as in both; of the reference for which it is greatest
    rouge         (R1 · R2 · RL)^(1/3), each the mean over questions of its F-measure for the best reference

To normalise is to lower, to drop punctuation, "a", "an" and "the", and to leave single spaces. ROUGE is rouge-score's,
without stemming. The geometric mean is that of the three means over all questions, and not the mean over questions.
"""

from __future__ import annotations

import re
import statistics
import string
from collections import Counter
from collections.abc import Sequence

from ..errors import Error, check_extra
from ..text.scrolls import Metric

KINDS = ("rouge1", "rouge2", "rougeL")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """
    >>> normalised("The  Cat, an animal!")
    'cat animal'
    """
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION)).split())


def f1(written: str, reference: str) -> float:
    """
    >>> f1("the red cat", "a cat")  # one word of two is right, and all of the reference is there
    66.66666666666667
    """
    tokens, right = normalised(written).split(), normalised(reference).split()
    common = (Counter(tokens) & Counter(right)).total()
    return 100 * 2 * common / (len(tokens) + len(right)) if common else 0.0


def exact_match(written: str, reference: str) -> float:
    return 100.0 * (normalised(written) == normalised(reference))


def score(metric: Metric, written: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The "score" of all questions, each with its references, and what it is made of.

    >>> score("exact match", ["Yes.", "no"], [["yes"], ["yes", "perhaps"]])
    {'score': 50.0}
    """
    if len(written) != len(references) or not written or not all(references):
        raise Error(
            f"Every answer needs a reference, got {len(written)} answers and references of "
            f"{sum(map(bool, references))}. Score the validation split: the test's are held by the benchmark's site."
        )
    if metric == "rouge":
        return _rouge(written, references)
    one = f1 if metric == "f1" else exact_match
    best = [max(one(text, each) for each in right) for text, right in zip(written, references, strict=True)]
    return {"score": statistics.fmean(best)}


def check_metric(metric: Metric) -> None:
    """Raises unless what the metric needs is installed."""
    if metric == "rouge":
        check_extra("rouge_score", "scrolls", "ROUGE")


def _rouge(written: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    check_metric("rouge")
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(KINDS), use_stemmer=False)
    scores: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for text, right in zip(written, references, strict=True):
        each = [scorer.score(reference, text) for reference in right]
        for kind, values in scores.items():
            values.append(100 * max(one[kind].fmeasure for one in each))
    means = {kind: statistics.fmean(values) for kind, values in scores.items()}
    return {"score": (means["rouge1"] * means["rouge2"] * means["rougeL"]) ** (1 / 3), **means}
