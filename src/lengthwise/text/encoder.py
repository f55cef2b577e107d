"""Documents to tokens, in bounded memory: many short documents in one call, a long one in pieces.

A long document is cut between a line and the next where neither ends or begins with white space. A tokenizer whose
tokens would differ, because it puts something before a text or lets tokens reach across lines, gets the whole document.

Of tokenizers that `tokenizers.train` made it is known how they cut a text into words, so a word's tokens are looked up
after the first time. Python and the tokenizers library differ about characters beyond ASCII, so whatever stands between
two white spaces and holds such a character counts as one word here, and the library cuts it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from .tokenizers import WORDS, pre_tokenizer

AT_ONCE = 1 << 18
"""About how many characters are tokenized in one call."""
LONG = 1 << 14
"""Characters of a document that are not cut."""
KNOWN = 1 << 18
"""How many words are kept at most."""
THREADS = 4
"""From so many on, the tokenizers library is left to work on many documents at once."""
ASCII_WORDS = re.compile(
    WORDS.replace(r"\p{L}\p{N}", "A-Za-z0-9").replace(r"\p{L}", "[A-Za-z]").replace(r"\p{N}", "[0-9]"), re.ASCII
)
WORDS_AND_RUNS = re.compile(rf"[^\S\r\n]?[^\s\x80-\U0010ffff]*[\x80-\U0010ffff]\S*|{ASCII_WORDS.pattern}", re.ASCII)
OTHER_SPACE = re.compile(r"[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
CUT = re.compile(r"(?<=\S\n)(?=\S)")


class Encoder:
    """An end-of-text token that a document spells out is text like any other."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.backend: Any = None
        if backend := getattr(tokenizer, "backend_tokenizer", None):
            self.backend = type(backend).from_str(backend.to_str())
            self.backend.no_padding()
            self.backend.no_truncation()
            self.backend.encode_special_tokens = True
        self.known: dict[str, list[int]] = {}
        self.looks_up = _threads() < THREADS and self.backend is not None and _cuts_as_ours(self.backend)
        whole, *parts = self._encode(["one.\ntwo", "one.\n", "two"])
        self.cuts = whole == [token for part in parts for token in part]

    def documents(self, texts: list[str]) -> Iterator[np.ndarray]:
        """The tokens of each document and its end."""
        end = np.array([self.tokenizer.eos_token_id], np.uint32)
        tokens: list[np.ndarray] = []
        for some in _calls([piece for text in texts for piece in self._pieces(text)]):
            for ids, (_, last) in zip(self._encode([text for text, _ in some]), some, strict=True):
                tokens.append(np.array(ids, np.uint32))
                if last:
                    yield np.concatenate([*tokens, end])
                    tokens = []

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if self.backend is None:
            return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        if self.looks_up:
            return [self._look_up(text) for text in texts]
        return self._without_looking_up(texts)

    def _without_looking_up(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]

    def _look_up(self, text: str) -> list[int]:
        if not text.isascii() and OTHER_SPACE.search(text):
            return self._without_looking_up([text])[0]
        words = (ASCII_WORDS if text.isascii() else WORDS_AND_RUNS).findall(text)
        if len(self.known) > KNOWN:
            self.known.clear()
        new = list(set(words).difference(self.known))
        self.known.update(zip(new, self._without_looking_up(new), strict=True))
        return list(chain.from_iterable(map(self.known.__getitem__, words)))

    def _pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """The pieces of a document, and whether each is its last."""
        start = 0
        while self.cuts and (cut := CUT.search(text, start + LONG)):
            yield text[start : cut.start()], False
            start = cut.start()
        yield text[start:] if start else text, True


def _threads() -> int:
    """How many threads the tokenizers library would use."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "true").lower() in ("false", "0", "off", "no", "f", "n"):
        return 1
    return int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count() or 1))


def _cuts_as_ours(backend: Any) -> bool:
    made = json.loads(backend.to_str())
    ours = json.loads(pre_tokenizer().__getstate__())
    return made["pre_tokenizer"] == ours and made["normalizer"] is None and len(made["added_tokens"]) == 1


def _calls(pieces: list[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
    some, size = [], 0
    for piece in pieces:
        some.append(piece)
        size += len(piece[0])
        if size >= AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some
