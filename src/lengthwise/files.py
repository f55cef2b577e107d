"""Files that are whole or not there: written beside their place, renamed into it, and read with every error named."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from safetensors import SafetensorError, safe_open

from .errors import RecordError

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]
LARGE = 1 << 26
"""Bytes that are read without a look at the memory that is free."""
IN_ORDER = "See whether the path and its disk are in order"


@contextmanager
def naming(path: Path, missing: str = IN_ORDER) -> Iterator[None]:
    """Turn the operating system's errors into one line that names the path and the remedy; `missing` is that for a file
    which is not there."""
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOENT: missing,
            errno.EACCES: "Give yourself the rights, or choose another directory with --out",
            errno.EPERM: "Give yourself the rights, or choose another directory with --out",
            errno.EROFS: "Choose a directory that can be written with --out",
            errno.ENOSPC: "Free some space and start the same command again: it goes on from the last checkpoint",
            errno.EDQUOT: "Free some space and start the same command again: it goes on from the last checkpoint",
            errno.ENOTDIR: "A file stands where a directory is needed: move it, or choose another with --out",
            errno.EEXIST: "A file stands where a directory is needed: move it, or choose another with --out",
        }.get(error.errno or 0, IN_ORDER)
        raise RecordError(f"{path}: {(error.strerror or str(error)).lower()}. {remedy}.") from error


def must_exist(path: Path) -> None:
    """Raises unless something stands where runs are looked for."""
    with naming(path):
        if not path.exists():
            raise RecordError(f"{path}: no such file or directory. Give a run directory, or one that holds some.")


def finite(data: Any) -> Any:
    """The same as JSON can say it: None in the place of every number that is not finite.

    >>> finite({"a": [1.5, float("inf")], "b": float("nan")})
    {'a': [1.5, None], 'b': None}
    """
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    return [finite(value) for value in data] if isinstance(data, list | tuple) else data


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """All of `content` at `path`, or what was there before; a link is followed, a device written to as it is."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        with naming(path), open(path, "wb") as file:
            file.write(content)
        return
    with naming(path):
        beside = _beside(path)
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            settle(path.parent)
        finally:
            beside.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A hidden name beside `path` for this process. What processes that ended left there is removed."""
    host = digest(socket.gethostname().encode())[:8]  # a process of another machine may write to the same disk
    for left in path.parent.glob(f".{glob.escape(path.name)}.{host}-*.tmp"):
        number = left.name.removesuffix(".tmp").rpartition("-")[2]
        if number.isdecimal() and not _runs(int(number)):
            _remove(left)
    return path.with_name(f".{path.name}.{host}-{os.getpid()}.tmp")


def _runs(process: int) -> bool:
    if os.name == "nt":  # where signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's, or a system that does not say
        return True
    return True


def _contents(folder: Path) -> dict[Path, str]:
    return {file.relative_to(folder): digest_of(file) for file in folder.rglob("*") if not file.is_dir()}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path, keep_equal: bool = False) -> Iterator[Path]:
    """A folder to write in, which takes the place of `path` when the block ends well; its files have one mode.

    `keep_equal`: what is there stays, and raises unless its files are the same.
    """
    path = path.resolve()
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = _beside(path)
        _remove(beside)
        beside.mkdir()
        old = beside.with_name(f"{beside.name[:-4]}-old.tmp")
        try:
            yield beside
            mode = beside.stat().st_mode & 0o666
            for file in beside.rglob("*"):
                if file.is_file():
                    file.chmod(mode)
                settle(file)
            settle(beside)
            if keep_equal:
                if _contents(path) != _contents(beside):
                    raise RecordError(f"{path}: holds other files than this call writes. Name a new folder.")
                return
            if path.exists() and any(path.iterdir()):
                os.replace(path, old)
            os.replace(beside, path)
            settle(path.parent)
        finally:
            if old.exists() and not path.exists():
                os.replace(old, path)
            _remove(old)
            _remove(beside)


def write_text(path: str | Path, text: str) -> Path:
    """Write the whole text or, on any failure, leave the old file; directories are made.

    What UTF-8 does not have, such as a byte of a file name, is written as `\\udc9b`.
    """
    path = Path(path)
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode(errors="backslashreplace"))
    return path


def settle(path: Path) -> None:
    """Wait until a file or a directory's entries are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(tensors: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file; the format asks for tensors in order, on the CPU, and no two in one storage."""
    from safetensors.torch import save

    copies = {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return save(copies, metadata=metadata)


def canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def restore(path: Path) -> str:
    """The remedy for a record that lacks this file."""
    return f"Restore it, or delete {path.parent} to run it again"


def check_regular(path: Path, missing: str = IN_ORDER) -> int:
    """Returns the size of a regular file. Raises for anything else: reading a device or a pipe may never end.

    Every read of a file that a caller names goes through here.
    """
    with naming(path, missing):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise RecordError(f"{path}: is a device, a pipe or a socket. Only regular files are read: put one there.")
    return status.st_size


def open_file(path: Path, missing: str = IN_ORDER) -> BinaryIO:
    """A regular file, opened to be read in pieces."""
    check_regular(path, missing)
    with naming(path, missing):
        return path.open("rb")


def open_text(path: Path, newline: str | None = None) -> TextIO:
    """A regular file of UTF-8, opened to be read in pieces."""
    return TextIOWrapper(open_file(path), encoding="utf-8", newline=newline)


def read_bytes(path: Path, missing: str = IN_ORDER) -> bytes:
    """The content of a regular file that fits into memory."""
    if (size := check_regular(path, missing)) > LARGE:
        from .limits import need_memory

        need_memory(size, f"{path}: its bytes", "Give a smaller file.")
    with naming(path, missing):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """The content of a regular file of UTF-8, every end of a line as `\\n`."""
    return TextIOWrapper(BytesIO(read_bytes(path)), encoding="utf-8").read()


def digest_of(path: Path, missing: str = IN_ORDER) -> str:
    """The SHA-256 of a regular file, however large."""
    with open_file(path, missing) as file, naming(path):
        return hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Tensors and metadata of a safetensors file; a damaged one is named."""
    check_regular(path, restore(path))
    try:
        with naming(path), safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, UnicodeDecodeError) as error:
        raise _not_whole(path, error) from error


def read_shapes(path: Path) -> dict[str, tuple[str, list[int]]]:
    """The format and shape of every tensor of a safetensors file; its numbers are not read."""
    check_regular(path)
    try:
        with naming(path), safe_open(path, "pt") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}
    except (SafetensorError, UnicodeDecodeError) as error:
        raise _not_whole(path, error) from error


def _not_whole(path: Path, error: Exception) -> RecordError:
    return RecordError(
        f"{path}: not a whole safetensors file ({error}). Restore it, or delete its folder and make it again."
    )


def read_json(path: Path, remedy: str | None = None) -> Any:
    """The JSON in a file. `remedy`: what to do about a damaged one."""
    return parse_json(read_bytes(path, restore(path)), str(path), remedy or f"Delete {path.parent} to run it again.")


def parse_json(content: bytes, where: str, remedy: str) -> Any:
    """What UTF-8 and JSON say; an error that names the place otherwise."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where}: not whole JSON ({error}); truncated or edited. {remedy}") from error
