"""Inputs and their answers as tokens: what a model reads, and what it shall write behind it.

input, its first tokens · "\\n\\nAnswer:" · " " and the answer · end        at most `window` tokens

The answer takes `budget` tokens at most with its end, and is cut there; the input has the places that are left, so that
a prompt is the same in training, where its answer follows, and in the test, where the model writes. Inputs are cut at
their end, since the tasks that ask a question put it first.

Shapes: P tokens of a prompt, T of a prompt with its answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import Error

BEFORE_AN_ANSWER = "\n\nAnswer:"
CHARACTERS = 12
"""A long input is cut after so many characters for each place before it is tokenized; most tokens have fewer."""


class AnsweredPrompt(NamedTuple):
    tokens: Tensor
    """(T,) as int32."""
    start: int
    """Where the answer begins."""


class Prompts:
    """Makes the prompts of a window, by one tokenizer."""

    def __init__(self, tokenizer: Any, window: int, budget: int):
        self.tokenizer, self.window, self.budget = tokenizer, window, budget
        self.end = tokenizer.eos_token_id
        if self.end is None:
            raise Error("The tokenizer must have an end-of-text token to end answers with. Set its eos_token.")
        self.before = self._tokens(BEFORE_AN_ANSWER)
        self.places = window - budget - len(self.before)
        if self.places < 1:
            raise Error(
                f"A window of {window:,} tokens has no place for an input: an answer takes up to {budget:,}, and "
                f"{BEFORE_AN_ANSWER!r} {len(self.before)}. Raise window, or lower budget, where longer answers are cut."
            )

    def prompt(self, text: str) -> Tensor:
        """(P,) as int32."""
        return torch.tensor(self._beginning(text) + self.before, dtype=torch.int32)

    def answered(self, text: str, answer: str) -> AnsweredPrompt:
        """The prompt with its answer. The end is left out where the answer is cut."""
        return self.behind(self.prompt(text), answer)

    def behind(self, prompt: Tensor, answer: str) -> AnsweredPrompt:
        """The answer behind a prompt (P,)."""
        written = [*self._tokens(f" {answer.strip()}"), self.end][: self.budget]
        return AnsweredPrompt(torch.cat([prompt, torch.tensor(written, dtype=torch.int32)]), len(prompt))

    def _beginning(self, text: str) -> list[int]:
        """The first tokens of a text. Of a long one no more is tokenized than has to be, and that up to a space."""
        most = CHARACTERS * self.places
        if len(text) > most:
            space = text.rfind(" ", 0, most)
            start = self._tokens(text[:space]) if space > 0 else []
            if len(start) >= self.places:
                return start[: self.places]
        return self._tokens(text)[: self.places]

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
