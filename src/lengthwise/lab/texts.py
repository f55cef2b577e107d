"""The text of an experiment, as tokens: to train on, to validate on and to test on, no document on two sides.

A corpus is tokenized once and kept. A checkpoint brings its tokenizer, and its text is tested on without validation;
for a model from scratch one half of the held-out documents is validated on, the other tested on.
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
from ..text import Tokens, corpora, documents, segment_ends, tokenizers, tokens_of
from ..text.corpora import Corpus
from ..text.tokens import TokenFile
from .experiment import TextSpec

STORE = "runs/text"
"""Where tokens are kept unless a record says otherwise."""


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


def read(spec: TextSpec, validation_blocks: int = 1, checkpoint: Checkpoint | None = None) -> Text:
    """In the tokens of a checkpoint, or of a tokenizer's folder: then with at most so many blocks to validate on."""
    folder = spec.tokenizer_folder if checkpoint is None else str(checkpoint.folder)
    if folder is None:
        raise Error(f"{spec.name}: the record does not say where its tokenizer lies. Plan it again.")
    if checkpoint is not None:
        checkpoint.check(tokenizers.load(folder, checkpoint.name), spec.block)
    known = (*spec.digests.items(), ("tokenizer", spec.tokenizer))
    # What is being planned has no digests yet, and is read anew.
    tokens_in = _tokens if spec.digests else _tokens.__wrapped__
    corpus, tokens, tokenizer = tokens_in(
        spec.files, spec.test_files, spec.held_out, folder, spec.store or STORE, known
    )
    counts = {side: len(getattr(tokens, side).documents) - 1 for side in ("train", "test")}
    if checkpoint is not None:
        if not counts["train"]:
            raise Error("Every document to train on is also one to test on. Give others to one of text and test.")
        tested = _blocks(tokens.test.tokens, spec.block, "test")[: spec.test_blocks].flatten()
        return Text(tokens.train.blocks(spec.block), None, tested, tokenizer, _digests(corpus), counts)
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
        counts,
    )


def _digests(corpus: Corpus) -> dict[str, str]:
    """As records of checkpoints have them: the white space around a document does not count."""
    whole = {side: hashlib.sha256() for side in ("train", "test")}
    for side, text in corpus.sides():
        whole[side].update(documents.digest_of(text))
    return {side: each.hexdigest() for side, each in whole.items()}


def digests_of(tokens: Tokens) -> dict[str, str]:
    return {"train": tokens.train.digest, "test": tokens.test.digest}


@lru_cache(maxsize=1)
def _tokens(
    files: tuple[str, ...],
    test_files: tuple[str, ...],
    held_out: float,
    tokenizer_folder: str,
    store: str,
    known: tuple[Any, ...],
) -> tuple[Corpus, Tokens, Any]:
    """The corpus, its tokens, made if they are not kept there, and the tokenizer: experiments of one study share them.

    `known`: the digests of what is meant, so that files which have changed are read again.
    """
    tokenizer, corpus = tokenizers.load(tokenizer_folder), corpora.open(files, held_out=held_out, tested=test_files)
    return corpus, tokens_of(corpus, tokenizer, root=store), tokenizer


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
