"""Documents of files and of whole folders, read in pieces: files of documents, source code, any UTF-8 text.

.txt .jsonl .json .parquet    documents, as `documents` says
any other file                one document, if it is UTF-8
a folder                      all its files and those of its folders, sorted, but for what is hidden, caches and runs
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Container, Iterator
from pathlib import Path

from ..errors import Error
from ..files import check_regular, open_file, open_text, read_text
from . import documents
from .documents import END

PIECE = 1 << 20
"""Characters that are read at once."""
LONGEST = 1 << 24
"""Characters of the longest document."""
CACHE, CACHE_SIGNATURE = "CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55"
"""The file by which many programs say that a folder holds what they can make again."""
RUN = re.compile(r".+-s\d+-[0-9a-f]{16}")
"""The folder of a run, as `Experiment.directory` names it, so that a corpus stays as it is while models train in it."""
PAGE = "index.html"
"""The page of the runs that stand beside it."""


def read(path: Path, left_out: list[str]) -> Iterator[str]:
    """The documents of a file or folder. Files of a folder that are no text are added to `left_out`."""
    if not path.is_dir():
        missing: list[str] = []
        yield from read_one(path, missing)
        if missing:
            raise Error(f"{path}: a corpus must be UTF-8 text, and this file is not. Convert it or leave it out.")
        return
    for file in walk(path):
        yield from read_one(file, left_out, named=False)


def walk(path: Path, without: Container[str] = ("__pycache__",)) -> Iterator[Path]:
    """The files of a folder and of those in it, sorted, but for what is hidden, caches, runs with their page, folders
    of these names, and links to others of the files."""
    yield from documents.without_links(_walk(path, without))


def _walk(path: Path, without: Container[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(path):
        if CACHE in files:
            folders.clear()
            continue
        runs = set(filter(RUN.fullmatch, folders))
        visible = (name for name in folders if not name.startswith(".") and name not in without)
        folders[:] = sorted(name for name in visible if name not in runs)
        for name in sorted(files):
            if not name.startswith(".") and not (runs and name == PAGE) and (file := Path(folder, name)).is_file():
                yield file


def make_cache(folder: Path) -> None:
    """A folder that is no part of the corpus in which it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CACHE).write_text(f"{CACHE_SIGNATURE}\n")


def read_one(file: Path, left_out: list[str], named: bool = True) -> Iterator[str]:
    """The documents of a file. One that is not `named`, but was found in a folder, may be anything."""
    if not named and not file.is_file():
        left_out.append(str(file))  # such as a pipe
        return
    check_regular(file)
    with documents.reading(file):
        if file.suffix == ".parquet":
            yield from documents.READERS[".parquet"](file)
        elif not _is_text(file, whole=not named):
            left_out.append(str(file))
        elif file.suffix == ".jsonl" and (named or _begins_with_a_document(file)):
            yield from documents.READERS[".jsonl"](file)
        elif file.suffix == ".json":
            yield from _list_or_whole(file)
        elif file.suffix == ".txt":
            yield from _parted(file)
        else:
            yield read_text(file)


def _is_text(file: Path, whole: bool) -> bool:
    """Returns whether the `whole` file, or what it begins with, is UTF-8 without zeros."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_file(file) as opened:
        piece = opened.read(PIECE)
        while True:
            following = opened.read(PIECE if whole else 1)
            try:
                decoder.decode(piece, final=not following)
            except UnicodeDecodeError:
                return False
            if b"\0" in piece:
                return False
            if not following or not whole:
                return True
            piece = following


def _begins_with_a_document(file: Path) -> bool:
    """Returns whether the lines of a .jsonl are documents, and not settings or other data of the code around it."""
    try:
        next(iter(documents.READERS[".jsonl"](file)), None)
    except Error:
        return False
    return True


class DocumentPart(str):
    """A part of a document that is too long to be read at once."""


def _parted(file: Path) -> Iterator[str]:
    rest, kind = "", str
    with open_text(file) as opened:
        while piece := opened.read(PIECE):
            rest, *whole = (rest + piece).split(END)
            if whole:
                yield kind(rest)
                *others, rest = whole
                yield from others
                kind = str
            *cut, rest = pieces(rest)
            yield from cut
            kind = DocumentPart if cut else kind
    yield kind(rest)


def pieces(text: str) -> Iterator[str]:
    """The text; where it is longer than `LONGEST`, in parts that end with a line."""
    if len(text) <= LONGEST:
        yield text
        return
    start = 0
    while len(text) - start > LONGEST:
        end = text.rfind("\n", start, start + LONGEST) + 1 or start + LONGEST
        yield DocumentPart(text[start:end])
        start = end
    yield DocumentPart(text[start:])


def _list_or_whole(file: Path) -> Iterator[str]:
    """A list of documents, or else a text like any other, as a file of settings among source code is."""
    text = read_text(file)
    try:
        items = json.loads(text)
        if isinstance(items, list):
            return iter([documents.document(item, str(file)) for item in items])
    except (ValueError, RecursionError, Error):
        pass
    return iter([text])
