"""The model and the task of a finished run; code from outside the library runs only where the caller asked for it.

A record names such code by place and digest. It runs when this process was asked to run that very code (by a bench),
when the caller hands over the class, or with `trust=True`, and then only if it is unchanged.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import models, own_code, tasks
from ..errors import Error, RecordError
from ..limits import UNASKED, within_memory
from ..models import pretrained
from ..text import tokenizers
from ..train.state import load_weights
from .experiment import ModelSpec, TaskSpec
from .grid import name_of, spec_of
from .new_models import build_classifier, build_language_model
from .records import SOURCES, Run, load, model_folder


def load_model(
    run: Run | Path | str,
    which: str = "last",
    *,
    trust: bool = False,
    model: str | type[nn.Module] | None = None,
    task: tasks.Task | None = None,
) -> models.TokenClassifier:
    """The trained model of a run or of its folder, on the CPU and ready to be asked: `which` is "last" or "best".

    A model or task from outside the library is Python that the record names. `trust` runs it, if it is unchanged since
    the run; `model`, a class or its name, and `task` take its place.
    """
    if which not in ("last", "best"):
        raise Error(f"which is 'last' or 'best', got {which!r}.")
    if isinstance(run, (str, Path)):
        runs = load(run)
        if len(runs) > 1:
            raise Error(f"load_model takes one run, and {run} holds {len(runs)}. Give one, such as {runs[0].path}.")
        run = runs[0]
    experiment = run.experiment
    if experiment.on_text and (folder := model_folder(run, which)):
        return pretrained.as_classifier(pretrained.find(str(folder)).model(), experiment.model.name).eval()
    own_task = None if experiment.on_text else load_task(run, trust=trust, task=task)
    spec = experiment.model
    if model is not None:
        name = name_of(model)
        source = models.source(name)
        if source != spec.source:
            _warn(run, spec.name)
        spec = replace(spec, name=name, source=source)
    elif own_code.is_class(spec.name):
        spec = replace(spec, name=_permitted(run, "model", spec, trust))
    name = "model" if which == "last" else "best"
    file, tensors = run.path / f"{name}.safetensors", run.tensors(name)
    most = 8 * sum(tensor.nbytes for tensor in tensors.values()) + UNASKED
    with within_memory(str(file.parent / "config.json"), f"Delete {run.path} to run it again.", most):
        if own_task is None:
            classifier = build_language_model(spec, load_tokenizer(run), experiment.seed)
        else:
            classifier = build_classifier(replace(experiment, model=spec), own_task, torch.device("cpu"))
    try:
        load_weights(classifier.inner, tensors)
    except RecordError as error:
        raise RecordError(f"{file}: {error}") from error
    return classifier.eval()


def load_tokenizer(run: Run) -> Any:
    """The tokenizer of a run on text."""
    folder = model_folder(run) or run.experiment.text.tokenizer_folder
    return tokenizers.load(folder or run.path)


def load_task(run: Run, *, trust: bool = False, task: tasks.Task | None = None) -> tasks.Task:
    """The task of a run; of one from outside the library `load_model` says when it runs."""
    spec = run.experiment.task
    if task is not None:
        own = spec_of(task)
        if own.params != spec.params or (own.source is None) != (spec.source is None):
            raise Error(f"{run.path}: its task is {spec.name} with {spec.params}, got one with {own.params}.")
        if own.source != spec.source:
            _warn(run, spec.name)
        return task
    name = _permitted(run, "task", spec, trust) if tasks.own.is_own(spec.name) else spec.name
    return tasks.rebuild(name, spec.params, spec.source)


def _permitted(run: Run, what: str, spec: ModelSpec | TaskSpec, trust: bool) -> str:
    """The name under which the code of a record may be run, if it may."""
    name, source = spec.name, spec.source or ""
    if own_code.asked_for(name, source):
        return name
    example = "MyClass" if what == "model" else "MyTask(…)"
    hand_over = f"hand it over: load_model(run, {what}={example})"
    if not trust:
        raise Error(
            f"{run.path}: its {what} {name} is Python code from outside this library. To run it, if it is unchanged, "
            f"say trust=True (--trust on the command line), or {hand_over}."
        )
    if own_code.unchanged(name, source):
        return name
    copy = run.path / SOURCES[what]
    if own_code.find_file(name) is None or name.startswith(f"{own_code.MAIN}:"):
        # Of another machine, or of a script: the record keeps its source.
        copied = f"{copy}:{name.rpartition(':')[2].rpartition('.')[2]}"
        if own_code.unchanged(copied, source):
            return copied
    raise Error(
        f"{run.path}: the source of its {what} {name} is not what it was in this run. Restore it (its text is in "
        f"{copy}), train again, or {hand_over}."
    )


def _warn(run: Run, name: str) -> None:
    warnings.warn(
        f"{run.path}: the source of {name!r} is not what it was in this run; the class given takes its place.",
        stacklevel=3,
    )
