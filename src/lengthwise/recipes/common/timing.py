"""Seconds of several ways to do one thing, taken in turn, so that whatever else the machine does slows all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

Call = Callable[[], object]


def in_turn(calls: Mapping[str, Call], repeats: int, device: str = "cpu") -> dict[str, float]:
    """The median seconds of each call over `repeats` rounds, after one round that is not counted.

    >>> sorted(in_turn({"a": lambda: None, "b": lambda: None}, 3))
    ['a', 'b']
    """
    rounds = [{name: seconds(call, device) for name, call in calls.items()} for _ in range(repeats + 1)]
    return {name: median(once[name] for once in rounds[1:]) for name in calls}


def seconds(call: Call, device: str) -> float:
    """Of one call, until what it started on the device is done."""
    began = time.perf_counter()
    call()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def machine(device: str) -> str:
    """What timings were taken on, in words to follow "on".

    >>> machine("cpu").startswith("the CPU, ")
    True
    """
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"the CPU, {threads} thread{'s' if threads > 1 else ''}"
