"""Tasks by name: `get(name, **params)` builds one, `available()` lists them, `options(name)` says what a name takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import own_code
from ..automata import Semiautomaton
from ..errors import UnknownName
from ..options import Schema, schema, take
from . import own
from .arithmetic_steps import ArithmeticSteps
from .associative_recall import AssociativeRecall
from .base import Task
from .boxes import Boxes
from .depth_language import DepthLanguage
from .formal_language import TOMITA, Regex, Tomita, machine_task
from .haystack import HiddenPairs, VariableTracking
from .independent_symbols import CycleNavigation, EvenPairs, ModularSum, Parity
from .modular_arithmetic import ModularArithmetic
from .reference_chains import ReferenceChains
from .selective_copy import SelectiveCopy
from .word_problem import WordProblem

Builder = Callable[..., Task]

FAMILIES: dict[str, tuple[Builder, str]] = {
    "parity": (Parity, "bits; the number of 1s, modulo 2"),
    "even-pairs": (EvenPairs, "symbols; whether the first and the last are the same"),
    "cycle-navigation": (CycleNavigation, "steps 0, +1, -1 on a ring; the place reached"),
    "modular-sum": (ModularSum, "digits; their sum, modulo the modulus"),
    "modular-arithmetic": (ModularArithmetic, "an expression over + - * (and brackets); its value, modulo the modulus"),
    "arithmetic-steps": (ArithmeticSteps, "an expression over + - * / and brackets, reduced step by step to its value"),
    "word-problem": (WordProblem, "elements of a finite group (Z5, S3xS3, PSL(2,5), …); their product"),
    "reference-chains": (ReferenceChains, "blocks of references to the block before; every place's chain to a value"),
    "boxes": (Boxes, "objects put into boxes, moved and removed, in words; what each box holds at the end"),
    "mqar": (AssociativeRecall, "pairs of a key and a value, then the keys again; the value of each"),
    "selective-copy": (SelectiveCopy, "symbols among blanks; the symbols again, without the blanks"),
    "needle": (HiddenPairs, "keys and their values hidden in a haystack; the value of the key asked at the end"),
    "variable-tracking": (VariableTracking, "assignments in noise; the value of a name, some assignments away"),
    "regex": (Regex, 'the language of a regular expression, also as "regex:(ab|ba)*"'),
    "machine": (machine_task, "the language or the states of any finite machine, given as its table"),
}
NUMBERED: dict[str, Builder] = {"d": DepthLanguage, "tomita": Tomita}
"""Families named by a number: d-2, d-12, tomita-5. The number is the builder's first parameter."""
DEPTHS = (2, 3, 4, 12)
"""The depths of D_n that are listed; any other works as well."""
DEPTH_LINE = "brackets a b, balanced, at most {} deep (d-N: any N)"


def available() -> dict[str, str]:
    """Every registered name with one line on its question. D_n exists for every depth: d-1, d-2, …"""
    depths = {f"d-{n}": DEPTH_LINE.format(n) for n in DEPTHS}
    tomitas = {f"tomita-{n}": f"bits; {line}" for n, (line, _, _) in TOMITA.items()}
    return {name: line for name, (_, line) in FAMILIES.items()} | depths | tomitas


def find(name: str, source: str | None = None) -> tuple[Builder, dict[str, Any]]:
    """Returns the builder of the task of this name, and the settings which the name itself fixes."""
    if name.startswith(own.REGEX):
        return Regex, {"pattern": name.removeprefix(own.REGEX)}
    if own.is_own(name):
        return own_code.load(name, Task, source), {}
    if numbered := re.fullmatch(r"(d|tomita)-([0-9]{1,9})", name):
        build = NUMBERED[numbered[1]]
        return build, {next(iter(schema(build))): int(numbered[2])}
    if name not in FAMILIES:
        raise UnknownName("task", name, available())
    return FAMILIES[name][0], {}


def options(name: str) -> Schema:
    """The options that `get(name, …)` takes, by name.

    >>> {name: option.default for name, option in options("modular-sum").items()}
    {'modulus': 5, 'supervision': 'last', 'probabilities': None}
    """
    build, fixed = find(name)
    return own.options(build) if own.is_own(name) else schema(build, without=tuple(fixed))


def source(name: str) -> str | None:
    """A digest of the code outside this library that the name stands for; None for registered tasks.

    Who asks for it has named the code himself: this process may then load runs of it without `trust`.
    """
    return own_code.ask_for(name, Task) if own.is_own(name) else None


def get(name: str, /, **params: Any) -> Task:
    """The task of this name, which may also be `path/to/file.py:Class` or `package.module:Class`.

    Unknown names and settings are errors that suggest the nearest known one.
    """
    return rebuild(name, params)


def rebuild(name: str, params: Mapping[str, Any], source: str | None = None) -> Task:
    """`get`, of code with this digest alone."""
    build, fixed = find(name, source)
    if own.is_own(name):
        return own.build(name, build, take(own.options(build), params, name))
    known = schema(build)
    settings = take({key: option for key, option in known.items() if key not in fixed}, params, name)
    return build(**{key: known[key].read(value, f"{name}: {key}") for key, value in fixed.items()}, **settings)


def from_regex(pattern: str, alphabet: str | None = None, **params: Any) -> Task:
    """The task of a regular expression's language.

    >>> from_regex("(ab|ba)*").sample(4, 2, __import__("torch").Generator().manual_seed(0)).targets[:, -1].sum()
    tensor(1)
    """
    return get("regex", pattern=pattern, alphabet=alphabet, **params)


def from_machine(machine: Semiautomaton, **params: Any) -> Task:
    """The task of a machine: its language where it has accepting states, else its states."""
    return get("machine", **machine.to_json(), **params)
