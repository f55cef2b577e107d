"""Theorems about weights: Coq accepts those of the zoo's RNNs, and rejects every change of a network or its proof."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.files import read_json
from lengthwise.lab.collection import network_folder, networks
from lengthwise.verify import certificate as certificates
from lengthwise.verify.checker import Rejected
from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.checker.recurrence import Recurrence, check_recurrence
from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.recurrence import prove_recurrence
from lengthwise.verify.theorem import folder as theorem
from lengthwise.verify.theorem.recurrences import NAMES

from .proposals import accepted
from .test_recurrence_boxes import FLIP_FLOP, flip_flop

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
@pytest.mark.parametrize(
    "name", [*RNNS, "parity-gru", "parity-lstm", "parity-automaton", "parity-regular-gpt-compiled"]
)
def test_coq_accepts_the_theorem(name, tmp_path, development):
    folder = theorem.write_theorem(certificate_of(name), network_folder(name), tmp_path / name)
    shutil.copytree(development, folder, dirs_exist_ok=True)
    said = [compiled(folder, part) for part in ("Network", "Claim", "Theorem")][-1]
    axioms = re.findall(r"^(?:\w+\.)*(\w+)\s*:", said, re.MULTILINE)
    assert set(axioms) - {"Axioms"} == REALS


def test_numbers_are_exactly_the_weights():
    """Every weight that is written, divided by 2^scale, is the float32 number."""
    name = "parity-rnn"
    tensors = read_model(network_folder(name))[1]
    text = theorem.statement(certificate_of(name), tensors)["Network.v"]
    scale = int(re.search(r"network := Network (\d+)", text)[1])
    written = [int(k) for k in re.findall(r"-?\d+", text[text.index("[[") :].replace("%Z", "").replace("Unit", ""))]
    parts = [tensors[NAMES[part]].astype(np.float64) for part in NAMES]
    embedding, reads, keeps, bias, other, head, head_bias = parts
    units = [x for i in range(len(bias)) for x in (*reads[i], *keeps[i], bias[i], other[i])]
    rows = [x for i in range(len(head)) for x in (*head[i], head_bias[i])]
    assert np.array_equal(np.array([k / 2**scale for k in written]), np.array([*embedding.ravel(), *units, *rows]))


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
    written = {path.stem for path in (tmp_path / "coq").glob("*.v")}
    assert written == {*theorem.development("Recurrence"), "Network", "Claim", "Theorem"}
    assert main(["certify", "--theorem", str(tmp_path / "coq")]) == 2


def flip_flop_certificate():
    """The certificate of a small network, and its weights."""
    model = flip_flop()
    return accepted(prove_recurrence, model, claim_of(FLIP_FLOP)), certificates.weights(model.inner)


def head(content):
    """How a file about such a network begins."""
    return theorem.head(theorem.family_of(content))


def definitions(content, tensors):
    """The network, the machine and the boxes, as they stand in the files."""
    files = theorem.statement(content, tensors)
    texts = [files[name].split(head(content))[1] for name in ("Network.v", "Claim.v", "Theorem.v")]
    return "\n".join(texts).split("Lemma checked")[0].replace("From Lengthwise Require Import Network Claim.\n", "")


def tampered_weights(tensors):
    for name, at, by in [
        *((part, (unit, 0), 0.01 if unit else -6.0) for part in ("reads", "keeps") for unit in range(6)),
        *((part, unit, -0.01 if unit else 4.0) for part in ("bias", "other_bias") for unit in range(6)),
        *(("embedding", (symbol, 0), by) for symbol, by in enumerate([6.0, 12.0, -12.0])),
        *(("head", (answer, 0), 10.0 - 20.0 * answer) for answer in range(2)),
        *(("head_bias", answer, 12.0 * (-1) ** answer) for answer in range(2)),
    ]:
        copy = {key: value.copy() for key, value in tensors.items()}
        copy[NAMES[name]][at] += by
        yield f"{name} {at}", None, copy


def tampered_claims(content):
    claim = content["claim"]
    for q, row in enumerate(claim["delta"]):
        for s, to in enumerate(row):
            delta = [list(each) for each in claim["delta"]]
            delta[q][s] = 1 - to
            yield f"delta {q} {s}", {**content, "claim": {**claim, "delta": delta}}, None
    yield "answers", {**content, "claim": {**claim, "answers": claim["answers"][::-1]}}, None
    yield "start", {**content, "claim": {**claim, "start": 1 - claim["start"]}}, None


def tampered_sets(content):
    sets = content["proof"]["sets"]
    for i, entry in enumerate(sets):
        yield f"without set {i}", {**content, "proof": {"sets": [*sets[:i], *sets[i + 1 :]]}}, None
        moved = [entry["centre"][0] + 0.3, *entry["centre"][1:]]
        for change in ({"centre": moved}, {"radius": [0.0] * 6}, {"state": 1 - entry["state"]}):
            if {**entry, **change} != entry:
                yield (
                    f"set {i} {change}",
                    {**content, "proof": {"sets": [*sets[:i], {**entry, **change}, *sets[i + 1 :]]}},
                    None,
                )


def checker_accepts(content, tensors):
    """Whether the numpy checker finds the conditions to hold, whatever the digests say."""
    try:
        network = Recurrence(content["model"]["config"], dict(tensors), content["arithmetic"])
        check_recurrence(network, StatedClaim(content["claim"]), content["proof"])
    except Rejected:
        return False
    return True


@coq
@pytest.mark.slow
def test_coq_and_the_checker_reject_whatever_was_changed(tmp_path, development):
    content, tensors = flip_flop_certificate()
    own = definitions(content, tensors)
    changes = [*tampered_weights(tensors), *tampered_claims(content), *tampered_sets(content)]
    assert len(changes) >= 50
    modules = [("own", own, "true")]
    assert checker_accepts(content, tensors)
    for name, other, weights in changes:
        text = definitions(other or content, weights or tensors)
        if weights:  # the boxes that were proved, and another network
            text = text.split("Definition claim")[0] + "Definition claim" + own.split("Definition claim")[1]
        modules.append((name, text, "false"))
        assert not checker_accepts(other or content, weights or tensors), name
    decided(tmp_path, development, content, "check weights claim regions targets", modules)


def decided(folder, development, content, check, modules):
    """Coq finds the check to give what is said, of each network by its own definitions."""
    text = "".join(
        f"(* {name} *)\nModule M{i}.\n{text}\nGoal {check} = {answer}.\n"
        f"Proof. vm_compute. reflexivity. Qed.\nEnd M{i}.\n"
        for i, (name, text, answer) in enumerate(modules)
    )
    shutil.copytree(development, folder, dirs_exist_ok=True)
    (folder / "Changed.v").write_text(head(content) + text)
    compiled(folder, "Changed")


@coq
@pytest.mark.slow
def test_coq_rejects_a_changed_lstm(tmp_path, development):
    """Its output gates shut, or asked for the other answer. (With forget gates shut it stays right: h remembers.)"""
    content, tensors = certificate_of("parity-lstm"), read_model(network_folder("parity-lstm"))[1]
    width = tensors["head.weight"].shape[1]
    shut = {**tensors, NAMES["bias"]: tensors[NAMES["bias"]].copy()}
    shut[NAMES["bias"]][3 * width :] = -9
    other = {**content, "claim": {**content["claim"], "answers": content["claim"]["answers"][::-1]}}
    shutil.copytree(development, tmp_path, dirs_exist_ok=True)
    for name, text in (("Shut", definitions(content, shut)), ("Other", definitions(other, tensors))):
        goal = "Goal lstm_check weights claim places targets = false.\nProof. vm_compute. reflexivity. Qed.\n"
        (tmp_path / f"{name}.v").write_text(f"{head(content)}{text}\n{goal}")
        compiled(tmp_path, name)
