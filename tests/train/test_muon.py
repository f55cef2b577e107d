"""Muon, against the singular values of what it makes, its equation, torch's own and AdamW."""

import pytest
import torch
from torch import nn

from lengthwise.train.muon import Muon, matrices, orthogonal

SETTINGS = {"lr": 0.02, "betas": (0.9, 0.98), "weight_decay": 0.1}


class Words(nn.Module):
    """One weight of each kind, and a table that is tied to what reads it out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(7, 6)
        self.tall, self.wide = nn.Linear(6, 11), nn.Linear(11, 6)
        self.blocks = nn.Parameter(torch.randn(2, 3, 3))
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.table.weight


def gradients(model, seed, size=1.0):
    draw = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = (size * torch.randn(weight.shape, generator=draw)).to(weight.dtype)


def made(model, kind, **more):
    named = dict(model.named_parameters())
    if kind is Muon:
        return Muon(named.values(), matrices(model, named), **SETTINGS, **more)
    return kind(named.values(), **SETTINGS, **more)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (5, 1), (2, 2), (7, 3), (3, 7), (31, 31), (64, 256)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_singular_values_are_made_alike_and_their_vectors_stay(rows, columns, size):
    torch.manual_seed(rows + columns)
    U, _, V = torch.linalg.svd(torch.randn(rows, columns, dtype=torch.float64), full_matrices=False)
    values = torch.linspace(1, 20, min(rows, columns), dtype=torch.float64)
    here = U.T @ orthogonal(size * U @ torch.diag(values) @ V) @ V.T
    assert (here.diagonal() > 0.65).all()
    assert (here.diagonal() < 1.25).all()
    assert here.fill_diagonal_(0).abs().max() < 1e-9


def test_a_gradient_of_zeros_moves_nothing():
    assert not orthogonal(torch.zeros(3, 4)).any()


def test_matrices_are_those_that_no_token_is_looked_up_in():
    model = Words()
    chosen = matrices(model, dict(model.named_parameters()))
    assert [tuple(weight.shape) for weight in chosen] == [(11, 6), (6, 11)]


def test_steps_are_those_of_the_equation():
    model = Words().double()
    optimizer, weight = made(model, Muon), model.tall.weight
    average, expected = torch.zeros_like(weight), weight.detach().clone()
    for step in range(4):
        gradients(model, step)
        G = weight.grad.clone()
        average = 0.9 * average + 0.1 * G
        way = orthogonal(0.1 * G + 0.9 * average)
        expected = (1 - 0.02 * 0.1) * expected - 0.02 * 0.2 * 11**0.5 * way
        optimizer.step()
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-12, atol=1e-12)


def test_steps_are_those_of_torch_up_to_its_rounding():
    """Torch's rounds to bfloat16 on the way."""
    ours, theirs = Words(), Words()
    optimizer = made(ours, Muon)
    other = torch.optim.Muon(
        [theirs.tall.weight, theirs.wide.weight], 0.02, 0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw"
    )
    for step in range(5):
        for model in (ours, theirs):
            gradients(model, step)
        optimizer.step()
        other.step()
    for name in ("tall", "wide"):
        a, b, start = (getattr(model, name).weight.detach() for model in (ours, theirs, Words()))
        assert (a - b).norm() < 0.03 * (a - start).norm()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_all_other_weights_are_stepped_by_adamw(fused, amsgrad):
    ours, theirs = Words(), Words()
    optimizers = [
        made(model, kind, fused=fused, amsgrad=amsgrad) for model, kind in ((ours, Muon), (theirs, torch.optim.AdamW))
    ]
    for step in range(5):
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            gradients(model, step, size=10.0**-step)
            optimizer.step()
    steered = {id(weight) for weight in (ours.tall.weight, ours.wide.weight)}
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b) == (id(a) not in steered), name


def test_a_matrix_without_a_gradient_stays():
    model = Words()
    optimizer, before = made(model, Muon), model.tall.weight.detach().clone()
    gradients(model, 0)
    model.tall.weight.grad = None
    optimizer.step()
    assert torch.equal(model.tall.weight, before)
    assert model.tall.weight not in optimizer.state
