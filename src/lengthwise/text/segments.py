"""Where segments of a text end, told from its tokens alone: the `ends` of BiPE and of positions in levels.

A token ends a segment if its text does: if, without white space and closing quotes and brackets behind it, it ends in
one of the rule's marks. So ".", "...", '."' and ".\\n" end a sentence, and so does "\\n    ", which holds the end of a
line and the next line's indentation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import UnknownName

BEHIND = r"[ \t\"'”’»)\]}]*"
"""What may stand behind a mark and yet belong to its segment."""
RULES = {
    "sentence": re.compile(rf"(?:[.!?…。！？]|\n){BEHIND}\Z"),
    "line": re.compile(r"\n[ \t]*\Z"),
    "paragraph": re.compile(r"\n[ \t]*\r?\n\s*\Z"),
}
"""What the text of a token that ends a segment looks like."""


def segment_ends(tokenizer: Any, by: str | Sequence[str] = "sentence") -> list[int]:
    """The ids of the tokens that end a segment, for `presets.bipe(ends=…)`. The end of a text is one of them."""
    if by == "two-ids":
        return [tokenizer.encode(mark, add_special_tokens=False)[-1] for mark in (".", "\n")]
    if isinstance(by, str) and by not in RULES:
        raise UnknownName("rule of segments", by, [*RULES, "two-ids"])
    rule = RULES[by] if isinstance(by, str) else re.compile(rf"(?:{'|'.join(map(re.escape, by))}){BEHIND}\Z")
    ends = [id for id, text in token_texts(tokenizer).items() if rule.search(text)]
    return sorted({*ends, *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id])})


def token_texts(tokenizer: Any) -> dict[int, str]:
    """The text of every token but the special ones; a byte that is no character by itself stands as U+FFFD."""
    special = set(tokenizer.all_special_ids)
    return {
        id: tokenizer.convert_tokens_to_string([token])
        for token, id in tokenizer.get_vocab().items()
        if id not in special
    }
