"""Lemma 1: the paper's own example, then every small matrix, then random larger ones."""

from __future__ import annotations

import itertools

import pytest
import torch

from lengthwise import theory
from lengthwise.errors import Error

W1 = [
    [1, 0, 1, 0, 0, 0, 0, 0],
    [0, 1, 0, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 0, 1, 0],
    [0, 0, 0, 0, 0, 1, 0, 1],
    [1, 0, 0, 0, 1, 0, 0, 0],
    [0, 0, 1, 0, 0, 0, 1, 0],
    [0, 1, 0, 0, 0, 1, 0, 0],
    [0, 0, 0, 1, 0, 0, 0, 1],
]


def multiply(net, A, B):
    with torch.no_grad():
        return net(torch.cat([A.flatten(-2), B.flatten(-2)], -1)).view_as(A)


def test_the_papers_weights_and_example():
    net = theory.binary_matrix_product(2)
    assert [type(part).__name__ for part in net] == ["Linear", "ReLU", "Linear"]
    assert net[0].weight.T.tolist() == W1
    assert net[0].bias.tolist() == [-1] * 8
    assert net[2].weight.T.tolist() == torch.kron(torch.eye(4), torch.ones(2, 1)).tolist()
    assert net[2].bias is None
    A, B = torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([[0.0, 1], [1, 0]])
    x = torch.cat([A.flatten(), B.flatten()])
    assert (x @ net[0].weight.T).tolist() == [1, 1, 2, 0, 1, 1, 2, 0]
    assert net(x).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("n", [1, 2])
def test_every_pair_of_binary_matrices(n):
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n * n))).view(-1, n, n)
    A, B = every[:, None].expand(-1, len(every), -1, -1), every.expand(len(every), -1, -1, -1)
    assert torch.equal(multiply(theory.binary_matrix_product(n), A, B), A @ B)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10])
@pytest.mark.parametrize("density", [0.1, 0.5, 1.0])
def test_random_binary_matrices(n, density):
    g = torch.Generator().manual_seed(n)
    A, B = (torch.rand(2, 50, n, n, generator=g) <= density).float()
    net = theory.binary_matrix_product(n)
    assert net[0].weight.shape == (n**3, 2 * n**2)
    assert net[0].weight.unique().tolist() == [0, 1]
    # Entries of the product are counts, not bits.
    assert torch.equal(multiply(net, A, B), A @ B)


def test_iterates_on_transition_matrices():
    n, g = 6, torch.Generator().manual_seed(0)
    steps = torch.randint(n, (500, n), generator=g)
    net, product, state = theory.binary_matrix_product(n), torch.eye(n), torch.arange(n)
    for step in steps:
        product, state = multiply(net, product, torch.eye(n)[step]), step[state]
        assert torch.equal(product, torch.eye(n)[state])


@pytest.mark.parametrize("n", [0, -1, 1.0, True, "2", None])
def test_sizes_that_are_none(n):
    with pytest.raises(Error, match="whole number of at least 1"):
        theory.binary_matrix_product(n)
