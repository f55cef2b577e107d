"""Exact counts and exactly uniform draws, against enumeration."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise.automata import NearMisses, Semiautomaton, WordSampler, from_regex
from lengthwise.errors import LengthError

from .test_algebra import machines

PATTERNS = ["(ab|ba)*", "a*", "(a|b)*abb", "1*(01*01*)*", "[ab]*c"]


def enumerate_words(machine, length, accepted=True):
    return [w for w in product(range(machine.num_symbols), repeat=length) if machine.accepts(w) == accepted]


def chi_square(draws, expected):
    """Pearson's statistic, in standard deviations above its mean, of draws against expected counts."""
    found = Counter(map(tuple, draws.tolist()))
    assert set(found) <= set(expected), "a word was drawn that has no probability"
    statistic = sum((found[w] - e) ** 2 / e for w, e in expected.items())
    freedom = max(1, len(expected) - 1)
    return (statistic - freedom) / (2 * freedom) ** 0.5


def edits(word, symbols):
    """All (kind of edit, result) of a word, one entry for each edit."""
    for i in range(len(word)):
        yield word[:i] + word[i + 1 :]
        yield from ((*word[:i], s, *word[i + 1 :]) for s in range(symbols) if s != word[i])
    for i in range(len(word) + 1):
        yield from ((*word[:i], s, *word[i:]) for s in range(symbols))


@given(machines(), st.integers(0, 7))
def test_counts_are_exact(machine, length):
    assert round(WordSampler(machine).count(length)) == len(enumerate_words(machine, length))


@given(machines(), st.integers(0, 6))
@settings(max_examples=40)
def test_weighted_counts_are_probabilities(machine, length):
    p = np.array([0.25, 0.75])
    expected = sum(np.prod(p[list(w)]) for w in enumerate_words(machine, length))
    assert WordSampler(machine, p).count(length) == pytest.approx(expected)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("complement", [False, True])
def test_draws_are_uniform(pattern, complement):
    machine = from_regex(pattern, alphabet="abc" if "c" in pattern else "01" if "1" in pattern else "ab")
    machine = machine.complement() if complement else machine
    words = enumerate_words(machine, 6)
    draws = WordSampler(machine).draw(6, 4000, torch.Generator().manual_seed(1))
    assert chi_square(draws, {w: 4000 / len(words) for w in words}) < 5


def test_draws_follow_the_weights():
    machine = from_regex("(a|b)*abb|a*")
    p = np.array([0.8, 0.2])
    weights = {w: float(np.prod(p[list(w)])) for w in enumerate_words(machine, 6)}
    total = sum(weights.values())
    draws = WordSampler(machine, p).draw(6, 4000, torch.Generator().manual_seed(2))
    assert chi_square(draws, {w: 4000 * x / total for w, x in weights.items()}) < 5


def test_a_symbol_without_probability_never_appears():
    machine = from_regex(".*", "abc")
    for zero in range(3):
        p = np.full(3, 0.5)
        p[zero] = 0
        assert not (WordSampler(machine, p).draw(50, 200, torch.Generator().manual_seed(3)) == zero).any()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("length", [2, 5])
def test_near_misses_are_uniform_over_words_and_edits(pattern, length):
    machine = from_regex(pattern, alphabet="abc" if "c" in pattern else "01" if "1" in pattern else "ab")
    results = Counter(
        result
        for n in (length - 1, length, length + 1)
        for word in enumerate_words(machine, n)
        for result in edits(word, machine.num_symbols)
        if len(result) == length and not machine.accepts(result)
    )
    misses = NearMisses(machine)
    assert round(misses.sampler.count(length + 1)) == results.total()
    draws = misses.draw(length, 3000, torch.Generator().manual_seed(4))
    assert chi_square(draws, {w: 3000 * c / results.total() for w, c in results.items()}) < 5


def test_length_ten_thousand():
    machine = from_regex("1*(01*01*)*")
    for source in (WordSampler(machine), NearMisses(machine.complement())):
        words = source.draw(10_000, 2, torch.Generator().manual_seed(5))
        assert words.shape == (2, 10_000)
        assert all(machine.accepts(word.tolist()) for word in words)
    zeros = (WordSampler(machine).draw(10_000, 4, torch.Generator().manual_seed(6)) == 0).float().mean()
    assert abs(float(zeros) - 0.5) < 0.01


def test_draws_do_not_depend_on_what_was_drawn_before():
    machine = from_regex("(ab|ba)*")
    fresh = WordSampler(machine).draw(20, 8, torch.Generator().manual_seed(7))
    used = WordSampler(machine)
    for n in (2, 400, 6):
        used.draw(n, 3, torch.Generator().manual_seed(0))
    assert torch.equal(used.draw(20, 8, torch.Generator().manual_seed(7)), fresh)


def test_thresholds_beyond_those_kept_are_the_same(monkeypatch):
    machine = from_regex("(a|b)*abb")
    usual = WordSampler(machine).draw(60, 8, torch.Generator().manual_seed(8))
    monkeypatch.setattr("lengthwise.automata.accepted_words.KEPT", 10 * machine.delta.size)
    monkeypatch.setattr("lengthwise.automata.accepted_words.BLOCK", 7 * machine.delta.size)
    assert torch.equal(WordSampler(machine).draw(60, 8, torch.Generator().manual_seed(8)), usual)


def test_impossible_lengths_name_the_nearest():
    with pytest.raises(LengthError, match=r"length 7\. Use 6 or 8"):
        WordSampler(from_regex("(ab|ba)*")).draw(7, 1, torch.Generator())
    with pytest.raises(LengthError, match=r"length 7\. Use 3\."):
        WordSampler(from_regex("abb")).draw(7, 1, torch.Generator())
    with pytest.raises(LengthError, match="one edit away"):
        NearMisses(from_regex("(a|b)*")).draw(3, 1, torch.Generator())
    assert NearMisses(from_regex("a{9}")).nearest(3) == [8]


def test_state_probabilities_are_those_of_enumerated_words():
    machine = Semiautomaton([[1, 2], [2, 0], [0, 0]])
    p = np.array([0.3, 0.7])
    expected = np.zeros(3)
    for word in product(range(2), repeat=4):
        expected[machine.state_after(word)] += np.prod(p[list(word)])
    *_, last = machine.state_probabilities([p] * 4)
    assert last == pytest.approx(expected)
