"""Engines: one run's failure is not another's, and Ctrl-C loses nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
import torch
from rich.console import Console

from lengthwise import lab
from lengthwise.cli import main
from lengthwise.cli.progress import Watch as ConsoleWatch
from lengthwise.errors import Error
from lengthwise.lab import InProcess, Interrupted, Processes, engines
from lengthwise.lab.engines import UNGUARDED, WORKER
from lengthwise.lab.job import Job
from lengthwise.lab.records import RunDirectory
from lengthwise.train.lease import Holder

from .watching import Watch

ENGINES = [InProcess(), Processes(2)]


@pytest.fixture
def one_thread():
    """As workers have: the number of threads has a say in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_engines_agree(tmp_path, quick, one_thread):
    experiments = quick("regular-gpt", seeds=3)
    found = []
    for index, engine in enumerate(ENGINES):
        listener = Watch()
        outcomes = lab.run(experiments, tmp_path / str(index), launch=engine, progress=listener)
        assert [outcome.experiment for outcome in outcomes] == experiments
        for experiment in experiments:
            assert [kind for kind, hash in listener.heard if hash == experiment.hash] == ["begin", "end"]
            assert listener.steps[experiment.hash]
        found.append([outcome.run.result["checkpoints"] for outcome in outcomes])
    assert found[0] == found[1]
    assert len({str(checkpoints) for checkpoints in found[0]}) > 1


@pytest.mark.parametrize("engine", ENGINES, ids=["in process", "processes"])
def test_a_failure_is_recorded_and_the_rest_finished(tmp_path, quick, toy, engine):
    good, broken, other = quick("lstm") + quick(toy("Raises")) + quick(toy("Tiny"))
    outcomes = lab.run([good, broken, other], tmp_path, launch=engine)
    assert [outcome.run is not None for outcome in outcomes] == [True, False, True]
    assert re.search(r"toys.py:Raises: .* RuntimeError \(.*toys.py:\d+\): the toy broke$", outcomes[1].error)
    assert "toys.py" in outcomes[1].traceback
    assert outcomes[1].log.read_text() == outcomes[1].traceback
    assert outcomes[1].exit_code == 1


def test_a_dying_process_takes_only_its_own_run(tmp_path, quick, toy):
    dies, good = quick(toy("Dies")) + quick("lstm")
    outcomes = lab.run([dies, good], tmp_path, launch=Processes(2))
    assert "signal 9" in outcomes[0].error
    assert outcomes[1].run is not None


