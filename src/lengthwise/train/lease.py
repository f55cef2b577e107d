"""Who is at work in a directory, where several machines may see it.

The file `holder.N` names the N-th process that took the directory up; the highest N is at work there. To take it over
is to create the next file, which only one process can do. Whoever finds its own file gone is no longer at work, and
must not write.

    holder.3   {"who": "process 41 on alpha", "machine": "8d42fb1d-…"}      its time of change is renewed every 5 s

A holder is gone where
- it was on this machine, and the operating system's lock on its file is free: at once after a kill;
- it was on another one, or its storage has no locks, and its file was not renewed for a minute. What locks of a machine
  that died become on network storage is not asked: they may stay, or never have been seen here.

How long ago that was is a difference of two times that the storage itself wrote, of the file and of one made now, so
that no two machines' clocks are compared. A process that was stopped meanwhile finds its file gone when it wakes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from ..errors import RecordError

RENEW_EVERY = 5.0
"""Seconds between two signs of life of a holder."""
TERM = 60.0
"""Seconds without a sign of life after which another machine takes the work over."""


class TakenOver(RecordError):
    """This process gave no sign of life for so long that another one went on with its work."""


def _machine() -> str:
    """This machine, since it was started: its name alone may be that of another one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"


MACHINE = _machine()


class Holder:
    """The process at work, as `holder.N` names it."""

    def __init__(self, path: Path):
        self.path, self.number = path, int(path.suffix[1:])
        try:
            holder = json.loads(path.read_bytes())
        except ValueError:
            # It is about to be written.
            holder = {}
        self.who, self.machine = holder.get("who", "another process"), holder.get("machine", "")

    @classmethod
    def of(cls, directory: Path) -> Holder | None:
        """Who took the directory up last; None where nobody is known."""
        paths = _files(directory)
        try:
            return cls(paths[-1]) if paths else None
        except FileNotFoundError:
            return cls.of(directory)

    def silent(self) -> float:
        """Seconds since its last sign of life, by the clock of the storage."""
        now = self.path.with_name(f".now-{uuid.uuid4().hex}.tmp")
        try:
            # Opened, as network storage answers with what is true only then.
            with open(self.path, "rb") as file, open(now, "wb") as beside:
                os.utime(beside.fileno())
                return os.fstat(beside.fileno()).st_mtime - os.fstat(file.fileno()).st_mtime
        finally:
            now.unlink(missing_ok=True)

    def alive(self) -> bool:
        try:
            if self.machine == MACHINE:
                with open(self.path, "rb+") as file:
                    return not _lock(file.fileno())
            return self.silent() <= TERM
        except FileNotFoundError:
            # It ended meanwhile, and whoever asks looks again.
            return True

    def __str__(self) -> str:
        silent = self.silent()
        return f"{self.who}, silent for {silent:.0f} s," if silent > 2 * RENEW_EVERY else self.who


class Lease:
    """The right to write in a directory, renewed by a thread until it is released."""

    def __init__(self, path: Path, handle: int):
        self.path, self.handle = path, handle
        self._over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lengthwise-lease", daemon=True)
        self._renewing.start()

    @classmethod
    def take(cls, directory: Path) -> Lease | None:
        """Hold the directory; None while another process does."""
        before = Holder.of(directory)
        if before and before.alive():
            return None
        path = directory / f"holder.{before.number + 1 if before else 0}"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return None
        # Whoever reads this machine's name may try the lock, which is held by then.
        holder = {"who": _me(), "machine": MACHINE if _lock(handle) else ""}
        os.write(handle, json.dumps(holder).encode())
        *earlier, last = _files(directory)
        if last != path:
            # This process slept since it looked, and others have come and gone.
            path.unlink(missing_ok=True)
            os.close(handle)
            return None
        for file in earlier:
            with suppress(OSError):
                file.unlink()
        return cls(path, handle)

    def check(self) -> None:
        """Raises if another process has taken the work over. Call it before anything is written."""
        directory = self.path.parent
        try:
            with open(self.path, "rb") as file:
                if os.path.sameopenfile(file.fileno(), self.handle) and _files(directory)[-1] == self.path:
                    return
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESTALE):
                raise
        if not directory.exists():
            raise RecordError(f"{directory}: deleted while {_me()} was at work in it. Start the same command again.")
        now = Holder.of(directory)
        raise TakenOver(
            f"{directory}: {now.who if now else 'another process'} has gone on with this work, as {_me()} had given no "
            f"sign of life for {TERM:g} s. The latter leaves it there."
        )

    def _renew(self) -> None:
        while not self._over.wait(RENEW_EVERY):
            # Where the storage does not answer now, it may the next time.
            with suppress(OSError):
                os.utime(self.handle)

    def release(self, for_good: bool = False) -> None:
        """Let others take the directory up at once; `for_good`: there is nothing left to do in it."""
        self._over.set()
        self._renewing.join()
        with suppress(OSError):
            # The file stays, with the age of one whose holder died: a number is given once, or a process that slept
            # could find another one's file under its own name.
            os.utime(self.handle, (0, 0))
            if for_good:
                self.path.unlink()
        os.close(self.handle)


def _files(directory: Path) -> list[Path]:
    """The files of holders, the last of them last."""
    names = [name for name in os.listdir(directory) if re.fullmatch(r"holder\.\d+", name)]
    return [directory / name for name in sorted(names, key=lambda name: int(name[7:]))]


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _lock(handle: int) -> bool:
    """Try the operating system's lock on an open file, which it keeps until it is closed; whether that went well."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
