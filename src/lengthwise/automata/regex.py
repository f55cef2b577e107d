r"""A regular expression as its minimal complete machine.

The parser is automata-lib's, and so is the syntax: `|` union, `*` `+` `?` `{2}` `{1,3}` repetition, `()` groups,
`[abc]` `[^a]` `[a-c]` classes, `.` any symbol of the alphabet, `&` intersection, `^` shuffle, `\` before a character
that stands for itself. The pattern describes the whole word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import Error
from .algebra import minimise
from .semiautomaton import Semiautomaton

PIECE = re.compile(
    r"\\(?P<escape>.)|\[\^?(?P<group>[^\]]+)\]|(?P<operator>\{-?\d*,?-?\d*\}|[*+?|&^.()\[\]{}\\])|(?P<plain>.)",
    re.DOTALL,
)
BINARY = ("|", "&", "^")


def from_regex(pattern: str, alphabet: Iterable[str] | None = None) -> Semiautomaton:
    """The minimal machine of `pattern`, its dead state included; symbols are those of `alphabet`, in its order.

    Without an alphabet it is the characters the pattern itself uses, sorted.

    >>> machine = from_regex("(ab|ba)*")
    >>> machine.symbols, machine.num_states, machine.accepts("abba"), machine.accepts("aab")
    (('a', 'b'), 4, True, False)
    """
    # Imported here, for the parser and what it brings along take a noticeable time to load.
    from automata.base.exceptions import AutomatonException, RegexException
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    used = list(_literals(pattern))
    symbols = tuple(sorted({c for c, _ in used}) if alphabet is None else alphabet)
    if not symbols:
        raise Error(f'from_regex: {pattern!r} names no symbol. Give the alphabet, e.g. alphabet="ab".')
    if len(set(symbols)) < len(symbols) or any(len(s) != 1 for s in symbols):
        raise Error(f'from_regex: the alphabet must be different single characters, e.g. "ab", got {symbols}.')
    for character, position in used:
        if character not in symbols:
            raise _mistake(pattern, position, f"{character!r} is not in the alphabet {''.join(symbols)!r}")
    try:
        nfa = NFA.from_regex(pattern, input_symbols=frozenset(symbols))
        dfa = DFA.from_nfa(nfa, minify=True)
    except (AutomatonException, RegexException, ValueError) as error:
        detail = re.sub(r"\s+", " ", str(error)).rstrip(".")
        raise Error(f"The regular expression {pattern!r} does not parse: {detail}. Correct the pattern.") from error
    return _complete(dfa, symbols)


def _complete(dfa: Any, symbols: tuple[str, ...]) -> Semiautomaton:
    """The integer table of an automata-lib DFA; moves it lacks go to a dead state."""
    number = {state: q for q, state in enumerate(sorted(dfa.states))}
    dead = len(number)
    table = [[number.get(dfa.transitions[q].get(s), dead) for s in symbols] for q in number]
    table.append([dead] * len(symbols))
    return minimise(Semiautomaton(table, number[dfa.initial_state], [number[q] for q in dfa.final_states], symbols))


def _literals(pattern: str) -> Iterator[tuple[str, int]]:
    """The characters which the pattern reads as symbols, with their positions; raises where it is malformed."""
    opened: list[int] = []
    before = "("  # the piece before this one; "(" at the start too, for nothing stands before either
    for piece in PIECE.finditer(pattern):
        here, text = piece.start(), piece.group()
        if escape := piece["escape"]:
            if escape.isalnum():
                raise _mistake(pattern, here, f"{text} is not supported. Write the characters themselves, e.g. [01]")
            yield escape, here
        elif group := piece["group"]:
            yield from ((c, piece.start("group")) for c in _members(group))
        elif plain := piece["plain"]:
            yield plain, here
        elif text in ("[", "]", "{", "}", "{}", "{,}", "\\"):
            raise _mistake(pattern, here, f"{text} has no partner or content. A backslash before it makes it a symbol")
        elif before in BINARY and text in {*BINARY, ")"}:
            raise _mistake(pattern, here, f"nothing stands after the {before}. Write () for the empty word")
        elif before == "(" and text[0] in "*+?{|&^":
            raise _mistake(pattern, here, f"nothing stands before the {text}. Write () for the empty word")
        elif before in BINARY and text[0] in "*+?{":
            raise _mistake(pattern, here, f"{text} has nothing to repeat. Put a symbol or a group before it")
        elif text == "(":
            opened.append(here)
        elif text == ")":
            if not opened:
                raise _mistake(pattern, here, "this ) closes nothing. Remove it or open a ( before it")
            opened.pop()
        before = text if piece["operator"] else "symbol"
    if opened:
        raise _mistake(pattern, opened[-1], "this ( is never closed. Add a )")
    if before in BINARY:
        raise _mistake(pattern, len(pattern), f"nothing stands after the {before}. Write () for the empty word")


def _members(group: str) -> Iterator[str]:
    """The characters of a class: `a-c` is a, b, c."""
    for low, high, single in re.findall(r"(.)-(.)|(.)", group):
        yield from (chr(c) for c in range(ord(low), ord(high) + 1)) if low else single


def _mistake(pattern: str, position: int, what: str) -> Error:
    return Error(f"The regular expression {pattern!r} does not parse at position {position}: {what}.")
