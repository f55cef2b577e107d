"""What a decision about a model says: it is proved right at every length, refuted by a word, or nothing is known.

>>> verdict = Refuted(word=(0, 1, 1), said=1, right=0)
>>> print(verdict)
refuted: after the word 0 1 1 the model says 1, and 0 is right
>>> from_json(verdict.to_json()) == verdict
True
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from ..errors import Error

SHOWN = 24
"""Words are written out up to so many tokens."""

Proof = dict[str, Any]
"""A certificate's own part, as a method of proof finds it: `kind`, `inference`, `arithmetic`, `margin` and `proof`."""
Answer = int | tuple[int, ...]
"""The output named after a word; of a model that may name several at once, all of them."""


def proof_by(kind: str, arithmetic: str, margin: float, sets: dict[str, Any], inference: str = "raw") -> Proof:
    """Returns what a method of proof found, as a certificate is made of it."""
    return {"kind": kind, "inference": inference, "arithmetic": arithmetic, "margin": margin, "proof": sets}


def _shown(verdict: Any) -> str:
    """The verdict as a notebook shows it: its words, the first of them bold."""
    kind, sentence = str(verdict).split(":", 1)
    return f"<p><b>{escape(kind)}</b>:{escape(sentence)}</p>"


@dataclass(frozen=True)
class Proved:
    """The model is right on every word of every length."""

    certificate: dict[str, Any]
    """What a checker needs to see it: JSON, and nothing else."""

    exit_code: ClassVar[int] = 0
    _repr_html_ = _shown

    def __post_init__(self) -> None:
        if not isinstance(self.certificate, dict) or _through_json(self.certificate) != self.certificate:
            raise Error(
                f"Proved: a certificate must be the same after it was written and read as JSON, got "
                f"{self.certificate!r:.80}. Use dicts with text keys, lists, text, finite numbers, booleans and None."
            )

    def __str__(self) -> str:
        return "proved: the model is right on every word of every length"

    def to_json(self) -> dict[str, Any]:
        return {"verdict": "proved", "certificate": self.certificate}


@dataclass(frozen=True)
class Refuted:
    """The model is wrong after one word."""

    word: tuple[int, ...]
    """Its tokens."""
    said: Answer
    right: Answer

    exit_code: ClassVar[int] = 1
    _repr_html_ = _shown

    def __post_init__(self) -> None:
        if not isinstance(self.word, tuple) or not all(map(_is_whole, self.word)):
            raise Error(f"Refuted: the word must be a tuple of tokens 0, 1, …, got {self.word!r}.")
        for answer in (self.said, self.right):
            if not all(map(_is_whole, answer if isinstance(answer, tuple) else (answer,))):
                raise Error(f"Refuted: an answer must be an output 0, 1, … or a tuple of outputs, got {answer!r}.")
        if self.said == self.right:
            raise Error(f"Refuted: what the model says must differ from what is right, got {self.said!r} for both.")

    def __str__(self) -> str:
        verb = "are" if isinstance(self.right, tuple) and len(self.right) > 1 else "is"
        answer, right = _written(self.said), _written(self.right)
        return f"refuted: after {self._word()} the model says {answer}, and {right} {verb} right"

    def _word(self) -> str:
        """The word as a person reads it: of a long one the beginning."""
        if not self.word:
            return "the empty word"
        tokens = " ".join(map(str, self.word[:SHOWN]))
        return f"the word {tokens}" if len(self.word) <= SHOWN else f"a word of {len(self.word):,} tokens ({tokens} …)"

    def to_json(self) -> dict[str, Any]:
        answer, right = (list(a) if isinstance(a, tuple) else a for a in (self.said, self.right))
        return {"verdict": "refuted", "word": list(self.word), "said": answer, "right": right}


@dataclass(frozen=True)
class Unknown:
    """Neither a proof nor a wrong word: the model may be either."""

    why: str
    """What was missing, as a sentence without its full stop."""
    by_how_much: float | None = None
    """How far the best bound is from the one a proof needs; None where no bound was reached."""
    shown: dict[str, Any] | None = None
    """What the search for a wrong word has read, as JSON; None where there was none."""

    exit_code: ClassVar[int] = 1
    _repr_html_ = _shown

    def __post_init__(self) -> None:
        if not isinstance(self.why, str) or not self.why.strip():
            raise Error(f"Unknown: why must say what was missing, got {self.why!r}.")
        if self.by_how_much is not None and not (_is_number(self.by_how_much) and math.isfinite(self.by_how_much)):
            raise Error(f"Unknown: by_how_much must be a finite number or None, got {self.by_how_much!r}.")
        if self.shown is not None and (not isinstance(self.shown, dict) or _through_json(self.shown) != self.shown):
            raise Error(
                f"Unknown: shown must be the same after it was written and read as JSON, got {self.shown!r:.80}."
            )

    @classmethod
    def short(cls, why: str, gap: float) -> Unknown:
        """Returns what a gap that is not above 0 leaves unknown."""
        return cls(why, -gap if math.isfinite(gap) else None)

    def __str__(self) -> str:
        return f"unknown: {self.why}" + ("" if self.by_how_much is None else f" (short by {self.by_how_much:.3g})")

    def to_json(self) -> dict[str, Any]:
        rest = {} if self.shown is None else {"shown": self.shown}
        return {"verdict": "unknown", "why": self.why, "by_how_much": self.by_how_much, **rest}


Verdict = Proved | Refuted | Unknown


class NotProved(Exception):
    """Ends the search for a proof with another verdict."""

    def __init__(self, verdict: Refuted | Unknown):
        self.verdict = verdict


FIELDS = {
    "proved": {"verdict", "certificate"},
    "refuted": {"verdict", "word", "said", "right"},
    "unknown": {"verdict", "why", "by_how_much"},
}


def from_json(data: Any) -> Verdict:
    """The verdict that `to_json` wrote."""
    kind = data.get("verdict") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS:
        raise Error(f"verdict: must be an object whose `verdict` is one of {', '.join(FIELDS)}, got {data!r:.80}.")
    names = data.keys() - ({"shown"} if kind == "unknown" else set())
    if names != FIELDS[kind]:
        raise Error(f"verdict: {kind} has the fields {', '.join(sorted(FIELDS[kind]))}, got {', '.join(sorted(data))}.")
    if kind == "proved":
        return Proved(data["certificate"])
    if kind == "unknown":
        return Unknown(data["why"], data["by_how_much"], data.get("shown"))
    word, answer, right = (tuple(x) if isinstance(x, list) else x for x in (data["word"], data["said"], data["right"]))
    return Refuted(word, answer, right)


def _through_json(data: Any) -> Any:
    try:
        return json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError):
        return None


def _is_whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= 0


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _written(answer: Answer) -> str:
    if isinstance(answer, int):
        return str(answer)
    return " and ".join(map(str, answer)) or "nothing"
