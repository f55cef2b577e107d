"""Text as a model reads it: documents one after the other, cut into blocks of T tokens.

tokens of document 1 · end · tokens of document 2 · end · …   ->   (N, T), what is left over dropped
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from ...seeds import generator
from . import documents

AT_ONCE = 256
"""Documents tokenised at a time."""


@dataclass(frozen=True)
class Texts:
    """What is trained on and what is tested on, in blocks (N, T), and whole documents of each alone."""

    train: Tensor
    test: Tensor
    digests: dict[str, str]
    counts: dict[str, int]
    """How many documents there are of each."""


def prepared(
    train: Sequence[str], test: Sequence[str], tokenizer: Any, block: int, test_blocks: int | None = None
) -> Texts:
    """Documents as blocks; those of `train` that are also in `test` are left out. `test_blocks`: at most so many."""
    train = documents.without(train, test)
    if not train:
        raise Error("Every document to train on is also one to test on. Give others to one of text and test.")
    sides = {"train": train, "test": test}
    blocks = {name: pack(side, tokenizer, block, name) for name, side in sides.items()}
    return Texts(
        blocks["train"],
        blocks["test"][:test_blocks],
        {name: documents.digest(side) for name, side in sides.items()},
        {name: len(side) for name, side in sides.items()},
    )


def pack(texts: Sequence[str], tokenizer: Any, block: int, name: str = "text") -> Tensor:
    """(N, block) of int32; `name`: what the text is for, in an error."""
    if tokenizer.eos_token_id is None:
        raise Error("The tokenizer must have an end-of-text token to put between documents. Set its eos_token.")
    stream = array("i")
    for i in range(0, len(texts), AT_ONCE):
        ids = tokenizer(list(texts[i : i + AT_ONCE]), add_special_tokens=False, verbose=False)["input_ids"]
        for one in ids:
            stream.extend(one)
            stream.append(tokenizer.eos_token_id)
    count = len(stream) // block
    if count == 0:
        raise Error(
            f"The text to {name} on must fill a block of {block} tokens, got {len(stream)} in {len(texts)} documents. "
            "Give more text, or lower --set block=…."
        )
    return torch.frombuffer(stream, dtype=torch.int32)[: count * block].view(count, block).clone()


def batch(blocks: Tensor, step: int, size: int, seed: int) -> Tensor:
    """The blocks of a step (size, T): every block once an epoch, in an order of the epoch's own."""
    places = [divmod(i, len(blocks)) for i in range(step * size, (step + 1) * size)]
    return blocks[[_order(len(blocks), epoch, seed)[i] for epoch, i in places]].long()


def pieces(rows: Tensor, tokens: int) -> Sequence[Tensor]:
    """The rows in parts of about so many tokens, at least a row each."""
    return rows.split(max(1, tokens // rows.shape[1]))


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> list[int]:
    return torch.randperm(count, generator=generator("blocks", seed, epoch)).tolist()
