"""Documents from files, and a split of them into training and test that no document crosses.

.txt      one document, or several with lines of <|endoftext|> between them
.jsonl    one document a line: {"text": "…"}, or a string
.json     a list of such documents
.parquet  a column "text" (needs pyarrow)
a folder  all files of these kinds in it
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..errors import Error, import_extra
from ..files import check_regular, open_text, read_text

END = "<|endoftext|>"
PARTS = 100
"""The most documents that a single one is divided into."""
PARAGRAPH_END, LINE_END = re.compile(r"\n\s*\n"), re.compile(r"\n(?:\s*\n)?")
AT_ONCE = 256
"""Documents of a parquet file that are read at once."""
Digest = TypeVar("Digest", bytes, int)


def read(paths: Sequence[Path | str]) -> list[str]:
    """All documents of these files and folders, in their order. Those of white space alone are left out."""
    documents: list[str] = []
    for path in map(Path, paths):
        for file in _files(path.expanduser()):
            with reading(file):
                documents += [text for text in READERS[file.suffix](file) if text.strip()]
    if not documents:
        raise Error(f"{', '.join(map(str, paths)) or 'no file'}: there is no text in it. Give files that hold some.")
    return documents


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Raises an `Error` with the file's name where it cannot be read as text."""
    try:
        yield
    except OSError as error:
        raise Error(f"{file}: the text could not be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise Error(f"{file}: text must be UTF-8, got other bytes ({error}). Convert it.") from error


def split(documents: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Documents to train on and about `share` of them to test on, at least one.

    Those with the lowest digests are tested on, so all copies of a text are on one side, whatever their order. Other
    documents can move a text across, for the share is of them all. A single document is divided first.

    >>> train, test = split(["one", "two", "three", "one", "four"], 0.5)
    >>> len(train) + len(test), set(train) & set(test)
    (5, set())
    """
    documents = divided(documents[0]) if len(documents) == 1 else documents
    last = last_held_out(sorted({digest_of(text) for text in documents}), share)
    sides: tuple[list[str], list[str]] = ([], [])
    for text in documents:
        sides[digest_of(text) <= last].append(text)
    return sides


def divided(text: str, length: int | None = None) -> list[str]:
    """Returns a text as documents, cut at the ends of paragraphs, or of lines where a paragraph is long.

    `length`: how many characters each has at least; None: so many that there are 50 to 100.

    >>> divided("One.\\n\\nTwo.\\nThree.")
    ['One.\\n\\n', 'Two.\\n', 'Three.']
    """
    length = length or len(text) // PARTS + 1
    parts, start = [], 0
    while start < len(text):
        least = start + length - 1
        end = PARAGRAPH_END.search(text, least, least + length) or LINE_END.search(text, least)
        parts.append(text[start : end.end() if end else len(text)])
        start += len(parts[-1])
    return [part for part in parts if part.strip()]


def last_held_out(different: Sequence[Digest], share: float) -> Digest:
    """Documents whose digest is at most this one are tested on. Digests are sorted, as bytes or numbers."""
    if len(different) < 2:
        raise Error(
            f"The text must be two documents or more, so that whole ones can be held out for the test, got "
            f"{len(different)}. Name more files, or part the text with lines of {END}."
        )
    return different[min(len(different) - 1, max(1, round(share * len(different)))) - 1]


def without(documents: Sequence[str], held: Sequence[str]) -> list[str]:
    """The documents that differ from all those held out; white space around a document does not count."""
    known = {digest_of(text) for text in held}
    return [text for text in documents if digest_of(text) not in known]


def digest(documents: Iterable[str]) -> str:
    """One digest of all documents, in their order."""
    return hashlib.sha256(b"".join(map(digest_of, documents))).hexdigest()


def digest_of(text: str) -> bytes:
    """Returns the digest of one document without the white space around it."""
    return hashlib.sha256(text.strip().encode()).digest()


def digest_as_read(text: str) -> bytes:
    """Returns the digest of one document with the white space around it, which has tokens too."""
    return hashlib.sha256(text.encode()).digest()


def without_links(files: Iterable[Path]) -> list[Path]:
    """Returns these files without the symbolic links to others of them."""
    files = list(files)
    if not any(map(Path.is_symlink, files)):
        return files
    by_place = {os.path.realpath(file): file for file in sorted(files, key=Path.is_symlink, reverse=True)}
    return [file for file in files if by_place[os.path.realpath(file)] == file]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = without_links(sorted(file for file in path.iterdir() if file.suffix in READERS))
        if not files:
            raise Error(f"{path}: a folder of text must hold files of {', '.join(READERS)}, and there are none in it.")
        return files
    if not path.exists():
        raise Error(f"{path}: no such file or folder. Give the text as a path of {', '.join(READERS)}, or a folder.")
    if path.suffix not in READERS:
        raise Error(f"{path}: text is read from {', '.join(READERS)}, got {path.suffix or 'no suffix'!r}. Rename it.")
    return [path]


def _plain(path: Path) -> Iterable[str]:
    return read_text(path).split(END)


def items(path: Path, what: str = "documents", columns: list[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yields what a .jsonl, .json or .parquet file lists, each with its place; of parquet these columns."""
    if path.suffix == ".parquet":
        yield from ((str(path), row) for row in _parquet_rows(path, columns))
    elif path.suffix == ".jsonl":
        with open_text(path) as file:
            yield from json_lines(file, str(path))
    else:
        listed = _json(read_text(path), str(path))
        if not isinstance(listed, list):
            raise Error(f"{path}: must be a list of {what}, got {type(listed).__name__}. Put it into [ ].")
        yield from ((f"{path}, {what[:-1]} {n}", item) for n, item in enumerate(listed))


def json_lines(lines: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    """The values of lines of JSON, each with its place."""
    for n, line in enumerate(lines, 1):
        if line.strip():
            yield f"{name}, line {n}", _json(line, f"{name}, line {n}")


def _listed(path: Path) -> Iterator[str]:
    return (document(item, where) for where, item in items(path))


def _column(path: Path) -> Iterator[str]:
    return (row["text"] for _, row in items(path, columns=["text"]) if row["text"])


def _parquet_rows(path: Path, columns: list[str] | None) -> Iterator[dict[str, Any]]:
    pyarrow = import_extra("pyarrow", "parquet", str(path))
    from pyarrow import parquet

    try:
        check_regular(path)
        file = parquet.ParquetFile(path)
        if missing := set(columns or ()) - set(file.schema_arrow.names):
            raise Error(
                f'{path}: must be a parquet file with a column "{missing.pop()}", got '
                f"{', '.join(file.schema_arrow.names)}."
            )
        for batch in file.iter_batches(AT_ONCE, columns=columns):
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise Error(f"{path}: must be a parquet file: {error}.") from error


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Error(f"{where}: not JSON ({error}). Repair it or leave it out.") from error


def document(item: Any, where: str) -> str:
    text = item.get("text") if isinstance(item, dict) else item
    if not isinstance(text, str):
        got = sorted(item) if isinstance(item, dict) else type(item).__name__
        raise Error(f'{where}: a document is a string or has a field "text" that is one, got {got}.')
    return text


READERS = {".txt": _plain, ".jsonl": _listed, ".json": _listed, ".parquet": _column}
