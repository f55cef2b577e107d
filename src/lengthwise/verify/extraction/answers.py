"""What models and machines say after words, and a shortest word after which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..claim import Claim
from ..falsification.reading import Reader

Answer = int | tuple[int, ...]
AT_ONCE = 512
"""Words asked at a time."""


@dataclass(frozen=True)
class Difference:
    word: tuple[int, ...] | None
    """A shortest word after which they differ; None where it is too long to be written out."""
    length: int
    said: Answer | None
    """None: the word leads out of what was extracted."""
    right: Answer

    def __str__(self) -> str:
        answer = "nothing" if self.said is None else self.said
        symbols = "" if self.word is None else f" ({' '.join(map(str, self.word[:24]))}{' …' * (self.length > 24)})"
        return f"first at length {self.length:,}{symbols}: it says {answer}, and {self.right} is right"

    def to_json(self) -> dict[str, Any]:
        word, answer, right = map(as_json, (self.word, self.said, self.right))
        return {"word": word, "length": self.length, "said": answer, "right": right}


def right_answer(claim: Claim, state: int) -> Answer:
    if claim.several:
        return tuple(np.flatnonzero(claim.answers[state]).tolist())
    return int(claim.answers[state])


def read(logits: Tensor, several: bool) -> tuple[list[Answer], list[float]]:
    """Returns what logits (M,E) say, and by how much: the lead over the next, or the least distance from 0."""
    logits = logits.detach().double().cpu()
    if several:
        answers: list[Answer] = [tuple(torch.nonzero(row > 0)[:, 0].tolist()) for row in logits]
        return answers, logits.abs().min(1).values.tolist()
    if logits.shape[1] == 1:
        return [0] * len(logits), [float("inf")] * len(logits)
    best = logits.topk(2, 1).values
    return logits.argmax(1).tolist(), (best[:, 0] - best[:, 1]).tolist()


def said_by(reader: Reader, tokens: Tensor) -> list[Answer]:
    """Returns what a model says after each of the words (B,T)."""
    logits = [reader.logits(part.to(reader.device)) for part in tokens.split(AT_ONCE)]
    return read(torch.cat(logits), reader.claim.several)[0]


def as_json(answer: Answer | None) -> Any:
    return list(answer) if isinstance(answer, tuple) else answer
