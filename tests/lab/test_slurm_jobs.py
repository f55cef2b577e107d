"""Sweeps on a Slurm cluster, here by processes in its place: the same records as in one process."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from lengthwise import __version__, lab
from lengthwise.errors import Error
from lengthwise.lab import SlurmJobs, mailbox, slurm_jobs
from lengthwise.lab.job import Job
from lengthwise.train import Progress

from .watching import Watch, same


@pytest.fixture
def submitit(monkeypatch):
    monkeypatch.setattr(slurm_jobs, "LOOK_EVERY", 0.1)
    return pytest.importorskip("submitit")


@pytest.mark.slow
def test_jobs_that_are_preempted_go_on_and_failures_are_told(submitit, quick, toy, tmp_path, monkeypatch):
    """One signal to keep state and be queued again, in the middle of a run."""
    local = submitit.local.local.LocalJob
    begun, jobs = local.__init__, []
    monkeypatch.setattr(local, "__init__", lambda self, *a, **k: (begun(self, *a, **k), jobs.append(self))[0])

    def preempt():
        for job in jobs:
            if job.state == "RUNNING":
                # Its controller starts it again; the signal is for the job itself.
                [task] = Path(f"/proc/{job.job_id}/task/{job.job_id}/children").read_text().split()
                os.kill(int(task), signal.SIGUSR2)

    experiments = quick(steps=1000, checkpoint_every=1000, validate_every=1000)
    watch = Watch(preempt)
    engine = SlurmJobs(cluster="local", at_once=1)
    found = lab.run([*experiments, *quick(toy("Raises"))], tmp_path / "jobs", launch=engine, progress=watch)
    assert "the toy broke" in found[1].error
    assert "toys.py" in found[1].traceback
    steps = watch.steps[experiments[0].hash]
    assert 1 <= steps[0] < 1000
    [log] = [log.read_text() for log in tmp_path.rglob("*_0_log.out") if "Requeued" in log.read_text()]
    assert "is preempted" in log + "".join(each.read_text() for each in tmp_path.rglob("*_0_log.err"))
    same(found[:1], lab.run(experiments, tmp_path / "here", launch="here"))


@pytest.mark.slow
def test_a_sweep_that_is_stopped_goes_on_by_the_same_call(submitit, quick, tmp_path):
    experiments = quick(seeds=2, steps=1000, checkpoint_every=1000, validate_every=1000)
    watch = Watch(lambda: os.kill(os.getpid(), signal.SIGINT))
    engine = SlurmJobs(cluster="local", at_once=1)
    with pytest.raises(lab.Interrupted, match="all state is kept"):
        lab.run(experiments, tmp_path / "jobs", launch=engine, progress=watch)
    [kept] = (tmp_path / "jobs").glob("*/state/*.safetensors")
    assert 1 <= int(kept.name.split("-")[0]) < 1000
    found = lab.run(experiments, tmp_path / "jobs", launch=engine)
    assert len(list((tmp_path / "jobs" / ".slurm").iterdir())) == 1, "what of the second call went well is not kept"
    same(found, lab.run(experiments, tmp_path / "here", launch="here"))


@pytest.fixture
def slurm(submitit, tmp_path, monkeypatch):
    """A machine with commands of Slurm that take any job and know of none."""
    # It remembers how the jobs of these numbers ended in other tests.
    submitit.SlurmJob.watcher.clear()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()

    def command(name, says):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{says}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)

    command("sbatch", "echo Submitted batch job 71")
    command("srun", "true")
    command("scancel", "true")
    command("sacct", "echo 'JobID|State|NodeList'; echo '71_0|FAILED|alpha'; echo '71_1|FAILED|beta'")
    return command


SBATCH = """
folder=$(dirname "$1")
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
for n in $(seq 0 $last); do
    SLURM_JOB_ID=$((80 + n)) SLURM_ARRAY_JOB_ID=71 SLURM_ARRAY_TASK_ID=$n bash "$1" > /dev/null 2>&1 &
