"""Tasks whose answers lie far back: readers of the written strings, baselines, refusals, how strings are drawn."""

import math
import re
from collections import Counter
from itertools import pairwise

import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.tasks.haystack import hide

from ..laws.test_tasks import OTHERS
from ..seeded import seeded


def recall(words, task):
    begin, rest = words[: 2 * task.pairs], words[2 * task.pairs :]
    known = dict(zip(begin[::2], begin[1::2], strict=True))
    return {len(begin) + t: {int(known[w][1:])} for t, w in enumerate(rest) if w in known}


def copy(words, task):
    bar = words.index("|")
    symbols = [w for w in words[:bar] if w != "."]
    assert words[bar + 1 :] == ["."] * len(symbols)
    return {bar + 1 + i: {int(w[1:])} for i, w in enumerate(symbols)}


def needle(words, task):
    mark = words.index("?")
    pairs = [(a, b) for a, b in pairwise(words[:mark]) if a[0] == "k" and b[0] == "v"]
    return {t: {int(b[1:]) for a, b in pairs if a == words[t]} for t in range(mark + 1, len(words))}


def track(words, task):
    text, _, asked = " ".join(words).partition(" ? ")
    said = dict(re.findall(r"(n\d+) = ([nv]\d+)", text))
    follow = lambda x: follow(said[x]) if x in said else x  # noqa: E731
    names = {n for n in said if follow(n) == asked} if asked[0] == "v" else {follow(asked)}
    return {len(words) - 1: {int(n[1:]) for n in names}}


MORE = {
    "needle keys": ("needle", {"keys": 4, "haystack": "repeated"}),
    "needle all": ("needle", {"keys": 3, "values": 2, "queries": 3, "haystack": "needles", "symbols": 5}),
    "tracking one": ("variable-tracking", {"chains": 1, "hops": 4, "symbols": 6, "question": "names"}),
    "tracking deep": ("variable-tracking", {"chains": 3, "hops": 4}),
}
CASES = {
    "mqar": (recall, [16, 40]),
    "mqar random": (recall, [12, 60]),
    "mqar one": (recall, [4, 30]),
    "copy": (copy, [9, 64]),
    "copy every": (copy, [7, 23]),
    "needle": (needle, [4, 37]),
    "needle keys": (needle, [10, 41]),
    "needle values": (needle, [8, 41]),
    "needle queries": (needle, [9, 38]),
    "needle needles": (needle, [6, 40, 41]),
    "needle all": (needle, [16, 61]),
    "tracking": (track, [20, 53]),
    "tracking names": (track, [14, 47]),
    "tracking one": (track, [17, 40]),
    "tracking deep": (track, [47, 60]),
}
"""Of the law's tasks and some more: who reads the strings, and the lengths, of which the first is the shortest."""
every = pytest.mark.parametrize("case", CASES)


def build(case):
    name, params = {**OTHERS, **MORE}[case]
    return tasks.get(name, **params), *CASES[case]


def as_sets(task, targets):
    """The answers as the readers give them: a set at each place."""
    if task.kind == "set":
        return [set(bits.nonzero()[:, 0].tolist()) for bits in targets]
    return [{answer} for answer in targets.tolist()]


@every
def test_the_oracle_is_a_plain_reader_of_the_written_string(case):
    task, reader, lengths = build(case)
    for length in lengths:
        batch = task.sample(length, 40, seeded(length))
        for row, targets, mask in zip(*batch, strict=True):
            expected = reader(task.write(row).split(), task)
            assert dict(zip(mask.nonzero()[:, 0].tolist(), as_sets(task, targets[mask]), strict=True)) == expected


TWO = ("variable-tracking", {"symbols": 5, "hops": 1})
NAMES = ("variable-tracking", {"symbols": 5, "hops": 1, "question": "names"})


def tokens_of(task, text):
    return torch.tensor([[task.vocabulary.index(word) for word in text.split()]])


WRONG = [
    ("mqar", {"symbols": 12, "pairs": 2}, "k2 v2 v1 k4 . . k4 .", "2 pairs of a key and a value"),
    ("mqar", {"symbols": 12, "pairs": 2}, "k2 v2 k2 v1 . . k2 .", "differ"),
    ("selective-copy", {"symbols": 3, "copied": 2}, ". s1 . . | . .", "2 symbols to copy"),
    ("selective-copy", {"symbols": 3, "copied": 2}, ". s1 . s1 . | .", "ends with a bar and 2 blanks"),
    ("needle", {}, "f1 k3 v7 f5 ? v3", r"ends with \? and 1 of the keys"),
    ("needle", {}, "f1 k3 v7 f5 ? k1", "1 different values in its string"),
    ("needle", {}, "k3 v7 k3 v1 ? k3", "1 different values in its string"),
    (*TWO, "n1 = v3 n0 = v0 f2 n2 = n1 n3 = n0 ? n4", "has a value"),
    (*TWO, "n1 = n2 n0 = v0 f2 n2 = n1 n3 = n0 ? n2", "has a value"),
    (*TWO, "n1 = v3 n0 = v0 f2 n2 = n1 n1 = n0 ? n2", "assigned once"),
    (*TWO, "n1 = v3 n0 = f0 f2 n2 = n1 n3 = n0 ? n2", "statements NAME = NAME"),
    (*TWO, "n1 = v3 n0 = v0 f2 n2 = n1 n3 = n0 ? v2", "and a name"),
    (*NAMES, "n1 = v3 n0 = v0 f2 n2 = n1 n3 = n0 ? n2", "and a value"),
    (*TWO, "n1 = v3 n0 = v0 f2 n2 = n1 n3 = = ? n2", "statements NAME = NAME"),
]


