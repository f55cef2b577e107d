"""Settings searched by Optuna: what a trial suggests is an ordinary run, and its validation is what the trial is worth.

    study = tune("parity", "lstm", {"training.lr": (1e-4, 1e-2, "log"), "model.width": [16, 32, 64]}, trials=20)
    study.best_params, study.best_value

The records are all that is kept. A seeded sampler suggests the same values again where trials had the same results, so
that the same call after an interruption reads what it had from the records and goes on with the trial that was stopped.
Of a trial that was pruned the validations are recorded too, and prune it again without a step.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Error, import_extra, in_words
from ..files import read_text
from ..options import Option, at_least
from ..train import Interrupted, Progress
from .choices import validation_of
from .experiment import Experiment
from .grid import OneTask, plan
from .launch import Engine
from .records import RunDirectory
from .running import Listener, run
from .sweeps import Settings, check_choosable, parse

if TYPE_CHECKING:
    import optuna  # pyright: ignore[reportMissingImports]
    from torch import nn


Space = Mapping[str, Any]
"""By the names of settings: `(low, high)`, `(low, high, "log")` or a list of choices."""


class _Pruned(Interrupted):
    """The trial is not worth going on with; the run's state is kept."""


def tune(
    task: OneTask,
    model: str | type[nn.Module],
    space: Space,
    *,
    trials: int = 20,
    sampler: optuna.samplers.BaseSampler | None = None,
    pruner: optuna.pruners.BasePruner | None = None,
    **objective: Any,
) -> optuna.Study:
    """Try so many combinations from `space` and return Optuna's study of them; `objective` as in `trial_objective`.

    `sampler` is TPE with seed 0 unless it is given, and must be seeded to be taken up again. `pruner` ends trials early
    by the validations of their first seed; None: all are run to the end.
    """
    optuna = import_extra("optuna", "optuna", "lab.tune")
    trials = Option("trials", int, bounds=at_least(1)).read(trials, "trials")
    value = trial_objective(task, model, space, **objective)
    sampler, pruner = sampler or optuna.samplers.TPESampler(seed=0), pruner or optuna.pruners.NopPruner()
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(value, n_trials=trials)
    return study


def trial_objective(
    task: OneTask,
    model: str | type[nn.Module],
    space: Space,
    *,
    seeds: int = 1,
    train_length: int = 40,
    test_lengths: str | None = None,
    settings: Settings = (),
    root: Path | str = "runs",
    device: str = "auto",
    launch: Engine | str = "here",
) -> Callable[[optuna.Trial], float]:
    """For a study of your own: `study.optimize(trial_objective("parity", "lstm", space), n_trials=20)`, maximised.

    The value is the accuracy on validation strings at the best validation, in the mean over the seeds. A run whose
    numbers go bad fails its trial, and the study goes on.
    """
    optuna = import_extra("optuna", "optuna", "lab.tune")
    fixed = parse(settings)

    def experiments(values: Mapping[str, Any]) -> list[Experiment]:
        lengths = {"train_length": train_length, "test_lengths": test_lengths}
        return plan(task, [model], seeds=seeds, settings={**fixed, **values}, **lengths)

    _check(space, fixed, task, experiments)

    def objective(trial: optuna.Trial) -> float:
        mine = experiments({name: _suggested(trial, name, among) for name, among in space.items()})
        trial.set_user_attr("runs", [e.directory for e in mine])
        followed = _Followed(trial, mine[0], Path(root))  # pyright: ignore[reportAbstractUsage]
        try:
            followed.look()
            outcomes = run(mine, root, device=device, launch=launch, progress=followed)
            followed.look()
        except _Pruned:
            raise optuna.TrialPruned from None
        for outcome in outcomes:
            if outcome.run is None:
                if outcome.exit_code == 2:
                    raise Error(outcome.error)
                trial.set_user_attr("error", outcome.error)
                return float("nan")
        return statistics.fmean(validation_of(outcome.run)["accuracy"] for outcome in outcomes if outcome.run)

    return objective


class _Followed(Listener):
    """Listens to the runs of a trial, and tells it each validation of the first one."""

    def __init__(self, trial: optuna.Trial, experiment: Experiment, root: Path):
        self.trial, self.hash, self.told = trial, experiment.hash, 0
        self.metrics = RunDirectory(root, experiment).path / "metrics.jsonl"
        self.every = experiment.training.checkpointing.validate_every

    def look(self) -> None:
        """Read the validations that are recorded; raise where one of them says that the trial is to end."""
        rows = map(json.loads, read_text(self.metrics).splitlines()) if self.metrics.exists() else ()
        for row in rows:
            if row["kind"] == "validation" and row["step"] > self.told:
                self.told = row["step"]
                self.trial.report(row["accuracy"], self.told)
                if self.trial.should_prune():
                    raise _Pruned(f"Pruned at step {self.told}.")

    def advance(self, progress: Progress) -> None:
        # A step is heard of before its validation.
        validated = (progress.step - 1) // self.every * self.every
        if progress.what == self.hash and progress.phase == "train" and validated > self.told:
            self.look()


def _suggested(trial: optuna.Trial, name: str, among: Any) -> Any:
    if isinstance(among, list):
        # Optuna keeps numbers and texts; a list stands there as it is written.
        plain = (str, int, float, bool, type(None))
        by_word = {each if isinstance(each, plain) else repr(each): each for each in among}
        return by_word[trial.suggest_categorical(name, list(by_word))]
    low, high, *log = among
    whole = isinstance(low, int) and isinstance(high, int)
    return (trial.suggest_int if whole else trial.suggest_float)(name, low, high, log=bool(log))


def _check(space: Any, fixed: Mapping[str, Any], task: Any, experiments: Callable[[dict[str, Any]], Any]) -> None:
    """Refuse a wrong range, and let the lowest, highest and listed values be planned, before a trial."""
    if not isinstance(space, Mapping) or not space:
        raise Error(f'space must be a mapping {{"training.lr": (1e-4, 1e-2, "log")}}, got {in_words(space)}.')
    check_choosable(space, fixed, task)
    ends = {}
    for name, among in space.items():
        match among:
            case list() if among:
                ends[name] = among
            case (int() | float() as low, int() | float() as high, *log) if (
                {type(low), type(high)} <= {int, float} and low < high and (not log or (log == ["log"] and low > 0))
            ):
                ends[name] = [low, high]
            case _:
                raise Error(
                    f'{name} must be searched in (low, high), (low, high, "log") with low above 0, or a list of '
                    f"choices, got {in_words(among)}."
                )
    first = {name: values[0] for name, values in ends.items()}
    for name, values in ends.items():
        for value in values:
            experiments({**first, name: value})
