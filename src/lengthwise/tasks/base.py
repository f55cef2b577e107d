"""A task: strings of a chosen length, questions at some of their positions, and the exact answers.

Shapes: B batch, T tokens, S outputs, E questions at a position.
`kind` "class": targets are (B, T) integers in 0..S-1. With E > 1 questions they are (B, T, E), and -1 stands where a
    position has fewer than E questions.
`kind` "set": targets are (B, T, S) booleans, such as the symbols that may come next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from numbers import Integral
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, LengthError, in_words
from ..limits import LENGTH, LENGTHS, TEST_PART, in_figures, need_memory
from ..notebooks import html_table
from ..seeds import generator
from .varied_strings import varied_strings

TEST_BLOCK = 64
EXAMPLE = 8
"""A notebook shows a string of this length, or of the next that is possible."""
FRUITLESS = 100
"""After so many draws in a row without a string of the wanted side (training, test) the split is called impossible."""
Supervision = Literal["last", "prefix"]
SupervisionOption = Annotated[
    Supervision, "Whether a string has a question at its last position, or after every prefix."
]

Scoring = Literal["last", "every", "mean", "generated"]
ScoringOption = Annotated[
    Literal["mean", "every"], "A string scores the share of its answers that are right, or 1 where every one is."
]


class Batch(NamedTuple):
    tokens: Tensor
    """(B, T) integers."""
    targets: Tensor
    """(B, T) or (B, T, E) integers, or (B, T, S) booleans; read only where `mask` is true."""
    mask: Tensor
    """(B, T) booleans: the positions that have a question."""


class Task:
    """Base of all tasks. A subclass sets the attributes in `__init__` and defines `draw`, `answer` and `baseline`.

    `draw` may raise freely; users call `sample`, which checks the length first. `tasks.check` says whether a task
    of your own keeps the laws of all tasks.
    """

    vocabulary: tuple[str, ...]
    """How each token is written."""
    outputs: int
    """Number of classes (kind "class") or of independent bits (kind "set") a model must predict per position."""
    questions: int = 1
    """How many questions a position has, each with `outputs` classes (kind "class"). The E*S logits of a position are
    those of its first question, then those of its second, and so on."""
    kind: Literal["class", "set"] = "class"
    supervision: Supervision = "last"
    scoring: Scoring = "last"
    """What a string scores. "last": 1 if its last question is answered right. "every": 1 if all its questions are.
    "mean": the share of its questions that are. "generated": see `GeneratedAnswers`."""
    padding: int | None = None
    """The token that fills rows on the right, where `length` does not fix the number of tokens. None: T = length."""
    shortest: int = 1
    """The length of the shortest string."""
    unit: str = "tokens"
    """What the length of a string counts, in the plural."""
    machine: Semiautomaton | None = None
    readout: Tensor | None = None
    """The answer in each state of `machine`, (Q,) integers or (Q, S) booleans; 0 in states without an answer."""
    answered: Tensor | None = None
    """(Q,) booleans: the states of `machine` that have an answer. None: all."""

    @cached_property
    def name(self) -> str:
        """The registered name, e.g. "parity"; of a task of your own the name of its class, unless it sets another."""
        return type(self).__name__

    @cached_property
    def params(self) -> dict:
        """JSON-like parameters which rebuild this very task: `tasks.get(task.name, **task.params)`.

        Unless a task sets them they are the arguments of its `__init__`, each read from the attribute of its name.
        """
        if "__init__" not in vars(type(self)) and type(self).__init__ is object.__init__:
            return {}
        names = list(inspect.signature(type(self)).parameters)
        if missing := [name for name in names if not hasattr(self, name)]:
            raise Error(
                f"{self.name}: an argument of __init__ must be kept under its own name, so that the task can be built "
                f"again, and {missing[0]} is not. Write self.{missing[0]} = {missing[0]}, or set self.params."
            )
        return {name: getattr(self, name) for name in names}

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) tokens, or (batch, any number) with `padding`. All randomness comes from `generator`."""
        raise NotImplementedError

    def answer(self, tokens: Tensor) -> Tensor:
        """The exact answer after every prefix, shaped as `Batch.targets`, computed independently of the sampler."""
        raise NotImplementedError

    def baseline(self, length: int) -> float:
        """The score of the best constant answer at this length, exactly.

        Scoring "last": the largest share that one class has at the last position, whatever the supervision.
        Scoring "every": the probability that all questions of a string have the same answer, for the answer that makes
        it largest. Scoring "mean": the largest share that one class has among all questions. Scoring "generated": the
        score of the best text that is written whatever the prompt is.
        """
        raise NotImplementedError

    def held_out(self, tokens: Tensor) -> Tensor | None:
        """(B,) booleans: which strings are kept for the test. None: training may see any string.

        It is a rule on the string itself, without its padding, so that training and test stay disjoint however many
        strings each draws.
        """
        return None

    @property
    def logits(self) -> int:
        """The number of logits a model must give at each position."""
        return self.outputs * self.questions

    def asked(self, tokens: Tensor) -> Tensor:
        """(B, T) booleans: the positions that have a question."""
        mask = torch.ones_like(tokens, dtype=torch.bool)
        if self.supervision == "last":
            mask[:, :-1] = False
        return mask

    def problem(self, length: int) -> str | None:
        """Returns why this length is impossible and what to use instead, or None. Subclasses extend it."""
        n = self.shortest
        return None if length >= n else f"length must be at least {n}, got {length}. Use {n} or more."

    def check(self, length: int) -> None:
        """Raises `LengthError` unless strings of this length exist."""
        self._check_whole(length)
        LENGTH.check(length, self.name)
        if problem := self.problem(length):
            raise LengthError(f"{self.name}: {problem}")

    def _check_whole(self, length: int) -> None:
        if isinstance(length, bool) or not isinstance(length, Integral):
            raise LengthError(f"{self.name}: length must be a whole number, got {in_words(length)}.")

    def lengths(self, low: int, high: int) -> list[int]:
        """The possible lengths in low..high. It is an error if there is none."""
        for length in (low, high):
            self._check_whole(length)
        LENGTH.check(high, self.name)
        LENGTHS.check(high - low + 1, self.name)
        possible = [n for n in range(low, high + 1) if self.problem(n) is None]
        if not possible:
            why = self.problem(low) or "the range is empty"
            raise LengthError(f"{self.name}: no possible length in {in_words(low)}..{in_words(high)}: {why}")
        return possible

    def sample(self, length: int, batch: int, generator: torch.Generator) -> Batch:
        """`batch` strings of this length with their targets, none of them held out for the test."""
        self.check_size(length, batch)
        drawn = self._side(False, length, batch, lambda i, missing: self.draw(length, missing, generator))
        return self.label(self.join(list(drawn)))

    def sample_varied(self, length: int, batch: int, generator: torch.Generator) -> Batch:
        """The same of strings that have symbol probabilities of their own (varied_strings.py)."""
        self.check_size(length, batch)
        if (machine := self.machine) is None or self.padding is not None:
            raise Error(
                f"{self.name}: varied strings are drawn from a machine of one token a symbol, and it has none. Leave "
                "training.varied out."
            )
        draw = partial(varied_strings, machine, self.answered, length)
        drawn = self._side(False, length, batch, lambda i, missing: draw(missing, generator))
        return self.label(torch.cat(list(drawn)))

    def check_size(self, length: int, strings: int) -> None:
        """Raises an `Error` unless there are so many strings of this length, and room for them all at once."""
        self.check(length)
        if isinstance(strings, bool) or not isinstance(strings, Integral) or strings < 1:
            raise Error(f"{self.name}: batch must be at least 1, a whole number of strings, got {strings!r}.")
        what = f"{self.name}: {in_figures(strings)} strings of length {length:,}"
        need_memory(strings * self.bytes_of(length), what, "Ask for fewer strings, or for shorter ones.")

    def bytes_of(self, length: int) -> int:
        """At least how many bytes a string of this length and its targets are, as `Batch` holds them."""
        return length * (8 + (self.outputs if self.kind == "set" else 8 * self.questions) + 1)

    def check_strings(self, sound: Tensor, form: str) -> None:
        """Raises an `Error` unless all that is `sound` is true; `form` says which strings the oracle has answers to."""
        if not bool(sound.all()):
            raise Error(f"{self.name}: {form}. Are these strings of another task?")

    def check_tokens(self, tokens: Tensor) -> None:
        """Raises an `Error` unless these are (B, T) tokens of the vocabulary: an oracle has no answer to others."""
        if tokens.dim() != 2 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise Error(f"{self.name}: tokens must be (B, T) integers, got {list(tokens.shape)} {tokens.dtype}.")
        if tokens.numel():
            low, high = (int(x) for x in tokens.aminmax())
            if low < 0 or high >= len(self.vocabulary):
                wrong = low if low < 0 else high
                raise Error(
                    f"{self.name}: tokens must be in 0..{len(self.vocabulary) - 1}, the vocabulary, got {wrong}. Are "
                    "they those of another task?"
                )

    def label(self, tokens: Tensor) -> Batch:
        return Batch(tokens, self.answer(tokens), self.asked(tokens))

    def test_set(self, length: int, count: int, seed: int = 0) -> Batch:
        """The first `count` test strings of this length.

        The i-th is a function of (task, length, seed) alone, never of `count`. Where the task holds strings out, all
        test strings are held out.
        """
        self.check_size(length, count)
        return self.label(self.join(list(self.test_blocks(length, count, seed))))

    def test_parts(self, length: int, count: int, seed: int = 0) -> Iterator[Batch]:
        """The same strings as `test_set` has, part after part, so that they are never in memory all at once.

        Rows of unequal width are padded to the longest of all, as `test_set` pads them, so their tokens are kept. Of a
        task with a `test_set` of its own they are its strings.
        """
        self.check_size(length, 1)
        rows = max(TEST_BLOCK, TEST_PART // self.bytes_of(length))
        if self.padding is not None or count <= rows or type(self).test_set is not Task.test_set:
            yield from map(Batch, *(each.split(rows) for each in self.test_set(length, count, seed)))
            return
        waiting: list[Tensor] = []
        for tokens in self.test_blocks(length, count, seed):
            waiting.append(tokens)
            if sum(map(len, waiting)) >= rows:
                yield self.label(torch.cat(waiting))
                waiting = []
        if waiting:
            yield self.label(torch.cat(waiting))

    def test_blocks(self, length: int, count: int, seed: int = 0) -> Iterator[Tensor]:
        """The tokens of the first `count` test strings, block after block."""

        def block(i: int, missing: int) -> Tensor:
            return self.draw(length, TEST_BLOCK, generator("test", self.name, self.params, int(length), seed, i))

        return self._side(True, length, count, block)

    def _side(self, held: bool, length: int, count: int, draw: Callable[[int, int], Tensor]) -> Iterator[Tensor]:
        """The first `count` rows of draw(0, missing), draw(1, missing), … on one side: held out (`held`), or not."""
        missing, fruitless, drawn = count, 0, 0
        while missing > 0:
            tokens = draw(drawn, missing)
            drawn += 1
            side = self.held_out(tokens)
            rows = (tokens if side is None else tokens[side == held])[:missing]
            fruitless = 0 if len(rows) else fruitless + 1
            if fruitless == FRUITLESS:
                raise Error(
                    f"{self.name}: {FRUITLESS} draws of length {length} gave no string for "
                    f"{'the test' if held else 'training'}: all are held out for the other side, or nearly all. "
                    "Use a longer length, or settings with more strings."
                )
            missing -= len(rows)
            yield rows

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The rows of several draws as one tensor, padded on the right just to the longest row."""
        if self.padding is None:
            return torch.cat(list(parts))
        T = max(part.shape[1] for part in parts)
        tokens = torch.cat([F.pad(part, (0, T - part.shape[1]), value=self.padding) for part in parts])
        return tokens[:, : int((tokens != self.padding).any(0).sum())]

    def align(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches padded to one common number of tokens. Padding has no questions."""
        T = max(batch.tokens.shape[1] for batch in batches)

        def wide(values: Tensor, fill: int) -> Tensor:
            # F.pad counts from the last dimension; the tokens' is the second.
            return F.pad(values, (0, 0) * (values.dim() - 2) + (0, T - values.shape[1]), value=fill)

        return [Batch(wide(b.tokens, self.padding or 0), wide(b.targets, 0), wide(b.mask, False)) for b in batches]

    def __repr__(self) -> str:
        """
        >>> from lengthwise import tasks
        >>> tasks.get("modular-sum", modulus=3)
        <task modular-sum: modulus=3, supervision='last', probabilities=None>
        """
        params = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"<task {self.name}{f': {params}' * bool(params)}>"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the alphabet, a string with its answers, and the baseline."""
        n = next((n for n in range(EXAMPLE, 20 * EXAMPLE) if self.problem(n) is None), 1)
        tokens, targets, mask = (each[0] for each in self.test_set(n, 1))
        answers = targets[mask].int().tolist()
        facts = {
            "task": self.name + "".join(f", {name}={value}" for name, value in self.params.items()),
            "alphabet": " ".join(self.vocabulary),
            f"a string of length {n}": self.write(tokens),
            "its answer" + "s" * (len(answers) > 1): ", ".join(map(str, answers)),
            f"majority answer at {n}": f"{100 * self.baseline(n):.1f}%",
        }
        return html_table([], list(facts.items()))

    def write(self, tokens: Tensor | Sequence[int]) -> str:
        """One string as text. Spaces stand between symbols only where some symbol is longer than one character."""
        symbols = [self.vocabulary[int(t)] for t in tokens if int(t) != self.padding]
        return ("" if max(map(len, self.vocabulary)) == 1 else " ").join(symbols)


class GeneratedAnswers(Task):
    """Base of the tasks whose answer a model writes by itself, where more than one text is right.

    A string is a prompt and one right answer. Training asks for the next token of that answer, with the right ones
    before the model's eyes; the test gives the prompt alone, and asks the task whether what was written is right. A
    subclass sets `padding` as well, the token that ends an answer. Shape: n tokens that were written.
    """

    scoring = "generated"
    supervision = "prefix"
    padding: int  # pyright: ignore[reportIncompatibleVariableOverride]

    def prompts(self, tokens: Tensor) -> Tensor:
        """(B,) how many tokens of each string are its prompt."""
        raise NotImplementedError

    def longest_answer(self, tokens: Tensor) -> int:
        """Returns how many tokens a right answer to these prompts has at most, with the one that ends it."""
        raise NotImplementedError

    def is_right(self, tokens: Tensor, written: Tensor) -> Tensor:
        """(B,) booleans: whether what was written (B, n) answers the prompts of `tokens`."""
        raise NotImplementedError
