"""A certificate is accepted where it is true, and where nothing but numpy is installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from lengthwise.ops import kernels
from lengthwise.verify import certificate, compile_machine
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.codes import prove_codes

from .conftest import NAMES, arithmetic, resealed


@pytest.mark.parametrize("name", NAMES)
def test_what_is_true_is_accepted(made, name, tmp_path):
    it = made(name)
    report = check(it.certificate, it.weights)
    assert report.margin > 0
    assert report.conditions > 0
    assert str(report).startswith("accepted: Evaluated in float32, in any order of summation, the model")
    if it.model is not None:
        it.model.save_pretrained(tmp_path)
        assert check(it.certificate, tmp_path) == report


@pytest.mark.parametrize("name", NAMES)
def test_the_models_are_right(made, name):
    """So that what the tests below call true is."""
    it = made(name)
    if it.model is None or name.startswith("snapped"):
        return
    machine = it.claim.machine
    tokens = torch.randint(machine.num_symbols, (50, 200), generator=torch.Generator().manual_seed(0))
    states = machine.run(tokens)[:, -1]
    with torch.no_grad(), kernels.backend("reference"):  # for which no loop is compiled
        said = it.model(tokens, logits_to_keep=1).logits[:, -1].argmax(-1)
    asked = it.claim.asked[states]
    assert (said.numpy() == it.claim.answers[states])[asked].all()


def test_it_runs_without_torch(made, tmp_path):
    """And without anything else but numpy: the rest cannot be imported."""
    it = made("lstm")
    it.model.save_pretrained(tmp_path)
    (tmp_path / "certificate.json").write_text(json.dumps(it.certificate))
    code = (
        "import sys, runpy\n"
        "for name in ('torch', 'transformers', 'safetensors', 'automata', 'numba', 'scipy', 'typer', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "runpy.run_module('lengthwise.verify.checker', run_name='__main__', alter_sys=True)"
    )

    def run(file):
        return subprocess.run([sys.executable, "-c", code, file, str(tmp_path)], capture_output=True, text=True)

    done = run(str(tmp_path / "certificate.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("accepted: Evaluated in float32")
    given = {**it.certificate, "margin": 5.0}
    (tmp_path / "changed.json").write_text(json.dumps(given))
    done = run(str(tmp_path / "changed.json"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rejected: the certificate was changed")
    assert run("none.json").returncode == 2
    (tmp_path / "words.json").write_text("hello")
    done = run(str(tmp_path / "words.json"))
    assert (done.returncode, done.stderr.split(": ")[0]) == (2, "error")
    (tmp_path / "list.json").write_text("[1, 2]")
    done = run(str(tmp_path / "list.json"))
    assert (done.returncode, done.stderr[:46]) == (1, "rejected: a certificate must be an object of a")


@pytest.mark.slow
def test_of_arithmetic_with_a_leading_plus_half_of_the_parts_have_no_code():
    """Operator and digit come in pairs, so no node is of a digit alone."""
    task = arithmetic()
    made = compile_machine(task)
    claim = claim_of(task)
    proof = prove_codes(made.model.eval(), claim, 100)
    assert isinstance(proof, dict), proof
    given = certificate.make(made.model, claim, proof, "compiled")
    assert check(given, certificate.weights(made.model)).conditions > len(proof["proof"]["codes"]) ** 2
    fewer = {**proof["proof"], "codes": proof["proof"]["codes"][1:]}
    with pytest.raises(Rejected):
        check(resealed({**given, "proof": fewer}), certificate.weights(made.model))
