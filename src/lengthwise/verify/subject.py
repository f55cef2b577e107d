"""What is decided about: a model and the claim that it is held against, from whatever a caller has of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn

from ..automata import Semiautomaton
from ..errors import Error, ShapeError
from ..lab import Run, load_model, load_task
from ..models import LengthwiseForCausalLM
from ..models.token_classifier import PresetClassifier
from ..tasks import Task
from .claim import Claim, claim_of


class Subject(NamedTuple):
    model: nn.Module
    claim: Claim
    made: str
    """How the model came about: "learned" of a run, "given" where nobody said."""

    @property
    def inner(self) -> LengthwiseForCausalLM | None:
        """The library's own model in it, which its config and weights say whole; None where it is anything else."""
        inner = own_model(self.model)
        return None if inner is None or altered(inner) else inner


def own_model(model: nn.Module) -> LengthwiseForCausalLM | None:
    """The library's own model, if the answers of `model` are its own: a subclass, or what wraps it, may change them."""
    inner = model.inner if type(model) is PresetClassifier else model
    return inner if type(inner) is LengthwiseForCausalLM else None


def altered(model: LengthwiseForCausalLM) -> bool:
    """Whether anything but its config and weights decides what it says: hooks, other modules, methods put into it."""
    if torch.nn.modules.module._has_any_global_hook():
        return True
    with torch.device("meta"):
        plain = {name: type(module) for name, module in LengthwiseForCausalLM(model.config).named_modules()}
    if {name: type(module) for name, module in model.named_modules()} != plain:
        return True
    return any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.modules())


def subject_of(verb: str, model_or_run: Any, machine_or_task: Any) -> Subject:
    """The model and its claim; None for the second: the task of the run. `verb` is what errors call the caller."""
    if machine_or_task is not None and not isinstance(machine_or_task, (Semiautomaton, Task, Claim)):
        raise Error(
            f"{verb}: what is right is said by a Semiautomaton or a task with a machine, got "
            f"{type(machine_or_task).__name__}. Use tasks.get(name), or make a machine with lengthwise.automata."
        )
    if isinstance(model_or_run, Run):
        return _of_run(verb, model_or_run, machine_or_task)
    if not isinstance(model_or_run, nn.Module):
        raise Error(
            f"{verb}: takes a model or a finished run, got {type(model_or_run).__name__}. A path is loaded with "
            "lab.load(path)[0]."
        )
    if machine_or_task is None:
        raise Error(f"{verb}: a model needs a machine or a task to be held against. Pass one, or a run of such a task.")
    subject = Subject(model_or_run, _claim(verb, machine_or_task), "given")
    if (inner := own_model(model_or_run)) is not None:
        _check_vocabulary(verb, inner.config.vocab_size, subject.claim)
    return subject


def _of_run(verb: str, run: Run, machine_or_task: Semiautomaton | Task | Claim | None) -> Subject:
    if run.experiment.on_text:
        raise Error(
            f"{verb}: {run.path} was trained on text, where no machine says what is right. Take a run on strings, or "
            "pass its model (lab.load_model) with a machine."
        )
    task = load_task(run)
    if machine_or_task is None and task.machine is None:
        raise Error(
            f"{verb}: the task {task.name} of this run has no machine to be held against. Pass a machine, or take a "
            "task of a regular language."
        )
    claim = _claim(verb, task if machine_or_task is None else machine_or_task)
    _check_vocabulary(verb, len(task.vocabulary), claim)
    return Subject(load_model(run), claim, "learned")


def _claim(verb: str, source: Semiautomaton | Task | Claim) -> Claim:
    claim = source if isinstance(source, Claim) else claim_of(source)
    if not claim.asked.any():
        raise Error(f"{verb}: nothing is asked after any word, so there is nothing to be right about.")
    return claim


def _check_vocabulary(verb: str, vocabulary: int, claim: Claim) -> None:
    if vocabulary < claim.machine.num_symbols:
        raise ShapeError(
            f"{verb}: the model must read every symbol of the machine, and it reads {vocabulary} tokens of "
            f"{claim.machine.num_symbols} symbols. Pass the machine it was built or trained for."
        )


def checked_seconds(verb: str, seconds: Any, name: str = "seconds") -> float:
    """The budget, if it is one."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not (0 < seconds < math.inf):
        raise Error(f"{verb}: {name} must be a finite number of seconds above 0, got {seconds!r}.")
    return float(seconds)
