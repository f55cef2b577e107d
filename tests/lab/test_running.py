"""One experiment, one result: whatever the caller's threads, the workers, and where it was stopped; where runs go."""

import os
import signal

import pytest
import torch

from lengthwise import lab
from lengthwise.errors import Error
from lengthwise.lab import InProcess, Launch, Processes
from lengthwise.lab.engines import gpu_of
from lengthwise.lab.job import Job
from lengthwise.lab.running import device_of, engine_of
from lengthwise.train import Interrupted

from .watching import Watch


@pytest.fixture
def wide(quick):
    """Two runs whose sums are long enough to be shared among threads."""
    return quick(
        "transformer",
        seeds=2,
        train_length=40,
        lengths=[30, 40],
        test_lengths="48",
        steps=6,
        batch=64,
        model_settings={"width": 64, "layers": 1},
    )


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2, "the caller's number of threads is the caller's"
    torch.set_num_threads(before)


def weights(outcomes):
    assert all(outcome.run for outcome in outcomes), outcomes
    return [outcome.run.tensors() for outcome in outcomes]


def equal(a, b):
    return all(torch.equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x)


def test_the_number_of_workers_and_of_the_callers_threads_changes_nothing(tmp_path, wide, two_threads):
    one = lab.run(wide, tmp_path / "one", workers=1)
    two = lab.run(wide, tmp_path / "two", workers=2)
    assert equal(weights(one), weights(two))
    assert [outcome.run.result["machine"]["threads"] for outcome in [*one, *two]] == [1] * 4
    # This says something only if the threads have a say where they are asked for.
    asked = [e for e in wide if e.seed == 0]
    other = [lab.Experiment(e.data, e.model, e.training.but(threads=2), e.tests, e.seed) for e in asked]
    assert not equal(weights(lab.run(other, tmp_path / "threads", workers=1)), weights(one)[:1])


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_stopped_under_so_many_workers_and_ended_under_others(tmp_path, wide, two_threads, first, then):
    whole = lab.run(wide, tmp_path / "whole", workers=1)
    with pytest.raises(Interrupted):
        lab.run(wide, tmp_path / "pieces", workers=first, progress=Watch(lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert equal(weights(lab.run(wide, tmp_path / "pieces", workers=then)), weights(whole))


def test_ways_by_name():
    def made(launch, workers=None, runs=5, device="cpu"):
        return engine_of(Launch(launch, workers), runs, device)

    assert isinstance(made(None, runs=1), InProcess)
    assert isinstance(made(None, device="cuda"), InProcess)
    assert isinstance(made("here"), InProcess)
    assert isinstance(made("pool", 3), Processes)
    assert made("pool workers=4").workers == made("pool", workers=4).workers == 4
    assert made("ray address=auto").address == "auto"
    slurm = made("slurm partition=gpu minutes=30 memory=4 at_once=10 extra=qos=high,constraint=a100")
    assert (slurm.partition, slurm.minutes, slurm.memory, slurm.at_once) == ("gpu", 30, 4.0, 10)
    for launch, said in {
        "rai": "Did you mean 'ray'",
        "": "Unknown way to launch runs",
        "ray adress=auto": "Did you mean 'address'",
        "slurm minutes=0": "minutes must be",
        "ray auto": "NAME=VALUE",
    }.items():
        with pytest.raises(Error, match=said):
            made(launch)
    with pytest.raises(Error, match="how many processes a pool has"):
        made("ray", workers=2)


def test_a_pool_has_as_many_processes_as_runs_find_room(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)

    def workers(**takes):
        runs, device = takes.pop("runs", 20), takes.pop("device", "cpu")
        engine = engine_of(Launch(cpus_per_run=takes.get("cpus"), gpus_per_run=takes.get("gpus")), runs, device)
        return engine.workers if isinstance(engine, Processes) else 1

    assert [workers(), workers(cpus=2), workers(cpus=8), workers(cpus=0.5), workers(runs=3)] == [8, 4, 1, 16, 3]
    assert [workers(device="cuda", gpus=g) for g in (None, 0.25, 1, 2)] == [1, 8, 2, 1]
    assert workers(device="cuda:1", gpus=0.25) == 4
    assert workers(device="cuda", gpus=0.25, cpus=4) == 2
    for takes, said in (
        ({"cpus": 9}, "shall take 9 cores, and this machine has 8"),
        ({"device": "cuda", "gpus": 3}, "shall take 3 GPUs, and this machine has 2"),
        ({"device": "cuda:1", "gpus": 2}, "shall take 2 GPUs, and this machine has 1"),
    ):
        with pytest.raises(Error, match=said):
            workers(**takes)


def test_workers_spread_over_the_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    job, taken = Job(tmp_path, device="cuda", gpus=0.5), []
    for _ in range(4):
        taken.append(gpu_of(job, taken))
    assert taken == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert gpu_of(job, ["cuda:0", "cuda:0", "cuda:1"]) == "cuda:1"
    assert gpu_of(Job(tmp_path, device="cuda"), []) == "cuda"
    assert gpu_of(Job(tmp_path, device="cuda:1", gpus=0.5), ["cuda:1"]) == "cuda:1"


def test_the_device_is_of_the_machines_that_runs_are_sent_to(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_of("auto", None, None) == device_of("auto", "pool", None) == "cpu"
    assert device_of("auto", "ray address=auto", 0.5) == device_of("cuda", lab.SlurmJobs(), None) == "cuda"
    assert device_of("auto", "slurm", None) == "cpu"
    for given, said in (
        (("auto", None, 1), "shall take 1 GPUs, and torch sees none here"),
        (("cpu", "pool", 1), "shall take 1 GPUs, and the device is cpu"),
        (("cuda", "pool", 1), "torch sees no GPU"),
        (("cuda:0", "ray", 1), "auto, cpu or cuda where runs are sent to a cluster, got 'cuda:0'"),
        (("cpu", "slurm", 1), "the device is cpu"),
    ):
        with pytest.raises(Error, match=said):
            device_of(*given)


def test_what_a_machine_has_not_is_said_before_a_run_starts(tmp_path, quick):
    many = {"cpus_per_run": 4096.0}
    with pytest.raises(Error, match="shall take 4096 cores"):
        lab.run(quick(), tmp_path, **many)
    with pytest.raises(Error, match="gpus_per_run must be a number above 0"):
        lab.bench("parity", ["lstm"], root=tmp_path, gpus_per_run=0)
    if not torch.cuda.is_available():
        with pytest.raises(Error, match="torch sees none here"):
            lab.bench("parity", ["lstm"], root=tmp_path, gpus_per_run=1)
    assert not list(tmp_path.iterdir())
