"""The directory of one piece of work, which survives a kill at any moment and notices any edit.

```
config.json             what the work is
metrics.jsonl           append-only: a line per logged step and per validation
state/STEP-SERIAL-DIGEST.safetensors   all that is needed to go on, named by the digest of its own bytes;
                        a folder without that ending where several processes wrote it (`shards.py`)
NAME.py                 the source of what is not of this library
NAME.safetensors        weights, written when the work ends; their digests stand in result.json,
result.json             whose own digest is its last field
error.txt               the traceback of the last failure, if the work failed
holder.N                which process is at work, and when it last gave a sign of life (see lease.py)
```

Every file but metrics and error.txt is written beside its place and renamed into it, so a reader sees the old or the
new, never half. The metrics are cut back on resuming to where they stood at the checkpoint. Only safetensors and JSON
are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import RecordError
from ..files import (
    Tensors,
    canonical,
    digest,
    digest_of,
    naming,
    pack,
    read_bytes,
    read_json,
    read_tensors,
    settle,
    write_atomically,
)
from .lease import Holder, Lease
from .shards import REST, Shards

LOOK_EVERY = 0.2
"""Seconds between two looks at a directory that another process holds."""
UNFINISHED = ".unfinished"
"""The folder of a checkpoint that is being written."""


class SavedState(NamedTuple):
    """The contents of a checkpoint: named tensors, and the JSON-like rest."""

    tensors: Mapping[str, Tensor]
    meta: dict[str, Any]


class Directory:
    """The directory of one piece of work, described by `config`; created on first use."""

    result = "result.json"
    """The file that says the work is finished."""

    def __init__(self, path: Path, config: dict[str, Any]):
        self.path, self.config = path, config
        self.hear: Callable[[dict[str, Any]], None] | None = None
        """Hears every line of the metrics when it is written."""
        self._metrics = hashlib.sha256()
        self._metrics_bytes = 0
        self._lease: Lease | None = None

    @contextmanager
    def locked(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the directory; while another process does, call `waiting` (which may raise to give up) and wait."""
        looks, lease = 0, None
        while not lease:
            with naming(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                lease = Lease.take(self.path)
            if not lease:
                looks += 1
                if waiting and looks > 1:
                    waiting()
                time.sleep(LOOK_EVERY)
        self._lease = lease
        try:
            yield
        finally:
            self._lease = None
            lease.release(for_good=os.path.exists(self.path / self.result))

    def check_held(self) -> None:
        """Raises if another process has taken over what this one held."""
        if self._lease:
            with naming(self.path):
                self._lease.check()

    def holder(self) -> str:
        """Returns in words which process holds the directory."""
        with suppress(OSError):
            if (holder := Holder.of(self.path)) and holder.alive():
                return str(holder)
        # It has only just begun, or ended.
        return "another process"

    def held(self) -> bool:
        """Returns whether a process holds the directory now; where that cannot be asked, who runs it will say why."""
        with suppress(OSError):
            holder = Holder.of(self.path)
            return holder is not None and holder.alive()
        return False

    def start(self) -> SavedState | None:
        """Make the directory ready to be written; the state to go on from, or None to begin. Call it when locked."""
        with naming(self.path):
            (self.path / "state").mkdir(exist_ok=True)
            for left in [*self.path.glob(".*.tmp"), *(self.path / "state").glob(".*.tmp")]:
                left.unlink(missing_ok=True)
            shutil.rmtree(self.path / "state" / UNFINISHED, ignore_errors=True)
        config = self.path / "config.json"
        if config.exists():
            self.check_config()
        else:
            write_atomically(config, json.dumps(self.config, indent=2).encode())
        state = self._load_state()
        self._cut_metrics(state.meta["metrics"] if state else {"bytes": 0, "sha256": digest(b"")})
        return state

    def check_config(self) -> None:
        """Raises unless the config there is this work's."""
        if read_json(self.path / "config.json") != self.config:
            raise RecordError(f"{self.path / 'config.json'}: edited since it was written. Delete {self.path}.")

    def check_there(self) -> None:
        """Raises where the directory was made by another process and is not seen by this one."""
        if not (self.path / "config.json").exists():
            raise RecordError(
                f"{socket.gethostname()}: {self.path} is not there. Choose a directory with --out on storage that all "
                "machines share."
            )

    def finished(self) -> bool:
        return (self.path / self.result).exists()

    def log(self, row: dict[str, Any]) -> None:
        """Append one line to the metrics."""
        self.check_held()
        line = json.dumps(row).encode() + b"\n"
        with naming(self.path / "metrics.jsonl"), open(self.path / "metrics.jsonl", "ab") as file:
            file.write(line)
        self._metrics.update(line)
        self._metrics_bytes += len(line)
        if self.hear:
            self.hear(row)

    def save_state(self, tensors: Mapping[str, Tensor], meta: dict[str, Any]) -> None:
        """Replace the checkpoint; the old one goes only when the new one is in place."""
        self.check_held()
        meta = {**meta, "metrics": {"bytes": self._metrics_bytes, "sha256": self._metrics.hexdigest()}}
        content = pack(dict(tensors), metadata={"meta": json.dumps(meta)})
        old = self._checkpoints()
        new = self.path / "state" / f"{self._next(old, meta, content)}.safetensors"
        with naming(self.path / "metrics.jsonl"):
            settle(self.path / "metrics.jsonl")
        write_atomically(new, content)
        self._remove([path for path in old if path != new])

    def begin_state(self) -> Path:
        """A new folder for a checkpoint that several processes write, which counts once `end_state` was called."""
        self.check_held()
        path = self.path / "state" / UNFINISHED
        with naming(path):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        return path

    def end_state(self, meta: dict[str, Any]) -> None:
        """Replace the checkpoint by what was written to the folder."""
        self.check_held()
        path, old = self.path / "state" / UNFINISHED, self._checkpoints()
        with naming(path):
            files = sorted(path.iterdir())
            for each in [*files, self.path / "metrics.jsonl"]:
                settle(each)
            digests = {each.name: digest_of(each) for each in files}
        meta = {**meta, "metrics": {"bytes": self._metrics_bytes, "sha256": self._metrics.hexdigest()}}
        content = json.dumps({"meta": meta, "files": digests}).encode()
        write_atomically(path / REST, content)
        with naming(path):
            path.rename(path.with_name(self._next(old, meta, content)))
            settle(path.parent)
        self._remove(old)

    def _checkpoints(self) -> list[Path]:
        """From the oldest to the newest: files, and folders that several processes wrote."""
        return sorted(path for path in (self.path / "state").glob("*") if not path.name.startswith("."))

    def _next(self, old: list[Path], meta: dict[str, Any], content: bytes) -> str:
        # While a run is tested its step stands still: the serial says which checkpoint is the newer.
        serial = int(old[-1].name.split("-")[1]) + 1 if old else 0
        return f"{meta['step']:09d}-{serial:04d}-{digest(content)[:16]}"

    def _remove(self, old: list[Path]) -> None:
        with naming(self.path / "state"):
            for path in old:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def finish(self, models: dict[str, Tensors], result: dict[str, Any]) -> None:
        """Writes the weights and, last of all, the result; then the checkpoint is no longer needed."""
        self.check_held()
        for name, tensors in models.items():
            write_atomically(self.path / f"{name}.safetensors", pack(tensors))
        with naming(self.path):
            files = ["config.json", "metrics.jsonl", *(f"{name}.safetensors" for name in models)]
            files += sorted(path.name for path in self.path.glob("*.py"))
            digests = {name: digest_of(self.path / name) for name in files}
        content = {**result, "files": digests}
        write_atomically(
            self.path / self.result, json.dumps({**content, "sha256": digest(canonical(content))}, indent=2).encode()
        )
        self.tidy()

    def tidy(self) -> None:
        """Remove what a finished run needs no longer."""
        shutil.rmtree(self.path / "state", ignore_errors=True)
        with naming(self.path):
            (self.path / "error.txt").unlink(missing_ok=True)

    def record_error(self, text: str) -> Path | None:
        """Keep a failure's traceback; None where even that cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "error.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
            return self.path / "error.txt"
        except OSError:
            return None

    def checkpoint(self) -> Path | None:
        """Where the newest state is."""
        return next(reversed(self._checkpoints()), None)

    def _load_state(self) -> SavedState | None:
        path = self.checkpoint()
        if path is None:
            return None
        with naming(path):
            content = read_bytes(path / REST if path.is_dir() else path)
            whole = digest(content)[:16] == path.stem.split("-")[-1]
            if whole and path.is_dir():
                files = json.loads(content)["files"]
                whole = all(digest_of(path / name) == expected for name, expected in files.items())
        if not whole:
            raise RecordError(
                f"{path}: truncated or edited since it was written. "
                "Delete it: the run goes on from an older one, or starts anew."
            )
        return read_state(path)

    def _cut_metrics(self, mark: dict[str, Any]) -> None:
        path = self.path / "metrics.jsonl"
        with naming(path):
            path.touch()
            content = read_bytes(path)[: mark["bytes"]]
            if len(content) != mark["bytes"] or digest(content) != mark["sha256"]:
                raise RecordError(
                    f"{path}: truncated or edited since the checkpoint was written. "
                    f"Delete {self.path} to run it again from its beginning."
                )
            os.truncate(path, mark["bytes"])
        self._metrics, self._metrics_bytes = hashlib.sha256(content), len(content)


def read_state(path: Path) -> SavedState:
    """A checkpoint that is known to be whole."""
    if path.is_dir():
        return SavedState(Shards(path), read_json(path / REST)["meta"])
    tensors, metadata = read_tensors(path)
    return SavedState(tensors, json.loads(metadata["meta"]))
