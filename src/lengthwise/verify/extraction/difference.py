"""Where what was extracted differs from the machine it is compared with: a shortest word, and both answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...models import LengthwiseForCausalLM
from ..claim import Claim

Answer = int | tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    word: tuple[int, ...] | None
    """A shortest word after which they differ; None where it is too long to be written out."""
    length: int
    said: Answer | None
    """None: the word leads out of what was extracted."""
    right: Answer

    def __str__(self) -> str:
        said = "nothing" if self.said is None else self.said
        shown = "" if self.word is None else f" ({' '.join(map(str, self.word[:24]))}{' …' * (self.length > 24)})"
        return f"first at length {self.length:,}{shown}: it says {said}, and {self.right} is right"

    def to_json(self) -> dict[str, Any]:
        said, right = (list(a) if isinstance(a, tuple) else a for a in (self.said, self.right))
        word = None if self.word is None else list(self.word)
        return {"word": word, "length": self.length, "said": said, "right": right}


def right_answer(claim: Claim, state: int) -> Answer:
    if claim.several:
        return tuple(np.flatnonzero(claim.answers[state]).tolist())
    return int(claim.answers[state])


def differs(said: Answer | None, right: Answer) -> bool:
    return said is None or said != right


def read(logits: Tensor, several: bool) -> tuple[list[Answer], list[float]]:
    """What logits (M,E) say, and by how much: the lead over the next, or the least distance from 0."""
    logits = logits.detach().double().cpu()
    if several:
        said: list[Answer] = [tuple(torch.nonzero(row > 0)[:, 0].tolist()) for row in logits]
        return said, logits.abs().min(1).values.tolist()
    if logits.shape[1] == 1:
        return [0] * len(logits), [float("inf")] * len(logits)
    best = logits.topk(2, 1).values
    return logits.argmax(1).tolist(), (best[:, 0] - best[:, 1]).tolist()


@torch.no_grad()
def said_by(model: LengthwiseForCausalLM, tokens: Tensor, several: bool) -> list[Answer]:
    """What the model itself says after each of the words (B,T)."""
    logits = model(tokens.to(model.embedding.weight.device), logits_to_keep=1).logits
    assert logits is not None
    return read(logits[:, -1], several)[0]
