"""From words to experiments: `41:500:20,1000` to lengths, `model.width=64` to options, a bench to its grid."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn

from .. import models, tasks
from ..errors import Error, UnknownName
from .curriculum import curriculum
from .evaluation import one_place
from .experiment import Evaluation, Experiment, ModelSpec, TaskSpec, Training, setting_places
from .member import build, untouched_random, weights

Settings = Sequence[str] | Mapping[str, Any]


def lengths(text: str) -> tuple[int, ...]:
    """Lengths in increasing order, each once; `start:stop:step` includes its stop where hit.

    >>> lengths("41:101:20,1000,7")
    (7, 41, 61, 81, 101, 1000)
    """
    found: set[int] = set()
    for part in text.split(","):
        try:
            numbers = [int(number) for number in part.split(":")]
            if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
                raise ValueError
        except ValueError:
            raise Error(
                f"Lengths are numbers of at least 1 and ranges START:STOP:STEP joined by commas, got {part!r}. "
                "For example 41:500:20,1000."
            ) from None
        start, stop, step = numbers * 2 + [1] if len(numbers) == 1 else (*numbers, 1)[:3]
        if start > stop:
            raise Error(f"The range {part!r} is empty: its start is above its stop.")
        found.update(range(start, stop + 1, step))
    return tuple(sorted(found))


def value(text: str) -> Any:
    """A setting's value: JSON where it is JSON, `none` for None, a list where there are commas, else the text.

    >>> value("64"), value("1e-3"), value("2,50"), value("none"), value("true"), value("softmax")
    (64, 0.001, [2, 50], None, True, 'softmax')
    """
    if text.lower() in ("none", "null"):
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return [value(part) for part in text.split(",")] if "," in text else text


def parse(settings: Settings) -> dict[str, Any]:
    """`["model.width=64"]` to `{"model.width": 64}`; a mapping is taken as it is."""
    if isinstance(settings, Mapping):
        return dict(settings)
    found = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or "." not in key:
            raise Error(f"A setting is PART.NAME=VALUE, got {setting!r}. For example --set model.width=64.")
        found[key.strip()] = value(text.strip())
    return found


def _take(settings: dict[str, Any], part: str) -> dict[str, Any]:
    prefix = f"{part}."
    return {key[len(prefix) :]: v for key, v in settings.items() if key.startswith(prefix)}


def _fields(kind: type, given: dict[str, Any], part: str, reserved: Sequence[str] = ()) -> dict[str, Any]:
    """Settings of a dataclass, their names and types checked."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in reserved}
    found = {}
    for name, v in given.items():
        if name not in hints:
            raise UnknownName("setting", f"{part}.{name}", [f"{part}.{n}" for n in hints])
        found[name] = _typed(f"{part}.{name}", v, hints[name])
    return found


def _training(given: dict[str, Any]) -> dict[str, Any]:
    """Settings of a training by the names of all its parts, their types checked."""
    places, found = setting_places(), {}
    for name, v in given.items():
        if name not in places:
            raise UnknownName("setting", f"training.{name}", [f"training.{n}" for n in places])
        part, key = places[name]
        kind = type(getattr(Training(), part)) if part else Training
        found[name] = _typed(f"training.{name}", v, get_type_hints(kind)[key])
    return found


def _typed(name: str, v: Any, hint: Any) -> Any:
    """`v` as the type a dataclass says, or an error that says it."""
    if get_origin(hint) is Literal:
        return v  # the dataclass checks its own choices
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if v is None and type(None) in kinds:
        return None
    if get_origin(hint) is tuple:
        if isinstance(v, (list, tuple)) and len(v) == len(get_args(hint)):
            return tuple(_typed(name, part, kind) for part, kind in zip(v, get_args(hint), strict=True))
        raise Error(f"{name} is a pair such as 2,50, got {v!r}.")
    if float in kinds and isinstance(v, (int, float)) and not isinstance(v, bool):
        return float(v)
    if int in kinds and isinstance(v, int) and not isinstance(v, bool):
        return v
    raise Error(f"{name} is {'a number' if float in kinds else 'a whole number'}, got {v!r}.")


def task_of(task: str | tasks.Task, given: dict[str, Any] | None = None) -> tasks.Task:
    """A task by name with parameters, or the given one."""
    if isinstance(task, str):
        return tasks.get(task, **(given or {}))
    if given:
        raise Error(f"Parameters ({', '.join(given)}) belong to a task given by name; {task.name} is already made.")
    return task


