"""Documents from files, and a split which no text crosses.

.txt      one document, or several with lines of <|endoftext|> between them
.jsonl    a document a line: {"text": "…"}, or a string
.json     a list of such documents
.parquet  a column "text" (needs pyarrow)
a folder  all files of these kinds in it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...errors import Error

END = "<|endoftext|>"


def read(paths: Sequence[Path | str]) -> list[str]:
    """All documents of these files and folders that hold more than white space."""
    documents: list[str] = []
    for path in map(Path, paths):
        for file in _files(path.expanduser()):
            try:
                found = list(READERS[file.suffix](file))
            except OSError as error:
                raise Error(f"{file}: the text could not be read: {error.strerror or error}.") from error
            except UnicodeDecodeError as error:
                raise Error(f"{file}: text must be UTF-8, got other bytes ({error}). Convert it.") from error
            documents += [text for text in found if text.strip()]
    if not documents:
        raise Error(f"{', '.join(map(str, paths)) or 'no file'}: there is no text in it. Give files that hold some.")
    return documents


def split(documents: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Documents to train on and about `share` of them to test on, at least one.

    Which are held out depends on their words alone: a text that occurs twice is on one side with all its copies.

    >>> train, test = split(["one", "two", "three", "one", "four"], 0.5)
    >>> len(train) + len(test), set(train) & set(test)
    (5, set())
    """
    different = sorted({_digest(text) for text in documents})
    if len(different) < 2:
        raise Error(
            f"The text must be two documents or more, so that whole ones can be held out for the test, got "
            f"{len(different)}. Name files to test on with --set test=PATH, or part the text with lines of {END}."
        )
    held = set(different[: min(len(different) - 1, max(1, round(share * len(different))))])
    sides: tuple[list[str], list[str]] = ([], [])
    for text in documents:
        sides[_digest(text) in held].append(text)
    return sides


def without(documents: Sequence[str], held: Sequence[str]) -> list[str]:
    """The documents that are not among those held out."""
    known = {_digest(text) for text in held}
    return [text for text in documents if _digest(text) not in known]


def digest(documents: Iterable[str]) -> str:
    """Of all of them, in their order."""
    return hashlib.sha256(b"".join(map(_digest, documents))).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.strip().encode()).digest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in READERS)
        if not found:
            raise Error(f"{path}: a folder of text must hold files of {', '.join(READERS)}, and there are none in it.")
        return found
    if not path.exists():
        raise Error(f"{path}: no such file or folder. Give the text as a path of {', '.join(READERS)}, or a folder.")
    if path.suffix not in READERS:
        raise Error(f"{path}: text is read from {', '.join(READERS)}, got {path.suffix or 'no suffix'!r}. Rename it.")
    return [path]


def _plain(path: Path) -> Iterable[str]:
    return path.read_text(encoding="utf-8").split(END)


def _lines(path: Path) -> Iterable[str]:
    with path.open(encoding="utf-8") as file:
        for n, line in enumerate(file, 1):
            if line.strip():
                yield _document(_json(line, f"{path}, line {n}"), f"{path}, line {n}")


def _list(path: Path) -> Iterable[str]:
    found = _json(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(found, list):
        raise Error(f"{path}: must be a list of documents, got {type(found).__name__}. Put it into [ ].")
    return [_document(one, f"{path}, document {n}") for n, one in enumerate(found)]


def _parquet(path: Path) -> Iterable[str]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise Error(f"{path}: reading parquet needs pyarrow. pip install pyarrow, or convert it to .jsonl.") from error
    try:
        column = parquet.read_table(path, columns=["text"])["text"].to_pylist()
    except (KeyError, pyarrow.ArrowException) as error:
        raise Error(f'{path}: must be a parquet file with a column "text": {error}.') from error
    return [text for text in column if text]


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Error(f"{where}: not JSON ({error}). Repair it or leave it out.") from error


def _document(found: Any, where: str) -> str:
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str):
        got = sorted(found) if isinstance(found, dict) else type(found).__name__
        raise Error(f'{where}: a document is a string or has a field "text" that is one, got {got}.')
    return text


READERS = {".txt": _plain, ".jsonl": _lines, ".json": _list, ".parquet": _parquet}
