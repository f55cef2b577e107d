"""One torch thread, here and in the processes that tests start: small tensors gain nothing from more, and on a busy
machine threads wait for one another. Results are bit for bit the same only between processes of as many threads.

LENGTHWISE_TEST_THREADS=2 asks for another number, to see that no test depends on it. No example of a property has a
deadline, which a busy machine would miss. `quick` makes a short experiment, to be varied by keywords.

What tests write is kept in memory where there is room: a run's records are synchronised to the disk by the thousand.
"""

import gc
import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import settings

THREADS = os.environ.get("LENGTHWISE_TEST_THREADS", "1")
os.environ["OMP_NUM_THREADS"] = THREADS
torch.set_num_threads(int(THREADS))

MEMORY = Path("/dev/shm")
ROOM = 2**31
# Tests start programs that they have written, which not every system allows there.
if (
    os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free >= ROOM
    and not os.statvfs(MEMORY).f_flag & getattr(os, "ST_NOEXEC", 0)
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("lengthwise", deadline=None)
settings.load_profile("lengthwise")


def pytest_collection_finish():
    """What has been imported by now lives to the end: the garbage collector need not visit it, which takes seconds."""
    gc.freeze()


TOYS = Path(__file__).parent / "lab" / "toys.py"


@pytest.fixture
def toy():
    return lambda name: f"{TOYS}:{name}"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The directory of a file's runs."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def quick():
    """`quick(model, **settings)`: experiments of a few dozen steps, `training.` settings by keyword."""

    from lengthwise.lab import plan

    def make(
        model="lstm", *, task="parity", seeds=1, test_lengths="8,16", train_length=8, model_settings=None, **training
    ):
        settings = {
            "training.steps": 30,
            "training.batch": 16,
            "training.validate_every": 10,
            "training.validation_samples": 32,
            "training.checkpoint_every": 10,
            "tests.samples": 16,
            **{f"training.{name}": value for name, value in training.items()},
            **{f"model.{name}": value for name, value in (model_settings or {}).items()},
        }
        return plan(task, [model], seeds=seeds, train_length=train_length, test_lengths=test_lengths, settings=settings)

    return make


IMPORTED = {
    "lab": ["lengthwise.models.modelling", "lengthwise.train.trainer", "lengthwise.lab.job"],
    "torch": ["torch"],
}
"""What new processes have behind them, whose imports would take most of their time."""


@pytest.fixture(scope="session")
def fork_servers():
    """For each of these a process, whose forks are new processes."""
    servers = {name: multiprocessing.forkserver.ForkServer() for name in IMPORTED}
    for name, server in servers.items():
        server.set_forkserver_preload(IMPORTED[name])
    return servers


BEGIN = """
import os, sys
for stream, path in ((1, out), (2, err)):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
os.chdir(cwd)
sys.argv[1:] = arguments
exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
"""


@pytest.fixture
def begin_python(fork_servers, monkeypatch, tmp_path_factory):
    """`begin_python(code, *arguments, cwd=…)` as Popen([sys.executable, "-c", …]), but soon begun: a process and a
    function that waits for it and returns what it wrote. `imported` is one of `IMPORTED`.
    """

    def begin(code, *arguments, cwd=".", imported="lab"):
        server = fork_servers[imported]
        monkeypatch.setattr(multiprocessing.forkserver, "connect_to_new_process", server.connect_to_new_process)
        folder = tmp_path_factory.mktemp("process")
        given = {"code": code, "arguments": list(map(str, arguments)), "cwd": str(cwd)}
        given |= {name: str(folder / name) for name in ("out", "err")}
        process = multiprocessing.get_context("forkserver").Process(target=exec, args=(BEGIN, given))
        process.start()

        def done():
            process.join()
            said = [path.read_text() if path.exists() else "" for path in (folder / "out", folder / "err")]
            return subprocess.CompletedProcess(arguments, process.exitcode, *said)

        return process, done

    return begin


@pytest.fixture
def run_python(begin_python):
    """`run_python(code, *arguments, cwd=…)` as subprocess.run([sys.executable, "-c", …]) that captures the output."""
    return lambda code, *arguments, **how: begin_python(code, *arguments, **how)[1]()
