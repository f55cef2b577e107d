"""A recurrent network that was trained is taught to keep its signs, and is then proved, or it is said why it is not."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from lengthwise import lab, models, tasks
from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.verify import Proved, Unknown, certificate
from lengthwise.verify.certification import decide
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.check import in_words, seal
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate import signs
from lengthwise.verify.consolidate.signs import Signs, StateSets, teach_signs, visited
from lengthwise.verify.families import family_of
from lengthwise.verify.prove.recurrence import prove_recurrence
from lengthwise.verify.subject import subject_of

from .checker.conftest import recurrence

PARITY = tasks.get("parity")
CLAIM = claim_of(PARITY)


SLOW = [pytest.param(*each, marks=pytest.mark.slow) for each in (("gru", 1), ("rnn", 2), ("lstm", 1), ("lstm", 2))]


@cache
def by_hand(cell, layers):
    return recurrence(cell, layers, sharp=1.8 if cell == "lstm" else 2.4).model.requires_grad_(True)


def blunt(cell, layers=1):
    """Parity by hand, whose states come no nearer to each other than they were."""
    return copy.deepcopy(by_hand(cell, layers))


def certified(model, proof):
    made = certificate.make(model, CLAIM, proof, "consolidated")
    check(made, certificate.weights(model))
    return made


@pytest.mark.parametrize(("cell", "layers"), [("rnn", 1), *SLOW])
def test_what_is_not_proved_as_it_is_is_proved_when_taught(cell, layers):
    model = blunt(cell, layers)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert not isinstance(prove_recurrence(model, CLAIM, 5), dict)
    found = teach_signs(model, CLAIM, 60)
    assert isinstance(found.proof, dict), found.proof
    assert found.proof["arithmetic"] == "float32"
    assert found.proof["margin"] > 4
    assert found.own == 2 * layers, "the codes by hand are as good as any"
    certified(found.model, found.proof)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name


@pytest.mark.parametrize("cell", ["rnn", *(pytest.param(cell, marks=pytest.mark.slow) for cell in ("gru", "lstm"))])
def test_neurons_whose_signs_no_threshold_gives_take_others(cell):
    """Codes by chance: any network that is wide enough comes to have some that can be kept."""
    torch.manual_seed(1)
    model = models.build(cell, vocab_size=2, num_outputs=2, width=8).inner.eval()
    given = Signs(model, StateSets(CLAIM), torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(3)))
    assert given.teach(4.0, float("inf")) is None
    assert given.own.sum() < 8
    arguments, gates, head = given.leads()
    assert arguments.detach().min() >= 4
    assert head.detach().min() >= 5
    assert cell == "rnn" or gates.detach().min() >= 4
    proof = prove_recurrence(model, CLAIM, 10)
    assert isinstance(proof, dict), proof
    certified(model, proof)


def test_sets_are_states_and_the_symbol_just_read():
    sets = StateSets(CLAIM)
    assert sets.states == [0, 1, 1, 0], "of 0, 1, 10 and 11"
    rows = {(i, s): to for i, s, to in torch.stack([sets.froms, sets.symbols, sets.results], 1).tolist()}
    assert rows == {(4, 0): 0, (4, 1): 1, (0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3, (2, 0): 2, (2, 1): 3} | {
        (3, 0): 0,
        (3, 1): 1,
    }


def test_means_are_those_of_the_model_itself():
    model = blunt("lstm")
    means = visited(model, StateSets(CLAIM), seed=0)
    signs_of = torch.where(means[0] >= 0, 1, -1).tolist()
    assert signs_of == [[-1, -1], [1, -1], [1, -1], [1, 1]]


def test_what_cannot_be_taught_says_why(monkeypatch):
    torch.manual_seed(0)
    attention = models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2).inner
    with pytest.raises(Error, match="the model's layers are not recurrences alone"):
        teach_signs(attention, CLAIM, 5)
    narrow = models.build("rnn", vocab_size=2, num_outputs=2, width=1).inner.eval()
    given = Signs(narrow, StateSets(CLAIM), torch.ones(1, 4, 1))
    monkeypatch.setattr(signs, "STEPS", 100)
    assert "too narrow" in str(given.teach(4.0, float("inf")))
    assert "in the time given" in str(given.teach(4.0, 0.0))
    monkeypatch.setattr(signs, "MOST_SETS", 3)
    with pytest.raises(Error, match="the machine has 4 pairs of state and symbol, more than 3"):
        teach_signs(blunt("rnn"), CLAIM)


@pytest.mark.slow
def test_one_epsilon_from_wrong_is_not_proved():
    """After some word the head leads by 1e-6, or is wrong by as much; or one symbol is read as the other."""
    model = teach_signs(blunt("rnn"), CLAIM, 60).model
    words = torch.arange(2**12)[:, None] >> torch.arange(12) & 1
    right = words.cumsum(1) % 2
    with torch.no_grad():
        logits = model(words).logits
        lead = (logits[..., 1] - logits[..., 0]) * (2 * right - 1)
        for answer in (0, 1):
            for epsilon in (-1e-6, 1e-6):
                changed = copy.deepcopy(model)
                changed.head.bias[answer] += epsilon - lead[right == answer].min()
                assert not isinstance(prove_recurrence(changed, CLAIM, 5), dict)
        model.embedding.weight[1] = model.embedding.weight[0]
    assert not isinstance(prove_recurrence(model, CLAIM, 5), dict)


@pytest.mark.slow
def test_no_tampering_is_accepted():
    """Numbers of the proof, of the claim or of the weights are changed, and the certificate sealed anew."""
    found = teach_signs(blunt("gru"), CLAIM, 60)
    made, draw = certified(found.model, found.proof), random.Random(0)
    weights = certificate.weights(found.model)
    listed = made["proof"]["sets"]
    for _ in range(200):
        i, k = draw.randrange(1, len(listed)), draw.randrange(len(listed[0]["centre"]))
        changed = [dict(each) for each in listed]
        kind = draw.choice(["centre", "radius", "state", "gone"])
        if kind == "gone":
            del changed[i]
        elif kind == "state":
            changed[i]["state"] = 1 - changed[i]["state"]
        else:
            row = list(changed[i][kind])
            row[k] = {"centre": row[k] + draw.choice([-0.1, 0.1]), "radius": row[k] * 1e-9}[kind]
            changed[i][kind] = row
        given = {**made, "proof": {"sets": changed}}
        given["words"] = in_words(given)
        with pytest.raises(Rejected):
            check({**given, "digest": seal(given)}, weights)
    for name, x in weights.items():
        with pytest.raises(Rejected):
            check(made, {**weights, name: x + np.float32(1e-3)})


def test_certify_teaches_recurrences_so():
    assert family_of(blunt("rnn")).teach is teach_signs
    narrow = models.build("rnn", vocab_size=2, num_outputs=2, width=1).inner.eval()
    assert isinstance(teach_signs(narrow, CLAIM, 0.1).proof, Unknown)


@pytest.mark.slow
def test_from_strings_to_a_proof(quick, tmp_path):
    """An RNN learns parity from strings, is taught and proved, and 10^5 strings say nothing else."""
    settings = {"steps": 1000, "batch": 64, "curriculum": "growing", "checkpoint_every": 500}
    experiment = quick("rnn", train_length=40, test_lengths="100", model_settings={"width": 32}, **settings)[0]
    experiment = replace(experiment, data=replace(experiment.data, params={"supervision": "prefix"}))
    (trained,) = lab.run([experiment], tmp_path / "runs", workers=1, device="cpu")
    outcome = decide(subject_of("certify", trained.run, None), 10, save=tmp_path / "taught")
    assert isinstance(outcome.verdict, Proved), outcome.verdict
    assert (outcome.made, outcome.verdict.certificate["arithmetic"]) == ("consolidated", "float32")
    check(outcome.verdict.certificate, tmp_path / "taught")
    model = LengthwiseForCausalLM.from_pretrained(tmp_path / "taught").eval()
    draw = torch.Generator().manual_seed(0)
    for share in torch.linspace(0.01, 0.99, 20).tolist():
        words = (torch.rand(5000, 61, generator=draw) < share).long()
        words[:1000] = words[:1000].cumsum(1) % 2  # runs
        words[1000:2000, 30:] = words[1000:2000, :31]  # repeats
        with torch.no_grad():
            said = model(words).logits[..., :2].argmax(-1)
        assert torch.equal(said, words.cumsum(1) % 2)
