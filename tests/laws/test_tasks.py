"""What every task must obey: the laws of `tasks.check`, and what only tests can know of the library's own tasks.

The oracle is a few lines of plain Python; classes are balanced where that is promised; accepted words are uniform;
impossible lengths are refused with advice that helps; parameters at their defaults are frozen.
"""

import hashlib
import json
import math
import re
from collections import Counter
from functools import cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise import tasks
from lengthwise.errors import Error, LengthError, UnknownName

from ..seeded import seeded


def value(text, m):
    """Python's own arithmetic."""
    return eval(text, {"__builtins__": {}}) % m


def is_expression(text):
    """Python's own grammar, less what ours does not have: signs, powers, calls, empty brackets, longer numbers."""
    if re.search(r"\d[\d(]|\*\*|[-+*(][-+]|^[-+]|\)[\d(]|\(\)|^$", text):
        return False
    try:
        compile(text, "word", "eval")
    except SyntaxError:
        return False
    return True


def balanced(text, depth):
    """D_n by its definition: take the blocks a…b apart."""
    while text:
        if depth == 0 or text[0] != "a":
            return False
        level, end = 0, 0
        for end, c in enumerate(text):  # noqa: B007
            level += 1 if c == "a" else -1
            if level == 0:
                break
        if level or not balanced(text[1:end], depth - 1):
            return False
        text = text[end + 1 :]
    return True


TOMITA = {
    1: lambda w: set(w) <= {"1"},
    2: lambda w: re.fullmatch("(10)*", w),
    3: lambda w: not any(len(a) % 2 and len(b) % 2 for a, b in re.findall("(1+)(0+)", w)),
    4: lambda w: "000" not in w,
    5: lambda w: w.count("0") % 2 == 0 and w.count("1") % 2 == 0,
    6: lambda w: (w.count("0") - w.count("1")) % 3 == 0,
    7: lambda w: re.fullmatch("0*1*0*1*", w),
}


def cayley(permutations):
    """The product of permutations, the first applied first."""
    points = list(range(len(permutations[0])))
    for permutation in permutations:
        points = [permutation[i] for i in points]
    return "".join(map(str, points))


# Name, settings, and the answer to one whole word (a list of token numbers, and the word as written).
S3 = [[1, 0, 2], [1, 2, 0]]
CASES = {
    "parity": ("parity", {}, lambda t, w: sum(t) % 2),
    "parity p": ("parity", {"probabilities": [0.9, 0.1]}, lambda t, w: w.count("1") % 2),
    "parity prefix": ("parity", {"supervision": "prefix"}, lambda t, w: w.count("1") % 2),
    "even-pairs": ("even-pairs", {}, lambda t, w: int((w.count("01") + w.count("10")) % 2 == 0)),
    "even-pairs 5": ("even-pairs", {"symbols": 5}, lambda t, w: int(t[0] == t[-1])),
    "cycle": ("cycle-navigation", {}, lambda t, w: (w.count("1") - w.count("2")) % 5),
    "cycle 3 p": (
        "cycle-navigation",
        {"size": 3, "probabilities": [0.5, 0.5, 0]},
        lambda t, w: (w.count("1") - w.count("2")) % 3,
    ),
    "sum": ("modular-sum", {}, lambda t, w: sum(t) % 5),
    "sum 3 prefix": ("modular-sum", {"modulus": 3, "supervision": "prefix"}, lambda t, w: sum(t) % 3),
    "arithmetic": ("modular-arithmetic", {}, lambda t, w: value(w, 5)),
    "arithmetic 3": ("modular-arithmetic", {"modulus": 3, "supervision": "prefix"}, lambda t, w: value(w, 3)),
    "arithmetic +": ("modular-arithmetic", {"leading_plus": True}, lambda t, w: value(w[1:], 5)),
    "arithmetic ()": ("modular-arithmetic", {"brackets": True}, lambda t, w: value(w, 5)),
    "arithmetic () 2": (
        "modular-arithmetic",
        {"brackets": True, "leading_plus": True, "modulus": 2, "supervision": "prefix"},
        lambda t, w: value(w[1:], 2),
    ),
    "Z5": ("word-problem", {"group": "Z5"}, lambda t, w: sum(t) % 5),
    "A4": ("word-problem", {"group": "A4"}, lambda t, w: cayley([list(map(int, g)) for g in w.split()])),
    "S5": ("word-problem", {}, lambda t, w: cayley([list(map(int, g)) for g in w.split()])),
    "S3 two": (
        "word-problem",
        {"group": "S3", "generators": S3, "supervision": "prefix"},
        lambda t, w: cayley([S3[s] for s in t]),
    ),
    "d-1": ("d-1", {}, lambda t, w: balanced(w, 1)),
    "d-2": ("d-2", {"supervision": "prefix"}, lambda t, w: balanced(w, 2)),
    "d-3 uniform": ("d-3", {"positives": "uniform", "negatives": "uniform"}, lambda t, w: balanced(w, 3)),
    "d-4 near": ("d-4", {"negatives": "near-miss"}, lambda t, w: balanced(w, 4)),
    "d-12": ("d-12", {"positives": "uniform", "probabilities": [0.3, 0.7]}, lambda t, w: balanced(w, 12)),
    "regex": ("regex", {"pattern": "(ab|ba)*"}, lambda t, w: bool(re.fullmatch("(ab|ba)*", w))),
    "regex:": ("regex:a+b|c", {"alphabet": "cab"}, lambda t, w: bool(re.fullmatch("a+b|c", w))),
    "machine": (
        "machine",
        {"delta": [[0, 1], [1, 2], [2, 0]], "accepting": [1, 2], "symbols": ["no", "yes"]},
        lambda t, w: sum(t) % 3 > 0,
    ),
    "states": ("machine", {"delta": [[0, 1], [1, 2], [2, 0]], "supervision": "prefix"}, lambda t, w: sum(t) % 3),
} | {
    f"tomita-{n}": (f"tomita-{n}", {"negatives": kind}, lambda t, w, n=n: bool(TOMITA[n](w)))
    for n, kind in enumerate(["mixed", "uniform", "near-miss", "mixed", "mixed", "uniform", "mixed"], start=1)
}

