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
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ..errors import Error, RecordError
from ..files import canonical, digest_of, naming, read_json, write_atomically
from . import documents, text_files, tokenizers
from .corpora import Corpus, number_of
from .tokenizers import WORDS, pre_tokenizer

# Documents to tokens, in bounded memory: many short documents in one call, a long one in pieces.
#
# A long document is cut between a line and the next where neither ends or begins with white space. A tokenizer whose
# tokens would differ, because it puts something before a text or lets tokens reach across lines, gets the whole
# document.
#
# Of tokenizers that `tokenizers.train` made it is known how they cut a text into words, so a word's tokens are looked
# up after the first time. Python and the tokenizers library differ about characters beyond ASCII, so whatever stands
# between two white spaces and holds such a character counts as one word here, and the library cuts it.

Item = TypeVar("Item", bound=tuple[Any, ...])
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


class DocumentEncoder:
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
        for some in _grouped((piece for text in texts for piece in self._pieces(text)), AT_ONCE, text=0):
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
        pieces = (ASCII_WORDS if text.isascii() else WORDS_AND_RUNS).findall(text)
        if len(self.known) > KNOWN:
            self.known.clear()
        new = list(set(pieces).difference(self.known))
        self.known.update(zip(new, self._without_looking_up(new), strict=True))
        return list(chain.from_iterable(map(self.known.__getitem__, pieces)))

    def _pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """The pieces of a document, and whether each is its last."""
        start = 0
        while self.cuts and (cut := CUT.search(text, start + LONG)):
            yield text[start : cut.start()], False
            start = cut.start()
        yield text[start:] if start else text, True


def _threads() -> int:
    """Returns how many threads the tokenizers library would use."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "true").lower() in ("false", "0", "off", "no", "f", "n"):
        return 1
    return int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count() or 1))


def _cuts_as_ours(backend: Any) -> bool:
    made = json.loads(backend.to_str())
    ours = json.loads(pre_tokenizer().__getstate__())
    return made["pre_tokenizer"] == ours and made["normalizer"] is None and len(made["added_tokens"]) == 1


def _grouped(items: Iterable[Item], characters: int, text: int) -> Iterator[list[Item]]:
    """The items, some at a time, whose texts (the entry `text` of each) have so many characters together."""
    some, size = [], 0
    for item in items:
        some.append(item)
        size += len(item[text])
        if size >= characters:
            yield some
            some, size = [], 0
    if some:
        yield some


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
        tokens, chunks, left = self.tokens.numpy(), [], len(self) if most is None else most
        for i in documents:
            begin, end = self.documents[i : i + 2].tolist()
            chunks.append(tokens[begin : min(end, begin + left)])
            left -= len(chunks[-1])
            if not left:
                break
        return torch.from_numpy(np.concatenate(chunks))


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
    encoder = DocumentEncoder(tokenizer)
    characters = 0
    for part in _grouped(corpus.sides(), PART, text=1):
        characters += sum(len(text) for _, text in part)
        if characters > done["characters"]:
            done["characters"] = characters
            _append(beside, part, encoder.documents([text for _, text in part]), kind, done)
        if progress:
            progress(characters, corpus.survey.characters)
    whole = {side: {**done[side], "digest": digest_of(beside / f"{side}.digests")} for side in SIDES}
    write_atomically(beside / "whole.json", canonical(whole))
    (beside / "done.json").unlink()
    beside.rename(folder)


def _continue(folder: Path, kind: Any) -> dict[str, Any]:
    """Returns the state of the work done already, and cuts off what stands in the files beyond it."""
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
