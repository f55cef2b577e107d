"""What is decided about: a model and the claim that it is held against, from whatever a caller has of them."""

from __future__ import annotations

import math
from functools import partial
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

LENGTHS = tuple(range(1, 41))
"""Those that a model is taken to have been trained on, where nothing says it."""


class KeptShare(NamedTuple):
    """The share that a network which was taught its machine's algebra kept of what training had given it.

    >>> str(KeptShare(6, 8, "codes", 0.99))
    '6 of its own 8 codes'
    """

    own: int
    """So many codes, sets, neurons or entries are its own; where none is, it was compiled."""
    all: int
    of: str
    right: float
    """The share of held-out strings of its training lengths that it answered right, before."""

    def __str__(self) -> str:
        return f"{self.own or 'none'} of its own {self.all:,} {self.of}"

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Subject(NamedTuple):
    model: nn.Module
    claim: Claim
    made: str
    """How the model came about: "learned" of a run, "given" where nobody said."""
    lengths: tuple[int, ...] = LENGTHS
    """Those it was trained on."""
    kept: KeptShare | None = None
    """Of a copy that was taught, and of a folder that says so."""

    @property
    def inner(self) -> LengthwiseForCausalLM | None:
        """The library's own model in it, which its config and weights say whole; None where it is anything else."""
        inner = own_model(self.model)
        return None if inner is None or altered(inner) else inner


def own_model(model: nn.Module) -> LengthwiseForCausalLM | None:
    """The library's own model, if the answers of `model` are its own: a subclass, or what wraps it, may change them."""
    if type(model) is PresetClassifier:
        cut = model.num_outputs != getattr(getattr(model.inner, "config", None), "outputs", None)
        model = model if cut or _changed(model) else model.inner
    return model if type(model) is LengthwiseForCausalLM else None


def altered(model: LengthwiseForCausalLM) -> bool:
    """True if anything but its config and weights decides what it says: hooks, other modules, methods put into it."""
    if torch.nn.modules.module._has_any_global_hook():
        return True
    config: Any = model.config
    try:
        with torch.device("meta"):
            plain = dict(LengthwiseForCausalLM(config).named_modules())
    except (Error, TypeError, ValueError):
        return True
    own = dict(model.named_modules())
    if own.keys() != plain.keys() or any(type(own[name]) is not type(plain[name]) for name in own):
        return True
    for name, module in own.items():
        told = _told(module)
        if _changed(module) or any(told.get(key) != value for key, value in _told(plain[name]).items()):
            return True
    return False


def _changed(module: nn.Module) -> bool:
    """True if hooks, or methods put into it, see or change what passes it."""
    methods = (name for name, value in vars(module).items() if callable(value) and name != "_compiled_call_impl")
    return bool(
        any(hasattr(type(module), name) for name in methods) or module._forward_hooks or module._forward_pre_hooks
    )


def _told(module: nn.Module) -> dict[str, Any]:
    """Returns what it was made with beside its weights, such as a norm's epsilon or an activation."""
    content = {name: value for name, value in vars(module).items() if name not in UNTOLD and not name.startswith("_")}
    content = {name: value for name, value in content.items() if not isinstance(value, torch.Tensor)}
    return {name: (x.func, x.args, x.keywords) if isinstance(x, partial) else x for name, x in content.items()}


UNTOLD = {"training", "reuses_equal_tokens", "trees", "config", "generation_config", "name_or_path", "warnings_issued"}
"""What the answers in evaluation do not depend on; `trees` are made of other modules."""


def subject_of(verb: str, model_or_run: Any, machine_or_task: Any, *, trust: bool = False) -> Subject:
    """The model and its claim; None for the second: the task of the run. `verb` is what errors call the caller.

    `trust`: a run's own model and task may run.
    """
    if machine_or_task is not None and not isinstance(machine_or_task, (Semiautomaton, Task, Claim)):
        raise Error(
            f"{verb}: what is right is said by a Semiautomaton or a task with a machine, got "
            f"{type(machine_or_task).__name__}. Use tasks.get(name), or make a machine with lengthwise.automata."
        )
    if isinstance(model_or_run, Run):
        return _of_run(verb, model_or_run, machine_or_task, trust)
    if not isinstance(model_or_run, nn.Module):
        raise Error(
            f"{verb}: takes a model or a finished run, got {type(model_or_run).__name__}. A path is loaded with "
            "lab.load(path)[0]."
        )
    if machine_or_task is None:
        raise Error(f"{verb}: a model needs a machine or a task to be held against. Pass one, or a run of such a task.")
    lengths = LENGTHS
    if isinstance(machine_or_task, Task):  # trained on what is possible of them
        lengths = tuple(n for n in LENGTHS if machine_or_task.problem(n) is None) or LENGTHS
    subject = Subject(model_or_run, _claim(verb, machine_or_task), "given", lengths)
    if (inner := own_model(model_or_run)) is not None:
        _check_vocabulary(verb, inner.config.vocab_size, subject.claim)
    return subject


def _of_run(verb: str, run: Run, machine_or_task: Semiautomaton | Task | Claim | None, trust: bool) -> Subject:
    if run.experiment.on_text:
        raise Error(
            f"{verb}: {run.path} was trained on text, where no machine says what is right. Take a run on strings, or "
            "pass its model (lab.load_model) with a machine."
        )
    task = load_task(run, trust=trust)
    if machine_or_task is None and task.machine is None:
        raise Error(
            f"{verb}: the task {task.name} of this run has no machine to be held against. Pass a machine or another "
            "task (in a shell --task NAME), or take a run on a regular language."
        )
    claim = _claim(verb, task if machine_or_task is None else machine_or_task)
    _check_vocabulary(verb, len(task.vocabulary), claim)
    return Subject(load_model(run, trust=trust), claim, "learned", trained_lengths(run, task))


def trained_lengths(run: Run, task: Task) -> tuple[int, ...]:
    """The lengths of the strings that a run was trained on, of its own task."""
    return tuple(task.lengths(*run.experiment.training.curriculum.lengths))


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
