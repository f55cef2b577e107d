"""Theorems about trees of discrete nodes: Coq and the checker reject every change of network, machine or codes."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.lab.collection import networks
from lengthwise.verify import certificate as certificates
from lengthwise.verify import compile_machine
from lengthwise.verify.checker import Rejected
from lengthwise.verify.checker.check import check
from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.checker.tree import Tree, check_tree
from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.prove.codes import prove_codes
from lengthwise.verify.theorem import folder as theorem

from .proposals import accepted
from .test_theorem import certificate_of, coq, decided, definitions, development, network_folder  # noqa: F401

CHECK = "gpt_check fineness weights claim codes"
LAYER = "depth.layers.0"
COMPILED = "parity-regular-gpt-compiled"


@pytest.fixture(scope="module")
def narrow():
    """The certificate of parity in 8 numbers a node, and the weights."""
    made = compile_machine(tasks.get("parity"), width=8)
    return accepted(prove_codes, made.model.eval(), made.claim), certificates.weights(made.model)


def checker_accepts(content, tensors):
    """Whether the numpy checker finds the conditions to hold, whatever the digests say."""
    try:
        network = Tree(content["model"]["config"], dict(tensors), content["arithmetic"])
        check_tree(network, StatedClaim(content["claim"]), content["kind"], content["inference"], content["proof"])
    except Rejected:
        return False
    return True


def tampered_weights(tensors):
    """Every part of the network, changed so far that a condition fails."""

    def changed(name, change):
        copies = {key: x.copy() for key, x in tensors.items()}
        change(copies[name])
        return copies

    def swap(x):
        x[[0, 1]] = x[[1, 0]]

    def negate(x):
        x *= -1

    def silence(x):
        x[:] = 0

    yield "symbols swapped", changed("embedding.weight", swap)
    yield "both symbols alike", changed("embedding.weight", lambda x: x.__setitem__(0, x[1]))
    yield "pad like a symbol", {**tensors, "pad": tensors["embedding.weight"][1]}
    yield "no attention", changed(f"{LAYER}.mixer.out.weight", silence)
    yield "attention negated", changed(f"{LAYER}.mixer.out.weight", negate)
    yield "attends to the newest alone", changed(f"{LAYER}.mixer.r", lambda x: x.__setitem__((slice(None), 0), 40))
    yield "attends to the oldest alone", changed(f"{LAYER}.mixer.r", lambda x: x.__setitem__((slice(None), 1), 40))
    yield "values negated", changed(f"{LAYER}.mixer.qkv.weight", lambda x: negate(x[16:]))
    yield "no first norm", changed(f"{LAYER}.mixer_norm.weight", silence)
    yield "first norm moved", changed(f"{LAYER}.mixer_norm.bias", lambda x: x.__setitem__(0, 9))
    yield "no feed-forward", changed(f"{LAYER}.down.weight", silence)
    yield "nothing is above 0", changed(f"{LAYER}.up.bias", lambda x: x.__setitem__(slice(None), -99))
    yield "no last norm", changed(f"{LAYER}.feed_norm.weight", silence)
    yield "last norm negated", changed(f"{LAYER}.feed_norm.weight", negate)
    for group in range(3):
        first = 2 * group
        yield f"choice {group}", changed(f"{LAYER}.nodes.choose.bias", lambda x, i=first: x.__setitem__(i, 99))
        yield f"tie {group}", changed(f"{LAYER}.nodes.choose.weight", lambda x, i=first: x.__setitem__(i, x[i + 1]))
    yield "codebook swapped", changed(f"{LAYER}.nodes.codebook", lambda x: x.__setitem__(slice(None), x[::-1].copy()))
    yield "head swapped", changed("head.weight", swap)
    yield "head negated", changed("head.weight", negate)
    for answer in range(2):
        yield f"answer {answer} always", changed("head.bias", lambda x, i=answer: x.__setitem__(i, 99))


def tampered_proofs(content):
    """The machine, and the codes of its elements."""
    claim, proof = content["claim"], content["proof"]
    for q, row in enumerate(claim["delta"]):
        for s, to in enumerate(row):
            delta = copy.deepcopy(claim["delta"])
            delta[q][s] = 1 - to
            yield f"delta {q} {s}", {**content, "claim": {**claim, "delta": delta}}
    yield "answers", {**content, "claim": {**claim, "answers": claim["answers"][::-1]}}
    yield "start", {**content, "claim": {**claim, "start": 1 - claim["start"]}}
    codes = proof["codes"]
    for i, entry in enumerate(codes):
        yield f"without code {i}", {**content, "proof": {**proof, "codes": [*codes[:i], *codes[i + 1 :]]}}
        for g in range(len(entry["code"])):
            other = [*entry["code"]]
            other[g] = 1 - other[g]
            moved = [*codes[:i], {**entry, "code": other}, *codes[i + 1 :]]
            yield f"code {i} {g}", {**content, "proof": {**proof, "codes": moved}}
    exchanged = [{**entry, "element": 1 - entry["element"]} for entry in codes]
    yield "elements exchanged", {**content, "proof": {**proof, "codes": exchanged}}


@coq
@pytest.mark.slow
def test_coq_and_the_checker_reject_whatever_was_changed(narrow, tmp_path, development):  # noqa: F811
    content, tensors = narrow
    assert checker_accepts(content, tensors)
    changes = [(name, content, other) for name, other in tampered_weights(tensors)]
    changes += [(name, other, tensors) for name, other in tampered_proofs(content)]
    assert len(changes) >= 35
    for name, *changed in changes:
        assert not checker_accepts(*changed), name
    modules = [("own", definitions(content, tensors), "true")]
    modules += [(name, definitions(*changed), "false") for name, *changed in changes]
    decided(tmp_path, development, content, CHECK, modules)


def test_numbers_are_exactly_the_weights():
    """Every weight that is written, divided by 2^scale, is the float32 number."""
    tensors = read_model(network_folder(COMPILED))[1]
    text = theorem.statement(certificate_of(COMPILED), tensors)["Network.v"]
    text = text[text.index("unit_of_weights :=") :]
    scale = int(re.search(r"unit_of_weights := (\d+)", text)[1])
    written = {int(k) for k in re.findall(r"-?\d+", text)}
    expected = {int(k) for x in tensors.values() for k in (x.astype(np.float64) * 2.0**scale).ravel()}
    assert expected <= written
    assert len(written - expected) < 6  # the scale, the chunk, the heads, and no bias


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
