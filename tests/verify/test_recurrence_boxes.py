"""Boxes over time: the cells are the models' own, and only what is right is proved."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from lengthwise import models
from lengthwise.automata import Semiautomaton
from lengthwise.verify import certificate
from lengthwise.verify.checker.intervals import Interval
from lengthwise.verify.checker.recurrence import Recurrence
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.recurrence import explored, prove_recurrence

from .proposals import accepted

CELLS = ["rnn", "gru", "lstm"]
FLIP_FLOP = Semiautomaton([[0, 0, 1], [1, 0, 1]], accepting={1})
"""Symbols: keep, set to 0, set to 1."""


def made(cell, layers=1, seed=0):
    torch.manual_seed(seed)
    return models.build(cell, vocab_size=3, num_outputs=2, width=6, layers=layers).eval()


def flip_flop():
    """tanh(3 h + x) stays near -1 or 1 where x is -1, begins at 0 with -1, and goes where -6 and 6 lead it."""
    model = made("rnn")
    inner = model.inner
    cell = inner.depth.layers[0].mixer.cell
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        inner.embedding.weight[:, 0] = torch.tensor([-1.0, -6.0, 6.0])
        cell.weight_ih_l0[0, 0] = 1
        cell.weight_hh_l0[0, 0] = 3
        inner.head.weight[:, 0] = torch.tensor([-5.0, 5.0])
        inner.head.bias.zero_()
    return model


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_sets_are_of_what_the_model_comes_to(cell, layers):
    """Of a network whose states come nearer to each other, after every word one set of the machine's state is near."""
    model = made(cell, layers).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    network = certificate.network_of(model.inner, Recurrence, "float64")
    states, met = explored(network, claim_of(FLIP_FLOP), 0.02, math.inf)
    assert not np.any([states[0], *met.lo[0], *met.hi[0]]), "0 is a set of its own"
    for word in itertools.product(range(3), repeat=4):
        state = Interval.of(np.zeros((1, network.size)))
        for s in word:
            state = network.step(state, np.array([s]))
        here = met[states == FLIP_FLOP.state_after(list(word))]
        assert np.maximum(here.lo - state.mid, state.mid - here.hi).max(1).min() <= 0.04, word


def test_a_flip_flop_is_proved():
    proof = prove_recurrence(flip_flop(), claim_of(FLIP_FLOP))
    assert isinstance(proof, dict), proof
    assert (proof["kind"], proof["arithmetic"]) == ("recurrence-boxes", "float32")
    assert proof["margin"] > 2
    assert proof["proof"]["sets"][0] == {"state": 0, "centre": [0.0] * 6, "radius": [0.0] * 6}


@pytest.mark.parametrize("change", ["forgets", "slow", "head", "machine"])
def test_what_fails_on_some_word_is_not_proved(change):
    """`forgets`: the state decays where nothing is written; `slow`: it takes more writing than one symbol."""
    model, machine = flip_flop(), FLIP_FLOP
    cell = model.inner.depth.layers[0].mixer.cell
    with torch.no_grad():
        if change == "forgets":
            cell.weight_hh_l0[0, 0] = 0.99
        elif change == "slow":
            model.inner.embedding.weight[:, 0] *= 0.3
        elif change == "head":
            model.inner.head.weight.neg_()
        else:
            machine = Semiautomaton([[0, 0, 1], [1, 1, 1]], accepting={1})
    assert not isinstance(accepted(prove_recurrence, model, claim_of(machine)), dict)


def test_other_models_say_why():
    model = models.build("transformer", vocab_size=3, num_outputs=2, width=8, heads=2)
    assert "recurren" in str(prove_recurrence(model, claim_of(FLIP_FLOP)))


def test_where_errors_grow_no_boxes_close():
    """tanh(3 h) stays at 0, and leads what is off further off."""
    model = flip_flop()
    with torch.no_grad():
        model.inner.embedding.weight.zero_()
    proof = prove_recurrence(model, claim_of(FLIP_FLOP))
    assert "no boxes" in str(proof)


def test_a_proof_that_had_too_little_time_says_so():
    assert "time was up after" in str(prove_recurrence(flip_flop(), claim_of(FLIP_FLOP), seconds=0))
