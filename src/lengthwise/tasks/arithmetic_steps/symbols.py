"""The symbols of a chain, and how its numbers are calculated with: modulo a prime, or as whole numbers up to a largest.

Symbols are the numbers, each one token, then + - * / ( ) = and <end>, which also pads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Error

OPERATORS = ("+", "-", "*", "/")
BRACKETS = ("(", ")")
EQUALS, END = "=", "<end>"


@dataclass(frozen=True)
class Numbers:
    """The numbers 0 to `count` - 1. With a `modulus` (a prime) every calculation ends in one of them.

    >>> Numbers(11, 11).apply("/", 1, 2), Numbers(21).apply("-", 3, 5), Numbers(21).apply("*", 3, 5)
    (6, None, 15)
    """

    count: int
    modulus: int | None = None

    def apply(self, operator: str, x: int, y: int) -> int | None:
        """x operator y; None where that is none of the numbers."""
        m = self.modulus
        if operator == "/":
            if m is None:
                return x // y if y and x % y == 0 else None
            return x * pow(y, -1, m) % m if y % m else None
        exact = {"+": x + y, "-": x - y, "*": x * y}[operator]
        exact = exact if m is None else exact % m
        return exact if 0 <= exact < self.count else None

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (*map(str, range(self.count)), *OPERATORS, *BRACKETS, EQUALS, END)


def numbers_of(name: str, modulus: int | None, largest: int | None) -> Numbers:
    """The numbers that these settings of the task ask for."""
    if modulus is None:
        if largest is None:
            raise Error(f"{name}: whole numbers need a largest one, got largest=None. Give for example largest=20.")
        return Numbers(largest + 1)
    if largest is not None:
        raise Error(
            f"{name}: modulo {modulus} the largest number is {modulus - 1}, got largest={largest}. "
            "Leave largest out, or set modulus to none for whole numbers."
        )
    if any(modulus % d == 0 for d in range(2, int(modulus**0.5) + 1)):
        raise Error(f"{name}: modulus must be a prime, for else not every number divides, got {modulus}. Use 7 or 11.")
    return Numbers(modulus, modulus)
