"""`bench` and `run`: experiments in, finished runs out, here or in a pool of processes, on a Ray or a Slurm cluster.

lab.run(experiments, "runs", launch="ray address=auto", cpus_per_run=2)
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from .. import own_code
from ..errors import Error, UnknownName
from ..notebooks import html_table, in_notebook
from ..options import schema, take, word_of
from ..train import Progress
from ..train.team import follows
from .engines import InProcess, Processes, leave_a_starting_worker
from .experiment import Experiment
from .grid import Architectures, OneTask, Settings, plan
from .job import Job, Outcome, check_room, groups, room
from .launch import Engine, Launch
from .loggers import check_loggers
from .ray_tasks import RayTasks
from .records import Run, Runs, own_parts
from .slurm_jobs import SlurmJobs
from .sweeps import Sweep
from .under_torchrun import UnderTorchrun, check_strategy, follow

LAUNCHES: dict[str, Callable[..., Engine]] = {
    "here": InProcess,
    "pool": Processes,
    "ray": RayTasks,
    "slurm": SlurmJobs,
}


def engine_of(how: Launch, runs: int, device: str) -> Engine:
    """The engine that is named, its options behind its name.

    None: a pool of as many processes as the machine has room for, but this process where there is one run, or a GPU of
    which no share is named.

    >>> engine_of(Launch("ray address=auto"), runs=9, device="cpu").address
    'auto'
    """
    if how.launch is not None and not isinstance(how.launch, str):
        return how.launch
    name, *words = how.launch.split() or [""] if how.launch is not None else ["pool"]
    if name not in LAUNCHES:
        raise UnknownName("way to launch runs", name, LAUNCHES)
    if how.workers is not None and name != "pool":
        raise Error(f"workers={how.workers} is how many processes a pool has, got launch {name!r}. Leave it out.")
    kind, options = LAUNCHES[name], dict[str, Any](word_of(word, "address=auto") for word in words)
    if name in ("here", "pool"):
        cpus, gpus, cores = how.cpus_per_run or 1.0, how.gpus_per_run or 0.0, os.cpu_count() or 1
        here = torch.cuda.device_count() if device == "cuda" else int(device.startswith("cuda"))
        check_room(cpus, gpus, cores, here, "this machine has")
        alone = device.startswith("cuda") and not gpus
        count = 1 if alone else min(runs, room(cpus, gpus, cores, here)) or 1
        if how.launch is None and (how.workers or count) == 1:
            return InProcess()
        if name == "pool":
            options.setdefault("workers", how.workers or count)
    return kind(**take(schema(kind), options, f"launch {name}", prefix=""))


def elsewhere(launch: Engine | str | None) -> bool:
    """True if runs are sent to machines whose devices are not those of this one."""
    if isinstance(launch, str):
        launch = LAUNCHES.get(launch.split()[0] if launch.split() else "")  # pyright: ignore[reportAssignmentType]
    return getattr(launch, "elsewhere", False)


def device_of(device: str, launch: Engine | str | None, gpus: float | None) -> str:
    """Returns what runs are computed on: a device of this machine, or of those that they are sent to."""
    if not elsewhere(launch):
        chosen = chosen_device(device)
        if gpus and not chosen.startswith("cuda"):
            why = "torch sees none here" if device == "auto" else f"the device is {device}"
            raise Error(f"A run shall take {gpus:g} GPUs, and {why}. Ask for none.")
        return chosen
    if device not in ("auto", "cpu", "cuda"):
        raise Error(f"device must be auto, cpu or cuda where runs are sent to a cluster, got {device!r}.")
    if device == "cpu" and gpus:
        raise Error(f"A run shall take {gpus:g} GPUs, and the device is cpu. Leave one of the two out.")
    return device if device != "auto" else "cuda" if gpus else "cpu"


def chosen_device(device: str) -> str:
    """The GPU for "auto", where there is one, else the CPU; a GPU that is not there is refused."""
    if not isinstance(device, str):
        raise Error(f"device must be a text, auto, cpu, cuda or cuda:N, got {device!r}.")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise Error(f"device must be auto, cpu, cuda or cuda:N, got {device!r}.")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Error(f"device {device!r} was asked for, but torch sees no GPU. Use --device cpu or auto.")
    _, _, number = device.partition(":")
    if number and int(number) >= torch.cuda.device_count():
        raise Error(f"device must be one of the {torch.cuda.device_count()} GPUs from cuda:0 on, got {device!r}.")
    return device


class Listener(Protocol):
    """Hears how the runs go; always called in the process that called `run`."""

    def begin(self, experiment: Experiment) -> None: ...

    def advance(self, progress: Progress) -> None: ...

    def waiting(self, experiment: Experiment) -> None: ...

    def end(self, experiment: Experiment, outcome: Outcome) -> None: ...


REDRAWN_EVERY = 0.2
"""Seconds between two drawings of the progress in a notebook."""


class NotebookProgress:
    """Hears how runs go and keeps one line for each of them up to date, in the output of the notebook's cell."""

    def __init__(self, experiments: Sequence[Experiment]):
        self.lines = {e.hash: [e.data.name, e.model.name, str(e.seed), "waiting for its turn"] for e in experiments}
        self.handle: Any = None
        self._draw()

    def begin(self, experiment: Experiment) -> None:
        self._say(experiment.hash, "starting", at_once=True)

    def advance(self, progress: Progress) -> None:
        loss = f", loss {progress.loss:.4g}" if progress.phase == "train" else ""
        self._say(progress.what, f"{progress.phase}: {progress.step:,}/{progress.steps:,}{loss}")

    def waiting(self, experiment: Experiment) -> None:
        self._say(experiment.hash, "another process is at work on it; waiting", at_once=True)

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self._say(experiment.hash, "finished" if outcome.run else f"failed: {outcome.error}", at_once=True)

    def _say(self, run: str, what: str, at_once: bool = False) -> None:
        self.lines[run][-1] = what
        if at_once or time.monotonic() - self.drawn > REDRAWN_EVERY:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        self.drawn = time.monotonic()
        table = HTML(html_table(["data", "model", "seed", "progress"], list(self.lines.values())))
        if self.handle is None:
            self.handle = display(table, display_id=True)
        else:
            self.handle.update(table)


