"""Theorems about weights: which are written, and that Coq accepts them. (What it rejects: test_corpus.py.)"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.files import read_json
from lengthwise.lab.collection import network_folder, networks
from lengthwise.verify.checker import check
from lengthwise.verify.theorem import folder as theorem
from lengthwise.verify.theorem import regulargpt

COMPILED = "parity-regular-gpt-compiled"
coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed: make theorem installs it")
RNNS = [name for name in networks() if name.endswith("-rnn")]
REALS = {"sig_not_dec", "sig_forall_dec", "functional_extensionality_dep", "classic"}
"""Axioms of Coq's real numbers, and of classical logic."""


def certificate_of(name):
    return read_json(network_folder(name) / "certificate.json")


@pytest.fixture(scope="session")
def development(tmp_path_factory):
    """The folder of `theorem/`, compiled."""
    folder = tmp_path_factory.mktemp("coq")
    for name in theorem.NEEDS:
        shutil.copy(Path(__file__).parents[2] / "theorem" / f"{name}.v", folder)
        compiled(folder, name)
    return folder


def compiled(folder, name):
    command = ["coqc", "-q", "-Q", ".", "Lengthwise", f"{name}.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@coq
@pytest.mark.slow
@pytest.mark.parametrize("name", [*RNNS, "parity-gru", "parity-lstm", "parity-automaton", COMPILED])
def test_coq_accepts_the_theorem(name, tmp_path, development):
    folder = theorem.write_theorem(certificate_of(name), network_folder(name), tmp_path / name)
    shutil.copytree(development, folder, dirs_exist_ok=True)
    said = [compiled(folder, part) for part in ("Network", "Claim", "Theorem")][-1]
    axioms = re.findall(r"^(?:\w+\.)*(\w+)\s*:", said, re.MULTILINE)
    assert set(axioms) - {"Axioms"} == REALS


@pytest.mark.parametrize(
    ("name", "why"),
    [("parity-regular-gpt", "tree-boxes")],
)
def test_of_what_no_theorem_is_written(name, why, tmp_path):
    with pytest.raises(Error, match=why):
        theorem.write_theorem(certificate_of(name), network_folder(name), tmp_path / "coq")
    assert not (tmp_path / "coq").exists()


def test_the_command_writes_a_folder(tmp_path, capsys):
    network = network_folder("parity-rnn")
    call = ["certify", "--check", str(network / "certificate.json"), "--model", str(network)]
    assert main([*call, "--theorem", str(tmp_path / "coq"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["theorem"] == str(tmp_path / "coq")
    assert main([*call, "--theorem", str(tmp_path / "again")]) == 0
    assert f"\nWrote {tmp_path / 'again'}: `make -C " in capsys.readouterr().out
    written = {path.stem for path in (tmp_path / "coq").glob("*.v")}
    assert written == {*theorem.development("Recurrence"), "Network", "Claim", "Theorem"}
    assert main(["certify", "--theorem", str(tmp_path / "coq")]) == 2


def head(content):
    """How a file about such a network begins."""
    return theorem.head(theorem.family_of(content))


def parts_of(content, tensors):
    """The network, the machine and the sets, as they stand in the files."""
    files = theorem.statement(content, tensors)
    network, machine, sets = (files[name].split(head(content))[1] for name in ("Network.v", "Claim.v", "Theorem.v"))
    return (
        network,
        machine,
        sets.split("Lemma checked")[0].replace("From Lengthwise Require Import Network Claim.\n", ""),
    )


def is_written(case, own):
    """Whether a theorem is written about such a network, and it has all its weights."""
    return theorem.refusal(case.certificate) is None and case.weights.keys() >= own.weights.keys()


def test_automata_that_add_their_tokens_are_refused(tmp_path):
    content = copy.deepcopy(certificate_of("parity-automaton"))
    content["model"]["config"]["mixer"]["inputs"] = "linear"
    assert "inputs linear" in theorem.refusal(content)
    with pytest.raises(Error):
        theorem.write_theorem(content, network_folder("parity-automaton"), tmp_path / "coq")


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("block", {"activation": "gelu"}, "gelu"),
        ("block", {"norm": "pre"}, "the norm first"),
        (None, {"head": "two-layer"}, "sets head"),
    ],
)
def test_of_which_trees_no_theorem_is_written(part, change, why, tmp_path):
    content = copy.deepcopy(certificate_of(COMPILED))
    config = content["model"]["config"]
    (config[part] if part else config).update(change)
    assert why in theorem.refusal(content)
    with pytest.raises(Error):
        theorem.write_theorem(content, network_folder(COMPILED), tmp_path / "coq")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in networks() if (network_folder(name) / "certificate.json").exists()])
def test_every_certificate_of_the_zoo_is_a_theorem_or_refused(name, tmp_path):
    """The checker accepts it; and Coq's files are written, or it is said why they are not."""
    content = certificate_of(name)
    assert check(content, network_folder(name)).conditions > 0
    if (why := theorem.refusal(content)) is None:
        folder = theorem.write_theorem(content, network_folder(name), tmp_path / name)
        assert f"Theorem certificate_{content['digest'][:16]} :" in (folder / "Theorem.v").read_text()
    else:
        assert name.endswith("-regular-gpt"), why


def test_a_machine_that_is_not_asked_everywhere_has_a_check_of_its_own(monkeypatch):
    monkeypatch.setattr(regulargpt, "sets", lambda certificate: "")
    checks = {
        regulargpt.FAMILY: "gpt_check fineness weights claim codes = true.",
        regulargpt.WHERE_IT_IS_ASKED: "gpt_check_where fineness weights claim asked heeded codes = true.",
    }
    for family, check_ in checks.items():
        assert f"Lemma checked : {check_}" in family.proof({}, {}, 1)
