"""Documents to tokens, in bounded memory: many short documents in one call, a long one in pieces.

A long document is cut between a line and the next where neither ends or begins with white space. A tokenizer whose
tokens would differ, because it puts something before a text or lets tokens reach across lines, gets the whole document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

AT_ONCE = 1 << 18
"""About how many characters are tokenized in one call."""
CUT = re.compile(r"(?<=\S\n)(?=\S)")


class Encoder:
    """An end-of-text token that a document spells out is text like any other."""

    def __init__(self, tokenizer: Any):
        self.tokenizer, self.backend = tokenizer, None
        if backend := getattr(tokenizer, "backend_tokenizer", None):
            self.backend = type(backend).from_str(backend.to_str())
            self.backend.no_padding()
            self.backend.no_truncation()
            self.backend.encode_special_tokens = True
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
        return [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]

    def _pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """The pieces of a document, and whether each is its last."""
        start = 0
        while self.cuts and (cut := CUT.search(text, start + AT_ONCE)):
            yield text[start : cut.start()], False
            start = cut.start()
        yield text[start:] if start else text, True


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
