"""Corpora: documents that are read one after another, from files, the Python standard library or Hugging Face datasets.

    open(["stdlib"])                    the Python standard library's own source, which every machine has
    open(["notes/", "book.txt"])        files and folders
    open(["hf:pg19:validation"])        a dataset by its name

A corpus is never held in memory. A document of more than `text_files.LONGEST` characters is cut after a line, and its
parts count as documents; where some are held out, each is divided as a single document is.
"""

from __future__ import annotations

import hashlib
import itertools
import sysconfig
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import Error
from . import documents, hub, text_files

NOT_SOURCE = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"})
"""Folders of the standard library that are left out: what was installed beside it, and its tests."""

Source = Callable[[list[str]], Iterator[str]]
"""Gives the documents anew; it adds to the list a file that it leaves out because there is no text in it."""


@dataclass(frozen=True)
class Survey:
    """The contents of a corpus, counted by reading it once."""

    documents: int
    characters: int
    digest: str
    """Of all documents in their order, as they are read: white space around a document counts."""
    last_held_out: int
    """Documents whose digest begins with at most this number are tested on; -1: none."""


class Corpus:
    def __init__(self, name: str, sources: Sequence[Source], held_out: float = 0.05):
        if not 0 <= held_out < 1:
            raise Error(f"held_out is a share of the documents from 0 to below 1, got {held_out}. 0.05 is usual.")
        self.name, self.sources, self.held_out = name, list(sources), held_out
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, held_out={self.held_out})"

    def documents(self) -> Iterator[str]:
        """All documents in their order. Those of white space alone are left out.

        A single one is divided if some are to be held out.
        """
        read = self._as_read()
        beginning = list(itertools.islice(read, 2))
        if len(beginning) == 1 and self.held_out:
            beginning = documents.divided(beginning[0])
            if len(beginning) > 1:
                self._warn(f"one document, divided at the ends of paragraphs and lines into {len(beginning)}.")
        yield from beginning
        yield from read

    def _warn(self, text: str) -> None:
        """Once for all the times that the corpus is read."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"{self.name}: {text}", stacklevel=3)

    def _as_read(self) -> Iterator[str]:
        left_out: list[str] = []
        empty = True
        for source in self.sources:
            for text in source(left_out):
                for piece in text_files.pieces(text):
                    if piece.strip():
                        empty = False
                        yield from self._short_enough(piece)
        without = f"{len(left_out)} files are no UTF-8 text and were left out, {left_out[0]} first." if left_out else ""
        if empty:
            raise Error(f"{self.name}: there is no text in it. {without or 'Give files that hold some.'}")
        if without:
            self._warn(without)

    def _short_enough(self, text: str) -> list[str]:
        if not (self.held_out and isinstance(text, text_files.DocumentPart)):
            return [text]
        self._warn("a long document was divided at the ends of paragraphs and lines, so that parts can be held out.")
        return documents.divided(text, text_files.LONGEST // documents.PARTS)

    def sides(self) -> Iterator[tuple[str, str]]:
        """All documents, each after its side, "train" or "test". The sides are those of `documents.split`."""
        last = self.survey.last_held_out
        for text in self.documents():
            yield ("test" if number_of(text) <= last else "train"), text

    def train(self) -> Iterator[str]:
        """The documents that are trained on."""
        return (text for side, text in self.sides() if side == "train")

    @cached_property
    def survey(self) -> Survey:
        numbers, characters, whole = array("Q"), 0, hashlib.sha256()
        for text in self.documents():
            whole.update(documents.digest_as_read(text))
            numbers.append(number_of(text))
            characters += len(text)
        last = documents.last_held_out(array("Q", np.unique(numbers).tobytes()), self.held_out) if self.held_out else -1
        return Survey(len(numbers), characters, whole.hexdigest(), last)


def open(names: str | Path | Sequence[str | Path], *, held_out: float = 0.05) -> Corpus:
    """The corpus of all these: "stdlib", paths of files and folders, "hf:NAME".

    About `held_out` of its documents are kept for the test, those with the lowest digests; 0: none. All copies of a
    document are on one side. Documents that are added to a corpus can move others across.

    >>> next(open(["stdlib"]).documents())[:12]
    '\"\"\"Record of'
    """
    if isinstance(names, (str, Path)):
        names = [names]
    if not names:
        raise Error('A corpus must be named, got none. "stdlib" is the source of the Python standard library.')
    return Corpus(", ".join(map(str, names)), [_source(str(name)) for name in names], held_out)


def _source(name: str) -> Source:
    if name == "stdlib":
        return _standard_library
    if name.startswith("hf:"):
        hub.parse(name[3:])
        return lambda left_out: hub.read(name[3:])
    path = Path(name).expanduser()
    if not path.exists():
        raise Error(f'{name}: no such file or folder. A corpus is one, or "stdlib", or "hf:NAME" for a dataset.')
    return lambda left_out: text_files.read(path, left_out)


def _standard_library(left_out: list[str]) -> Iterator[str]:
    """Its Python files but for tests. `_sysconfigdata` speaks of this machine alone."""
    root = Path(sysconfig.get_path("stdlib"))
    for file in text_files.walk(root, NOT_SOURCE):
        if file.suffix == ".py" and not file.name.startswith("_sysconfigdata"):
            yield from text_files.read_one(file, left_out)


def number_of(text: str) -> int:
    """The number by which a document has its side; white space around it does not count."""
    return int.from_bytes(documents.digest_of(text)[:8], "big")
