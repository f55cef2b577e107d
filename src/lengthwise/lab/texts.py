"""The text of an experiment, as tokens: to train on, to validate on and to test on, no document on two sides.

A checkpoint brings its tokenizer, and its text is tested on without validation. For a model from scratch a corpus is
tokenized once and kept; of its held-out documents the first half is validated on, and the second half tested on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor

from ..errors import Error
from ..models.pretrained import Checkpoint
from ..text import PackedText, Tokens, corpora, documents, pack_train_and_test, tokenizers, tokens_of
from ..text.tokens import TokenFile
from .experiment import TextSpec


@dataclass(frozen=True)
class Text:
    train: Tensor
    """(N, T) blocks."""
    validation: Tensor | None
    """(n, T) blocks; None: nothing is validated."""
    test: Tensor
    """(M,) one document after the other."""
    tokenizer: Any
    digests: dict[str, str]
    counts: dict[str, int]
    """The number of documents of "train" and of "test"."""


def read_for(checkpoint: Checkpoint, spec: TextSpec) -> Text:
    """In the tokens of a checkpoint."""
    packed = _packed(checkpoint, spec.files, spec.test_files, spec.held_out, spec.block, spec.test_blocks)
    tokenizer = tokenizers.load(checkpoint.folder, checkpoint.name)
    return Text(packed.train, None, packed.test.flatten(), tokenizer, packed.digests, packed.counts)


@lru_cache(maxsize=1)
def _packed(
    checkpoint: Checkpoint,
    files: tuple[str, ...],
    test_files: tuple[str, ...],
    held_out: float,
    block: int,
    test_blocks: int | None,
) -> PackedText:
    """The blocks to train on and to test on; the experiments of one study share them."""
    tokenizer = tokenizers.load(checkpoint.folder, checkpoint.name)
    checkpoint.check(tokenizer, block)
    train, test = documents.read(files), documents.read(test_files) if test_files else []
    if not test:
        train, test = documents.split(train, held_out)
    return pack_train_and_test(train, test, tokenizer, block, test_blocks)


def read(spec: TextSpec, validation_blocks: int) -> Text:
    """In the tokens of a tokenizer's folder, at most `validation_blocks` of them to validate on."""
    if spec.tokenizer_folder is None or spec.store is None:
        raise Error(f"{spec.name}: the record says neither tokenizer nor where tokens are kept. Plan it again.")
    tokens, tokenizer = _tokens(spec.files, spec.held_out, spec.tokenizer_folder, spec.store)
    if tokens.tokenizer != spec.tokenizer:
        raise Error(f"{spec.tokenizer_folder}: the tokenizer changed since the experiment was planned. Plan it again.")
    middle = half(tokens.test)
    return Text(
        tokens.train.blocks(spec.block),
        _blocks(tokens.test.tokens[:middle], spec.block, "validate")[:validation_blocks],
        tokens.test.tokens[middle:][: spec.test_blocks and spec.test_blocks * spec.block],
        tokenizer,
        digests_of(tokens),
        {side: len(getattr(tokens, side).documents) - 1 for side in ("train", "test")},
    )


def digests_of(tokens: Tokens) -> dict[str, str]:
    return {"train": tokens.train.digest, "test": tokens.test.digest}


@lru_cache(maxsize=1)
def _tokens(files: tuple[str, ...], held_out: float, tokenizer_folder: str, store: str) -> tuple[Tokens, Any]:
    """The tokens, made if they are not kept there, and the tokenizer; the experiments of one study share them."""
    tokenizer = tokenizers.load(tokenizer_folder)
    return tokens_of(corpora.open(files, held_out=held_out), tokenizer, root=store), tokenizer


def half(held_out: TokenFile) -> int:
    """Where the second half of the documents begins: the place between two of them that is nearest to the middle."""
    between = held_out.documents[1:-1]
    if not len(between):
        raise Error(
            f"{held_out.name}: the held-out text must be two documents or more, one to validate on and one to test on, "
            f"got {len(held_out.documents) - 1}. Give more documents, or raise text.held_out."
        )
    return int(between[(between - len(held_out) // 2).abs().argmin()])


def _blocks(tokens: Tensor, block: int, purpose: str) -> Tensor:
    """(N, T) of a text (M,), without its last tokens that fill no block."""
    count = len(tokens) // block
    if not count:
        raise Error(
            f"The text to {purpose} on must fill a window of {block:,} tokens, got {len(tokens):,}. Give more text, "
            "raise text.held_out, or lower --train-length."
        )
    return tokens[: count * block].view(count, block)
