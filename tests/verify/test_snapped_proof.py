"""A snapped model is proved where its own network composes right, and nowhere else."""

from __future__ import annotations

import copy

import pytest
import torch

from lengthwise import tasks, theory, verify
from lengthwise.automata import Semiautomaton
from lengthwise.verify import certificate, checker
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.codes import prove_snapped
from lengthwise.verify.prove.node import tree_of

PARITY = tasks.get("parity")
STUCK = Semiautomaton([[0, 1], [1, 2], [2, 0]], accepting={1})


@pytest.fixture(scope="module")
def snapped():
    return verify.extract(theory.regular_gpt(PARITY.machine), PARITY).snap()


def changed(model, change):
    """A copy of it, changed."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        change(model, model.depth.layers[0])
    return model


def test_it_is_proved(snapped):
    proof = prove_snapped(snapped, claim_of(PARITY))
    assert (proof["kind"], proof["inference"], proof["arithmetic"]) == ("tree-boxes", "snapped", "float32")
    assert sorted(proof["proof"]["elements"]) == [[0, 1], [1, 0]]
    assert [entry["centre"] for entry in proof["proof"]["centres"]] == snapped.depth.layers[0].centres.tolist()
    assert 0.5 < proof["margin"] <= proof["proof"]["radius"]


def test_only_snapped_models_are(snapped):
    """And no method for raw ones takes a snapped model for what its node function says."""
    assert "not snapped" in prove_snapped(theory.regular_gpt(PARITY.machine), claim_of(PARITY))
    assert "snapped to centres" in tree_of(snapped)
    lstm = theory.block_lrnn(PARITY.machine)
    assert "no RegularGPT" in prove_snapped(lstm, claim_of(PARITY))


@pytest.mark.parametrize("machine", [STUCK, Semiautomaton([[0, 0], [1, 1]]), Semiautomaton([[1, 0], [0, 1]])])
def test_another_machine_is_not(snapped, machine):
    found = prove_snapped(snapped, claim_of(machine.with_accepting({1})))
    assert isinstance(found, verify.Unknown)


def test_a_little_wrong_is_not(snapped):
    claim = claim_of(PARITY)

    def reject(change, why):
        found = prove_snapped(changed(snapped, change), claim)
        assert isinstance(found, verify.Unknown)
        assert why in found.why

    def narrow(model, layer):
        layer.radius = 1e-9

    def between(model, layer):
        layer.centres.copy_(layer.centres.mean(0) + 1e-6 * (layer.centres - layer.centres.mean(0)))
        layer.radius = 10.0

    def extra(model, layer):
        layer.centres = torch.cat([layer.centres, 7 + layer.centres[:1]])
        model.config.depth["snapped"]["centres"] = 3

    def head(model, layer):
        model.head.weight.copy_(model.head.weight.flip(0))

    def network(model, layer):
        model.embedding.weight.copy_(model.embedding.weight.flip(0))

    reject(narrow, "outside the radius")
    reject(between, "nearer to another")
    reject(extra, "1 of 3 centres are reached by no word")
    reject(head, "the answer on centre")
    reject(network, "")


def test_time_runs_out(snapped):
    assert "the time was over" in prove_snapped(snapped, claim_of(PARITY), seconds=0.0).why


@pytest.mark.slow
def test_raw_and_snapped_agree_on_a_hundred_thousand_words(snapped):
    raw = theory.regular_gpt(PARITY.machine)
    with torch.no_grad():
        for n in (1, 17, 40, 63, 64, 65, 200, 257, 500, 1000):
            tokens = torch.randint(2, (10_000, n), generator=torch.Generator().manual_seed(n))
            for part in tokens.split(500):
                own, other = (m(part, logits_to_keep=1).logits.argmax(-1) for m in (raw, snapped))
                assert torch.equal(own, other)


@pytest.fixture(scope="module")
def certified(snapped):
    proof = prove_snapped(snapped, claim_of(PARITY))
    return certificate.make(snapped, claim_of(PARITY), proof, "built"), certificate.weights(snapped)


def test_the_checker_accepts_it(certified, snapped, tmp_path):
    made, weights = certified
    report = checker.check(made, weights)
    assert report.inference == "snapped"
    assert report.margin > 0.5
    snapped.save_pretrained(tmp_path)
    assert checker.check(made, tmp_path) == report


@pytest.mark.parametrize("part", ["centre", "radius"])
def test_other_centres_than_the_model_s_are_rejected(certified, part):
    """The proof is about the very centres and radius of the model."""
    made, weights = copy.deepcopy(certified[0]), certified[1]
    if part == "radius":
        made["proof"]["radius"] /= 2
    else:
        entry = made["proof"]["centres"][0]["centre"]
        entry[0] += 2.0**-10
    with pytest.raises(checker.Rejected, match=r"must be (those that the model snaps|numbers of the model)"):
        checker.check({**made, "digest": checker.seal(made)}, weights)


def test_a_raw_certificate_of_a_snapped_model_is_rejected(certified):
    made, weights = copy.deepcopy(certified[0]), certified[1]
    made["inference"] = "raw"
    made["words"] = checker.in_words(made)
    with pytest.raises(checker.Rejected, match="raw where they are not"):
        checker.check({**made, "digest": checker.seal(made)}, weights)
