"""Sweeps on a Ray cluster: the same records as in one process, whatever becomes of its nodes."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from lengthwise import lab
from lengthwise.errors import Error
from lengthwise.lab import RayTasks, ray_tasks
from lengthwise.lab.job import Job
from lengthwise.lab.ray_tasks import _fit
from lengthwise.train.lease import Holder

from .watching import Watch, same


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
    assert sorted(watch.of("end")) == sorted(each.hash for each in experiments)
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
    for takes, said in (
        ({"cpus_per_run": 64}, "shall take 64 cores, and no node of the cluster has more than 1"),
        ({"gpus_per_run": 1}, "shall take 1 GPUs, and no node of the cluster has more than 0"),
    ):
        with pytest.raises(Error, match=said):
            lab.run(experiments, tmp_path, launch=RayTasks(cluster.address), **takes)
    monkeypatch.setattr("lengthwise.lab.ray_tasks.__version__", "9.9.9")
    with pytest.raises(Error, match=r"a node of the cluster has lengthwise .*, and this is 9\.9\.9"):
        lab.run(experiments, tmp_path, launch=RayTasks(cluster.address))
    monkeypatch.undo()
    # A directory in which nothing appears looks to a node as one that it does not share.
    monkeypatch.setattr("pathlib.Path.touch", lambda self: None)
    with pytest.raises(Error, match=f"does not see {tmp_path}. Give --out a directory on storage that all nodes share"):
        lab.run(experiments, tmp_path, launch=RayTasks(cluster.address))
    assert not list(tmp_path.glob("*/config.json"))


def test_what_shares_a_node_is_of_that_node():
    def fit(cpus, gpus, **node):
        return _fit({"Resources": node}, Job(Path("runs"), cpus=cpus, gpus=gpus))

    assert [fit(2, 0.25, CPU=16, GPU=1), fit(2, 0.25, CPU=4, GPU=8), fit(2, 0.25, CPU=64)] == [4, 2, 0]
    assert fit(0.5, 0, CPU=3) == 6


def test_no_cluster_is_one_line(quick, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(Error, match=r"There is no Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        lab.run(quick(), tmp_path, launch="ray address=127.0.0.1:1")


def test_ray_is_an_extra(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[ray\]'"):
        lab.run(quick(), tmp_path, launch="ray")


class KillsANode(Watch):
    """Kills a node while each node is in the middle of a run that has a checkpoint; knows which run that was."""

    def __init__(self, cluster, node, root):
        super().__init__()
        self.cluster, self.node, self.root = cluster, node, root
        self.after, self.lost = [], None

    def advance(self, progress):
        super().advance(progress)
        if self.lost and self.lost.endswith(progress.what):
            self.after.append(progress.step)

    def look(self):
        """Called all the time, for a run takes less than a second."""
        running = {}
        for path in () if self.lost else self.root.glob("*/state/*.safetensors"):
            run = path.parent.parent
            holder = Holder.of(run)
            if holder and holder.alive() and any(run.name.endswith(each) for each in self.steps):
                running[int(holder.who.split()[1])] = run.name
        if len(running) == 2:
            self.kill(running)

    def kill(self, running):
        for process in running:
            os.kill(process, signal.SIGSTOP)
        [raylet] = [each.process.pid for each in self.node.all_processes["raylet"]]
        for process, run in running.items():
            if int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]) == raylet:
                assert not (self.root / run / "result.json").exists()
                self.cluster.remove_node(self.node, allow_graceful=False)
                self.lost = run
                os.kill(process, signal.SIGKILL)
            else:
                os.kill(process, signal.SIGCONT)


@pytest.mark.slow
def test_of_forty_runs_only_that_of_the_dead_node_is_taken_up_again(cluster, other_node, quick, tmp_path, monkeypatch):
    """It goes on from its checkpoint, in the directory that both nodes share; each result is that of one process."""
    monkeypatch.setattr(ray_tasks._RayPool, "pause", 0.05)
    experiments = quick("lstm", seeds=40, steps=60, checkpoint_every=20, validate_every=60, test_lengths="8")
    watch, holders, over = KillsANode(cluster, other_node, tmp_path / "cluster"), {}, threading.Event()

    def look():
        while not over.wait(0.05):
            watch.look()
            for path in watch.root.glob("*/holder.*"):
                with contextlib.suppress(OSError):
                    holders.setdefault(path.parent.name, set()).add(Holder(path).who)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        found = lab.run(experiments, watch.root, launch=RayTasks(cluster.address), progress=watch)
    finally:
        over.set()
        looking.join()
    assert watch.lost
    assert min(watch.after, default=2) > 1, "it began anew"
    assert {run for run, who in holders.items() if len(who - {"another process"}) > 1} <= {watch.lost}
    assert sorted(watch.of("end")) == sorted(each.hash for each in experiments)
    same(found, lab.run(experiments, tmp_path / "here", launch="here"))
