"""What a call and its work on other machines tell each other: files on storage that all of them share, and no network.

.slurm/CALL/3.json    how far the runs of group 3 are; it is there as soon as the group has begun
.slurm/CALL/stop      asks all groups to keep their state and end
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ..errors import RecordError
from ..files import read_bytes, write_atomically
from ..train import Progress, Stop

TELL_EVERY = 1.0
"""Seconds between two writings of a group's file, but for the last steps of its runs."""


class Mailbox:
    """The side of the call."""

    def __init__(self, place: Path):
        self.place = place
        self.read: dict[int, float] = {}
        place.mkdir(parents=True, exist_ok=True)

    @classmethod
    def new(cls, folder: Path) -> Mailbox:
        return cls(folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{uuid.uuid4().hex[:6]}")

    def file(self, number: int) -> Path:
        return self.place / f"{number}.json"

    def news(self, number: int) -> Iterator[Progress]:
        """Returns what a group has written of its progress since the last look."""
        with contextlib.suppress(OSError, RecordError):
            written = self.file(number).stat().st_mtime
            if written != self.read.get(number):
                self.read[number] = written
                yield from (Progress(**each) for each in json.loads(read_bytes(self.file(number))))

    def stop(self) -> None:
        (self.place / "stop").touch()

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.place.parent.rmdir()


class Teller:
    """The side of a group: writes how far its runs are, and looks whether it is asked to stop."""

    def __init__(self, place: Path, number: int, stop: Stop):
        self.place, self.file, self.stop = place, place / f"{number}.json", stop
        self.latest: dict[str, Progress] = {}
        self._write()

    def __call__(self, progress: Progress) -> None:
        first = progress.what not in self.latest
        self.latest[progress.what] = progress
        if first or progress.step == progress.steps or time.monotonic() - self.told > TELL_EVERY:
            self._write()

    def _write(self) -> None:
        self.told = time.monotonic()
        write_atomically(self.file, json.dumps([asdict(each) for each in self.latest.values()]).encode())
        if (self.place / "stop").exists():
            self.stop.asked = True
