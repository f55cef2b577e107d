"""`bench` and `run`: experiments in, finished runs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from ..errors import Error
from ..limits import WORKERS
from ..notebooks import in_notebook
from ..options import arguments, at_least
from ..train import Progress
from ..train.team import follows
from .engines import Engine, leave_a_starting_worker
from .experiment import Experiment
from .grid import Architectures, OneTask, Settings, plan
from .job import Job, Outcome, groups
from .launching import device_of, elsewhere, engine_of
from .loading import asked_own
from .loggers import check_loggers
from .notebook_view import NotebookProgress
from .records import Run, Runs
from .study import CpusPerRun, GpusPerRun
from .sweeps import Sweep, plan_sweep, swept
from .under_torchrun import UnderTorchrun, check_strategy, follow

Workers = Annotated[int | None, at_least(1, at_most=WORKERS), "How many processes run at a time."]


class Listener(Protocol):
    """Hears how the runs go; always called in the process that called `run`."""

    def begin(self, experiment: Experiment) -> None: ...

    def advance(self, progress: Progress) -> None: ...

    def waiting(self, experiment: Experiment) -> None: ...

    def end(self, experiment: Experiment, outcome: Outcome) -> None: ...


def run(
    experiments: Sequence[Experiment],
    root: Path | str = "runs",
    *,
    workers: Workers = None,
    device: str = "auto",
    command: str = "",
    progress: Listener | None = None,
    launch: Engine | str | None = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    strategy: str | None = None,
    log: str | Sequence[str] = (),
) -> list[Outcome]:
    """Run what is not finished yet and return every outcome, in the order given; `progress` hears how they go.

    `launch`: "here", in a "pool" of processes, or on a cluster, as in "ray address=auto" or "slurm partition=gpu".
    `workers`: how many processes a pool has; None: as many as this machine has room for, but in this process where
    there is one run, or a GPU that nobody shares. `cpus_per_run` and `gpus_per_run`: what a run takes; those that go
    together (`Stacked`) count as one. `strategy`: "ddp" or "fsdp" spreads each run over the processes that torchrun
    started, which all make this call and return the same. `log`: where the runs are sent too: tensorboard, wandb,
    trackio, or several.
    """
    loggers = check_loggers(log)
    leave_a_starting_worker()
    workers, cpus, gpus = arguments(run, workers=workers, cpus_per_run=cpus_per_run, gpus_per_run=gpus_per_run)
    device = device_of(device, launch, gpus)
    if not isinstance(experiments, (list, tuple)) or not all(isinstance(each, Experiment) for each in experiments):
        raise Error(f"run takes a list of experiments, as lab.plan makes them, got {experiments!r}.")
    own = asked_own(experiments)
    experiments = list({experiment.hash: experiment for experiment in experiments}.values())
    todo = groups(experiments, device)
    if strategy is not None:
        given = {"launch": launch, "workers": workers, "cpus_per_run": cpus, "gpus_per_run": gpus}
        check_strategy(strategy, given, command)
        if follows():
            return follow(strategy, device)
        launch = UnderTorchrun(strategy)
    engine = engine_of(launch, workers=workers, runs=len(todo), device=device, cpus=cpus, gpus=gpus)
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

    if gpus is None and device == "cuda" and elsewhere(launch):
        gpus = 1.0
    job = Job(
        Path(root),
        device=device,
        cpus=cpus or 1.0,
        gpus=gpus or 0.0,
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


def bench(
    task: OneTask | Sequence[OneTask],
    models: Architectures,
    *,
    seeds: int | Sequence[int] = 1,
    train_length: int = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    learning_rates: str | Sequence[float] = (),
    sweep: Sweep = (),
    root: Path | str = "runs",
    workers: Workers = None,
    device: str = "auto",
    progress: Listener | bool | None = None,
    launch: Engine | str | None = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    log: str | Sequence[str] = (),
) -> list[Run]:
    """Train every model on short strings of `task`, or of each in a list, test on long ones, and return the runs.

    Works in this process unless `workers`, `launch` or `gpus_per_run` says otherwise, as in `run`. Raises if a run
    failed, after the others are done. `sweep`, such as {"training.lr": [1e-3, 3e-4], "model.width": [32, 64]}, runs all
    combinations of these settings; `choose(runs, sweep)` and `report.html(runs, path, sweep=sweep)` choose among them
    by validation strings alone. `log` is where the runs are sent too: tensorboard, wandb, trackio, or several of them.
    `progress` hears how the runs go; None: in a notebook a table that follows them, elsewhere nothing; False: nothing.
    """
    leave_a_starting_worker()
    [workers] = arguments(bench, workers=workers)
    grid: dict[str, Any] = {"seeds": seeds, "train_length": train_length, "test_lengths": test_lengths}
    grid["settings"] = settings
    if swept(sweep, learning_rates):
        experiments = plan_sweep(task, models, sweep, **grid)
    else:
        experiments = plan(task, models, learning_rates=learning_rates, **grid)
    loggers = check_loggers(log)
    if progress is True or (progress is None and in_notebook()):
        progress = NotebookProgress(experiments)
    if launch is None and workers is None and gpus_per_run is None:
        launch = "here"
    outcomes = run(
        experiments,
        root,
        workers=workers,
        device=device,
        progress=progress or None,
        launch=launch,
        cpus_per_run=cpus_per_run,
        gpus_per_run=gpus_per_run,
        log=loggers,
    )
    failed = [outcome for outcome in outcomes if outcome.run is None]
    if failed:
        raise Error(f"{len(failed)} of {len(outcomes)} runs failed; the first: {failed[0].error}")
    return Runs(outcome.run for outcome in outcomes if outcome.run)
