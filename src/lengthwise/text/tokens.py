"""The tokens of a corpus: made once, kept in files, and read from there as if they were in memory.

    ROOT/tokens/DIGEST/train.tokens     token · token · end · token · …      uint16, or uint32 for 65,537 tokens or more
                       train.ends       how many tokens there are up to the end of each document         int64
                       train.digests    of each document as it is read                                   32 bytes
                       train.numbers    of each document, the same for copies (`corpora.number_of`)      uint64
                       test.…           the same of the documents that are tested on
                       whole.json       how many there are; the folder is whole

What is not whole yet has `.unfinished` behind its name, and `done.json` says how much of each file counts. A call that
was killed goes on from there.

Shapes: N blocks, T tokens of a block, D documents.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ..errors import Error, RecordError
from ..files import canonical, naming, read_json, write_atomically
from . import documents, text_files, tokenizers
from .corpora import Corpus, number_of
from .encoder import Encoder

FORMAT = 2
"""What the files hold; tokens that were kept in another format are made again."""
SIDES = ("train", "test")
PART = 1 << 22
"""Characters after which the files are put on the disk, and from where a killed call goes on at most."""
Progress = Callable[[int, int], None]
"""Hears how many characters are done, and how many there are."""


@dataclass(frozen=True)
class TokenFile:
    """The tokens of one side, in the order of its documents, each followed by the end-of-text token."""

    name: str
    tokens: Tensor
    """All of them, in a row. They are read from the file when they are looked at."""
    documents: Tensor
    """(D + 1) where each document begins, and where the last one ends."""
    digest: str
    """Of the documents in their order, as they are read."""
    numbers: np.ndarray
    """(D) of each document, the same for all copies of it."""

    def __len__(self) -> int:
        return len(self.tokens)

    def blocks(self, length: int) -> Tensor:
        """(N,T) without a copy; a partial block at the end is dropped."""
        count = len(self.tokens) // length
        if count == 0:
            raise Error(
                f"{self.name}: the text must fill a block of {length} tokens, got {len(self.tokens)} in "
                f"{len(self.documents) - 1} documents. Give more text, or ask for shorter blocks."
            )
        return self.tokens[: count * length].view(count, length)

    def of(self, documents: Sequence[int], most: int | None = None) -> Tensor:
        """A copy of the tokens of these documents, one after another; at most so many tokens."""
        tokens, found, left = self.tokens.numpy(), [], len(self) if most is None else most
        for i in documents:
            begin, end = self.documents[i : i + 2].tolist()
            found.append(tokens[begin : min(end, begin + left)])
            left -= len(found[-1])
            if not left:
                break
        return torch.from_numpy(np.concatenate(found))


@dataclass(frozen=True)
class Tokens:
    train: TokenFile
    test: TokenFile
    tokenizer: str
    """The digest of the tokenizer."""
    folder: Path


def tokens_of(corpus: Corpus, tokenizer: Any, *, root: Path | str, progress: Progress | None = None) -> Tokens:
    """The corpus's tokens, made now if they are not in `root` yet."""
    if tokenizer.eos_token_id is None:
        raise Error("The tokenizer must have an end-of-text token to put between documents. Set its eos_token.")
    made_by = tokenizers.digest(tokenizer)
    known_by = canonical(
        {"corpus": corpus.survey.digest, "held_out": corpus.held_out, "tokenizer": made_by, "format": FORMAT}
    )
    folder = Path(root) / "tokens" / hashlib.sha256(known_by).hexdigest()[:16]
    kind = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    if not (folder / "whole.json").is_file():
        with naming(folder):
            text_files.make_cache(folder.parent)
            with FileLock(folder.with_suffix(".lock")):
                if not folder.exists():
                    _make(corpus, tokenizer, folder, kind, progress)
    whole = read_json(folder / "whole.json")
    train, test = (_file(folder, side, kind, whole[side], f"{corpus.name} ({side})") for side in SIDES)
    return Tokens(train, test, made_by, folder)


