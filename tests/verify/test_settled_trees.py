"""Trees that learned from strings, taught the machine that is extracted from them: right or wrong, it stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lengthwise import tasks, verify
from lengthwise.errors import Error
from lengthwise.files import read_json
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.verify import certification
from lengthwise.verify.checker import check
from lengthwise.verify.consolidate.compiling import FILE
from lengthwise.verify.consolidate.teaching import TaughtCopy

ZOO = Path(__file__).parents[2] / "zoo"
TREES = {"continuous": ("tomita-5-regular-gpt", "tomita-5"), "discrete": ("parity-regular-gpt-compiled", "parity")}
OTHER = "tomita-1"
"""A task that none of them has learned, of as many symbols and answers."""


def subject(tree, task):
    model = LengthwiseForCausalLM.from_pretrained(ZOO / TREES[tree][0]).eval()
    return certification.subject_of("certify", model, tasks.get(task))


@pytest.fixture(scope="module", params=["discrete", pytest.param("continuous", marks=pytest.mark.slow)])
def tree(request):
    return request.param


@pytest.fixture(scope="module")
def settled(tree, tmp_path_factory):
    """The copy that was settled where it is held against its task, and its folder."""
    folder = tmp_path_factory.mktemp("settled") / tree
    return certification.consolidated(subject(tree, TREES[tree][1]), 300.0, folder, settle=True), folder


def test_a_tree_that_learned_its_task_is_proved(settled):
    copy, folder = settled
    verdict = certification.decide(copy, 20.0).verdict
    assert isinstance(verdict, verify.Proved), verdict
    certificate = verdict.certificate
    assert (certificate["made"], certificate["inference"], certificate["arithmetic"]) == ("settled", "raw", "float32")
    assert certificate["kept"] == copy.kept.to_json()
    assert copy.kept.own > 0
    check(certificate, folder)


def test_one_that_learned_another_machine_is_refuted_and_its_copy_is_the_same(tree, settled, tmp_path):
    """Held against another task the copy is the same to the last bit: the machine of the task has no part in it."""
    other = subject(tree, OTHER)
    with pytest.raises(Error, match="has not learned"):
        certification.consolidated(other, 10.0, tmp_path / "refused")
    copy = certification.consolidated(other, 300.0, tmp_path / "other", settle=True)
    assert (copy.made, copy.kept) == ("settled", settled[0].kept)
    assert isinstance(certification.decide(copy, 20.0).verdict, verify.Refuted)
    weights = [LengthwiseForCausalLM.from_pretrained(at).state_dict() for at in (settled[1], tmp_path / "other")]
    assert all(torch.equal(a, b) for a, b in zip(weights[0].values(), weights[1].values(), strict=True))


def test_a_copy_that_keeps_nothing_is_compiled(family, tmp_path):
    seen = []

    def teach(model, claim, seconds):
        seen.append(claim)
        return TaughtCopy(model, 0, 4, "sets")

    family(teach=teach)
    other = subject("continuous", OTHER)
    taught = certification.consolidated(other, 20.0, tmp_path / "taught", settle=True)
    assert (taught.made, seen[0].machine.num_states) == ("compiled", 4)
    assert read_json(tmp_path / "taught" / FILE)["taught"] == "its own machine"
    again = certification.consolidated(other, 20.0, tmp_path / "taught", settle=True)
    assert (again.made, len(seen)) == ("compiled", 1)
    right = subject("continuous", "tomita-5")
    with pytest.raises(Error, match="Name a new folder"):  # it was taught its own machine, not that of the task
        certification.consolidated(right, 20.0, tmp_path / "taught")


@pytest.mark.slow
def test_a_tree_that_is_no_small_machine_is_not_settled(tmp_path):
    """What it says after a fifth of words of 9 to 40 symbols is that of no machine."""
    torch.manual_seed(0)
    other = subject("continuous", "tomita-5")
    with torch.no_grad():
        for p in other.inner.depth.layers[0].parameters():
            p += 0.5 * p.std() * torch.randn_like(p) if p.numel() > 1 else 0
    with pytest.raises(Error, match="has not learned"):
        certification.consolidated(other, 60.0, tmp_path / "settled", settle=True)
