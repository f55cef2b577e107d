"""Tasks by name: `get(name, **params)` builds one, `available()` lists them, `options(name)` says what a name takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from ..automata import Semiautomaton
from ..errors import Error, UnknownName
from . import tomita
from .base import Task
from .boxes import Boxes
from .custom import Regex, machine_task
from .cycle_navigation import CycleNavigation
from .depth_language import DepthLanguage
from .even_pairs import EvenPairs
from .modular_arithmetic import ModularArithmetic
from .modular_sum import ModularSum
from .parity import Parity
from .reference_chains import ReferenceChains
from .word_problem import WordProblem

Builder = Callable[..., Task]

FAMILIES: dict[str, tuple[Builder, str]] = {
    "parity": (Parity, "bits; the number of 1s, modulo 2"),
    "even-pairs": (EvenPairs, "symbols; whether the first and the last are the same"),
    "cycle-navigation": (CycleNavigation, "steps 0, +1, -1 on a ring; the place reached"),
    "modular-sum": (ModularSum, "digits; their sum, modulo the modulus"),
    "modular-arithmetic": (ModularArithmetic, "an expression over + - * (and brackets); its value, modulo the modulus"),
    "word-problem": (WordProblem, "elements of a finite group (Z5, S5, A5, …); their product"),
    "reference-chains": (ReferenceChains, "blocks of references to the block before; every place's chain to a value"),
    "boxes": (Boxes, "objects put into boxes, moved and removed, in words; what each box holds at the end"),
    "regex": (Regex, 'the language of a regular expression, also as "regex:(ab|ba)*"'),
    "machine": (machine_task, "the language or the states of any finite machine, given as its table"),
}
NUMBERED: dict[str, Builder] = {"d": DepthLanguage, "tomita": tomita.Tomita}
"""Families named by a number: d-2, d-12, tomita-5. The number is the builder's first parameter."""
DEPTHS = (2, 3, 4, 12)
"""The depths of D_n that are listed; any other works as well."""


def available() -> dict[str, str]:
    """Every registered name with one line on its question. D_n exists for every depth: d-1, d-2, …"""
    depths = {f"d-{n}": f"brackets a b, balanced, at most {n} deep (d-N: any N)" for n in DEPTHS}
    tomitas = {f"tomita-{n}": f"bits; {line}" for n, (line, _, _) in tomita.MACHINES.items()}
    return {name: line for name, (_, line) in FAMILIES.items()} | depths | tomitas


def find(name: str) -> tuple[Builder, dict[str, Any]]:
    """What builds the task of this name, and the settings which the name itself fixes."""
    if name.startswith("regex:"):
        return Regex, {"pattern": name.removeprefix("regex:")}
    if numbered := re.fullmatch(r"(d|tomita)-(\d+)", name):
        build = NUMBERED[numbered[1]]
        return build, {next(iter(inspect.signature(build).parameters)): int(numbered[2])}
    if name not in FAMILIES:
        raise UnknownName("task", name, available())
    return FAMILIES[name][0], {}


def options(name: str) -> dict[str, Any]:
    """The settings which `get(name, …)` takes, with their defaults (`inspect.Parameter.empty`: must be given).

    >>> options("modular-sum")
    {'modulus': 5, 'supervision': 'last', 'probabilities': None}
    """
    build, fixed = find(name)
    return {key: p.default for key, p in inspect.signature(build).parameters.items() if key not in fixed}


def get(name: str, **params: Any) -> Task:
    """The task of this name. Unknown names and settings are errors that suggest the nearest known one."""
    build, fixed = find(name)
    known = options(name)
    for key in params:
        if key not in known:
            raise UnknownName(f"setting of {name}", key, known)
    if missing := [key for key, default in known.items() if default is inspect.Parameter.empty and key not in params]:
        raise Error(f"{name}: the setting {missing[0]!r} must be given.")
    return build(**fixed, **params)


def from_regex(pattern: str, alphabet: str | None = None, **params: Any) -> Task:
    """The task of a regular expression's language.

    >>> from_regex("(ab|ba)*").sample(4, 2, __import__("torch").Generator().manual_seed(0)).targets[:, -1].sum()
    tensor(1)
    """
    return get("regex", pattern=pattern, alphabet=alphabet, **params)


def from_machine(machine: Semiautomaton, **params: Any) -> Task:
    """The task of a machine: its language where it has accepting states, else its states."""
    return get("machine", **machine.to_json(), **params)
