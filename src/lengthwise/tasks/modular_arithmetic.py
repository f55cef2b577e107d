"""Modular arithmetic: the value of an expression over + - *, modulo `modulus`; * binds tighter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..options import at_least
from .base import SupervisionOption, Task
from .bracketed_expressions import BracketedExpressions
from .expression_values import evaluate_flat, evaluate_nested, flat_machine


class ModularArithmetic(Task):
    """Digits and operators alternate, so lengths are odd; with `brackets`, any well-formed expression of the length.

    With `leading_plus` a + comes first (and lengths are even), which pairs every operator with the number after it.
    A prefix that is no expression has no question. With brackets every expression of the length is equally likely.

    >>> from lengthwise import tasks
    >>> task = tasks.get("modular-arithmetic", supervision="prefix")
    >>> tokens = torch.tensor([[1, 5, 2, 6, 4, 7, 3]])
    >>> task.write(tokens[0]), tokens, task.answer(tokens), task.asked(tokens).int()
    ('1+2-4*3',
     tensor([[1, 5, 2, 6, 4, 7, 3]]),
     tensor([[1, 0, 3, 0, 4, 0, 1]]),
     tensor([[1, 0, 1, 0, 1, 0, 1]], dtype=torch.int32))
    """

    def __init__(
        self,
        modulus: Annotated[int, at_least(2, at_most=100), "How many digits there are; values are taken modulo it."] = 5,
        brackets: Annotated[bool, "Whether expressions have brackets, which only a stack can follow."] = False,
        leading_plus: Annotated[bool, "Whether a + comes first, so that lengths are even."] = False,
        supervision: SupervisionOption = "last",
    ):
        self.name = "modular-arithmetic"
        m = self.outputs = self.modulus = modulus
        self.supervision = supervision
        self.leading_plus = leading_plus
        self.brackets = BracketedExpressions(m, 3) if brackets else None
        self.vocabulary = (*(str(d) for d in range(m)), *"+-*", *("()" if brackets else ""))
        self.flat = None if brackets else flat_machine(m, self.leading_plus)
        if self.flat:
            self.machine, self.readout, self.answered = self.flat
        settings = {"brackets": brackets, "leading_plus": self.leading_plus, "supervision": supervision}
        self.params = {"modulus": m, **settings}

    def problem(self, length: int) -> str | None:
        plus = int(self.leading_plus)
        if length > plus and length % 2 != plus:
            return None
        why = (
            "operators stand between operands, brackets come in pairs"
            if self.brackets
            else "digits and operators alternate"
        )
        if plus:
            why = f"a + comes first, then {why}"
        near = [n for n in (length - 1, length + 1) if n > plus and n % 2 != plus] or [1 + plus]
        return f"length must be {'even' if plus else 'odd'} ({why}), got {length}. Use {' or '.join(map(str, near))}."

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        m, plus = self.modulus, int(self.leading_plus)
        tokens = torch.full((batch, length), m)
        if self.brackets:
            tokens[:, plus:] = self.brackets.draw(length - plus, batch, generator)
        else:
            operands = (length - plus + 1) // 2
            tokens[:, plus::2] = torch.randint(m, (batch, operands), generator=generator)
            tokens[:, plus + 1 :: 2] = torch.randint(m, m + 3, (batch, operands - 1), generator=generator)
        return tokens

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        evaluate = evaluate_nested if self.brackets else evaluate_flat
        values = torch.from_numpy(evaluate(tokens.cpu().numpy(), self.modulus)).to(tokens.device)
        return values.masked_fill_(~self.complete(tokens), 0)

    def asked(self, tokens: Tensor) -> Tensor:
        mask = self.complete(tokens)
        if self.supervision == "last":
            mask[:, :-1] = False
        return mask

    def complete(self, tokens: Tensor) -> Tensor:
        """(B, T) booleans: which prefixes are expressions themselves."""
        m = self.modulus
        if not self.brackets:
            return tokens < m
        opening, closing = tokens == m + 3, tokens == m + 4
        depth = (opening.to(torch.int8) - closing.to(torch.int8)).cumsum(1)
        return (depth == 0) & ((tokens < m) | closing)

    def baseline(self, length: int) -> float:
        self.check(length)
        if self.brackets:
            return float(self.brackets.value_shares(length - self.leading_plus).max())
        assert self.flat is not None  # without brackets it is always set
        machine, values, _ = self.flat
        *_, pi = machine.state_probabilities(islice(self._weights(), length))
        return float(np.bincount(values.numpy(), weights=pi).max())

    def _weights(self) -> Iterator[np.ndarray]:
        """(S,) symbol probabilities, place after place."""
        digit, operator, first = np.zeros((3, len(self.vocabulary)))
        digit[: self.modulus] = 1 / self.modulus
        operator[self.modulus :] = 1 / 3
        first[self.modulus] = 1.0
        if self.leading_plus:
            yield first
        yield from cycle([digit, operator])
