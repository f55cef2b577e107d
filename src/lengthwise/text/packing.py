"""Documents packed into blocks of T tokens: one document after the other, each followed by the end-of-text token.

tokens of document 1 · end · tokens of document 2 · end · …   ->   (N, T); a partial block at the end is dropped

Shapes: N blocks, T tokens of a block.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..errors import Error
from ..seeds import generator
from . import documents

DOCUMENTS_AT_ONCE = 256
"""How many documents are tokenized in one call."""


def pack_train_and_test(
    train: Sequence[str], test: Sequence[str], tokenizer: Any, block: int, test_blocks: int | None = None
) -> tuple[Tensor, Tensor, dict[str, str], dict[str, int]]:
    """Both lists of documents in blocks (N,T) of `block` tokens; at most `test_blocks` are kept to test on.

    Documents that are in both lists are only tested on. Returns of "train" and "test" the digests and counts, too.
    """
    train = documents.without(train, test)
    if not train:
        raise Error("Every document to train on is also one to test on. Give others to one of text and test.")
    return (
        pack(train, tokenizer, block, "train"),
        pack(test, tokenizer, block, "test")[:test_blocks],
        {"train": documents.digest(train), "test": documents.digest(test)},
        {"train": len(train), "test": len(test)},
    )


def pack(texts: Sequence[str], tokenizer: Any, block: int, purpose: str = "text") -> Tensor:
    """(N, block) tokens as int32. `purpose` ("train", "test") tells an error message which text was too short."""
    if tokenizer.eos_token_id is None:
        raise Error("The tokenizer must have an end-of-text token to put between documents. Set its eos_token.")
    stream = array("i")
    for i in range(0, len(texts), DOCUMENTS_AT_ONCE):
        some = list(texts[i : i + DOCUMENTS_AT_ONCE])
        for tokens in tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]:
            stream.extend(tokens)
            stream.append(tokenizer.eos_token_id)
    count = len(stream) // block
    if count == 0:
        raise Error(
            f"The text to {purpose} on must fill a block of {block} tokens, got {len(stream)} in {len(texts)} "
            "documents. Give more text, or lower --set block=…."
        )
    return torch.frombuffer(stream, dtype=torch.int32)[: count * block].view(count, block).clone()


def batch(blocks: Tensor, step: int, size: int, seed: int) -> Tensor:
    """(size, T) the blocks to train on at a step: a function of (seed, step) alone.

    An epoch reads every block once, in an order drawn for the epoch. A batch may span two epochs.
    """
    return blocks[drawn(len(blocks), step, size, seed)].long()


def drawn(count: int, step: int, size: int, seed: int) -> list[int]:
    """Returns which of `count` rows are read at a step: every one once an epoch, in an order drawn for the epoch."""
    places = [divmod(i, count) for i in range(step * size, (step + 1) * size)]
    return [_order(count, epoch, seed)[i] for epoch, i in places]


def parts(rows: Tensor, tokens: int) -> Sequence[Tensor]:
    """The rows in parts of about `tokens` tokens, each of at least one row."""
    return rows.split(max(1, tokens // rows.shape[1]))


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> list[int]:
    return torch.randperm(count, generator=generator("blocks", seed, epoch)).tolist()
