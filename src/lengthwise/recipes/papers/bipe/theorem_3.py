"""Theorems 3.1 and 3.2: how wide a Transformer must be to follow an NFA in one level, and is to follow a Bi-NFA.

    3.1    an NFA whose symbols are all maps from Q to sets of states: Ω(|Q|²) in one level
    3.2    a Bi-NFA of k parts: O(k² + Σ |Q_i|²) with BiPE

For k parts of k states that is |Q|² = k⁴ against k³.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ....automata import NFA, BiNFA
from ....report import Panel, line_chart, record_table
from ....theory import bipe, bipe_width
from ...base import Finished, Recipe, Scale

LINES = {"bits that one level must hold": "bound", "built in one level": "one_level", "built with BiPE": "with_bipe"}

SEGMENT = 20
"""The mean tokens of a segment."""


class WidthSetting(NamedTuple):
    parts: tuple[int, ...]
    built: int
    """Machines of so many parts and fewer are built, and run on random words."""
    tokens: int
    all_maps: int
    """The states of the largest NFA whose symbols are all maps."""


SETTINGS: dict[Scale, WidthSetting] = {
    "smoke": WidthSetting((2, 3, 4), 2, 100, 2),
    "laptop": WidthSetting((2, 3, 4, 6, 8, 12, 16), 6, 2000, 3),
    "paper": WidthSetting((2, 3, 4, 6, 8, 12, 16, 24, 32), 8, 10_000, 4),
}


def recipe(scale: Scale) -> Recipe:
    """BiPE, Theorem 3: the width that following an automaton takes in one level and in two, built and checked."""
    setting = SETTINGS[scale]

    def report(finished: Finished, device: str) -> list[Panel]:
        return [_drawn(widths(setting)), _checked(setting, device), _told_apart(setting)]

    return Recipe(
        title="BiPE, Theorems 3.1 and 3.2: width",
        description=(
            "A Transformer in one level needs a width that grows with the square of the number of states of an NFA. "
            "With BiPE, what a machine in two levels needs grows with the squares of its parts. The widths are those "
            "of networks whose weights are written down and which are right at every token; docs/constructions.md "
            "says how."
        ),
        report=report,
    )


def widths(setting: WidthSetting) -> list[dict[str, int]]:
    """For k parts of k states: the bits of Theorem 3.1, and the widths of what is built for it."""
    return [
        {
            "parts": k,
            "states": k**2,
            "bound": k**4,
            "one_level": bipe_width([k**2], longest=setting.tokens),
            "with_bipe": bipe_width([k] * k, longest=setting.tokens),
        }
        for k in setting.parts
    ]


def _drawn(rows: list[dict[str, int]]) -> Panel:
    states = [row["states"] for row in rows]
    return line_chart(
        "Width against the number of states",
        "For k parts of k states each. One level: the same construction for one part of all states. The bits are "
        "Theorem 3.1's |Q|²: any two of its symbols are told apart by a word around them, and a number of a vector "
        "holds some bits, of which these constructions use one. The bound is of NFAs in general, which have no parts.",
        "states",
        "width",
        {name: (states, [row[key] for row in rows]) for name, key in LINES.items()},
        log_x=True,
        log_y=True,
    )


class Checked(NamedTuple):
    """A built network's answers over one word."""

    answers: int
    wrong: int
    yes: int
    """So many should be yes."""


def check(machine: BiNFA, tokens: int, mean: float, device: str = "cpu") -> Checked:
    """Of a word with segments of about `mean` tokens."""
    rng = np.random.default_rng(0)
    word = rng.integers(machine.separator, size=tokens)
    word[rng.random(tokens) < 1 / mean] = machine.separator
    lengths = np.diff(np.flatnonzero(word == machine.separator), prepend=-1, append=tokens)
    model = cast(nn.Module, bipe(machine, longest=int(lengths.max()), segments=len(lengths))).to(device)
    begun = F.pad(torch.from_numpy(word)[None], (1, 0), value=machine.num_symbols)
    with torch.no_grad():
        predictions = model(begun.to(device)).logits[0, 1:].cpu() > 0
    states = machine.run(word[None])[0]
    accepted = (states & torch.from_numpy(machine.accepts_state)).any(-1, keepdim=True)
    right = torch.cat([accepted, states], -1)
    return Checked(right.numel(), int((predictions != right).sum()), int(right.sum()))


def _checked(setting: WidthSetting, device: str) -> Panel:
    records = []
    for k in (k for k in setting.parts if k <= setting.built):
        machine = BiNFA.random([k] * k, 3, np.random.default_rng(k), density=0.5 / k)
        counts = check(machine, setting.tokens, SEGMENT, device)
        records.append({"parts": k, "tokens": setting.tokens, **counts._asdict()})
    return record_table(
        "Built and run",
        f"One random machine each, on one random word with segments of about {SEGMENT} tokens. An answer says of a "
        "token whether a state may have been reached, or whether the word so far is accepted.",
        records,
        {
            "machine": lambda row: f"{row['parts']} parts of {row['parts']} states",
            **{name: lambda row, name=name: f"{row[name]:,}" for name in ("tokens", *Checked._fields)},
        },
    )


def _told_apart(setting: WidthSetting) -> Panel:
    """Theorem 3.1's NFA: the words f_1 f f_2 of its proof give each symbol answers of its own."""
    records = []
    for n in range(1, setting.all_maps + 1):
        machine = NFA.of_all_maps(n)
        different = len(np.unique(answers(machine), axis=0))
        records.append({"states": n, "symbols": machine.num_symbols, "told_apart": different, "bits": n**2})
    return record_table(
        "Theorem 3.1's NFA",
        "Its symbols are all maps from states to sets of states. Told apart: symbols f with answers of their own to "
        "the words f_1 f f_2, where f_1 leads to one state alone and f_2 from one state alone. So the vector of a "
        "token must hold as many bits as the last column says.",
        records,
        {name.replace("_", " "): lambda row, name=name: f"{row[name]:,}" for name in records[0]},
    )


def answers(machine: NFA) -> np.ndarray:
    """(symbols, Q²) whether f_1 f f_2 is accepted, for every f, state that f_1 leads to and state f_2 leads from."""
    n, (start,), (end,) = machine.num_states, machine.start, machine.accepting
    p, q = np.divmod(np.arange(n**2), n)
    first, last = 1 << (start * n + p), 1 << (q * n + end)
    f = np.arange(machine.num_symbols)[:, None]
    words = np.stack(np.broadcast_arrays(first, f, last), -1).reshape(-1, 3)
    return machine.run(words)[:, -1, end].numpy().reshape(-1, n**2)
