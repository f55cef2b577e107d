"""Shrinking: whatever the condition, what is left is wrong, no longer, and no block can go."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.verify.falsification.shrinking import shrink

words = st.lists(st.integers(0, 2), min_size=1, max_size=60)


def contains_in_order(part: list[int]):
    """Whether the symbols of `part` stand in a word, in their order, with anything between."""

    def holds(word: list[int]) -> bool:
        rest = iter(word)
        return all(s in rest for s in part)

    return holds


def on_rows(condition):
    return lambda rows: np.array([condition(row) for row in rows.tolist()])


@given(words, st.data())
def test_a_subsequence_is_all_that_is_left(word, data):
    kept = data.draw(st.lists(st.sampled_from(range(len(word))), unique=True, min_size=1, max_size=8).map(sorted))
    part = [word[i] for i in kept]
    assert shrink(np.array(word), on_rows(contains_in_order(part))).tolist() == part


@given(words, st.integers(1, 60), st.integers(2, 5))
def test_what_is_left_is_wrong_and_nothing_can_be_left_out(word, fewest, modulus):
    """A condition that shorter words seldom keep: enough symbols, and the sum of them."""
    remainder = sum(word) % modulus

    def condition(each):
        return len(each) >= min(fewest, len(word)) and sum(each) % modulus == remainder

    left = shrink(np.array(word), on_rows(condition)).tolist()
    assert condition(left)
    assert len(left) <= len(word)
    for i in range(len(left)):
        shorter = left[:i] + left[i + 1 :]
        assert not shorter or not condition(shorter)


@given(words)
def test_one_symbol_is_left_where_all_words_are_wrong(word):
    assert len(shrink(np.array(word), on_rows(lambda each: True))) == 1


def test_a_long_word_that_fails_by_its_length_takes_few_questions():
    asked = 0

    def wrong(rows):
        nonlocal asked
        asked += rows.size
        return np.full(len(rows), rows.shape[1] >= 3000)

    assert len(shrink(np.zeros(200_000, dtype=int), wrong)) == 3000
    assert asked < 100 * 200_000


def test_when_the_time_is_over_the_word_is_kept():
    word = np.arange(50)
    assert shrink(word, on_rows(lambda each: True), time.monotonic() - 1).tolist() == word.tolist()


def test_equal_symbols_where_they_do():
    word = np.array([2, 0, 1, 0, 2, 1])
    assert shrink(word, on_rows(lambda each: len(each) >= 6)).tolist() == [2] * 6
