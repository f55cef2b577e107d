"""Tasks by name: `get(name, **params)` builds one, `available()` lists them, `options(name)` says what a name takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import UnknownName
from .base import Task
from .cycle_navigation import CycleNavigation
from .even_pairs import EvenPairs
from .modular_sum import ModularSum
from .parity import Parity

FAMILIES: dict[str, tuple[Callable[..., Task], str]] = {
    "parity": (Parity, "bits; the number of 1s, modulo 2"),
    "even-pairs": (EvenPairs, "symbols; whether the first and the last are the same"),
    "cycle-navigation": (CycleNavigation, "steps 0, +1, -1 on a ring; the place reached"),
    "modular-sum": (ModularSum, "digits; their sum, modulo the modulus"),
}


def available() -> dict[str, str]:
    """Every registered name with one line on what it asks."""
    return {name: line for name, (_, line) in FAMILIES.items()}


def find(name: str) -> tuple[Callable[..., Task], dict[str, Any]]:
    """What builds the task of this name, and the settings which the name itself fixes."""
    if name not in FAMILIES:
        raise UnknownName("task", name, FAMILIES)
    return FAMILIES[name][0], {}


def options(name: str) -> dict[str, Any]:
    """The settings which `get(name, …)` takes, with their defaults."""
    build, fixed = find(name)
    return {key: p.default for key, p in inspect.signature(build).parameters.items() if key not in fixed}


def get(name: str, **params: Any) -> Task:
    """The task of this name. Unknown names and settings are errors that suggest the nearest known one."""
    build, fixed = find(name)
    known = options(name)
    for key in params:
        if key not in known:
            raise UnknownName(f"setting of {name}", key, known)
    return build(**fixed, **params)