def run(
    experiments: Sequence[Experiment],
    root: Path | str = "runs",
    *,
    command: str = "",
    progress: Listener | None = None,
    **how: Any,
) -> list[Outcome]:
    """Run what is not finished yet and return every outcome, in the order given; `progress` hears how they go.

    `how` are the fields of `Launch`. Runs that go together (`Stacked`) take cores and GPUs as one. With a `strategy`
    all processes that torchrun started make this call and return the same.
    """
    leave_a_starting_worker()
    launch = Launch.of(how, "run")
    loggers = check_loggers(launch.log)
    device = device_of(launch.device, launch.launch, launch.gpus_per_run)
    if not isinstance(experiments, (list, tuple)) or not all(isinstance(each, Experiment) for each in experiments):
        raise Error(f"run takes a list of experiments, as lab.plan makes them, got {experiments!r}.")
    own = asked_own(experiments)
    experiments = list({experiment.hash: experiment for experiment in experiments}.values())
    todo = groups(experiments, device)
    if launch.strategy is None:
        engine = engine_of(launch, len(todo), device)
    else:
        check_strategy(launch, command)
        if follows():
            return follow(launch.strategy, device)
        engine = UnderTorchrun(launch.strategy)
    by_hash = {experiment.hash: experiment for experiment in experiments}
    begun: set[str] = set()
    outcomes: dict[str, Outcome] = {}
    told: set[str] = set()

    def hear(step: Progress) -> None:
        # From another machine it may arrive after the outcome.
        if progress and step.what not in outcomes:
            if step.what not in begun:
                begun.add(step.what)
                progress.begin(by_hash[step.what])
            progress.advance(step)

    def waiting(experiment: Experiment) -> None:
        if progress and experiment.hash not in told:
            told.add(experiment.hash)
            progress.waiting(experiment)

    job = Job(
        Path(root),
        device=device,
        cpus=launch.cpus_per_run or 1.0,
        gpus=launch.gpus_per_run or float(device == "cuda" and elsewhere(launch.launch)),
        command=command,
        hear=hear,
        waiting=waiting,
        log=loggers,
        own=own,
    )
    for outcome in engine.run(todo, job):
        if outcome.found and outcome.experiment.hash in begun:
            # Its node died after its last step, and it was started again.
            outcome = replace(outcome, found=False)
        outcomes[outcome.experiment.hash] = outcome
        if progress:
            progress.end(outcome.experiment, outcome)
    return [outcomes[experiment.hash] for experiment in experiments]


def asked_own(experiments: Sequence[Experiment]) -> tuple[tuple[str, str], ...]:
    """The code from outside that experiments run, by name and digest; it is an error if a record alone names it."""
    own = [(what, spec) for each in experiments for what, spec in own_parts(each).items()]
    for what, spec in own:
        if not own_code.asked_for(spec.name, spec.source):
            raise Error(
                f"The {what} {spec.name!r} is Python code from outside this library, and this process was not asked to "
                "run it: a record alone names it. Plan the experiment with lab.plan, which names the code."
            )
    return tuple(dict.fromkeys((spec.name, spec.source or "") for _, spec in own))


def bench(
    task: OneTask | Sequence[OneTask],
    models: Architectures,
    *,
    seeds: int | Sequence[int] = 1,
    train_length: int = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    sweep: Sweep = (),
    root: Path | str = "runs",
    progress: Listener | bool | None = None,
    **how: Any,
) -> list[Run]:
    """Train every model on short strings of `task`, or of each in a list, test on long ones, and return the runs.

    `how` are the fields of `Launch`, as in `run`: works in this process unless `workers`, `launch` or `gpus_per_run`
    says otherwise. Raises if a run failed, after the others are done. `sweep`, such as {"training.lr": [1e-3, 3e-4],
    "model.width": [32, 64]}, runs all combinations of these settings; `choose(runs, sweep)` and
    `report.html(runs, path, sweep=sweep)` choose among them by validation strings alone.
    `progress` hears how the runs go; None: in a notebook a table that follows them, elsewhere nothing; False: nothing.
    """
    leave_a_starting_worker()
    launch = Launch.of(how, "bench")
    experiments = plan(
        task,
        models,
        seeds=seeds,
        train_length=train_length,
        test_lengths=test_lengths,
        settings=settings,
        sweep=sweep,
    )
    if progress is True or (progress is None and in_notebook()):
        progress = NotebookProgress(experiments)
    if (launch.launch, launch.workers, launch.gpus_per_run) == (None, None, None):
        how = {**how, "launch": "here"}
    outcomes = run(experiments, root, progress=progress or None, **how)
    failed = [outcome for outcome in outcomes if outcome.run is None]
    if failed:
        raise Error(f"{len(failed)} of {len(outcomes)} runs failed; the first: {failed[0].error}")
    return Runs(outcome.run for outcome in outcomes if outcome.run)
