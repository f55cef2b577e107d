"""Text as data, before anything is trained on it: corpora, tokenizers, tokens, and where segments end.

>>> from lengthwise import text
>>> train, test = text.documents.split(["one", "two", "three"], share=0.3)
>>> len(train), len(test)
(2, 1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from . import corpora, documents, packing, prompts, scrolls, segments, tokenizers, tokens
    from .packing import pack_train_and_test
    from .segments import level_ends, segment_ends
    from .tokens import TokenFile, Tokens, tokens_of

__all__ = [
    "TokenFile",
    "Tokens",
    "corpora",
    "documents",
    "level_ends",
    "pack_train_and_test",
    "packing",
    "prompts",
    "scrolls",
    "segment_ends",
    "segments",
    "tokenizers",
    "tokens",
    "tokens_of",
]

__getattr__, __dir__ = lazy_names(__name__)
