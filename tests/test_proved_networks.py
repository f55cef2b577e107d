"""The networks that lie in results/ with their proofs: the checker accepts each, for the claim of its own task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lengthwise.recipes.proof.scales import LAPTOP_TASKS
from lengthwise.recipes.proof.table import task_of
from lengthwise.verify.checker import check
from lengthwise.verify.claim import claim_of

FOLDER = Path(__file__).parent.parent / "results" / "proof-steady-laptop" / "networks"


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("task", LAPTOP_TASKS)
def test_a_network_is_proved_right_on_its_task_as_it_was_learned(task, cell):
    folder = FOLDER / f"{task}-{cell}"
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    report = check(certificate, folder)
    assert (report.arithmetic, report.assumed) == ("float32", False)
    assert (certificate["made"], certificate["inference"]) == ("learned", "raw")
    assert certificate["claim"] == claim_of(task_of(task, "prefix")).to_json()