@pytest.mark.parametrize("engine", ENGINES, ids=["in process", "processes"])
def test_interrupted_runs_go_on(tmp_path, quick, engine):
    experiments = quick("regular-gpt", seeds=2, steps=400, checkpoint_every=400)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="kept"):
        lab.run(experiments, tmp_path, launch=engine, progress=Watch(lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert signal.getsignal(signal.SIGINT) is before
    states = list(tmp_path.glob("*/state/*.safetensors"))
    assert states, "nothing was kept"
    assert all(0 < int(path.name.split("-")[0]) < 400 for path in states)


def test_a_worker_whose_parent_is_gone_keeps_its_state(tmp_path, quick, begin_python):
    script = (
        "import sys, json, pathlib\n"
        "from lengthwise import lab\n"
        "from lengthwise.lab import Experiment, Processes\n"
        "class P:\n"
        "    def begin(self, e): pathlib.Path('begun').touch()\n"
        "    def advance(self, *a): pass\n"
        "    def waiting(self, e): pass\n"
        "    def end(self, e, o): pass\n"
        "e = Experiment.from_json(json.loads(sys.argv[2]))\n"
        "lab.run([e], sys.argv[1], launch=Processes(1), progress=P())\n"
    )
    (experiment,) = quick("regular-gpt", steps=100_000, checkpoint_every=100_000, validate_every=100_000)
    process, _ = begin_python(script, tmp_path / "runs", json.dumps(experiment.to_json()), cwd=tmp_path)
    wait_for(tmp_path.glob, "begun")
    process.kill()
    process.join()
    (state,) = wait_for(tmp_path.glob, "runs/*/state/0*.safetensors")
    assert int(state.name.split("-")[0]) > 0


def wait_for(look, pattern):
    deadline = time.monotonic() + 30
    while not (seen := list(look(pattern))):
        assert time.monotonic() < deadline, f"there is no {pattern}"
        time.sleep(0.05)
    return seen


@pytest.mark.parametrize("engine", ENGINES, ids=["in process", "processes"])
def test_waiting_for_another_process_can_be_interrupted(tmp_path, quick, engine):
    (experiment,) = quick()

    class Impatient(Watch):
        def waiting(self, experiment):
            super().waiting(experiment)
            os.kill(os.getpid(), signal.SIGINT)

    began, listener = time.monotonic(), Impatient()
    with RunDirectory(tmp_path, experiment).locked(), pytest.raises(Interrupted):
        lab.run([experiment], tmp_path, launch=engine, progress=listener)
    assert listener.heard == [("waiting", experiment.hash)]
    assert time.monotonic() - began < 30


def test_a_worker_that_dies_in_mid_message_is_an_outcome(tmp_path, quick, monkeypatch):
    (experiment,) = quick()
    monkeypatch.setattr(
        "multiprocessing.connection.Connection.recv", lambda self: (_ for _ in ()).throw(OSError("cut"))
    )
    (outcome,) = lab.run([experiment], tmp_path, launch=Processes(1))
    assert outcome.run is not None or "worker process ended" in outcome.error


@pytest.mark.parametrize("engine", ENGINES, ids=["in process", "processes"])
def test_what_another_process_holds_comes_last(tmp_path, quick, engine):
    held, *free = quick(seeds=3)
    with ExitStack() as stack:
        stack.enter_context(RunDirectory(tmp_path, held).locked())

        class Releasing(Watch):
            def end(self, experiment, outcome):
                super().end(experiment, outcome)
                if len(self.of("end")) == 2:
                    stack.close()

        listener = Releasing()
        outcomes = lab.run([held, *free], tmp_path, launch=engine, progress=listener)
    assert [outcome.experiment for outcome in outcomes] == [held, *free]
    assert all(outcome.run for outcome in outcomes)
    assert set(listener.of("end")[:2]) == {e.hash for e in free}
    assert listener.of("waiting") == [held.hash]


def test_the_holder_of_a_run_is_named(tmp_path, quick, capsys):
    (experiment,) = quick()
    directory = RunDirectory(tmp_path, experiment)
    watch = ConsoleWatch([experiment], Console(stderr=True), tmp_path)
    assert not directory.held()
    with directory.locked():
        assert directory.held()
        watch.waiting(experiment)
    said = f"lstm seed 0: process {os.getpid()} on {socket.gethostname()} is at work on it; what is left comes first"
    assert " ".join(capsys.readouterr().err.split()) == said
    assert not directory.held()
    assert directory.holder() == "another process"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_call_twice_shares_the_work(tmp_path, workers):
    """No run is trained by both, and both end with all."""
    words = "bench parity -m lstm --seeds 6 --train-length 8 --test-lengths 16 --set training.steps=150 --out runs"
    call = [sys.executable, "-m", "lengthwise", *words.split(), "--workers", str(workers)]
    processes = [subprocess.Popen(call, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=500)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    for seed in range(6):
        assert sum(f"lstm seed {seed}: step " in text for text in said) <= 1
        assert sum(text.count(f"] lstm seed {seed}: found finished") for text in said) == 1
        for text in said:
            assert text.count(f"lstm seed {seed}: process ") <= 1
    assert len(lab.load(tmp_path / "runs")) == 6


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "sleeps"])
def test_of_two_machines_one_goes_on_with_what_the_other_left(tmp_path, how):
    """No lock is shared by the two, and the one that slept writes nothing over what the other has done."""
    words = "bench parity -m lstm --seeds 3 --train-length 8 --test-lengths 16 --set training.steps=400"
    words += " --set training.checkpoint_every=20 --launch here --out "

    def start(machine):
        code = (
            f"import sys\nfrom lengthwise.train import lease\nlease.MACHINE = {machine!r}\n"
            f"from lengthwise.cli import main\nsys.exit(main({[*words.split(), 'runs']!r}))"
        )
        return subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    first, other = start("alpha"), None
    try:
        while not list(tmp_path.glob("runs/*/state/*.safetensors")):
            assert first.poll() is None
            time.sleep(0.01)
        os.kill(first.pid, how)
        [begun] = [path.parent.parent for path in tmp_path.glob("runs/*/state/*.safetensors")][:1]
        other = start("beta")
        said = ""
        while f"process {first.pid} on " not in said:
            line = other.stderr.readline()
            assert line, said
            said += line
        # A minute later.
        os.utime(Holder.of(begun).path, (0, 1))
        said += other.communicate(timeout=300)[1]
        assert other.returncode == 0, said
        ended = {path: path.read_bytes() for path in begun.iterdir() if path.is_file()}
        os.kill(first.pid, signal.SIGCONT)
        first_said = first.communicate(timeout=300)[1]
        if how == signal.SIGSTOP:
            assert first.returncode == 0, first_said
            assert "another process has gone on with this work, as process" in first_said
            begun_by_first = {line.split(": step ")[0] for line in first_said.splitlines() if ": step " in line}
            assert len(begun_by_first) == 1, "it finds all others finished"
        assert {path: path.read_bytes() for path in begun.iterdir() if path.is_file()} == ended
    finally:
        for process in filter(None, [first, other]):
            process.kill()
            process.wait()
    assert main([*words.split(), str(tmp_path / "alone")]) == 0
    runs, alone = lab.load(tmp_path / "runs"), lab.load(tmp_path / "alone")
    assert len(runs) == len(alone) == 3
    for one, same in zip(runs, alone, strict=True):
        assert all((one.tensors()[name] == same.tensors()[name]).all() for name in same.tensors())
        assert one.result["checkpoints"] == same.result["checkpoints"]


def test_two_processes_on_the_same_run(tmp_path, quick, begin_python):
    """The second waits, then finds the run finished."""
    (experiment,) = quick("regular-gpt")
    script = (
        "import sys, json\nfrom pathlib import Path\nfrom lengthwise.lab import Experiment, Job\n"
        "from lengthwise.lab.job import run_group\n"
        "e = Experiment.from_json(json.loads(sys.argv[2]))\n"
        "o = run_group([e], Job(Path(sys.argv[1])))[0]\n"
        "print(json.dumps([o.error, o.run and o.run.result['date']]))\n"
    )
    begun = [begin_python(script, tmp_path, json.dumps(experiment.to_json())) for _ in range(3)]
    answers = [json.loads(done().stdout.splitlines()[-1]) for _, done in begun]
    assert answers[0][0] is None
    assert answers[0] == answers[1] == answers[2], "one run, seen by all"
    assert len(lab.load(tmp_path)) == 1


def test_a_gpu_that_is_not_there(tmp_path, quick, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(Error, match="no GPU"):
        lab.run(quick(), tmp_path, device="cuda")


@pytest.mark.slow
def test_a_script_without_its_guard_is_told_so(tmp_path):
    """Each worker reads the script from its beginning, and would start workers of its own."""
    call = "lab.bench('parity', ['lstm'], seeds=2, train_length=4, test_lengths='8', workers=2, root='runs')\n"
    script = tmp_path / "plain.py"
    script.write_text(f"from lengthwise import lab\n{call}")
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "2 workers: each reads this script from its beginning" in done.stderr.splitlines()[-1]
    assert 'under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def test_a_worker_that_reads_its_script_runs_nothing(tmp_path, quick, monkeypatch):
    ended = []

    class Starting:
        name, _inheriting = WORKER, True

    monkeypatch.setattr("multiprocessing.current_process", Starting)
    monkeypatch.setattr("os._exit", lambda code: ended.append(code) or sys.exit(code))
    for call in (lambda: lab.run(quick(), tmp_path), lambda: lab.bench("parity", ["lstm"], root=tmp_path)):
        with pytest.raises(SystemExit):
            call()
    assert ended == [UNGUARDED, UNGUARDED]
    assert not list(tmp_path.iterdir())


def test_a_process_that_the_user_started_goes_on(tmp_path, quick, monkeypatch):
    """A script's own processes read it from its beginning too, and may call the lab there."""

    class Starting:
        name, _inheriting = "SpawnProcess-1", True

    monkeypatch.setattr("multiprocessing.current_process", Starting)
    monkeypatch.setattr("os._exit", sys.exit)
    assert lab.run(quick(), tmp_path, workers=1)[0].run


def test_what_others_hold_is_looked_at_now_and_then(tmp_path, quick, monkeypatch):
    tried, now = [], [100.0]
    held = {e.hash for e in quick(seeds=30)}
    monkeypatch.setattr(engines.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(RunDirectory, "held", lambda self: tried.append(self) or self.experiment.hash in held)
    waiting = engines.Waiting([], Job(tmp_path))
    groups = [[e] for e in quick(seeds=30)]
    for group in groups:
        waiting.put_back(group, [])
    for _ in range(20):
        assert waiting.next() is None
    assert len(tried) == waiting.LOOK_AT
    held.discard(groups[-1][0].hash)
    looks = 0
    while (found := waiting.next()) is None:
        now[0] += waiting.LOOK_EVERY
        looks += 1
    assert found == groups[-1]
    assert looks <= 30 / waiting.LOOK_AT + 1


def test_a_dead_worker_s_damaged_run_is_a_failure_and_what_others_hold_is_left(tmp_path, quick):
    damaged, held, begun = quick(seeds=3)
    directory = RunDirectory(tmp_path, damaged)
    with directory.locked():
        directory.start()
    (directory.path / "result.json").write_text('{"half": ')
    with RunDirectory(tmp_path, held).locked():
        outcomes = list(engines.died([damaged, held, begun], engines.ended(-9), Job(tmp_path)))
        assert not (RunDirectory(tmp_path, held).path / "error.txt").exists()
    assert [outcome.experiment for outcome in outcomes] == [damaged, begun]
    assert "not whole JSON" in outcomes[0].error
    assert "signal 9" in outcomes[1].error
    waiting = engines.Waiting([], Job(tmp_path))
    waiting.put_back([damaged, held, begun], outcomes)
    assert waiting.next() == [held]
