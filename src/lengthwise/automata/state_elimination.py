r"""A machine's language as a regular expression, by taking its states away one after another.

When state k goes, every way through it becomes a step of its own:

    R_ij  becomes  R_ij | R_ik (R_kk)* R_kj

What is left between the start and the end is the language. Expressions are kept simple on the way (r r* is r+, r|() is
r?, equal beginnings and ends of alternatives are written once), and of the orders to take states away the one with the
shortest result is taken: all orders for a few states, else the state on the fewest ways first.

>>> from lengthwise import automata
>>> to_regex(automata.from_regex("(ab|ba)*"))
'(ab|ba)*'
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import permutations

from .algebra import live_states, minimise
from .semiautomaton import Semiautomaton

FEW = 5
"""Up to so many states all orders are tried."""
LONG = 4000
"""Expressions of more symbols are given up."""
Regex = tuple
"""("symbol", c), ("cat", parts), ("alt", parts), ("star", r), ("plus", r), ("maybe", r); ("cat",) is the empty word."""
EMPTY: Regex = ("cat",)


def to_regex(machine: Semiautomaton, longest: int | None = None) -> str | None:
    """An expression that `from_regex(…, machine.symbols)` reads as the same language.

    None where the machine accepts nothing, where a symbol is more than one character, or where it is longer than
    `longest`.
    """
    if not machine.accepting or any(len(s) != 1 or s.isspace() for s in machine.symbols):
        return None
    small = minimise(machine)
    alive = [q for q, live in enumerate(live_states(small)) if live]
    if small.start not in alive:
        return None
    steps: dict[tuple[int, int], Regex] = {(-1, small.start): EMPTY}
    for q in alive:
        if small.accepts_state[q]:
            steps[q, -2] = EMPTY
        for s, target in enumerate(small.delta[q].tolist()):
            if target in alive:
                steps[q, target] = _alt(steps.get((q, target)), ("symbol", small.symbols[s]))
    orders = [None] if len(alive) > FEW else permutations(alive)
    texts = [text for order in orders if (text := _eliminated(steps, alive, order)) is not None]
    best = min(texts, key=lambda text: (len(text), text), default=None)
    return None if best is None or (longest is not None and len(best) > longest) else best


def _eliminated(steps: dict[tuple[int, int], Regex], states: list[int], order: tuple[int, ...] | None) -> str | None:
    steps, left = dict(steps), list(states)
    while left:
        k = _on_fewest_ways(steps, left) if order is None else order[len(order) - len(left)]
        left.remove(k)
        loop = steps.pop((k, k), None)
        into = [(i, steps.pop((i, j))) for i, j in list(steps) if j == k]
        out = [(j, steps.pop((i, j))) for i, j in list(steps) if i == k]
        for i, first in into:
            for j, last in out:
                way = _cat(_cat(first, EMPTY if loop is None else _star(loop)), last)
                if len(_text(way, 0)) > LONG:
                    return None
                steps[i, j] = _alt(steps.get((i, j)), way)
    return _text(steps[-1, -2], 0)


def _on_fewest_ways(steps: dict[tuple[int, int], Regex], left: list[int]) -> int:
    """The state through which the ways that it is on are written shortest."""

    def weight(k: int) -> int:
        into = [len(_text(r, 0)) + 1 for (i, j), r in steps.items() if j == k != i]
        out = [len(_text(r, 0)) + 1 for (i, j), r in steps.items() if i == k != j]
        loop = len(_text(steps[k, k], 0)) if (k, k) in steps else 0
        return sum(into) * len(out) + sum(out) * len(into) + loop * len(into) * len(out)

    return min(left, key=lambda k: (weight(k), k))


def _parts(r: Regex) -> tuple[Regex, ...]:
    """Of what it is written one after another."""
    return r[1:] if r[0] == "cat" else (r,)


def _cat(a: Regex, b: Regex) -> Regex:
    parts: list[Regex] = []
    for part in (*_parts(a), *_parts(b)):
        before = parts[-1] if parts else None
        if before == part and part[0] == "star":
            continue  # r* r*
        if part == ("star", before) or before == ("star", part):
            parts[-1] = ("plus", before if part[0] == "star" else part)  # r r*, r* r
        else:
            parts.append(part)
    return _one_after_another(parts)


def _one_after_another(parts: Sequence[Regex]) -> Regex:
    return parts[0] if len(parts) == 1 else ("cat", *parts)


def _star(r: Regex) -> Regex:
    if r == EMPTY:
        return EMPTY
    if r[0] in ("star", "plus", "maybe"):
        return _star(r[1]) if r[0] != "star" else r
    if r[0] == "alt":
        return ("star", reduce(_alt, (part[1] if part[0] in ("star", "plus", "maybe") else part for part in r[1:])))
    return ("star", r)


def _alt(a: Regex | None, b: Regex) -> Regex:
    """a | b; None is no word at all."""
    if a is None or a == b:
        return b
    parts: list[Regex] = []
    for r in (a, b):
        for part in r[1:] if r[0] == "alt" else (r,):
            if part not in parts:
                parts.append(part)
    maybe = EMPTY in parts or any(part[0] == "maybe" for part in parts)
    parts = [part[1] if part[0] == "maybe" else part for part in parts if part != EMPTY]
    made = _factored(list(dict.fromkeys(parts)))
    if not maybe:
        return made
    if made[0] in ("star", "maybe"):
        return made
    return ("star", made[1]) if made[0] == "plus" else ("maybe", made)


def _factored(parts: list[Regex]) -> Regex:
    """Alternatives with what two of them begin or end with written once."""
    for i, one in enumerate(parts):
        for j in range(i + 1, len(parts)):
            p, q = _parts(one), _parts(parts[j])
            front = next((k for k, (x, y) in enumerate(zip(p, q, strict=False)) if x != y), min(len(p), len(q)))
            if front:
                middle = _alt(_one_after_another(p[front:]), _one_after_another(q[front:]))
                made = _cat(_one_after_another(p[:front]), middle)
            else:
                back = next((k for k in range(min(len(p), len(q))) if p[-1 - k] != q[-1 - k]), min(len(p), len(q)))
                if not back:
                    continue
                middle = _alt(_one_after_another(p[:-back]), _one_after_another(q[:-back]))
                made = _cat(middle, _one_after_another(p[-back:]))
            return _factored([*parts[:i], *parts[i + 1 : j], *parts[j + 1 :], made])
    return parts[0] if len(parts) == 1 else ("alt", *parts)


OPERATORS = set("|&^*+?.()[]{}\\")


def _text(r: Regex, inside: int) -> str:
    """`inside`: 0 stands anywhere, 1 is a part of others one after another, 2 is repeated."""
    kind = r[0]
    if kind == "symbol":
        return f"\\{r[1]}" if r[1] in OPERATORS else r[1]
    if kind == "cat":
        text = "".join(_text(part, 1) for part in r[1:])
        return f"({text})" if inside == 2 or not text else text
    if kind == "alt":
        text = "|".join(_text(part, 0) for part in r[1:])
        return f"({text})" if inside else text
    text = _text(r[1], 2) + {"star": "*", "plus": "+", "maybe": "?"}[kind]
    return f"({text})" if inside == 2 else text
