"""Where segments of a text end, told from its tokens alone: the `ends` of BiPE and of positions in levels.

A token ends a segment if its text does, whatever the tokenizer calls it:

    sentence     . ! ? … 。 ！ ？ and what closes behind them, so "...", '."' and ".\\n" too; and the end of a line
    line         a newline, and the white space behind it, since "\\n    " holds both
    paragraph    a blank line: two newlines in one token
    function     two blank lines, which stand behind functions and classes at the top level of Python code
    document     the end-of-text token, which ends everything else too

A closing quote that is a token of its own begins the next segment. A mark inside a token ends nothing, such as that of
".com". A mark whose bytes are several tokens cannot be told from
other characters that end in the same byte, and ends nothing either. Abbreviations and numbers end sentences as they do
in the released code of BiPE.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import Error, UnknownName

CLOSING = r"""["'”’»)\]}*_`]*"""
"""What may stand behind a mark and yet belong to its segment."""


class EndRule(NamedTuple):
    text: re.Pattern[str]
    """What the text of a token that ends a segment looks like."""
    example: str
    """A text with such an end."""


RULES = {
    "sentence": EndRule(re.compile(rf"([.!?…。！？]{CLOSING}\s*|\n[ \t]*)\Z"), "One.\nTwo."),
    "line": EndRule(re.compile(r"\n[ \t]*\Z"), "one\ntwo"),
    "paragraph": EndRule(re.compile(r"(\n[ \t]*){2,}\Z"), "one\n\ntwo"),
    "function": EndRule(re.compile(r"(\n[ \t]*){3,}\Z"), "    return one\n\n\ndef"),
}
TWO_IDS = (".", "\n")
"""The texts whose two ids the released code of BiPE looks for."""


def segment_ends(tokenizer: Any, by: str | Sequence[str] = "sentence") -> list[int]:
    """The ids of the tokens that end a segment, for `presets.bipe(ends=…)`. The end-of-text token is one of them.

    `by` is a rule's name, or a list of marks: `by=["="]` ends a segment at every token whose text ends in one. With
    `by="two-ids"` it is the rule of the released code, the tokens of "." and of a newline alone, which misses all
    others that hold one.
    """
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    if by == "two-ids":
        return _two_ids(tokenizer)
    if by == "document":
        if not end:
            raise Error(
                "Documents are told apart by the tokenizer's end-of-text token, and it has none. Set eos_token."
            )
        return end
    if isinstance(by, str) and by not in RULES:
        raise UnknownName("rule of segments", by, [*RULES, "document", "two-ids"], "Or give a list of marks.")
    if not isinstance(by, str) and not (by and all(isinstance(mark, str) and mark for mark in by)):
        raise Error(f'Segments end at marks of at least one character, got {by!r}. Give some, such as by=["="].')
    if isinstance(by, str):
        pattern, example = RULES[by]
    else:
        pattern, example = re.compile(rf"({'|'.join(map(re.escape, by))})\s*\Z"), ""
    ends = {id for id, text in token_texts(tokenizer).items() if pattern.search(text)}
    name = by if isinstance(by, str) else ", ".join(by)
    if not ends:
        _warn(name, "has no token that ends one")
    elif by in ("paragraph", "function") and not ends.intersection(tokenizer.encode(example)):
        _warn(name, "writes every newline as a token of its own, so that no token tells of a blank line")
    return sorted({*ends, *end})


def level_ends(tokenizer: Any, by: Sequence[str] = ("sentence", "paragraph", "document")) -> list[list[int]]:
    """The ends of every level, the finest first, for the `level_ends` of the encoding `multilevel`."""
    return [segment_ends(tokenizer, rule) for rule in by]


def token_texts(tokenizer: Any) -> dict[int, str]:
    """The text of every token but the special ones. U+FFFD stands for bytes that are no whole character."""
    special = set(tokenizer.all_special_ids)
    ids = {id: token for token, id in tokenizer.get_vocab().items() if id not in special}
    return {id: tokenizer.convert_tokens_to_string([token]) for id, token in ids.items()}


def _two_ids(tokenizer: Any) -> list[int]:
    codes = [tokenizer.encode(text, add_special_tokens=False)[-1:] for text in TWO_IDS]
    ends = sorted({id for ids in codes for id in ids} - {tokenizer.unk_token_id})
    if not ends:
        _warn("two-ids", 'knows neither "." nor a newline')
    return ends


def _warn(by: str, why: str) -> None:
    warnings.warn(
        f"Segments by {by}: this tokenizer {why}, so a whole text is one segment, and places inside segments count all "
        "its tokens. Take another rule (by=…) or tokenizer, or ends=16 for segments of 16 tokens.",
        stacklevel=4,
    )