def name_of(model: str | type[nn.Module]) -> str:
    """A model's name; a class is named by where it can be imported from."""
    if isinstance(model, str):
        return model
    if not (inspect.isclass(model) and issubclass(model, nn.Module)):
        raise Error(
            f"A model is a name or an nn.Module class, got {model!r}. An instance cannot be trained once per seed."
        )
    return f"{model.__module__}:{model.__qualname__}"


def plan(
    task: str | tasks.Task,
    chosen: Sequence[str | type[nn.Module]],
    *,
    seeds: int = 1,
    train_length: int = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    learning_rates: Sequence[float] = (),
) -> list[Experiment]:
    """The grid models × learning rates × seeds, every name, setting, length and shape checked before anything runs.

    `settings` belong to `task.`, `model.` (every model), a model's own name (that one), `training.` or `evaluation.`.
    Test lengths default to a sweep from past the training length to 12.5 times it; a few lengths of the training range
    are always tested too, since a failure beyond it proves nothing without success inside.
    """
    given = parse(settings)
    names = [name_of(model) for model in chosen]
    if not names:
        raise Error(f"Name at least one model. Known: {', '.join(models.available())}.")
    if seeds < 1:
        raise Error(f"seeds must be at least 1, got {seeds}.")
    parts = {"task", "model", "training", "evaluation", *names}
    for key in given:
        # A model's name may hold dots itself (a module, a path).
        if not any(key.startswith(f"{part}.") for part in parts):
            raise UnknownName("setting", key.split(".")[0], parts)

    made = task_of(task, _take(given, "task"))
    trained = _training(_take(given, "training"))
    training = Training.of(**{"lengths": (1, train_length), **trained})
    possible = made.lengths(*training.curriculum.lengths)
    longest = possible[-1]
    if test_lengths is None:
        wanted = [n for n in range(longest + 1, int(longest * 12.5) + 1) if made.problem(n) is None]
        tested = wanted[:: max(1, len(wanted) // 24)]
    else:
        tested = list(lengths(test_lengths) if isinstance(test_lengths, str) else test_lengths)
        for n in tested:
            made.check(n)
        tested = [int(n) for n in tested]
    if not tested or max(tested) < longest:
        raise Error(
            f"The longest training length ({longest}) is above every test length ({max(tested, default='none')}), "
            f"so nothing would be tested past training. Lower --train-length or raise --test-lengths."
        )
    inside = {possible[(len(possible) - 1) * quarter // 4] for quarter in range(1, 5)}
    evaluated = _fields(Evaluation, _take(given, "evaluation"), "evaluation", reserved=["lengths"])
    evaluation = Evaluation(lengths=tuple(sorted({*tested, *inside})), **evaluated)

    spec = TaskSpec(made.name, made.params)
    experiments = []
    for name in dict.fromkeys(names):
        options = {**_take(given, "model"), **_take(given, name)}
        known = models.options(name)
        for option in options:
            if option not in known:
                raise UnknownName(f"setting of {name}", f"model.{option}", [f"model.{k}" for k in known])
        model = ModelSpec(name, options, models.source(name))
        for lr in learning_rates or [training.optimizer.lr]:
            rated = training.but(lr=float(lr))
            experiments += [Experiment(spec, model, rated, evaluation, seed) for seed in range(seeds)]
        check(experiments[-1], made, possible[0])
    return experiments


def check(experiment: Experiment, task: tasks.Task, length: int) -> None:
    """Build the model, ask it about every token and a short string: a wrong one is refused before anything runs."""
    curriculum(experiment.training.curriculum, task.lengths(*experiment.training.curriculum.lengths))
    _, classifier = build(experiment, torch.device("cpu"))
    weights(classifier.inner)
    if (task.kind == "set" or task.questions > 1) and getattr(classifier, "mixes", False):
        raise Error(
            f"{experiment.model.name}: a choice of chunks mixes distributions over one answer, and {task.name} reads "
            "several answers at once. Leave largest_chunk out."
        )
    classifier.eval()
    with torch.no_grad(), untouched_random(torch.device("cpu")):
        classifier(torch.arange(len(task.vocabulary))[:, None])
        batch = task.test_set(length, 2)
        classifier(batch.tokens, last=one_place(task, batch) and task.supervision == "last")
