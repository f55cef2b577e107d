"""Who is at work in a directory that several machines see: one process, whatever becomes of the others."""

import json
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
import torch

from lengthwise.errors import RecordError
from lengthwise.train import lease
from lengthwise.train.directory import Directory
from lengthwise.train.lease import Holder, Lease, TakenOver


@contextmanager
def holding(directory, machine=None):
    """A process, of another machine where one is named, that holds the directory; asked to, it tries to write."""
    told, tell = os.pipe()
    asked, ask = os.pipe()
    if not (child := os.fork()):
        try:
            lease.MACHINE = machine or lease.MACHINE
            with directory.locked():
                os.write(tell, b"holds\n")
                os.read(asked, 1)
                directory.save_state({"w": torch.zeros(1)}, {"step": 9})
        except TakenOver as error:
            os.write(tell, f"{error}\n".encode())
        finally:
            os._exit(0)
    with open(told) as hears:
        assert hears.readline() == "holds\n"
        try:
            yield child, lambda: os.write(ask, b"!") and hears.readline()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            for end in (tell, asked, ask):
                os.close(end)


def killed(child):
    os.kill(child, signal.SIGKILL)
    # It is not reaped: all it held is given back when it ends.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def age(path, seconds=2 * lease.TERM):
    """Let the holder's last sign of life be so long ago."""
    last = Holder.of(path).path
    os.utime(last, (0, last.stat().st_mtime - seconds))


@pytest.fixture
def directory(tmp_path):
    return Directory(tmp_path, {})


def test_who_was_killed_on_this_machine_holds_nothing(directory):
    with holding(directory) as (child, _):
        # However long it is silent: on one machine the operating system knows who lives.
        age(directory.path, 1000)
        assert directory.held()
        assert Lease.take(directory.path) is None
        said = directory.holder()
        assert said.startswith(f"process {child} on ")
        assert said.endswith(("silent for 1000 s,", "silent for 1001 s,"))
        killed(child)
        assert not directory.held()
        assert directory.holder() == "another process"
        with directory.locked():
            assert directory.held()


def test_who_died_on_another_machine_is_succeeded_after_the_term(directory, monkeypatch):
    with holding(directory, "another") as (child, _):
        killed(child)
        # The locks of its machine are gone, or are not: nobody asks. Nor does anybody ask this machine's clock.
        monkeypatch.setattr(time, "time", lambda: 0.0)
        assert directory.held()
        age(directory.path, lease.TERM - 20)
        assert directory.held()
        assert "silent for 4" in directory.holder()
        age(directory.path)
        assert not directory.held()
        with directory.locked():
            assert directory.holder() == f"process {os.getpid()} on {lease.socket.gethostname()}"
            directory.start()
            directory.save_state({"w": torch.ones(1)}, {"step": 1})
    assert [path.name for path in directory.path.glob("holder.*")] == ["holder.1"]


def test_who_slept_and_was_succeeded_writes_nothing(directory):
    (directory.path / "state").mkdir()
    (directory.path / "metrics.jsonl").touch()
    with holding(directory, "another") as (child, ask):
        os.kill(child, signal.SIGSTOP)
        age(directory.path)
        with directory.locked():
            directory.save_state({"w": torch.ones(1)}, {"step": 10})
            before = sorted(path.name for path in directory.path.rglob("*"))
            os.kill(child, signal.SIGCONT)
            said = ask()
            assert f"process {os.getpid()} on " in said
            assert f"has gone on with this work, as process {child} on " in said
            assert sorted(path.name for path in directory.path.rglob("*")) == before
        assert not directory.held()


def test_every_write_asks_who_is_at_work(directory):
    with directory.locked():
        directory.start()
        age(directory.path)
        (directory.path / "holder.7").write_text(json.dumps({"who": "process 5 on beta", "machine": "another"}))
        for write in (
            lambda: directory.log({"step": 1}),
            lambda: directory.save_state({}, {"step": 1}),
            lambda: directory.finish({}, {}),
        ):
            with pytest.raises(TakenOver, match="process 5 on beta has gone on"):
                write()
    assert (directory.path / "metrics.jsonl").read_bytes() == b""
    assert not directory.finished()
    assert directory.holder() == "process 5 on beta"


def test_a_directory_that_was_deleted_is_said_to_be(directory):
    with directory.locked():
        Holder.of(directory.path).path.unlink()
        # Another one was here, and is done.
        with pytest.raises(TakenOver, match="another process has gone on"):
            directory.check_held()
        directory.path.rmdir()
        with pytest.raises(RecordError, match="deleted while process"):
            directory.check_held()


def test_a_holder_gives_signs_of_life(directory, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_EVERY", 0.01)
    with directory.locked():
        age(directory.path, 10**6)
        deadline = time.monotonic() + 60
        while Holder.of(directory.path).silent() > lease.TERM:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_of_many_successors_one_succeeds(tmp_path, monkeypatch):
    (tmp_path / "holder.4").write_text(json.dumps({"who": "process 1 on alpha", "machine": "another"}))
    age(tmp_path)
    alive, all_have_looked, taken = Holder.alive, threading.Barrier(8), []
    monkeypatch.setattr(Holder, "alive", lambda self: (alive(self), all_have_looked.wait())[0])

    def take():
        taken.append(Lease.take(tmp_path))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [one] = filter(None, taken)
    assert [path.name for path in tmp_path.iterdir()] == ["holder.5"]
    one.release()
    monkeypatch.undo()
    assert Lease.take(tmp_path).path.name == "holder.6"


def test_who_slept_before_it_took_the_work_up_leaves_it_to_others(tmp_path, monkeypatch):
    """It saw that nobody was there; since then others came, went, and came again."""
    first = Lease.take(tmp_path)
    first.release()
    alive, others = Holder.alive, []

    def slow(self):
        found = alive(self)
        monkeypatch.setattr(Holder, "alive", alive)
        for _ in range(3):
            others.append(Lease.take(tmp_path))
            others[-1].release()
        others.append(Lease.take(tmp_path))
        return found

    monkeypatch.setattr(Holder, "alive", slow)
    assert Lease.take(tmp_path) is None
    others[-1].check()
    assert [path.name for path in tmp_path.iterdir()] == ["holder.4"]
    others[-1].release(for_good=True)
    assert not list(tmp_path.iterdir())


def test_storage_without_locks_goes_by_signs_of_life(directory, monkeypatch):
    def refuse(handle, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lease.fcntl, "flock", refuse)
    with directory.locked():
        assert directory.held()
        age(directory.path)
        assert not directory.held()
        assert json.loads(Holder.of(directory.path).path.read_text())["machine"] == ""
    with directory.locked():
        assert directory.held()
    assert not directory.held(), "what is let go is free at once"
