"""Files that are whole or not there: written beside their place, renamed into it, and read with every error named."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .errors import RecordError

Tensors = dict[str, Tensor]


@contextmanager
def naming(path: Path, missing: str = "See whether the path and its disk are in order") -> Iterator[None]:
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
        }.get(error.errno or 0, "See whether the path and its disk are in order")
        raise RecordError(f"{path}: {(error.strerror or str(error)).lower()}. {remedy}.") from error


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
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with naming(path):
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            settle(path.parent)
        finally:
            beside.unlink(missing_ok=True)


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
    copies = {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return save(copies, metadata=metadata)


def canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def restore(path: Path) -> str:
    """The remedy for a record that lacks this file."""
    return f"Restore it, or delete {path.parent} to run it again"


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Tensors and metadata of a safetensors file; a damaged one is named."""
    try:
        with naming(path, restore(path)), safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise RecordError(f"{path}: not a whole safetensors file ({error}). Restore it or delete its run.") from error


def read_json(path: Path) -> Any:
    with naming(path, restore(path)):
        content = path.read_bytes()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: not whole JSON ({error}); truncated or edited. Delete {path.parent} to run it again."
        ) from error
