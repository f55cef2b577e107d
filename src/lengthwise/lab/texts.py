"""The text of an experiment, as tokens: to train on, to validate on and to test on, no document on two sides.

A checkpoint brings its tokenizer, and its text is tested on without validation. For a model from scratch a corpus is
tokenized once and kept; one half of its held-out documents is validated on, the other tested on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor

from .. import convert
from ..errors import Error
from ..models.pretrained import Checkpoint
from ..options import apart
from ..text import (
    Tokens,
    corpora,
    documents,
    pack_train_and_test,
    segment_ends,
    tokenizers,
    tokens_of,
)
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


_last_packed: dict[Any, Text] = {}
"""The text that was packed last, by all that decides its blocks."""


def _packed(checkpoint: Checkpoint, spec: TextSpec) -> Text:
    """The text in the tokens of a checkpoint; the experiments of one study share them while no file changes."""
    train, test = documents.read(spec.files), documents.read(spec.test_files) if spec.test_files else []
    if not test:
        train, test = documents.split(train, spec.held_out)
    read = tuple(hashlib.sha256(b"".join(map(documents.digest_as_read, side))).digest() for side in (train, test))
    key = (checkpoint, *read, spec.block, spec.test_blocks)
    if key not in _last_packed:
        tokenizer = tokenizers.load(checkpoint.folder, checkpoint.name)
        checkpoint.check(tokenizer, spec.block)
        _last_packed.clear()
        blocks, tested, digests, counts = pack_train_and_test(train, test, tokenizer, spec.block, spec.test_blocks)
        _last_packed[key] = Text(blocks, None, tested.flatten(), tokenizer, digests, counts)
    return _last_packed[key]


def read(spec: TextSpec, validation_blocks: int = 1, checkpoint: Checkpoint | None = None) -> Text:
    """In the tokens of a checkpoint, or of a tokenizer's folder: then with at most so many blocks to validate on."""
    if checkpoint is not None:
        return _packed(checkpoint, spec)
    if spec.tokenizer_folder is None or spec.store is None:
        raise Error(f"{spec.name}: the record says neither tokenizer nor where tokens are kept. Plan it again.")
    known = (*spec.digests.items(), ("tokenizer", spec.tokenizer))
    tokens, tokenizer = _tokens(spec.files, spec.held_out, spec.tokenizer_folder, spec.store, known)
    if tokens.tokenizer != spec.tokenizer:
        raise Error(f"{spec.tokenizer_folder}: the tokenizer changed since the experiment was planned. Plan it again.")
    validated, tested = halves(tokens.test)
    most = spec.test_blocks and spec.test_blocks * spec.block
    return Text(
        tokens.train.blocks(spec.block),
        _blocks(tokens.test.of(validated, validation_blocks * spec.block), spec.block, "validate"),
        tokens.test.of(tested, most),
        tokenizer,
        digests_of(tokens),
        {side: len(getattr(tokens, side).documents) - 1 for side in ("train", "test")},
    )


def digests_of(tokens: Tokens) -> dict[str, str]:
    return {"train": tokens.train.digest, "test": tokens.test.digest}


@lru_cache(maxsize=1)
def _tokens(
    files: tuple[str, ...], held_out: float, tokenizer_folder: str, store: str, known: tuple[Any, ...]
) -> tuple[Tokens, Any]:
    """The tokens, made if they are not kept there, and the tokenizer; the experiments of one study share them.

    `known`: the digests of what is meant, so that files which have changed are read again.
    """
    tokenizer = tokenizers.load(tokenizer_folder)
    return tokens_of(corpora.open(files, held_out=held_out), tokenizer, root=store), tokenizer


def ends_of(rule: Any, tokenizer: Any) -> Any:
    """Returns the tokens that end a segment by a rule such as "sentence"; anything else as it is."""
    named = isinstance(rule, str) and re.fullmatch(r"[a-z-]+", rule)
    return segment_ends(tokenizer, rule) if named else rule


def conversions_of(wanted: Sequence[str | convert.Conversion], tokenizer: Any) -> list[dict[str, Any]]:
    """Returns conversions as data: from "yarn factor=4" or JSON, with tokens where `ends` names a rule."""
    conversions = []
    for each in wanted:
        conversion = _written(each) if isinstance(each, str) else each
        if isinstance(conversion, Mapping) and "ends" in conversion:
            conversion = {**conversion, "ends": ends_of(conversion["ends"], tokenizer)}
        name, options = convert.check(conversion)
        # What was given as data is recorded as it was given, for its hash.
        conversions.append({"name": name, **options} if isinstance(each, str) else dict(conversion))
    return conversions


def _written(text: str) -> dict[str, Any]:
    """Returns the conversion that a text describes.

    >>> _written('{"name": "yarn", "factor": 4}'), _written("yarn factor=4")
    ({'name': 'yarn', 'factor': 4}, {'name': 'yarn', 'factor': '4'})
    """
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text)
    except ValueError as error:
        raise Error(f"A conversion is NAME OPTION=VALUE, or JSON with a name, got {text!r} ({error}).") from error
    name, options = apart(text, "factor=4")
    return {"name": name, **options}


def halves(held_out: TokenFile) -> tuple[list[int], list[int]]:
    """Returns the documents to validate on and those to test on: all copies of one in the same half, about as many
    tokens on both.
    """
    different, which = np.unique(held_out.numbers, return_inverse=True)
    if len(different) < 2:
        copies = ", for copies count once" if len(which) > 1 else ""
        raise Error(
            f"{held_out.name}: the held-out text must be two documents or more, one to validate on and one to test on, "
            f"got {len(different)}{copies}. Give more documents, or raise text.held_out."
        )
    tokens = np.bincount(which, held_out.documents.diff().numpy())
    last = np.abs(tokens.cumsum()[:-1] - len(held_out) / 2).argmin()
    return np.flatnonzero(which <= last).tolist(), np.flatnonzero(which > last).tolist()


def _blocks(tokens: Tensor, block: int, purpose: str) -> Tensor:
    """(N, T) of a text (M,), without its last tokens that fill no block."""
    count = len(tokens) // block
    if not count:
        raise Error(
            f"The text to {purpose} on must fill a window of {block:,} tokens, got {len(tokens):,}. Give more text, "
            "raise text.held_out, or lower --train-length."
        )
    return tokens[: count * block].view(count, block)
