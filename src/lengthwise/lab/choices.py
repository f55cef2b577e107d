"""What is chosen of several settings: of each model on each task that which does best on validation strings.

    choose(runs, ["training.lr", "model.chunk"])    # from the records of finished runs alone

Of each setting the accuracies on validation strings, at the best validation of each run, are averaged over the seeds.
The highest mean is chosen; of equal ones that with the lower mean loss. No test string is looked at.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .. import models
from ..errors import Error, UnknownName
from ..options import Option
from ..own_code import in_full
from .experiment import Experiment
from .sweeps import settings_of_part

if TYPE_CHECKING:
    from .records import Run


@dataclass(frozen=True)
class Setting:
    """One combination of the swept settings, and the runs that have it."""

    values: dict[str, Any]
    """By full names: `{"training.lr": 0.0001, "model.chunk": 2}`."""
    runs: tuple[Run, ...]
    seeds: int
    """How many seeds of it were planned."""

    @property
    def label(self) -> str:
        return " ".join(f"{name.split('.', 1)[1]}={_word(value)}" for name, value in self.values.items())

    @property
    def accuracies(self) -> list[float]:
        """On validation strings, at the best validation of each run."""
        return [validation_of(run)["accuracy"] for run in self.runs]

    @property
    def loss(self) -> float:
        """The mean of the same validations; infinite where one is no number."""
        mean = statistics.fmean(validation_of(run)["loss"] for run in self.runs)
        return math.inf if math.isnan(mean) else mean


@dataclass(frozen=True)
class Choice:
    """A choice for one model on one task, and the candidates."""

    experiment: Experiment
    """One of the experiments; all are equal but for the swept settings and the seed."""
    settings: tuple[Setting, ...]
    chosen: Setting
    edges: tuple[str, ...]
    """Where the chosen setting is the least or the greatest that was tried, in sentences."""


def choose(runs: Iterable[Run], swept: Iterable[str], planned: Sequence[Experiment] = ()) -> list[Choice]:
    """For each model and task the setting that validation strings prefer; a model with one setting has just that one.

    `swept`: the names of the settings, or the sweep itself. `planned`: all experiments of the sweep, by which settings
    are known that have no finished run. A setting some of whose seeds are missing is chosen only where all lack some.
    """
    by_hash = {run.experiment.hash: run for run in runs if not run.experiment.on_text}
    experiments = {e.hash: e for e in (*planned, *(run.experiment for run in by_hash.values())) if not e.on_text}
    names = [in_full(name, {"training", "model", *(e.model.name for e in experiments.values())}) for name in swept]
    _check_names(names, experiments.values())
    grid: dict[str, dict[str, tuple[dict[str, Any], list[Experiment]]]] = {}
    for e in experiments.values():
        values = _values(e, names)
        rest = {name: value for name, value in _settings(e).items() if name not in values}
        equal = [asdict(e.data), e.model.name, e.model.source, rest, asdict(e.tests), asdict(e.objective)]
        points = grid.setdefault(json.dumps(equal, sort_keys=True, default=str), {})
        points.setdefault(json.dumps(list(values.values())), (values, []))[1].append(e)
    choices = []
    for points in grid.values():
        first = next(iter(points.values()))[1][0]
        settings = []
        for values, mine in sorted(points.values(), key=lambda point: [_order(v) for v in point[0].values()]):
            mine = sorted(mine, key=lambda e: e.seed)
            settings.append(Setting(values, tuple(by_hash[e.hash] for e in mine if e.hash in by_hash), len(mine)))
        if any(setting.runs for setting in settings):
            best = _best(settings)
            choices.append(Choice(first, tuple(settings), best, tuple(_edges(first, settings, best))))
    if not planned and choices and all(len(choice.settings) == 1 for choice in choices):
        raise Error(
            f"There is nothing to choose: these runs do not differ in {', '.join(names)} while all else is equal. Name "
            "settings in which they do."
        )
    return choices


def chosen_runs(runs: Iterable[Run], swept: Iterable[str]) -> list[Run]:
    """The runs of the settings that validation strings prefer; all runs where they do not differ in what was swept."""
    every = list(runs)
    choices = choose(every, swept, [run.experiment for run in every])
    return [run for choice in choices for run in choice.chosen.runs]


def _best(settings: Sequence[Setting]) -> Setting:
    most = max(len(setting.runs) for setting in settings)
    whole = (setting for setting in settings if len(setting.runs) == most)
    return max(whole, key=lambda setting: (statistics.fmean(setting.accuracies), -setting.loss))


def validation_of(run: Run) -> dict[str, float]:
    """The accuracy and the loss of its best validation."""
    score = run.result["checkpoints"]["best"].get("validation")
    if score is None:
        raise Error(f"{run.path}: its record says nothing of validation, by which settings are chosen. Leave it out.")
    return score


def _options(e: Experiment) -> Mapping[str, Option]:
    """The options of a preset; those of a model of somebody's own only its code would tell."""
    return models.options(e.model.name) if e.model.name in models.available() else {}


def _settings(e: Experiment) -> dict[str, Any]:
    """Every setting of the training and of the model, whose options are named `model.`, with its value."""
    options = {name: option.default for name, option in _options(e).items()} | e.model.options
    training = {f"training.{name}": value for name, value in e.training.settings().items()}
    return training | {f"model.{name}": value for name, value in options.items()}


def _values(e: Experiment, names: Sequence[str]) -> dict[str, Any]:
    """Those of the swept settings that this experiment has."""
    every, own = _settings(e), f"{e.model.name}."
    meant = [f"model.{name[len(own) :]}" if name.startswith(own) else name for name in names]
    return {name: every[name] for name in meant if name in every}


def _check_names(names: Sequence[str], experiments: Collection[Experiment]) -> None:
    for name in names:
        if experiments and not any(_values(e, [name]) for e in experiments):
            raise UnknownName("setting of these runs", name, {each for e in experiments for each in _settings(e)})


def _edges(e: Experiment, settings: Sequence[Setting], chosen: Setting) -> Iterable[str]:
    """Numbers beyond which nothing was tried, though there are some."""
    known = {f"training.{name}": option for name, option in settings_of_part("training").items()}
    known |= {f"model.{name}": option for name, option in _options(e).items()}
    for name, value in chosen.values.items():
        tried = {setting.values[name] for setting in settings if _is_number(setting.values[name])}
        if not _is_number(value) or len(tried) < 2 or value not in (min(tried), max(tried)):
            continue
        bounds, least = known[name].bounds if name in known else None, value == min(tried)
        if bounds is None or value != (bounds.low if least else bounds.high):
            end, side = ("lowest", "below") if least else ("highest", "above")
            yield f"{name}={_word(value)} is the {end} that was tried: a better one may lie {side} it."


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then words by the alphabet."""
    return (False, value, "") if _is_number(value) else (True, 0.0, str(value))


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
