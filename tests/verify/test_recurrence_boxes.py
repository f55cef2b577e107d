"""Boxes over time: the cells are the models' own, and only what is right is proved."""

from __future__ import annotations

import math

import pytest
import torch

from lengthwise import models
from lengthwise.automata import Semiautomaton
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.boxes import LEAST_RADIUS
from lengthwise.verify.prove.recurrence import Cell, explored, prove_recurrence, radii_of_slopes, settled

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
def test_steps_are_the_model(cell, layers):
    model = made(cell, layers).double()
    step = Cell(model)
    word = torch.randint(3, (1, 17), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        state = step.split(torch.zeros(1, step.size, dtype=torch.float64))
        for t in range(17):
            state = step.step(step.tokens(torch.float64)[word[:, t]], state)
            assert torch.allclose(step.logits(state), model(word[:, : t + 1], last=True)[:, 0], atol=1e-10, rtol=0)


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


@pytest.mark.parametrize("cell", CELLS)
def test_radii_are_what_slopes_ask_for(cell):
    """r = |J| r + off, by every transition into a set; and hardly more."""
    model = made(cell).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    boxes, centres = explored(Cell(model), claim_of(FLIP_FLOP), 0.02, math.inf)
    centres = settled(boxes, centres, rounds=3)
    radii = radii_of_slopes(boxes, centres)
    wanted = torch.full_like(centres, LEAST_RADIUS)
    start = torch.zeros(1, boxes.cell.size, dtype=torch.float64)
    slopes, images = boxes.slopes(centres), boxes.images(centres)
    for k, (origin, to) in enumerate(zip(boxes.froms, boxes.results, strict=True)):
        needed = slopes[k] @ torch.cat([radii, start])[origin] + (images[k] - centres[to]).abs()
        wanted[to] = wanted[to].maximum(needed)
    assert bool((radii >= wanted).all())
    assert bool((radii <= 1.05 * wanted).all())


def test_where_errors_grow_there_are_no_radii():
    """tanh(3 h) stays at 0, and leads what is off further off."""
    model = flip_flop()
    with torch.no_grad():
        model.inner.embedding.weight.zero_()
    boxes, centres = explored(Cell(model), claim_of(FLIP_FLOP), 0.02, math.inf)
    assert radii_of_slopes(boxes, centres) is None
