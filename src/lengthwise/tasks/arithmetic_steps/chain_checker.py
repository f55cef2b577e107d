"""Chains read and checked from their symbols alone, whoever wrote them.

    problem = line = … = answer

A line follows from the one before it if one pair `x op y` of neighbouring numbers became its value and all else stayed,
where the pair may be calculated first: what stands before it binds less, or as much and is + or *; what stands behind
it binds no more. Brackets around a single number go with the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...errors import Error
from .symbols import BRACKETS, EQUALS, OPERATORS, Numbers

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}
Line = list[str]


@dataclass(frozen=True)
class Judgement:
    """A chain as somebody wrote it, judged."""

    right: bool
    """Whether its last line is the value of the problem, and nothing more."""
    valid: bool
    """Whether every line follows from the one before it, and the last one is a number."""
    steps: int
    """How many lines follow, before the first that does not."""

    @property
    def first_wrong_step(self) -> int | None:
        """The step, counted from 1, that is wrong or missing; None where all is valid."""
        return None if self.valid else self.steps + 1


def check_chain(chain: Sequence[str], numbers: Numbers, ended: bool = True) -> Judgement:
    """`ended`: whether its writer said that this is the end; what is cut off is neither right nor valid.

    >>> check_chain("1 * ( 1 - 9 + 1 ) = 1 * ( 3 + 1 ) = 1 * 4 = 4".split(), Numbers(11, 11))
    Judgement(right=True, valid=True, steps=3)
    >>> wrong = check_chain("2 + 3 * 4 = 5 * 4 = 9".split(), Numbers(11, 11))
    >>> wrong.right, wrong.first_wrong_step
    (False, 1)
    """
    problem, *lines = split_lines(chain)
    before, steps = problem, 0
    for line in lines:
        if line not in reductions(before, numbers):
            break
        before, steps = line, steps + 1
    whole = ended and steps == len(lines) and len(before) == 1
    return Judgement(ended and lines[-1:] == [[str(evaluate(problem, numbers))]], whole, steps)


def split_lines(chain: Sequence[str]) -> list[Line]:
    """The lines between the signs of equality."""
    lines: list[Line] = [[]]
    for symbol in chain:
        if symbol == EQUALS:
            lines.append([])
        else:
            lines[-1].append(symbol)
    return lines


def reductions(line: Line, numbers: Numbers) -> Iterator[Line]:
    """Every line that follows from this one by one step."""
    for i in range(len(line) - 2):
        x, op, y = line[i : i + 3]
        if not (x.isdigit() and op in BINDS and y.isdigit()):
            continue
        before, after = line[i - 1] if i else "", line[i + 3] if i + 3 < len(line) else ""
        earlier = before in BINDS and (BINDS[before] > BINDS[op] or (BINDS[before] == BINDS[op] and before in "-/"))
        if earlier or BINDS.get(after, 0) > BINDS[op]:
            continue
        value = numbers.apply(op, int(x), int(y))
        if value is not None:
            around = (before, after) == BRACKETS
            yield [*line[: i - around], str(value), *line[i + 3 + around :]]


def evaluate(problem: Sequence[str], numbers: Numbers) -> int:
    """The value of an expression, by the rules of precedence, from left to right."""
    values: list[int | Fraction] = []
    waiting: list[str] = []
    operand = True  # whether a number or an opening bracket comes next

    def calculate(least: int) -> None:
        while waiting and BINDS.get(waiting[-1], 0) >= least:
            op, y = waiting.pop(), values.pop()
            values.append(_apply(op, values.pop(), y, numbers))

    for symbol in problem:
        if operand and symbol == "(":
            waiting.append(symbol)
        elif operand and symbol.isdigit():
            values.append(int(symbol))
            operand = False
        elif not operand and symbol in OPERATORS:
            calculate(BINDS[symbol])
            waiting.append(symbol)
            operand = True
        elif not operand and symbol == ")" and "(" in waiting:
            calculate(1)
            waiting.pop()
        else:
            raise _malformed(problem)
    if operand or "(" in waiting:
        raise _malformed(problem)
    calculate(1)
    value = values.pop()
    if value != int(value) or not 0 <= value < numbers.count:
        raise Error(f"{' '.join(problem)} is {value}, which is none of the numbers 0 to {numbers.count - 1}.")
    return int(value)


def _apply(op: str, x: int | Fraction, y: int | Fraction, numbers: Numbers) -> int | Fraction:
    """Whole numbers may on the way be fractions, or below 0 or above the largest."""
    m = numbers.modulus
    if op == "/" and (y == 0 if m is None else y % m == 0):
        raise Error(f"{x} / {y}: nothing can be divided by 0.")
    if m is None:
        return Fraction(x) / y if op == "/" else {"+": x + y, "-": x - y, "*": x * y}[op]
    result = numbers.apply(op, int(x) % m, int(y) % m)
    assert result is not None  # a prime divides by all but 0
    return result


def _malformed(problem: Sequence[str]) -> Error:
    return Error(f"{' '.join(problem)!r} is no expression of numbers, + - * / and brackets.")
