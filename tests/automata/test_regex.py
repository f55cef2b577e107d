"""Machines of regular expressions, against Python's own `re` on every short word."""

import re
from itertools import product

import pytest

from lengthwise import Error
from lengthwise.automata import from_regex, minimise

PATTERNS = [
    ("(ab|ba)*", "ab"),
    ("a*", "ab"),
    ("a+b?a{2,3}", "ab"),
    ("[ab]*c[^a]", "abc"),
    (".*aa.*", "ab"),
    ("(a|b)*abb", "ab"),
    ("a[a-c]{2}", "abc"),
    ("()|ab", "ab"),
    ("((a|b)(a|b))*", "ab"),
    (r"a\*b", "*ab"),
    ("1*(01*01*)*", "01"),
]


@pytest.mark.parametrize(("pattern", "alphabet"), PATTERNS)
def test_the_machine_accepts_what_re_matches(pattern, alphabet):
    machine = from_regex(pattern, alphabet)
    assert machine.symbols == tuple(alphabet)
    assert minimise(machine) == machine
    for n in range(8 if len(alphabet) == 2 else 6):
        for word in map("".join, product(alphabet, repeat=n)):
            assert machine.accepts(word) == bool(re.fullmatch(pattern, word)), word


def test_the_alphabet_comes_from_the_pattern():
    assert from_regex("b{1,3}[ac]").symbols == ("a", "b", "c")
    assert from_regex("[a-c]*").symbols == ("a", "b", "c")
    assert from_regex("1|0").symbols == ("0", "1")
    assert from_regex("(a|b)*&(bb|a)*").equivalent(from_regex("(bb|a)*"))


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("(ab", 0), ("ab)", 2), ("*a", 0), ("a||b", 2), ("a|", 2), ("(|a)", 1), ("[a", 0), ("a{x}", 1), ("a{}", 1),
     ("a&*b", 2), ("(+a)", 1), ("a\\b", 1), ("\\", 0)],
)  # fmt: skip
def test_a_pattern_that_does_not_parse_says_where(pattern, position):
    with pytest.raises(Error, match=f"at position {position}: ") as caught:
        from_regex(pattern)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "alphabet", "message"),
    [
        ("ac", "ab", "position 1: 'c' is not in the alphabet 'ab'"),
        ("", None, "names no symbol"),
        ("a", "aa", "different single characters"),
        ("a{3,2}", None, "does not parse: Lower bound"),
    ],
)
def test_other_mistakes_are_named(pattern, alphabet, message):
    with pytest.raises(Error, match=message):
        from_regex(pattern, alphabet)
