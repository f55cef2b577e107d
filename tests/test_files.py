"""Folders are whole or not there, whatever ends the writing."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from lengthwise import automata, tasks
from lengthwise.cli import main
from lengthwise.errors import Error, RecordError, TooLarge
from lengthwise.files import whole_folder, write_text
from lengthwise.verify import compile_machine, made_of
from lengthwise.verify.algebra import MachineAlgebra, in_time
from lengthwise.verify.claim import claim_of, minimal
from lengthwise.verify.consolidate.compiling import compiled_before
from lengthwise.verify.consolidate.element_codes import congruences

KILLED = """
import os, signal, sys
from pathlib import Path
from lengthwise import files
os.replace = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "text":
    files.write_text(sys.argv[2], "page")
with files.whole_folder(Path(sys.argv[2])) as beside:
    (beside / "weights").write_text("half")
"""


def killed(what, path):
    assert subprocess.run([sys.executable, "-c", KILLED, what, str(path)]).returncode == -signal.SIGKILL


def write(path):
    with whole_folder(path) as beside:
        (beside / "weights").write_text("whole")


def test_a_killed_folder_is_not_there_and_the_next_call_clears_up(tmp_path):
    killed("folder", tmp_path / "model")
    assert not (tmp_path / "model").exists()
    assert len(list(tmp_path.iterdir())) == 1
    write(tmp_path / "model")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_page_left_is_cleared_up(tmp_path):
    killed("text", tmp_path / "page.html")
    assert len(list(tmp_path.iterdir())) == 1
    write_text(tmp_path / "page.html", "page")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_an_old_folder_outlives_a_failed_one(tmp_path, monkeypatch):
    write(tmp_path / "model")
    replace = os.replace

    def once(a, b):
        if os.fspath(b) == os.fspath((tmp_path / "model").resolve()) and "-old" not in os.fspath(a):
            raise KeyboardInterrupt
        replace(a, b)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "model")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "weights").read_text() == "whole"


def test_files_of_a_folder_have_one_mode(tmp_path):
    with whole_folder(tmp_path / "model") as beside:
        (beside / "a").touch(0o600)
        (beside / "b").touch(0o644)
    assert len({file.stat().st_mode for file in (tmp_path / "model").iterdir()}) == 1


def test_an_export_again_leaves_what_is_there_unchanged(tmp_path):
    task, out = tasks.get("parity"), tmp_path / "data"
    tasks.export(task, [5], 4, out)
    file = out / "data" / "length_5.jsonl"
    before = file.stat().st_mtime_ns
    tasks.export(task, [5], 4, out)
    assert file.stat().st_mtime_ns == before
    file.write_text("edited")
    with pytest.raises(RecordError):
        tasks.export(task, [5], 4, out)
    assert file.read_text() == "edited"


def test_a_full_disk_does_not_lose_a_compiled_model(tmp_path, monkeypatch):
    task = tasks.get("parity")
    made = compile_machine(task)
    out, elsewhere = tmp_path / "disk" / "model", tmp_path / "room"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    replace = os.replace

    def full(a, b):
        if os.fspath(out.parent) in os.fspath(b):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(a, b)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(Error) as error:
            made.save(out)
    (kept,) = elsewhere.glob("*/model")
    assert str(kept) in str(error.value)
    assert made_of(kept) == "compiled"
    assert list(out.parent.iterdir()) == []
    assert compiled_before(kept, task, width=None, seed=0)
    assert not compiled_before(kept, task, width=None, seed=1)
    with (kept / "model.safetensors").open("ab") as weights:
        weights.write(b"x")
    assert not compiled_before(kept, task, width=None, seed=0)


def test_an_algebra_has_a_limit_of_its_numbers(monkeypatch):
    monkeypatch.setenv("LENGTHWISE_MAX_ALGEBRA", "24")
    with pytest.raises(TooLarge):
        MachineAlgebra(claim_of(tasks.get("cycle-navigation")), 2)
    monkeypatch.setenv("LENGTHWISE_MAX_ALGEBRA", "25")
    assert len(MachineAlgebra(claim_of(tasks.get("cycle-navigation")), 2)) == 5


def test_an_algebra_has_a_deadline():
    past = time.perf_counter() - 1
    claim = claim_of(tasks.get("cycle-navigation"))
    for late in (
        lambda: MachineAlgebra(claim, 2, past),
        lambda: minimal(claim, lambda: in_time(past)),
        lambda: congruences(automata.Semiautomaton([[1], [0]]).delta, claim.asked[:2], past),
    ):
        with pytest.raises(Error, match="seconds"):
            late()


def test_the_same_export_says_that_it_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call = ["export", "parity", "--lengths", "4", "--samples", "2", "--out", "data"]
    assert main(call) == 0
    assert capsys.readouterr().out.startswith("Wrote 2 strings")
    assert main(call) == 0
    assert capsys.readouterr().out == "data: it is there already, unchanged.\n"


OUTS = {
    "export": "export parity --lengths 4 --samples 2 --out",
    "compile": "compile even-pairs --seconds 60 --out",
    "bench": "bench parity -m lstm --train-length 4 --test-lengths 8 --set training.steps=1 --workers 1 --out",
}


@pytest.mark.parametrize("verb", OUTS)
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EXDEV])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys, verb, number):
    """Without rights, on a disk that is only read, and where a rename would cross from one disk to another."""

    def refuse(*paths, **how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace" if number == errno.EXDEV else "mkdir", refuse)
    assert main([*OUTS[verb].split(), str(tmp_path / "no" / "out")]) in (1, 2)
    error = capsys.readouterr().err
    assert any(os.strerror(number).lower() in line for line in error.splitlines() if line.startswith("error: "))
    assert "unexpected" not in error
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("verb", OUTS)
def test_a_place_within_a_file_is_one_line(tmp_path, capsys, verb):
    (tmp_path / "file").write_text("mine")
    assert main([*OUTS[verb].split(), str(tmp_path / "file" / "out")]) == 2
    assert "A file stands where a directory is needed" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