# The same for protocol "next": name, settings, membership of a word as written, and how far words must be continued.
NEXT = {
    "d-2": ("d-2", {}, lambda w: balanced(w, 2), 3),
    "d-3 uniform": ("d-3", {"positives": "uniform", "end": True}, lambda w: balanced(w, 3), 4),
    "tomita-5": ("tomita-5", {}, TOMITA[5], 3),
    "tomita-5 end": ("tomita-5", {"end": True}, TOMITA[5], 3),
    "tomita-3": ("tomita-3", {}, TOMITA[3], 2),
    "tomita-7": ("tomita-7", {"probabilities": [0.7, 0.3]}, TOMITA[7], 1),
    "regex": ("regex", {"pattern": "(ab|ba)*"}, lambda w: re.fullmatch("(ab|ba)*", w), 2),
}

# Tasks with several answers in a string, whose oracles and samplers tests/tasks hold against plain readers.
OTHERS = {
    "steps": ("arithmetic-steps", {}),
    "steps of whole numbers": ("arithmetic-steps", {"modulus": None, "largest": 20}),
    "chains": ("reference-chains", {"blocks": 4, "size": 3}),
    "boxes": ("boxes", {}),
    "boxes advanced": ("boxes", {"form": "advanced", "boxes": 4, "objects": 20}),
    "mqar": ("mqar", {"pairs": 2}),
    "mqar random": (
        "mqar",
        {"symbols": 20, "pairs": 3, "power": 1, "filler": "random", "scoring": "every"},
    ),
    "mqar one": ("mqar", {"symbols": 8, "pairs": 1, "scoring": "every"}),
    "copy": ("selective-copy", {"copied": 4}),
    "copy every": ("selective-copy", {"symbols": 2, "copied": 3, "scoring": "every"}),
    "needle": ("needle", {}),
    "needle values": ("needle", {"values": 3, "symbols": 5}),
    "needle queries": ("needle", {"keys": 3, "queries": 2, "symbols": 4, "scoring": "every"}),
    "needle needles": ("needle", {"keys": 2, "haystack": "needles", "symbols": 6}),
    "tracking": ("variable-tracking", {}),
    "tracking names": (
        "variable-tracking",
        {"question": "names", "hops": 1, "symbols": 5, "haystack": "repeated"},
    ),
}
ALL = {
    **{case: (name, params) for case, (name, params, _) in CASES.items()},
    **{f"next {case}": (name, {"protocol": "next", **params}) for case, (name, params, *_) in NEXT.items()},
    **OTHERS,
}

LANGUAGES = [k for k in CASES if re.match("d-|tomita|regex|machine", k)]


@cache
def build(case):
    name, params = ALL[case]
    return tasks.get(name, **params)


def every(which=None):
    return pytest.mark.parametrize("case", list(CASES) if which is None else which)


def number(task, answer):
    """An answer of plain Python as a class."""
    return task.elements.index(answer) if isinstance(answer, str) else int(answer)


def test_every_registered_name_is_tested():
    tested = {name.split(":")[0] for name, _ in ALL.values()}
    depths = {n for n in tasks.available() if re.match(r"d-\d", n)}
    assert set(tasks.available()) - depths <= tested


