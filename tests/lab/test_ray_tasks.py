"""Sweeps on a Ray cluster: the same records as in one process, whatever becomes of its nodes."""

import os
import signal

import pytest

from lengthwise import lab
from lengthwise.errors import Error
from lengthwise.lab import InProcess, Processes, RayTasks
from lengthwise.lab.launching import engine_of


class Watch:
    """Calls `then` once, when a first run has told how far it is; knows which have ended."""

    def __init__(self, then=None):
        self.then, self.ends = then, []

    def begin(self, experiment): ...

    def advance(self, progress):
        then, self.then = self.then, None
        if then:
            then()

    def waiting(self, experiment): ...

    def end(self, experiment, outcome):
        self.ends.append(experiment.hash)


def same(some, others):
    assert [o.error for o in some] == [None] * len(some)
    for a, b in zip(some, others, strict=True):
        one, other = a.run.tensors(), b.run.tensors()
        assert all((one[name] == other[name]).all() for name in other)
        assert a.run.result["checkpoints"] == b.run.result["checkpoints"]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    assert not ray.is_initialized()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.fixture
def other_node(cluster):
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing(cluster, other_node, quick, tmp_path):
    experiments = quick(seeds=4, steps=400, checkpoint_every=20)
    watch = Watch(lambda: cluster.remove_node(other_node, allow_graceful=False))
    found = lab.run(experiments, tmp_path / "cluster", launch=RayTasks(cluster.address), progress=watch)
    assert other_node not in cluster.worker_nodes
    assert sorted(watch.ends) == sorted(each.hash for each in experiments)
    same(found, lab.run(experiments, tmp_path / "here", launch="here"))


@pytest.mark.slow
def test_a_sweep_that_is_stopped_goes_on_in_one_process(cluster, quick, tmp_path):
    experiments = quick(seeds=2, steps=600, checkpoint_every=50)

    watch = Watch(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(lab.Interrupted, match="all state is kept"):
        lab.run(experiments, tmp_path / "cluster", launch=RayTasks(cluster.address), progress=watch)
    assert list((tmp_path / "cluster").glob("*/state/*.safetensors"))
    same(
        lab.run(experiments, tmp_path / "cluster", launch="here"),
        lab.run(experiments, tmp_path / "here", launch="here"),
    )


@pytest.mark.slow
def test_what_a_cluster_cannot_do_is_said_before_a_run_starts(cluster, quick, tmp_path, monkeypatch):
    experiments = quick()
    for engine, said in (
        (RayTasks(cluster.address, cpus=64), "shall take 64 cores, and no node of the cluster has more than 1"),
        (RayTasks(cluster.address, gpus=1), "shall take 1 GPUs, and no node of the cluster has more than 0"),
    ):
        with pytest.raises(Error, match=said):
            lab.run(experiments, tmp_path, launch=engine)
    monkeypatch.setattr("lengthwise.lab.ray_tasks.__version__", "9.9.9")
    with pytest.raises(Error, match=r"a node of the cluster has lengthwise .*, and this is 9\.9\.9"):
        lab.run(experiments, tmp_path, launch=RayTasks(cluster.address))
    assert not list(tmp_path.glob("*/config.json"))


def test_no_cluster_is_one_line(quick, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(Error, match=r"There is no Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        lab.run(quick(), tmp_path, launch="ray address=127.0.0.1:1")


def test_ray_is_an_extra(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[ray\]'"):
        lab.run(quick(), tmp_path, launch="ray")


def test_ways_by_name():
    def made(launch, workers=None, runs=5, device="cpu"):
        return engine_of(launch, workers=workers, runs=runs, device=device)

    assert isinstance(made(None, runs=1), InProcess)
    assert isinstance(made(None, device="cuda"), InProcess)
    assert isinstance(made("here"), InProcess)
    assert isinstance(made("pool", 3), Processes)
    assert made("pool workers=4").workers == made("pool", workers=4).workers == 4
    ray = made("ray address=auto cpus=2 gpus=0.5")
    assert (ray.address, ray.cpus, ray.gpus) == ("auto", 2.0, 0.5)
    for launch, said in {
        "rai": "Did you mean 'ray'",
        "": "Unknown way to launch runs",
        "ray adress=auto": "Did you mean 'address'",
        "ray cpus=0": "cpus must be",
        "ray auto": "NAME=VALUE",
    }.items():
        with pytest.raises(Error, match=said):
            made(launch)
    with pytest.raises(Error, match="how many processes a pool has"):
        made("ray", workers=2)
