"""The grid of a bench: models × learning rates × seeds, every name, option, length and shape checked beforehand."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import torch
from torch import nn

from .. import models, own_code, tasks
from ..errors import Error, in_words
from ..limits import BATCH_TOKENS, EXPERIMENTS
from ..options import Option, Schema, arguments, at_least, schema, take, word_of
from ..own_code import of_parts, settings_of
from ..train.curriculum import make_curriculum
from ..train.settings import Training, training_options
from .experiment import Experiment, LengthTests, ModelSpec, TaskSpec
from .model_checks import check
from .tested_lengths import tested_lengths

Settings = Sequence[str] | Mapping[str, Any]
OneTask = str | tasks.Task | type[tasks.Task]
"""A task by name, made, or by its class."""
Architectures = Sequence[str | type[nn.Module]] | str | type[nn.Module]
"""Models, or a single one."""


def parse(settings: Settings) -> dict[str, Any]:
    """`["model.width=64"]` to `{"model.width": "64"}`, a word yet to be read; a mapping is taken as it is."""
    if isinstance(settings, Mapping):
        # A part with a mapping of its own, {"training": {"steps": 500}}, is the same written otherwise.
        nested = {key: value for key, value in settings.items() if isinstance(value, Mapping) and "." not in key}
        flat = {f"{part}.{name}": value for part, inner in nested.items() for name, value in inner.items()}
        parsed = {**{key: value for key, value in settings.items() if key not in nested}, **flat}
    else:
        settings = [settings] if isinstance(settings, str) else settings
        if not isinstance(settings, (list, tuple)) or not all(isinstance(each, str) for each in settings):
            raise Error(f'settings must be texts NAME=VALUE, or a mapping {{"training.steps": 500}}, got {settings!r}.')
        parsed = dict(word_of(setting, "model.width=64") for setting in settings)
    for key in parsed:
        if isinstance(key, str) and "." not in key:
            raise Error(f"A setting is PART.NAME=VALUE, got {key}={parsed[key]}. {_full_name(key)}")
    return parsed


def _full_name(key: str) -> str:
    """The remedy for a setting that lacks its part."""
    parts = {part: settings_of_part(part) for part in ("training", "tests")}
    parts |= {"model": {name: o for model in models.available() for name, o in models.options(model).items()}}
    parts |= {"task": {name: o for task in tasks.available() for name, o in tasks.options(task).items()}}
    for near in [key, *get_close_matches(key, {name for known in parts.values() for name in known}, n=1)]:
        if part := next((part for part, known in parts.items() if near in known), None):
            return f"Did you mean {part}.{near}?"
    return "For example --set model.width=64."


def task_of(task: str | tasks.Task | type[tasks.Task], given: dict[str, Any] | None = None) -> tasks.Task:
    """A task by name or class with parameters, or the given one."""
    if isinstance(task, type) and issubclass(task, tasks.Task):
        task = tasks.own.name_of(task) or task.__name__
    if isinstance(task, str):
        return tasks.get(task, **take(tasks.options(task), given or {}, task, "task."))
    if not isinstance(task, tasks.Task):
        raise Error(f"A task is a name, a lengthwise.tasks.Task or a class of it, got {task!r}.")
    if given:
        raise Error(f"Parameters ({', '.join(given)}) belong to a task given by name; {task.name} is already made.")
    return task


def name_of(model: str | type[nn.Module]) -> str:
    """A model's name; a class is named by where it can be imported from."""
    if isinstance(model, str):
        return model
    if not (inspect.isclass(model) and issubclass(model, nn.Module)):
        raise Error(
            f"A model is a name or an nn.Module class, got {in_words(model)}. An instance cannot be trained once per "
            "seed."
        )
    return own_code.name_of(model)


def plan(
    task: OneTask | Sequence[OneTask],
    architectures: Architectures,
    *,
    seeds: int | Sequence[int] = 1,
    train_length: Annotated[int, at_least(1), "The longest training string."] = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    learning_rates: str | Sequence[float] = (),
    unused: Callable[[str, list[str]], None] | None = None,
) -> list[Experiment]:
    """The grid tasks × models × learning rates × seeds, each name, setting, length and shape checked before any run.

    `settings` belong to `task.` and `model.` (every one), a task's or a model's own name (that one), `training.` or
    `tests.`. Of several learning rates `statistics.best_rate` chooses by validation strings alone.
    Test lengths default to a sweep from past the training length to 12.5 times it; a few lengths of the training range
    are always tested too, since a failure beyond it proves nothing without success inside.

    `seeds` is how many runs each model has, with seeds 0, 1, …, or a list of their seeds.

    A setting `model.` that some of the models do not have is an error, or `unused` hears of it: its name and theirs.
    """
    given = parse(settings)
    [train_length] = arguments(plan, train_length=train_length)
    seeds = seeds_of(seeds)
    single = isinstance(architectures, (str, type)) or not isinstance(architectures, Iterable)
    several: Any = [architectures] if single else architectures
    names = [name_of(model) for model in several]
    if not names:
        raise Error(f"Name at least one model. Known: {', '.join(models.available())}.")
    asked: list[OneTask] = list(task) if isinstance(task, (list, tuple)) else [task]  # pyright: ignore
    if not asked:
        raise Error("Name at least one task. lengthwise list tasks names them.")
    called = [each if isinstance(each, str) else getattr(each, "__name__", getattr(each, "name", "")) for each in asked]
    parts = {"task", "model", "training", "tests", *names, *called}
    given = of_parts(given, parts)
    rates = learning_rates_of(learning_rates)
    EXPERIMENTS.check(len(asked) * len(names) * len(seeds) * max(1, len(rates)), "plan")
    lacking = _lacking(settings_of(given, "model"), names) if unused else {}
    for setting, without in lacking.items():
        if unused:
            unused(f"model.{setting}", without)
    of_models = {
        name: {k: v for k, v in settings_of(given, "model").items() if name not in lacking.get(k, ())}
        | settings_of(given, name)
        for name in names
    }
    experiments = []
    for each, own_name in zip(asked, called, strict=True):
        made = task_of(each, {**settings_of(given, "task"), **settings_of(given, own_name)})
        experiments += _plan_task(made, of_models, given, seeds, train_length, test_lengths, rates)
    return experiments


