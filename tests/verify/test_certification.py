"""`certify` checks its arguments, claims nothing, and says why."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lengthwise import automata, lab, models, tasks, theory, verify
from lengthwise.errors import Error, ShapeError
from lengthwise.lab.experiment import TaskSpec

PARITY = tasks.get("parity").machine


def run_of(name, **params):
    """As much of a finished run as is looked at."""
    return lab.Run(None, SimpleNamespace(task=TaskSpec(name, params)), {}, [])


@pytest.mark.parametrize(
    ("subject", "machine"),
    [
        (theory.regular_gpt(PARITY), PARITY),
        (theory.exact_classifier("parity", theory.block_lrnn), PARITY),
        (models.build("lstm", vocab_size=2, num_outputs=2), PARITY),
        (torch.nn.Linear(2, 2), PARITY),  # a model that does not say how many tokens it reads
        (run_of("parity"), None),
        (run_of("cycle-navigation"), automata.Semiautomaton([[0, 1, 0], [1, 0, 1]])),
    ],
)
def test_nothing_is_claimed(subject, machine):
    """Even of models that are right by construction: no method has looked at them."""
    verdict = verify.certify(subject, machine, budget=1)
    assert isinstance(verdict, verify.Unknown)
    assert str(verdict) == "unknown: no method of proof is built yet, so nothing was tried"
    assert verdict.by_how_much is None
    assert verdict.exit_code == 1


@pytest.mark.parametrize("budget", [0, -1, math.inf, math.nan, True, "60"])
def test_a_budget_is_seconds(budget):
    with pytest.raises(Error, match="finite number of seconds above 0"):
        verify.certify(theory.regular_gpt(PARITY), PARITY, budget=budget)


def test_a_subject_that_is_none():
    with pytest.raises(Error, match=r"takes a model or a finished run, got str.*lab\.load"):
        verify.certify("runs/parity", PARITY)


def test_a_machine_is_needed():
    with pytest.raises(Error, match="needs a machine to be held against"):
        verify.certify(theory.regular_gpt(PARITY))
    with pytest.raises(Error, match="boxes of this run has no machine"):
        verify.certify(run_of("boxes"))
    with pytest.raises(Error, match="must be a Semiautomaton, got Parity"):
        verify.certify(theory.regular_gpt(PARITY), tasks.get("parity"))


@pytest.mark.parametrize("subject", [theory.regular_gpt(PARITY), theory.exact_classifier("parity"), run_of("parity")])
def test_a_machine_with_symbols_that_the_model_cannot_read(subject):
    three = tasks.get("cycle-navigation").machine
    with pytest.raises(ShapeError, match="reads 2 tokens of 3 symbols"):
        verify.certify(subject, three)