@every()
@given(length=st.integers(1, 30), seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_the_oracle_is_plain_python(case, length, seed):
    task, answer = build(case), CASES[case][2]
    if task.problem(length):
        length = task.lengths(1, 40)[0]
    batch = task.sample(length, 4, seeded(seed))
    assert bool(batch.mask[:, -1].all())
    assert bool((batch.mask.sum(1) == 1).all()) or task.supervision == "prefix"
    for row, targets, mask in zip(batch.tokens.tolist(), batch.targets.tolist(), batch.mask.tolist(), strict=True):
        for t in range(length):
            if mask[t]:
                assert targets[t] == number(task, answer(row[: t + 1], task.write(row[: t + 1]))), task.write(row)


@every([k for k in CASES if "arithmetic" not in k and k != "S5"])
def test_the_oracle_is_right_on_all_short_words(case):
    task, answer = build(case), CASES[case][2]
    S = len(task.vocabulary)
    for length in range(1, int(math.log(3000, S)) + 1):
        words = torch.tensor(list(product(range(S), repeat=length)))
        expected = [number(task, answer(row, task.write(row))) for row in words.tolist()]
        assert task.answer(words)[:, -1].tolist() == expected


@every([k for k in CASES if "arithmetic" in k])
def test_arithmetic_on_all_short_expressions(case):
    task, answer = build(case), CASES[case][2]
    symbols = "01*-()" if task.brackets else "012*-+"
    plus = "+" * task.leading_plus
    found = 0
    for length in (1, 3, 5):
        for text in map("".join, product(symbols, repeat=length)):
            if is_expression(text):
                word = torch.tensor([[task.vocabulary.index(c) for c in plus + text]])
                assert int(task.answer(word)[0, -1]) == answer(None, plus + text), text
                assert bool(task.label(word).mask[0, -1])
                found += 1
    assert found > 10


@pytest.mark.parametrize("case", list(NEXT))
@given(length=st.integers(1, 16), seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_next_symbols_are_those_with_a_continuation(case, length, seed):
    task, (_, params, member, reach) = build(f"next {case}"), NEXT[case]
    if task.problem(length):
        length = task.lengths(1, 40)[0]
    batch = task.sample(length, 2, seeded(seed))
    assert bool(batch.mask.all())
    endings = [e for n in range(reach + 1) for e in map("".join, product(task.vocabulary, repeat=n))]
    for row, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert member(task.write(row))
        for t in range(length):
            prefix = task.write(row[: t + 1])
            expected = [any(member(prefix + s + e) for e in endings) for s in task.vocabulary]
            expected += [bool(member(prefix))] * params.get("end", False)
            assert targets[t] == expected, prefix


@every(ALL)
def test_a_task_passes_the_check_that_users_call(case):
    tasks.check(build(case))


def test_strings_stay_what_their_seeds_mean():
    """On every machine, and whatever the hash seed of Python is."""
    whole = hashlib.sha256()
    for task in map(build, ALL):
        length = task.lengths(6, 40)[0]
        for batch in (task.test_set(length, 70), task.sample(length, 9, seeded(2))):
            whole.update(batch.tokens.numpy().tobytes() + batch.targets[batch.mask].numpy().tobytes())
    assert whole.hexdigest()[:16] == "d754c395e2e5d3cc"


@every(LANGUAGES)
@given(length=st.integers(1, 24), batch=st.integers(1, 40), seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_languages_are_balanced(case, length, batch, seed):
    task = build(case)
    if task.problem(length):
        length = task.lengths(1, 40)[0]
    accepted = int(task.sample(length, batch, seeded(seed)).targets[:, -1].sum())
    if task.baseline(length) == 1.0:
        assert task.name.startswith("d-")
        assert length % 2 == 1
        assert accepted == 0
    else:
        assert accepted in (batch // 2, (batch + 1) // 2)


@every(LANGUAGES)
def test_negatives_are_rejected_and_near_ones_are_one_edit_away(case):
    task, answer = build(case), CASES[case][2]
    length = next(n for n in task.lengths(1, 12) if n >= 4 or n == task.lengths(1, 12)[-1])
    for what, source in task.rejected.items():
        for row in source.draw(length, 20, seeded(5)).tolist():
            word = [task.vocabulary[s] for s in row]
            assert not answer(row, task.write(row))
            if "edit" in what:
                options = [[*word[:i], *new, *word[j:]] for i in range(length + 1) for j in (i, i + 1) if j <= length
                           for new in [(), *((s,) for s in task.vocabulary)]]  # fmt: skip
                tokens = [[task.vocabulary.index(s) for s in option] for option in options]
                assert any(answer(t, task.write(t) if t else "") for t in tokens), task.write(row)


@every([k for k in LANGUAGES if k not in ("d-1", "d-2", "d-4 near")])
def test_accepted_words_are_uniform(case):
    task, answer = build(case), CASES[case][2]
    length = next(n for n in reversed(range(1, 9)) if task.positives.possible(n))
    words = product(range(len(task.vocabulary)), repeat=length)
    accepted = [w for w in words if answer(list(w), task.write(w))]
    found = Counter(map(tuple, task.positives.draw(length, 2000, seeded(6)).tolist()))
    assert set(found) <= set(accepted)
    each = 2000 / len(accepted)
    statistic = sum((found[w] - each) ** 2 / each for w in accepted)
    freedom = max(1, len(accepted) - 1)
    assert (statistic - freedom) / math.sqrt(2 * freedom) < 5


@every(ALL)
@given(length=st.integers(-3, 40))
@settings(max_examples=15, deadline=None)
def test_lengths_are_possible_or_refused_with_advice(case, length):
    task = build(case)
    if problem := task.problem(length):
        with pytest.raises(LengthError, match=re.escape(f"{task.name}: {problem}")):
            task.sample(length, 1, seeded(0))
        for near in map(int, re.findall(r"\d+", problem.partition("Use ")[2])):
            assert task.problem(near) is None


@every()
def test_unknown_settings_are_refused(case):
    name, params, _ = CASES[case]
    with pytest.raises(UnknownName, match="supervision"):
        tasks.get(name, supervison="last", **{k: v for k, v in params.items() if k != "supervision"})
    with pytest.raises(Error, match=r"supervision must be .* got 'prefixes'. Did you mean 'prefix'"):
        tasks.get(name, **{**params, "supervision": "prefixes"})
    with pytest.raises(Error, match="batch must be at least 1"):
        build(case).sample(build(case).lengths(1, 9)[0], 0, seeded(0))


MEMBERSHIP = {"protocol": "membership", "negatives": "mixed", "supervision": "last", "probabilities": None}
FREE = {"supervision": "last", "probabilities": None}
PARAMS = {
    "parity": FREE,
    "even-pairs": {"symbols": 2, **FREE},
    "cycle-navigation": {"size": 5, **FREE},
    "modular-sum": {"modulus": 5, **FREE},
    "modular-arithmetic": {"modulus": 5, "brackets": False, "leading_plus": False, "supervision": "last"},
    "word-problem": {"group": "S5", "generators": "all", **FREE},
    "arithmetic-steps": {"modulus": 11, "largest": None},
    "reference-chains": {"blocks": 16, "size": 8},
    "boxes": {"form": "default", "boxes": 7, "objects": 100},
    "mqar": {"symbols": 64, "pairs": 4, "power": 0.01, "filler": "blank", "scoring": "mean"},
    "selective-copy": {"symbols": 14, "copied": 16, "scoring": "mean"},
    "needle": {"keys": 1, "values": 1, "queries": 1, "haystack": "noise", "symbols": 16, "scoring": "mean"},
    "variable-tracking": {"chains": 2, "hops": 2, "question": "value", "haystack": "noise", "symbols": 16},
    "regex": {"pattern": "(ab)*", "alphabet": "ab", **MEMBERSHIP},
    "machine": {"delta": [[0]], "start": 0, "accepting": None, "symbols": ["0"], "protocol": "states", **FREE},
    **{f"d-{n}": {"positives": "nesting", **MEMBERSHIP} for n in (2, 3, 4, 12)},
    **{f"tomita-{n}": MEMBERSHIP for n in range(1, 8)},
}
NEEDED = {"regex": {"pattern": "(ab)*"}, "machine": {"delta": [[0]]}}


@pytest.mark.parametrize("name", tasks.available())
def test_params_at_their_defaults_are_frozen(name):
    params = tasks.get(name, **NEEDED.get(name, {})).params
    assert json.dumps(params) == json.dumps(PARAMS.get(name, params)), (
        f"{name}: test strings are seeded by `params`, so these must never change. A new parameter at its default must "
        "be left out of `params`."
    )
    assert name in PARAMS, f"{name} is new: write its params at their defaults into PARAMS, where they stay for ever."


@every(ALL)
def test_parameters_at_their_defaults_need_not_be_given(case):
    """An experiment's record holds the others alone, and must rebuild the very task."""
    task = build(case)
    known = tasks.options(task.name)
    given = {key: value for key, value in task.params.items() if known[key].default != value}
    assert tasks.get(task.name, **given).params == task.params
