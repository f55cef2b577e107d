"""What carries the machine is found among noise, and what is left after it was silenced is proved."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from lengthwise import tasks
from lengthwise.automata import Semiautomaton
from lengthwise.errors import Error
from lengthwise.models import build
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate.carriers import (
    SETTLED,
    MoveTable,
    NoCarriers,
    Observed,
    choose,
    observe,
    random_words,
)
from lengthwise.verify.consolidate.silence import silenced
from lengthwise.verify.families import family_of
from lengthwise.verify.prove.cascade import prove_cascade

from .proposals import accepted
from .test_cascade import automaton

SUM = tasks.get("modular-sum", modulus=3)


def noisy(machine=SUM.machine, seed=1):
    """The automaton of the machine in one block, and a block of six entries that are moved about at random."""
    model = automaton(machine, claim_of(SUM).answers)
    with torch.no_grad():
        model.inner.depth.layers[0].mixer.initial[1] = 0.1 * torch.randn(
            6, generator=torch.Generator().manual_seed(seed)
        )
    return model


def test_what_carries_nothing_is_silenced_and_the_rest_proved():
    claim, model = claim_of(SUM), noisy()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    taught = silenced(model.inner, claim, seconds=60).model
    carriers = taught.depth.layers[0].mixer.initial.nonzero()
    assert carriers.tolist() == [[0, 0]]  # the entry of the block that is the machine
    proof = prove_cascade(taught, claim, 20)
    assert isinstance(proof, dict), proof
    assert proof["margin"] > 1.9
    assert accepted(prove_cascade, taught, claim)["margin"] > 0.2
    assert len(proof["proof"]["pairs"]) == 3
    words = torch.from_numpy(random_words(claim, 16, 200, 3))
    with torch.no_grad():
        assert (taught(words).logits.argmax(-1) == SUM.answer(words)).all()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def test_an_argmax_within_rounding_is_widened():
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers, near=1e-5)
    assert isinstance(accepted(prove_cascade, model, claim), str)
    taught = silenced(model.inner, claim, seconds=60).model
    assert accepted(prove_cascade, taught, claim)["margin"] > 0.2


def test_another_machine_is_not_taught():
    """The table is the network's own: it is not made right where the network has learned something else."""
    delta = SUM.machine.delta.copy()
    delta[2, 1] = 2  # 2 + 1 is 2
    with pytest.raises(NoCarriers, match=r"cannot be taught a machine: no entries tell the answer on more than .*%"):
        silenced(noisy(Semiautomaton(delta)).inner, claim_of(SUM), seconds=20)


def test_random_words_keep_to_what_may_be_asked():
    claim = claim_of(tasks.get("modular-arithmetic"))
    words = random_words(claim, 32, 15, 0)
    q = claim.machine.run(torch.from_numpy(words)).numpy()
    assert claim.alive[q].all()
    assert not np.array_equal(words, random_words(claim, 32, 15, 1))
    assert (words[:, ::2] < 5).all()  # digits and operators alternate


def test_half_of_the_random_words_keep_the_answer_open():
    claim = claim_of(tasks.get("d-2"))
    q = claim.machine.run(torch.from_numpy(random_words(claim, 400, 48, 0))).numpy()[:, -1]
    lost = (claim.machine.delta[q] == q[:, None]).all(1)
    assert lost.reshape(-1, 4)[:, :2].mean() > 0.9
    assert not lost.reshape(-1, 4)[:, 2:].any()


def test_entries_are_followed_as_the_model_moves_them():
    claim, model = claim_of(SUM), noisy()
    seen = observe(model.inner, claim, 0)
    states = SUM.machine.run(torch.from_numpy(seen.symbols)).numpy()
    assert (seen.places[0][:, 1:, 0, SUM.machine.start] == states).all()
    assert [len(layer) for layer in choose(seen, True)] == [1]


def test_entries_are_followed_with_the_scale_of_the_embeddings():
    torch.manual_seed(0)
    options = {"width": 16, "block": 4, "layers": 2, "variant": "automaton"}
    scaled = build("block-lrnn", vocab_size=3, num_outputs=3, **options).inner
    doubled = copy.deepcopy(scaled)
    with torch.no_grad():
        doubled.embedding.weight.mul_(2)
    scaled.config.embedding_scale = 2.0
    one, other = (observe(model, claim_of(SUM), 0) for model in (scaled, doubled))
    assert all(map(np.array_equal, one.functions, other.functions))
    scaled.config.embedding_scale = 1.0
    assert not all(map(np.array_equal, one.functions, observe(scaled, claim_of(SUM), 0).functions))


def test_only_automata_are_silenced():
    with pytest.raises(Error, match="cannot be taught a machine: its layers are no block-diagonal"):
        silenced(build("lstm", vocab_size=3, num_outputs=3, width=8).inner, claim_of(SUM))


def test_certify_silences_stacks_of_automata():
    taught = silenced(noisy().inner, claim_of(SUM), 20)
    assert (taught.own, taught.all, taught.of) == (1, 12, "entries")
    assert isinstance(prove_cascade(taught.model, claim_of(SUM), 20), dict)
    assert family_of(noisy().inner).teach is silenced


def test_a_place_goes_where_most_words_have_it():
    """After the settled tokens there is one, at which two words keep the places and the last one changes them."""
    B, T = 3, SETTLED + 1
    places = np.zeros((B, 1 + T, 1, 2), np.uint8)
    functions = np.zeros((B, T, 1, 2), np.uint8)
    functions[:, -1, 0] = [[0, 1], [0, 1], [1, 0]]
    seen = Observed(np.zeros((B, T), np.int64), np.zeros((B, T)), [places], [functions], [np.ones((1, 2))])
    table = MoveTable(seen, [[(0, 0, 0)]], 0)
    assert table.functions(0, []).tolist() == [[0, 1]]
    with pytest.raises(NoCarriers, match="reach a state below layer 0 that no word showed"):
        table.functions(1, [])
