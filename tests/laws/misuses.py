"""Wrong calls of the Python API, and words that the one line of their `lengthwise.Error` must have.

`MISUSES` maps a name to (call, words). Every call is quick and small in memory: what is asked for must be refused
before it is made. Whoever looks for further ways to be wrong may draw from here.
"""
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lengthwise import automata, tasks
from lengthwise.automata import Semiautomaton, from_regex

PARITY = [[0, 1], [1, 0]]


def machine(delta: Any = PARITY, **options: Any) -> Semiautomaton:
    return Semiautomaton(delta, **options)


def answer(task: str, tokens: Any, **params: Any) -> Callable[[], Any]:
    return lambda: tasks.get(task, **params).answer(torch.as_tensor(tokens))


AUTOMATA: dict[str, tuple[Callable[[], Any], str]] = {
    "half a state": (lambda: machine([[0.5, 1], [1, 0]]), "delta must be a .* table of whole numbers"),
    "no state": (lambda: machine([[float("nan"), 1], [1, 0]]), "table of whole numbers"),
    "a state beyond all": (lambda: machine([[1e30, 1], [1, 0]]), "whole numbers|states 0..1"),
    "truths for states": (lambda: machine([[True, False], [False, True]]), "table of whole numbers"),
    "start in between": (lambda: machine(start=0.7), "start must be a whole number, got 0.7"),
    "accepting in between": (lambda: machine(accepting=[1.5]), "accepting must be a whole number, got 1.5"),
    "symbols without order": (lambda: machine(symbols={"a", "b"}), "symbols must have an order, got a set"),
    "alphabet without order": (lambda: from_regex("ab", alphabet={"a", "b"}), r"order, got a set.*\['a', 'b'\]"),
    "alphabet of numbers": (lambda: from_regex("ab", alphabet=[1, 2]), "different single characters"),
    "a word in between": (lambda: machine(accepting={0}).accepts([0.5]), "symbols must be a whole number, got 0.5"),
    "tokens in between": (lambda: machine().run([[0.5, 1.5]]), "tokens must be whole numbers"),
    "run from nowhere": (lambda: machine().run([[0, 1]], start=7), "start must be states, 0..1, got 7"),
    "labels of too few states": (lambda: automata.minimise(machine(), labels=[1]), "2 labels"),
    "negative weights": (lambda: automata.WordSampler(machine(accepting={0}), np.array([1.0, -1.0])), "at least 0"),
    "too few weights": (lambda: automata.WordSampler(machine(accepting={0}), np.array([1.0])), "needs 2 weights"),
    "no limit left": (lambda: automata.transition_monoid(machine(), limit=0), "more than 0 elements"),
    "infinitely many states": (
        lambda: Semiautomaton.from_function(lambda q, s: q + 1, 0, 1, limit=10),
        "more than 10 states .* limit=",
    ),
    "2^21 states": (lambda: from_regex("(a|b)*a(a|b){20}"), "at most 5,000 states.*LENGTHWISE_MAX_REGEX_STATES"),
    "a million times": (lambda: from_regex("a{1000000}"), "5,000 states .*, got 1,000,000"),
    "a million million times": (lambda: from_regex("((a{10000}){10000}){10000}"), "at most 5,000 states"),
    "times with 5,000 digits": (lambda: from_regex(f"a{{{'9' * 5000}}}"), "at most 5,000 states"),
    "sides that multiply": (lambda: from_regex("(a{100})&(a{100})&(a{100})"), "at most 5,000 states"),
    "repeated never": (lambda: from_regex("ab{0}"), r"\{0\} repeats nothing. Write \(\)"),
    "repeated at most never": (lambda: from_regex("ab{,0}"), "repeats nothing"),
    "all of Unicode": (lambda: from_regex("[ -\uffff]"), "at most 1,000 symbols in an alphabet"),
    "words of 10^9 symbols": (
        lambda: automata.WordSampler(machine(accepting={0})).count(10**9),
        "at most 1,000,000 symbols in a string, got 1,000,000,000",
    ),
}