def _plan_task(
    made: tasks.Task,
    asked: dict[str, dict[str, Any]],
    given: dict[str, Any],
    seeds: Sequence[int],
    train_length: int,
    test_lengths: str | Sequence[int] | None,
    rates: Sequence[float],
) -> list[Experiment]:
    trained = take(settings_of_part("training"), settings_of(given, "training"), "training", "training.")
    training = Training.of(**{"lengths": (1, train_length), **trained})
    possible = made.lengths(*training.curriculum.lengths)
    make_curriculum(training.curriculum, possible)
    BATCH_TOKENS.check(possible[-1] * training.batch, f"training.batch={training.batch}, length {possible[-1]:,}")
    made.check_size(possible[-1], max(training.batch, training.checkpointing.validation_samples))
    tested = tested_lengths(made, possible, test_lengths)
    known = settings_of_part("tests")
    tests = LengthTests(tested, **take(known, settings_of(given, "tests"), "tests", "tests."))

    spec = spec_of(made)
    experiments = []
    for name, meant in asked.items():
        options = take(models.options(name), meant, name, "model.")
        model = ModelSpec(name, options, models.source(name))
        check(model, made, possible[0], max(possible[-1], *tested))
        for lr in rates or [training.optimizer.lr]:
            rated = training.but(lr=lr)
            experiments += [Experiment(spec, model, rated, tests, seed) for seed in seeds]
    return experiments


def seeds_of(seeds: int | Sequence[int]) -> Sequence[int]:
    """The seeds 0, 1, … of a number of runs, or those of a list, each once.

    >>> list(seeds_of(2)), seeds_of([7, 3, 7])
    ([0, 1], [7, 3])
    """
    if isinstance(seeds, (list, tuple, range)):
        listed = Option("seeds", list[int], bounds=at_least(0)).read(list(seeds), "seeds")
        if not listed:
            raise Error("seeds must be a number of runs or a list of seeds, got an empty list.")
        return list(dict.fromkeys(listed))
    count = Option("seeds", int, bounds=at_least(1)).read(seeds, "seeds")
    EXPERIMENTS.check(count, "plan")  # a range of more than 64 bits has no length
    return range(count)


def learning_rates_of(rates: str | Sequence[float]) -> list[float]:
    """Learning rates, each once.

    >>> learning_rates_of("1e-3,3e-4")
    [0.001, 0.0003]
    """
    try:
        found = [float(rate) for rate in (rates.split(",") if isinstance(rates, str) and rates else rates)]
    except (TypeError, ValueError):
        found = [0.0]
    if not all(0 < rate < float("inf") for rate in found):
        raise Error(
            f"Learning rates are numbers above 0 joined by commas, got {in_words(rates)}. For example 1e-3,3e-4."
        )
    return list(dict.fromkeys(found))


def _lacking(for_all: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[str]]:
    """The settings that some models have and others lack, with those that do."""
    without = {key: [name for name in dict.fromkeys(names) if key not in models.options(name)] for key in for_all}
    return {key: lack for key, lack in without.items() if 0 < len(lack) < len(set(names))}


def settings_of_part(part: str) -> Schema:
    """What `training.` or `tests.` settings there are; test lengths have a keyword of their own."""
    return training_options() if part == "training" else schema(LengthTests, without=("lengths", "way"))


def spec_of(task: tasks.Task) -> TaskSpec:
    """The task as data: its name, and the parameters that are not at their defaults, so that a new one changes no hash.

    >>> spec_of(tasks.get("modular-sum", modulus=3)).params
    {'modulus': 3}
    """
    own = tasks.own.name_of(task)
    name = own or task.name
    known = tasks.options(name)
    if foreign := [key for key in task.params if key not in known]:
        raise Error(f"{name}: params must be arguments of __init__, which build it again, got {foreign[0]}.")
    params = {key: value for key, value in task.params.items() if known[key].default != value}
    if own:
        _check_it_can_be_rebuilt(own, task, params)
    source = tasks.source(name)
    if own and own_code.digest(type(task)) != source:
        raise Error(f"{name}: its file has changed since this task was made. Make it again from the file as it is.")
    return TaskSpec(name, params, source)


def _check_it_can_be_rebuilt(name: str, task: tasks.Task, params: dict[str, Any]) -> None:
    """Refuse a task of one's own that its recorded parameters do not build again, for that is how a run resumes."""
    try:
        written = json.loads(json.dumps(params))
    except TypeError as error:
        raise Error(f"{name}: params must be numbers, texts and lists, which a record can hold: {error}.") from error
    again = tasks.get(name, **written)
    n = task.lengths(1, 1000)[0]
    same = (again.vocabulary, again.outputs) == (task.vocabulary, task.outputs)
    if not (same and torch.equal(again.test_set(n, 2).targets, task.test_set(n, 2).targets)):
        raise Error(
            f"{name}: its params {params} build another task than the one given. Let params hold every argument of "
            "__init__; tasks.check(task) says more."
        )
