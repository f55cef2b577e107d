"""Certify a model: try the methods of proof within a budget of seconds, and say what is known then.

No method is built yet. `certify` checks what it is given and answers `Unknown`: it never claims what nobody has proved.
"""

from __future__ import annotations

import math

from torch import nn

from ..automata import Semiautomaton
from ..errors import Error, ShapeError
from ..lab import Run, load_task
from ..models import LengthwiseForCausalLM
from .verdict import Unknown, Verdict

BUDGET = 60.0
"""Seconds."""


def certify(model_or_run: nn.Module | Run, machine: Semiautomaton | None = None, budget: float = BUDGET) -> Verdict:
    """Whether the model is right on every word of every length.

    `machine` says what is right; None: the machine of the run's task. `budget`: seconds after which it gives up.

    >>> from lengthwise import tasks, theory
    >>> machine = tasks.get("parity").machine
    >>> print(certify(theory.regular_gpt(machine), machine, budget=10))
    unknown: no method of proof is built yet, so nothing was tried
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not (0 < budget < math.inf):
        raise Error(f"certify: budget must be a finite number of seconds above 0, got {budget!r}.")
    if machine is not None and not isinstance(machine, Semiautomaton):
        raise Error(
            f"certify: machine must be a Semiautomaton, got {type(machine).__name__}. Take a task's `machine`, or make "
            "one with lengthwise.automata."
        )
    if isinstance(model_or_run, Run):
        machine, vocabulary = _of_run(model_or_run, machine)
    elif isinstance(model_or_run, nn.Module):
        vocabulary = _vocabulary(model_or_run)
    else:
        raise Error(
            f"certify: takes a model or a finished run, got {type(model_or_run).__name__}. A path is loaded with "
            "lab.load(path)[0]."
        )
    if machine is None:
        raise Error("certify: a model needs a machine to be held against. Pass machine=, or a run of a task with one.")
    if vocabulary is not None and vocabulary < machine.num_symbols:
        raise ShapeError(
            f"certify: the model must read every symbol of the machine, and it reads {vocabulary} tokens of "
            f"{machine.num_symbols} symbols. Pass the machine it was built or trained for."
        )
    return Unknown("no method of proof is built yet, so nothing was tried")


def _of_run(run: Run, machine: Semiautomaton | None) -> tuple[Semiautomaton, int]:
    """The machine of the run's task, unless one is given, and how many tokens its model reads."""
    task = load_task(run)
    machine = task.machine if machine is None else machine
    if machine is None:
        raise Error(f"certify: the task {task.name} of this run has no machine to be held against. Pass machine=.")
    return machine, len(task.vocabulary)


def _vocabulary(model: nn.Module) -> int | None:
    """How many tokens a model reads; None where the model does not say."""
    inner = getattr(model, "inner", model)
    return inner.config.vocab_size if isinstance(inner, LengthwiseForCausalLM) else None