TASKS: dict[str, tuple[Callable[[], Any], str]] = {
    "brackets a million deep": (lambda: tasks.get("d-1000000"), "depth must be .* in 1..1000, got 1000000"),
    "a name of 5,000 digits": (lambda: tasks.get("d-" + "1" * 5000), "Unknown task"),
    "a group of a million points": (lambda: tasks.get("word-problem", group="S1000000"), "n in 2..6"),
    "a group of 5,000 digits": (lambda: tasks.get("word-problem", group="Z" + "1" * 5000), "group must be Zn, Sn"),
    "modulo a million": (lambda: tasks.get("modular-sum", modulus=10**6), r"modulus must be .* in 2\.\.1000"),
    "a million symbols": (lambda: tasks.get("even-pairs", symbols=10**6), r"symbols must be .* in 2\.\.1000"),
    "a ring of 10^9 places": (lambda: tasks.get("cycle-navigation", size=10**9), r"size must be .* in 2\.\.100000"),
    "10^9 blocks": (lambda: tasks.get("reference-chains", blocks=10**9), r"blocks must be .* in 2\.\.1000"),
    "10^9 objects": (lambda: tasks.get("boxes", objects=10**9), "objects must be at most 100"),
    "half a state": (lambda: tasks.get("machine", delta=[[0.5, 1], [1, 0]]), "delta must be a list of lists of whole"),
    "accepting in between": (lambda: tasks.get("machine", delta=PARITY, accepting=[1.5]), "accepting must be"),
    "alphabet without order": (lambda: tasks.from_regex("ab", alphabet={"a", "b"}), "alphabet must be a text"),
    "10^9 strings": (lambda: tasks.get("parity").test_set(1000, 10**9), "need at least 17.0 TB of memory"),
    "10^12 strings": (lambda: tasks.get("parity").sample(40, 10**12, torch.Generator()), "Ask for fewer strings"),
    "no strings": (lambda: tasks.get("parity").test_set(4, 0), "batch must be at least 1"),
    "half a string": (lambda: tasks.get("parity").sample(4, 3.5, torch.Generator()), "whole number of strings"),
    "half a symbol": (lambda: tasks.get("parity").sample(4.5, 3, torch.Generator()), "length must be a whole number"),
    "a baseline in between": (lambda: tasks.get("parity").baseline(4.5), "length must be a whole number, got 4.5"),
    "a string of 10^9 symbols": (lambda: tasks.get("parity").check(10**9), "at most 1,000,000 symbols in a string"),
    "10^11 lengths": (lambda: tasks.get("parity").lengths(1, 10**11), "at most 1,000,000 symbols"),
    "parity of 7": (answer("parity", [[0, 7]]), "parity: tokens must be in 0..1, the vocabulary, got 7"),
    "parity of -1": (answer("parity", [[0, -1]]), "got -1"),
    "parity of a half": (answer("parity", [[0.5, 1.0]]), "tokens must be .* integers"),
    "parity of one row": (answer("parity", [0, 1]), "tokens must be .B, T. integers"),
    "even pairs of 7": (answer("even-pairs", [[0, 7]]), "in 0..1"),
    "a sum of 7": (answer("modular-sum", [[0, 7]]), "in 0..4"),
    "a step of 7": (answer("cycle-navigation", [[0, 7]]), "in 0..2"),
    "arithmetic of 70": (answer("modular-arithmetic", [[1, 5, 70]]), "in 0..7"),
    "a product of 700": (answer("word-problem", [[1, 700]]), "in 0..119"),
    "brackets of 7": (answer("d-2", [[0, 7]]), "tokens must be in 0..1"),
}

MISUSES = {
    f"{room}: {name}": misuse
    for room, table in (("automata", AUTOMATA), ("tasks", TASKS))
    for name, misuse in table.items()
}
