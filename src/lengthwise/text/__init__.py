"""Text as data, before anything is trained on it: documents from files, tokenizers from folders, blocks of tokens.

>>> from lengthwise import text
>>> train, test = text.documents.split(["one", "two", "three"], share=0.3)
>>> len(train), len(test)
(2, 1)
"""

from . import documents, packing, tokenizers
from .packing import PackedText, pack_train_and_test

__all__ = ["PackedText", "documents", "pack_train_and_test", "packing", "tokenizers"]
