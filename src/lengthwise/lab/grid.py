"""The grid of a bench: tasks × models × swept settings × seeds, every name, option, length and shape checked first."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Annotated, Any

import torch
from torch import nn

from .. import models, own_code, tasks
from ..errors import Error, in_words
from ..limits import BATCH_TOKENS, EXPERIMENTS
from ..options import Option, apart, at_least, checked, take
from ..own_code import of_parts, settings_of
from ..train.curriculum import make_curriculum
from ..train.settings import Training
from .experiment import Experiment, LengthTests, ModelSpec, TaskSpec
from .new_models import check
from .sweeps import Settings, Sweep, check_choosable, parse, parse_sweep, settings_of_part
from .tested_lengths import tested_lengths

OneTask = str | tasks.Task | type[tasks.Task]
"""A task by name, made, or by its class."""
OneModel = str | type[nn.Module] | tuple[str | type[nn.Module], Mapping[str, Any]]
"""A model by name, with its options behind it ("transformer position=alibi") or beside it, or by its class."""
Architectures = Sequence[OneModel] | OneModel
"""Models, or a single one."""


def task_of(task: str | tasks.Task | type[tasks.Task], params: dict[str, Any] | None = None) -> tasks.Task:
    """A task by name or class with parameters, or the given one."""
    if isinstance(task, type) and issubclass(task, tasks.Task):
        task = tasks.own.name_of(task) or task.__name__
    if isinstance(task, str):
        return tasks.get(task, **take(tasks.options(task), params or {}, task, "task."))
    if not isinstance(task, tasks.Task):
        raise Error(f"A task is a name, a lengthwise.tasks.Task or a class of it, got {task!r}.")
    if params:
        raise Error(f"Parameters ({', '.join(params)}) belong to a task given by name; {task.name} is already made.")
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


def several(models: Any) -> list[Any]:
    """The models of a list; a single one may be a pair, of a name and its options."""
    pair = isinstance(models, tuple) and len(models) == 2 and isinstance(models[1], Mapping)
    return [models] if pair or isinstance(models, (str, type)) or not isinstance(models, Iterable) else list(models)


def models_of(architectures: Architectures) -> list[tuple[str, dict[str, Any]]]:
    """The names of models, and the options that stand behind them or beside them.

    >>> models_of(["lstm", "transformer position=alibi", ("gru", {"layers": 2})])
    [('lstm', {}), ('transformer', {'position': 'alibi'}), ('gru', {'layers': 2})]
    """
    named = []
    for each in several(architectures):
        name, options = each if isinstance(each, tuple) else (each, {})
        if isinstance(name, str):
            name, typed = apart(name)
            options = {**typed, **options}
        named.append((name_of(name), dict(options)))
    if not named:
        raise Error(f"Name at least one model. Known: {', '.join(models.available())}.")
    return named


@checked
def plan(
    task: OneTask | Sequence[OneTask],
    architectures: Architectures,
    *,
    seeds: int | Sequence[int] = 1,
    train_length: Annotated[int, at_least(1), "The longest training string."] = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    sweep: Sweep = (),
) -> list[Experiment]:
    """The grid tasks × models × seeds, each name, setting, length and shape checked before any run.

    A model's own options may stand behind its name. `settings` belong to `task.` and `model.` (every one), a task's or
    a model's own name (that one), `training.` or `tests.`. The grid is made for every combination of the values in
    `sweep`, each experiment once; its names are those of `settings`.
    Test lengths default to a sweep from past the training length to 12.5 times it; a few lengths of the training range
    are always tested too, since a failure beyond it proves nothing without success inside.

    `seeds` is how many runs each model has, with seeds 0, 1, …, or a list of their seeds.

    A setting `model.` that some of the models do not have is used for the others, and a warning says so.
    """
    fixed, values = parse(settings), parse_sweep(sweep) if sweep else {}
    seeds = seeds_of(seeds)
    named = models_of(architectures)
    names = [name for name, _ in named]
    asked: list[OneTask] = list(task) if isinstance(task, (list, tuple)) else [task]  # pyright: ignore
    if not asked:
        raise Error("Name at least one task. lengthwise list tasks names them.")
    called = [each if isinstance(each, str) else getattr(each, "__name__", getattr(each, "name", "")) for each in asked]
    if values:
        check_choosable(values, fixed, task)
    count = math.prod(map(len, values.values())) * len(asked) * len(names) * len(seeds)
    EXPERIMENTS.check(count, "sweep" if sweep else "plan")
    planned: dict[str, Experiment] = {}
    points: dict[frozenset[str], tuple[int, ...]] = {}
    for places in product(*(range(len(each)) for each in values.values())):
        point = {name: values[name][i] for name, i in zip(values, places, strict=True)}
        one = of_parts({**fixed, **point}, {"task", "model", "training", "tests", *names, *called})
        of_models = options_of_models(one, named)
        made: set[str] = set()
        for each, own_name in zip(asked, called, strict=True):
            of_task = {**settings_of(one, "task"), **settings_of(one, own_name)}
            experiments = _plan_task(task_of(each, of_task), of_models, one, seeds, train_length, test_lengths)
            planned |= {e.hash: e for e in experiments if e.hash not in planned}
            made |= {e.hash for e in experiments}
        if (same := points.setdefault(frozenset(made), places)) != places:
            name, i, k = next(each for each in zip(values, same, places, strict=True) if each[1] != each[2])
            raise Error(
                f"{name}: {values[name][i]} and {values[name][k]} make the same runs. Give each value once, and no "
                "--set or --sweep of the same option by the model's own name."
            )
    return list(planned.values())


def options_of_models(
    fixed: dict[str, Any], named: Sequence[tuple[str, dict[str, Any]]]
) -> list[tuple[str, dict[str, Any]]]:
    """The models with the options that settings give them: of all models, under their own name, and their own.

    One of all models is left to those that have it, and a warning names the others.
    """
    for_all, lacking = settings_of(fixed, "model"), dict[str, list[str]]()
    names = list(dict.fromkeys(name for name, _ in named))
    for key in for_all:
        without = [name for name in names if key not in models.options(name)]
        if 0 < len(without) < len(names):
            lacking[key], others = without, ", ".join(without)
            warnings.warn(f"model.{key} is no option of {others}, and is used for the others alone.", stacklevel=2)
    return [
        (name, {k: v for k, v in for_all.items() if name not in lacking.get(k, ())} | settings_of(fixed, name) | own)
        for name, own in named
    ]


def _plan_task(
    made: tasks.Task,
    asked: Sequence[tuple[str, dict[str, Any]]],
    fixed: dict[str, Any],
    seeds: Sequence[int],
    train_length: int,
    test_lengths: str | Sequence[int] | None,
) -> list[Experiment]:
    trained = take(settings_of_part("training"), settings_of(fixed, "training"), "training", "training.")
    training = Training.of(**{"lengths": (1, train_length), **trained})
    possible = made.lengths(*training.curriculum.lengths)
    make_curriculum(training.curriculum, possible, training.steps)
    BATCH_TOKENS.check(possible[-1] * training.batch, f"training.batch={training.batch}, length {possible[-1]:,}")
    made.check_size(possible[-1], max(training.batch, training.checkpointing.validation_samples))
    tested = tested_lengths(made, possible, test_lengths)
    known = settings_of_part("tests")
    tests = LengthTests(tested, **take(known, settings_of(fixed, "tests"), "tests", "tests."))

    spec = spec_of(made)
    experiments = []
    for name, meant in asked:
        options = take(models.options(name), meant, name, "model.")
        model = ModelSpec(name, options, models.source(name))
        check(model, made, possible[0], max(possible[-1], *tested))
        experiments += [Experiment(spec, model, training, tests, seed) for seed in seeds]
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
