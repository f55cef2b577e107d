"""What a task is: strings of a chosen length, a question at some of their positions, and the exact answers.

Shapes: B batch, T tokens, S outputs, E entries.
`kind` "class": targets (B, T) integers in 0..S-1; with E > 1 entries, several questions at each place, (B, T, E), and
    -1 where a place has no such entry.
`kind` "set": targets (B, T, S) booleans (the symbols that may come next).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, LengthError, UnknownName
from ..seeds import generator

TEST_BLOCK = 64
FRUITLESS = 100
"""Draws in a row without one string of the asked side (training, test) before the split is called impossible."""

Judged = Literal["last", "every", "mean"]


class Batch(NamedTuple):
    tokens: Tensor
    """(B, T) integers."""
    targets: Tensor
    """(B, T) or (B, T, E) integers, or (B, T, S) booleans; read only where `mask` is true."""
    mask: Tensor
    """(B, T) booleans: where the task asks."""


class Task:
    """Base of all tasks. A subclass sets the attributes in `__init__` and defines `draw`, `answer` and `baseline`.

    `draw` may raise freely; users call `sample`, which checks the length first.
    """

    name: str
    """The registered name, e.g. "parity"."""
    params: dict
    """JSON-like parameters which with `name` rebuild this very task: `tasks.get(task.name, **task.params)`."""
    vocabulary: tuple[str, ...]
    """How each token is written."""
    outputs: int
    """Number of classes (kind "class") or of independent bits (kind "set") a model must predict per position."""
    entries: int = 1
    """Questions at each position, each with `outputs` classes (kind "class"); the E*S logits stand entry by entry."""
    kind: Literal["class", "set"] = "class"
    supervision: Literal["last", "prefix"] = "last"
    judged: Judged = "last"
    """When a string is right: its last asked place is; every asked place is; or it scores the mean over its entries."""
    padding: int | None = None
    """The token that fills rows on the right, where `length` does not fix the number of tokens. None: T = length."""
    machine: Semiautomaton | None = None
    readout: Tensor | None = None
    """With `machine`: the answer in each of its states, (Q,) integers or (Q, S) booleans; 0 where none is defined."""

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) tokens, vectorised, all randomness from `generator`; with `padding` (batch, any number)."""
        raise NotImplementedError

    def answer(self, tokens: Tensor) -> Tensor:
        """The exact oracle: the target of every prefix, shaped as `Batch.targets`; independent of the sampler."""
        raise NotImplementedError

    def baseline(self, length: int) -> float:
        """Accuracy of the best constant answer at this length, exactly, where strings are judged as the lab does.

        Judged "last": the largest share one class has at the last position, whatever the supervision.
        Judged "every": the probability that all asked positions of a string have the same answer, for the answer that
        makes it largest. Judged "mean": the largest share one class has among all entries.
        """
        raise NotImplementedError

    def held_out(self, tokens: Tensor) -> Tensor | None:
        """(B,) booleans: which strings are kept for the test; None: training may see any string.

        A rule on the string itself (not on its padding), so that training and test are disjoint however many strings
        either draws.
        """
        return None

    @property
    def logits(self) -> int:
        """How many logits a model must give at each position."""
        return self.outputs * self.entries

    def asked(self, tokens: Tensor) -> Tensor:
        """(B, T) booleans: which positions are supervised."""
        mask = torch.ones_like(tokens, dtype=torch.bool)
        if self.supervision == "last":
            mask[:, :-1] = False
        return mask

    def problem(self, length: int) -> str | None:
        """Why this length is impossible and what to use instead, or None. Subclasses extend it."""
        return None if length >= 1 else f"length must be at least 1, got {length}. Use 1 or more."

    def check(self, length: int) -> None:
        """Raise `LengthError` unless strings of this length can be asked for."""
        if problem := self.problem(length):
            raise LengthError(f"{self.name}: {problem}")

    def lengths(self, low: int, high: int) -> list[int]:
        """The possible lengths in low..high; raises if there is none."""
        found = [n for n in range(low, high + 1) if self.problem(n) is None]
        if not found:
            why = self.problem(low) or "the range is empty"
            raise LengthError(f"{self.name}: no possible length in {low}..{high}: {why}")
        return found

    def sample(self, length: int, batch: int, generator: torch.Generator) -> Batch:
        """`batch` labelled strings of this length, none of them held out."""
        self.check(length)
        if batch < 1:
            raise Error(f"{self.name}: batch must be at least 1, got {batch}.")
        return self.label(self._side(False, length, batch, lambda i, missing: self.draw(length, missing, generator)))

    def label(self, tokens: Tensor) -> Batch:
        return Batch(tokens, self.answer(tokens), self.asked(tokens))

    def test_set(self, length: int, count: int, seed: int = 0) -> Batch:
        """The first `count` test strings of this length: a function of (task, length, seed) alone, never of `count`.

        Where some strings are held out, they alone are among them.
        """
        self.check(length)

        def block(i: int, missing: int) -> Tensor:
            return self.draw(length, TEST_BLOCK, generator("test", self.name, self.params, length, seed, i))

        return self.label(self._side(True, length, count, block))

    def _side(self, held: bool, length: int, count: int, draw: Callable[[int, int], Tensor]) -> Tensor:
        """The first `count` rows of draw(0, missing), draw(1, missing), … that are held out, or that are not."""
        parts: list[Tensor] = []
        missing, fruitless = count, 0
        while missing > 0:
            tokens = draw(len(parts), missing)
            side = self.held_out(tokens)
            kept = (tokens if side is None else tokens[side == held])[:missing]
            fruitless = 0 if len(kept) else fruitless + 1
            if fruitless == FRUITLESS:
                raise Error(
                    f"{self.name}: {FRUITLESS} draws of length {length} gave no string for "
                    f"{'the test' if held else 'training'}: all are held out for the other side, or nearly all. "
                    "Use a longer length, or settings with more strings."
                )
            parts.append(kept)
            missing -= len(kept)
        return self.join(parts)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The rows of several draws as one tensor, padded on the right to the longest of them and no further."""
        if self.padding is None:
            return torch.cat(list(parts))
        T = max(part.shape[1] for part in parts)
        tokens = torch.cat([F.pad(part, (0, T - part.shape[1]), value=self.padding) for part in parts])
        return tokens[:, : int((tokens != self.padding).any(0).sum())]

    def align(self, batches: Sequence[Batch]) -> list[Batch]:
        """The same batches with the same number of tokens each: padding is never asked about."""
        T = max(batch.tokens.shape[1] for batch in batches)

        def wide(values: Tensor, fill: int) -> Tensor:
            # F.pad counts from the last dimension; the tokens' is the second.
            return F.pad(values, (0, 0) * (values.dim() - 2) + (0, T - values.shape[1]), value=fill)

        return [Batch(wide(b.tokens, self.padding or 0), wide(b.targets, 0), wide(b.mask, False)) for b in batches]

    def write(self, tokens: Tensor | Sequence[int]) -> str:
        """One string as text: symbols joined, with spaces only where some symbol is longer than a character."""
        symbols = [self.vocabulary[int(t)] for t in tokens if int(t) != self.padding]
        return ("" if max(map(len, self.vocabulary)) == 1 else " ").join(symbols)


def choice(kind: str, value: str, known: Sequence[str]) -> str:
    """`value` if it is one of `known`, else `UnknownName`."""
    if value not in known:
        raise UnknownName(kind, str(value), known)
    return value


def whole_number(task: str, setting: str, value: int, low: int, high: int | None = None) -> int:
    """`value` as an int in low..high, else an error naming task and setting."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    # The remainder of infinity and of NaN is NaN.
    if not number or value % 1 != 0 or value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"in {low}..{high}"
        raise Error(f"{task}: {setting} must be a whole number {bounds}, got {value!r}.")
    return int(value)


def truth(task: str, setting: str, value: bool) -> bool:
    """`value` if it is True or False, else an error naming task and setting: bool("no") is True."""
    if not isinstance(value, bool):
        raise Error(f"{task}: {setting} must be True or False, got {value!r}.")
    return value
