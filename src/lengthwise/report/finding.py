"""What was found, in one or two plain sentences: who is proved right, who is right at the longest length, who guesses.

A model that is right on all strings tested and refuted by another is not called right. Right: at least 99% of the test
strings. Guessing: the interval of the accuracy does not lie above the majority answer, or the accuracy is less than a
point above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ..lab.statistics import Summary, summary
from .formatting import percent
from .panel import Verdict
from .sections import Section, SeedGroup
from .verdicts import verdicts_of

RIGHT = 0.99
ABOVE = 0.01
"""A model less than this above the majority answer has learned nothing that tells."""
EACH = 2
"""Up to so many tasks have a sentence each; of more it is counted how often a model is right."""
NAMED = 4
"""Up to so many models are named in one breath."""

Standing = Literal["proved", "flawed", "right", "between", "guesses"]
OTHERS: dict[Standing, str] = {
    "proved": "PROVED so at every length",
    "flawed": "refuted by another string",
    "guesses": "only guesses",
}
"""What is counted of many tasks beside how often a model is right."""


def findings(sections: Sequence[Section]) -> list[str]:
    """The sentences; none where there are no runs."""
    if len(sections) <= EACH:
        return [_of_one(section, len(sections) > 1) for section in sections]
    return [_of_many(sections)]


def standing(s: Summary) -> Standing:
    """Where a score stands between all right and the majority answer."""
    if s.mean >= RIGHT:
        return "right"
    return "guesses" if s.low <= s.baseline or s.mean < s.baseline + ABOVE else "between"


def _of_one(section: Section, several: bool) -> str:
    longest, (_, high) = section.lengths[-1], section.train
    scores = {group.label: summary(group.runs, [longest]) for group in section.groups}
    who: dict[Standing, list[str]] = {"proved": [], "right": [], "flawed": [], "between": [], "guesses": []}
    verdicts = verdicts_of(section)
    for group in section.groups:
        who[_standing(group, section, verdicts)].append(group.label)
    base = percent(next(iter(scores.values())).baseline)
    clauses = []
    if who["proved"]:
        clauses.append(f"{_subject(who['proved'], len(scores))} PROVED right at every length")
    if who["right"]:
        clauses.append(f"{_subject(who['right'], len(scores))} right ({100 * RIGHT:.0f}% or more)")
    if who["flawed"]:
        each = [f"{label} {next(v for v in verdicts[label] if v.mark == '✗').summary}" for label in who["flawed"]]
        clauses.append(f"right on the strings tested, yet not on all others: {_listed(each)}")
    if who["between"]:
        least, most = (percent(pick(scores[label].mean for label in who["between"])) for pick in (min, max))
        each = [f"{label} ({percent(scores[label].mean)}%)" for label in who["between"]]
        few = len(each) <= NAMED
        clauses.append(
            f"right in part: {_listed(each) if few else f'{len(each)} of {len(scores)} models ({least}–{most}%)'}"
        )
    if who["guesses"]:
        guess = f"{'do' if len(who['guesses']) > 1 else 'does'} no better than always giving the commonest answer"
        clauses.append(f"{_named(who['guesses'], len(scores))} {guess} ({base}%)")
    task = f"{section.title}: at" if several else "At"
    times = f", {longest / high:.3g} times the longest of training," if longest > high else ""
    return f"{task} {longest:,} {section.unit}{times} {'; '.join(clauses)}."


def _standing(group: SeedGroup, section: Section, verdicts: Mapping[str, Sequence[Verdict]]) -> Standing:
    """Where a model stands by the verdicts on its seeds and, where they say nothing, by its score at the longest."""
    marks = [verdict.mark for verdict in verdicts.get(group.label, [])]
    if marks == ["✓"] * len(group.runs):
        return "proved"
    score = standing(summary(group.runs, section.lengths[-1:]))
    return "flawed" if score == "right" and "✗" in marks else score


def _subject(labels: Sequence[str], models: int) -> str:
    return f"{_named(labels, models)} {'are' if len(labels) > 1 else 'is'}"


def _of_many(sections: Sequence[Section]) -> str:
    """How often each kind of model is right, and how often it only guesses."""
    counts: dict[str, list[Standing]] = {}
    for section in sections:
        verdicts = verdicts_of(section)
        for group in section.groups:
            counts.setdefault(group.experiment.model.name, []).append(_standing(group, section, verdicts))
    clauses = []
    for name, kinds in sorted(counts.items(), key=lambda item: -item[1].count("right") / len(item[1])):
        clause = f"{name} is right in {kinds.count('right')} of {len(kinds)} cases"
        parts = [f"{words} in {kinds.count(kind)}" for kind, words in OTHERS.items() if kind in kinds]
        clauses.append(clause + f", {', '.join(parts)}" * bool(parts))
    return (
        f"At the longest test length of each of {len(sections)} parts (right: {100 * RIGHT:.0f}% or more; guessing: no "
        f"better than always giving the commonest answer): {'; '.join(clauses)}."
    )


def _listed(words: Iterable[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _named(labels: Sequence[str], models: int) -> str:
    """The models by name, where that is a short list.

    >>> _named(["lstm"], 1), _named(["rnn", "lstm"], 2), _named(list("abcdef"), 7)
    ('lstm', 'both models', '6 of 7 models')
    """
    if len(labels) == models > 1:
        return "both models" if models == 2 else f"all {models} models"
    return f"{len(labels)} of {models} models" if len(labels) > NAMED else _listed(labels)