done
echo Submitted batch job 71
"""
SRUN = """
while [ "${1#--}" != "$1" ]; do case "$1" in --output|--error) shift 2;; *) shift;; esac; done
exec "$@"
"""


@pytest.mark.slow
def test_an_array_of_jobs(submitit, slurm, quick, tmp_path):
    """Commands of Slurm that start the tasks of an array as processes."""
    slurm("sbatch", SBATCH)
    slurm("srun", SRUN)
    slurm("sacct", "true")
    experiments, watch = quick(seeds=4), Watch()
    found = lab.run(experiments, tmp_path / "jobs", launch="slurm", progress=watch)
    assert watch.steps.keys() == {each.hash for each in experiments}
    assert not (tmp_path / "jobs" / ".slurm").exists()
    same(found, lab.run(experiments, tmp_path / "here", launch="here"))


def test_a_job_tells_of_a_run_that_ends_between_two_writings(submitit, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(mailbox, "TELL_EVERY", 1e9)
    [experiment] = quick(seeds=1)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)}
    try:
        slurm_jobs.SlurmWork(__version__)([experiment], Job(tmp_path / "runs"), tmp_path, 0)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    [told] = json.loads((tmp_path / "0.json").read_text())
    assert (told["what"], told["phase"]) == (experiment.hash, "test best")


def test_what_a_job_wrote_last_is_heard_though_slurm_said_first_that_it_ended(submitit, quick, tmp_path, monkeypatch):
    """Storage that is shared may show files late: submitit waits for the answer, and the progress is there with it."""
    [experiment], told = quick(), {"what": "a run", "phase": "train", "step": 9, "steps": 9, "loss": 0.5}

    class Ended:
        def done(self, force_check=False):
            return True

        def result(self):
            (tmp_path / "0.json").write_text(json.dumps([told]))
            return []

    job = Ended()
    pool = slurm_jobs._JobPool(None, 1, mailbox.Mailbox(tmp_path), Job(tmp_path))
    pool.numbers[job] = 0
    assert [news for _, news in pool.poll({job: [experiment]})] == [Progress(**told), []]


def script(root):
    [path] = {path.resolve() for path in root.rglob("*submission*.sh")}
    return path.read_text()


def test_a_job_array_asks_for_what_runs_take(submitit, slurm, tmp_path):
    engine = SlurmJobs("gpu", "lab", minutes=30, memory=4, at_once=2, extra="qos=high,constraint=a100")
    executor = engine.executor(tmp_path / "log", Job(tmp_path, cpus=8, gpus=1))
    with executor.batch():
        jobs = [executor.submit(abs, n) for n in range(3)]
    assert [job.job_id for job in jobs] == ["71_0", "71_1", "71_2"]
    said = script(tmp_path)
    for option in (
        "array=0-2%2",
        "partition=gpu",
        "account=lab",
        "time=30",
        "mem=4GB",
        "cpus-per-task=8",
        "gpus-per-node=1",
        "qos=high",
        "constraint=a100",
        "signal=USR2@90",
    ):
        assert f"#SBATCH --{option}\n" in said, option


def test_storage_that_is_not_shared_is_noticed_at_the_first_job(submitit, slurm, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_jobs, "ASK_EVERY", 0.0)
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 0)
    said = r"job 71_0 ended \(FAILED\) without a sign of life in .*Is that on storage that all nodes share"
    with pytest.raises(Error, match=said):
        lab.run(quick(seeds=2), tmp_path / "runs", launch="slurm")


def test_a_node_without_the_package_is_told_at_the_first_job(submitit, slurm, quick, tmp_path, monkeypatch):
    """There the job cannot be read, and leaves its traceback alone; one that had begun is a failed run."""
    said = "ModuleNotFoundError: No module named 'lengthwise'"

    def result(self):
        raise submitit.core.utils.FailedJobError(f"failed during processing with trace:\n{said}")

    monkeypatch.setattr(submitit.SlurmJob, "done", lambda self, force_check=False: True)
    monkeypatch.setattr(submitit.SlurmJob, "result", result)
    monkeypatch.setattr(submitit.SlurmJob, "stderr", lambda self: f"Traceback\n{said}\n")
    with pytest.raises(Error, match=rf"Is .* Lengthwise installed there\? .* Its last line: {said}"):
        lab.run(quick(), tmp_path / "runs", launch="slurm")
    monkeypatch.setattr(mailbox.Mailbox, "file", lambda self, number: self.place)
    (outcome,) = lab.run(quick(), tmp_path / "runs", launch="slurm")
    assert said in outcome.traceback


def test_what_slurm_refuses_is_one_line(submitit, slurm, quick, tmp_path):
    slurm("sbatch", "echo 'sbatch: error: invalid partition specified: nowhere' >&2; exit 1")
    with pytest.raises(
        Error, match=r"Slurm took no job: sbatch: error: invalid partition specified: nowhere. See `sinfo`"
    ):
        lab.run(quick(), tmp_path / "runs", launch="slurm partition=nowhere")


def test_a_node_with_another_version_is_told(submitit, tmp_path, monkeypatch):
    said = slurm_jobs.SlurmWork("9.9.9")([], Job(tmp_path), tmp_path, 0)
    assert "a node has lengthwise " in said
    assert "and this is 9.9.9. Install the same there" in said


def test_no_slurm_here_is_one_line(submitit, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Error, match="There is no Slurm on this machine: the command sbatch was not found"):
        lab.run(quick(), tmp_path / "runs", launch="slurm")
    assert not (tmp_path / "runs").exists()


def test_slurm_is_an_extra(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[slurm\]'"):
        lab.run(quick(), tmp_path, launch="slurm partition=gpu")


def test_a_share_of_a_gpu_is_refused_with_what_to_do(submitit, tmp_path):
    with pytest.raises(Error, match=r"whole GPUs, got 0\.25 a run.*--launch pool --gpus-per-run 0\.25"):
        next(iter(SlurmJobs(cluster="local").run([], Job(tmp_path, gpus=0.25))))
