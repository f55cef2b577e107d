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
from ..limits import REGEX_STATES, SYMBOLS
from .algebra import minimise
from .semiautomaton import Semiautomaton, in_order

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
    from automata.fa.nfa import NFA

    used = list(_literals(pattern))
    named = {c for c, _ in used}
    symbols = tuple(sorted(named) if alphabet is None else in_order("from_regex: the alphabet", alphabet))
    SYMBOLS.check(len(symbols), "from_regex")
    if not symbols:
        raise Error(f'from_regex: {pattern!r} names no symbol. Give the alphabet, e.g. alphabet="ab".')
    if len(set(symbols)) < len(symbols) or any(not isinstance(s, str) or len(s) != 1 for s in symbols):
        raise Error(f'from_regex: the alphabet must be different single characters, e.g. "ab", got {symbols}.')
    for character, position in used:
        if character not in symbols:
            raise _mistake(pattern, position, f"{character!r} is not in the alphabet {''.join(symbols)!r}")
    label = f"The regular expression {pattern if len(pattern) < 60 else pattern[:57] + '…'!r}"
    REGEX_STATES.check(_written_out(pattern), label)
    try:
        nfa = NFA.from_regex(pattern, input_symbols=frozenset(symbols))
    except (AutomatonException, RegexException, ValueError) as error:
        # automata-lib forgets to fill in the bound of a{2,1}.
        detail = re.sub(r"\s+", " ", str(error)).replace("upper bound {upper_bound}", "the upper bound").rstrip(".")
        raise Error(f"The regular expression {pattern!r} does not parse: {detail}. Correct the pattern.") from error
    return minimise(_deterministic(nfa, symbols, label))


def _deterministic(nfa: Any, symbols: tuple[str, ...], label: str) -> Semiautomaton:
    """The machine whose states are the sets of states that an automata-lib NFA can be in; none is the dead one."""

    def closed(states: Iterable[int]) -> frozenset[int]:
        seen = list(states)
        known = set(seen)
        for q in seen:  # grows while we walk it
            for target in nfa.transitions.get(q, {}).get("", ()):
                if target not in known:
                    known.add(target)
                    seen.append(target)
        return frozenset(known)

    def step(states: frozenset[int], s: int) -> frozenset[int]:
        return closed({target for q in states for target in nfa.transitions.get(q, {}).get(symbols[s], ())})

    def accepts(states: frozenset[int]) -> bool:
        return not states.isdisjoint(nfa.final_states)

    try:
        start = closed([nfa.initial_state])
        return Semiautomaton.from_function(step, start, symbols, accepts, limit=REGEX_STATES.most)
    except Error as error:
        raise REGEX_STATES.exceeded(label) from error


def _written_out(pattern: str) -> int:
    """How many symbols the pattern has with its repetitions written out; `&` and `^` multiply those of their sides.

    >>> _written_out("(ab|c){3}d*"), _written_out("a{2}&(bc){,4}")
    (10, 16)
    """
    # Of every open bracket: the sides of & and ^ so far, multiplied; the symbols of this side; those of its last item.
    opened = [[1, 0, 0]]
    for piece in PIECE.finditer(pattern):
        text, here = piece.group(), opened[-1]
        item = 1
        if piece["operator"] and text == "(":
            opened.append([1, 0, 0])
            continue
        if piece["operator"] and text == ")":
            sides, side, _ = opened.pop()
            item = sides * max(1, side)
        elif piece["operator"] and text in "&^":
            here[:] = [here[0] * max(1, here[1]), 0, 0]
            continue
        elif piece["operator"] and text != ".":
            # So many digits are too many anyway.
            times = max([1, *(int(number[:12]) for number in re.findall(r"\d+", text))])
            here[1:] = [here[1] + here[2] * (times - 1), here[2] * times]
            continue
        opened[-1][1:] = [opened[-1][1] + item, item]
    sides, side, _ = opened[0]
    return sides * side


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
        elif re.fullmatch(r"\{0*,?0+\}", text):
            # The parser reads it as "once or not at all".
            raise _mistake(pattern, here, f"{text} repeats nothing. Write () for the empty word")
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
