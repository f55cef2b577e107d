"""Seconds of several ways to do one thing, taken in turn, so that whatever else the machine does slows all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

Call = Callable[[], object]


def in_turn(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """The median seconds of each call over `repeats` rounds, after one round that is not counted.

    >>> sorted(in_turn({"a": lambda: None, "b": lambda: None}, 3))
    ['a', 'b']
    """
    rounds = [{name: seconds(call) for name, call in calls.items()} for _ in range(repeats + 1)]
    return {name: median(found[name] for found in rounds[1:]) for name in calls}


def seconds(call: Call) -> float:
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