def _make(corpus: Corpus, tokenizer: Any, folder: Path, kind: Any, progress: Progress | None) -> None:
    beside = folder.with_name(f"{folder.name}.unfinished")
    beside.mkdir(exist_ok=True)
    done = _continue(beside, kind)
    encoder = Encoder(tokenizer)
    characters = 0
    for part in _parts(corpus):
        characters += sum(len(text) for _, text in part)
        if characters > done["characters"]:
            done["characters"] = characters
            _append(beside, part, encoder.documents([text for _, text in part]), kind, done)
        if progress:
            progress(characters, corpus.survey.characters)
    whole = {side: {**done[side], "digest": _digest(beside / f"{side}.digests")} for side in SIDES}
    write_atomically(beside / "whole.json", canonical(whole))
    (beside / "done.json").unlink()
    beside.rename(folder)


def _parts(corpus: Corpus) -> Iterator[list[tuple[str, str]]]:
    """All documents and their sides, some at a time."""
    part, size = [], 0
    for side, text in corpus.sides():
        part.append((side, text))
        size += len(text)
        if size >= PART:
            yield part
            part, size = [], 0
    if part:
        yield part


def _continue(folder: Path, kind: Any) -> dict[str, Any]:
    """What is done already; what stands in the files beyond it is cut off."""
    done: dict[str, Any] = {"characters": 0, **{side: {"tokens": 0, "documents": 0} for side in SIDES}}
    if (folder / "done.json").is_file():
        done = read_json(folder / "done.json")
    for side in SIDES:
        for name, size in _sizes(done[side], kind).items():
            with (folder / f"{side}.{name}").open("ab") as file:
                file.truncate(size)
    return done


def _sizes(counts: dict[str, int], kind: Any) -> dict[str, int]:
    """The bytes of the files of a side."""
    documents = counts["documents"]
    tokens = counts["tokens"] * np.dtype(kind).itemsize
    return {"tokens": tokens, "ends": 8 * documents, "digests": 32 * documents, "numbers": 8 * documents}


def _append(
    folder: Path, part: list[tuple[str, str]], tokenized: Iterator[np.ndarray], kind: Any, done: dict[str, Any]
) -> None:
    """Put a part behind what is there, and note it when it is on the disk."""
    pieces: dict[str, list[bytes]] = {f"{side}.{name}": [] for side in SIDES for name in _sizes(done[side], kind)}
    for (side, text), tokens in zip(part, tokenized, strict=True):
        if tokens.max() > np.iinfo(kind).max:
            raise Error(
                f"A token's id must be below {np.iinfo(kind).max + 1:,}, as the tokenizer's length says, got "
                f"{tokens.max():,}. Give the tokenizer ids from 0 to below its length."
            )
        done[side]["tokens"] += len(tokens)
        done[side]["documents"] += 1
        pieces[f"{side}.tokens"].append(tokens.astype(kind).tobytes())
        pieces[f"{side}.ends"].append(np.int64(done[side]["tokens"]).tobytes())
        pieces[f"{side}.digests"].append(documents.digest_as_read(text))
        pieces[f"{side}.numbers"].append(np.uint64(number_of(text)).tobytes())
    for name, content in pieces.items():
        with (folder / name).open("ab") as file:
            file.write(b"".join(content))
            file.flush()
            os.fsync(file.fileno())
    write_atomically(folder / "done.json", canonical(done))


def _file(folder: Path, side: str, kind: Any, counts: dict[str, Any], name: str) -> TokenFile:
    for each, size in _sizes(counts, kind).items():
        path = folder / f"{side}.{each}"
        if not path.is_file() or path.stat().st_size != size:
            raise RecordError(f"{path}: must be a file of {size} bytes. Delete {folder} to make the tokens again.")
    ends = np.fromfile(folder / f"{side}.ends", np.int64)
    offsets = torch.from_numpy(np.concatenate([np.zeros(1, np.int64), ends]))
    numbers = np.fromfile(folder / f"{side}.numbers", np.uint64)
    if counts["tokens"] == 0:
        return TokenFile(name, torch.zeros(0, dtype=torch.int32), offsets, counts["digest"], numbers)
    # A private mapping: torch asks for memory that could be written, and nothing written reaches the file.
    tokens = torch.from_numpy(np.memmap(folder / f"{side}.tokens", kind, mode="c"))
    return TokenFile(name, tokens, offsets, counts["digest"], numbers)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