@pytest.mark.parametrize(("name", "params", "text", "said"), WRONG)
def test_strings_without_an_answer_are_refused(name, params, text, said):
    task = tasks.get(name, **params)
    with pytest.raises(Error, match=said):
        task.label(tokens_of(task, text))


SETTINGS = [
    ("mqar", {"symbols": 9}, "symbols must be even, half of them values, got 9. Use 10"),
    ("mqar", {"symbols": 12, "pairs": 6}, "12 symbols have 5, got 6. Use symbols=14"),
    ("mqar", {"power": 0}, "power must be a number above 0"),
    ("needle", {"keys": 17}, "17 different keys .* Use symbols=17"),
    ("needle", {"keys": 16, "haystack": "needles"}, "Use symbols=17"),
    ("needle", {"keys": 2, "queries": 3}, "got 3 of 2. Use keys=3"),
    ("needle", {"haystack": "essay"}, "'noise', 'repeated' or 'needles'"),
    ("variable-tracking", {"chains": 3, "hops": 5}, "have 18 names, and there are 16. Use symbols=18"),
    ("selective-copy", {"copied": 0}, "copied must be a whole number in 1"),
]


@pytest.mark.parametrize(("name", "params", "said"), SETTINGS)
def test_impossible_settings_are_refused_with_the_remedy(name, params, said):
    with pytest.raises(Error, match=said):
        tasks.get(name, **params)


def test_early_places_are_asked_by_the_power_law():
    """The first key's place is g with probability p_g; power 1 is uniform."""
    for power, p in ((0.01, [g**-0.99 for g in range(1, 9)]), (1.0, [1.0] * 8)):
        task = tasks.get("mqar", pairs=4, power=power)
        tokens = task.draw(24, 20000, seeded(3))
        assert torch.equal(tokens[:, 8:].ne(0).sum(1), torch.full((20000,), 4))
        first = (tokens[:, 8::2] == tokens[:, :1]).long().argmax(1)
        found = torch.bincount(first, minlength=8) / 20000
        torch.testing.assert_close(found, torch.tensor(p) / sum(p), atol=0.015, rtol=0)


def test_random_filling_holds_no_key_of_the_string():
    task = tasks.get("mqar", symbols=10, pairs=3, filler="random")
    batch = task.sample(60, 300, seeded(4))
    assert batch.mask.sum(1).tolist() == [3] * 300
    filling = batch.tokens[:, 6:][~batch.mask[:, 6:]]
    assert len(filling.unique()) == 10


def test_blanks_fall_before_every_symbol_alike():
    task = tasks.get("selective-copy", copied=3)
    tokens = task.draw(27, 4000, seeded(5))
    assert bool((tokens[:, 22] < 14).all())  # the last symbol touches the bar
    gaps = torch.cat([torch.full((4000, 1), -1), (tokens[:, :23] < 14).nonzero()[:, 1].view(-1, 3)], 1).diff(dim=1) - 1
    torch.testing.assert_close(gaps.double().mean(0), torch.full((3,), 20 / 3).double(), atol=0.2, rtol=0)
    counts = torch.bincount(gaps[:, 0], minlength=21) / 4000
    binomial = [math.comb(20, k) * (1 / 3) ** k * (2 / 3) ** (20 - k) for k in range(21)]
    torch.testing.assert_close(counts, torch.tensor(binomial), atol=0.04, rtol=0)


def test_hidden_facts_stay_whole_and_in_order_and_lie_anywhere():
    facts = torch.tensor([[[7, 8], [5, 6]]]).expand(3000, -1, -1)
    tokens = hide(facts, torch.zeros(3000, 2, 1, dtype=torch.long), seeded(6))
    found = Counter(" ".join(map(str, row)) for row in tokens.tolist())
    assert set(found) == {"7 8 5 6 0 0", "7 8 0 5 6 0", "7 8 0 0 5 6", "0 7 8 5 6 0", "0 7 8 0 5 6", "0 0 7 8 5 6"}
    assert all(abs(count - 500) < 110 for count in found.values())


def test_a_haystack_of_needles_never_repeats_an_asked_key():
    task = tasks.get("needle", keys=2, haystack="needles", symbols=4)
    batch = task.sample(41, 300, seeded(7))
    for row in batch.tokens:
        words = task.write(row).split()
        keys = [w for w in words[:-2] if w[0] == "k"]
        assert len(keys) == 19
        assert keys.count(words[-1]) == 1
        assert sorted(Counter(keys).values())[:2] == [1, 1]
    depths = (batch.tokens[:, :-2] == batch.tokens[:, -1:]).long().argmax(1) // 2
    assert len(depths.unique()) == 19


def test_statements_of_chains_mix_and_each_comes_before_the_next():
    task = tasks.get("variable-tracking", chains=2, hops=2)
    mixed = 0
    for row in task.draw(30, 300, seeded(8)):
        said = re.findall(r"(n\d+) = ([nv]\d+)", task.write(row))
        known, chain = set(), {}
        for name, source in said:
            assert source[0] == "v" or source in known
            known.add(name)
            chain[name] = chain.get(source, source)
        order = [chain[name] for name, _ in said]
        assert sorted(Counter(order).values()) == [3, 3]
        mixed += sum(a != b for a, b in pairwise(order)) > 1
    assert 200 < mixed < 300  # 18 of the 20 ways to order two chains of three mix them
