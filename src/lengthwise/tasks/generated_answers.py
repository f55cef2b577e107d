"""Tasks whose answer a model writes by itself, where more than one text is right.

A string is a prompt and one right answer. Training asks for the next token of that answer, with the right ones before
the model's eyes; the test gives the prompt alone, and asks the task whether what was written is right.

Shapes: B batch, T tokens, n tokens that were written.
"""

from __future__ import annotations

from torch import Tensor

from .base import Task


class GeneratedAnswers(Task):
    """A subclass sets `padding` as well, the token that ends an answer."""

    scoring = "generated"
    supervision = "prefix"
    padding: int  # pyright: ignore[reportIncompatibleVariableOverride]

    def prompts(self, tokens: Tensor) -> Tensor:
        """(B,) how many tokens of each string are its prompt."""
        raise NotImplementedError

    def longest_answer(self, tokens: Tensor) -> int:
        """How many tokens a right answer to these prompts has at most, with the one that ends it."""
        raise NotImplementedError

    def is_right(self, tokens: Tensor, written: Tensor) -> Tensor:
        """(B,) booleans: whether what was written (B, n) answers the prompts of `tokens`."""
        raise NotImplementedError
