"""The node function gives the model's own last position."""

from __future__ import annotations

import pytest
import torch

from lengthwise import models
from lengthwise.verify.prove.node import Node, tree_of

KINDS = [
    {},
    {"chunk": 3},
    {"chunk": 5, "activation": "relu"},
    {"norm": "pre", "biases": True},
    {"norm": "pre", "missing": "drop", "chunk": 3, "activation": "relu"},
    {"missing": "drop", "embedding_scale": 3.0, "biases": True},
    {"variant": "paper", "depth": "position", "chunk": 3},
]


def made(options, seed=0):
    torch.manual_seed(seed)
    model = models.build("regular-gpt", vocab_size=3, num_outputs=4, width=16, heads=4, **options).eval()
    with torch.no_grad():
        model.inner.depth.layers[0].mixer.r.normal_()
    return model


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_tree_of_nodes_is_the_model(options):
    model = made(options).double()
    node, C = Node(model), options.get("chunk", 2)
    for n in (1, 2, 3, C - 1, C, C + 1, C**2 - 1, C**2, C**2 + 1, C**3 - 1, C**3 + 1):
        word = torch.randint(3, (n,), generator=torch.Generator().manual_seed(n))
        with torch.no_grad():
            found = node.head(tree(node, word))
            assert torch.allclose(found, model(word[None], last=True)[:, 0], atol=1e-10, rtol=0), n


def tree(node, word):
    """(1,D) the last node of a word, group after group."""
    nodes, first = list(node.leaves(3, torch.float64)[word]), True
    while first or len(nodes) > 1:
        first, ends = False, range(len(nodes), 0, -node.chunk)
        nodes = [node.of(torch.stack(nodes[max(0, end - node.chunk) : end])[None])[0] for end in ends][::-1]
    return nodes[0][None]


def test_a_model_in_float32_has_its_nodes_in_float64_too():
    model, word = made({}), torch.tensor([0, 1, 2, 1, 1])
    assert torch.equal(Node(model).head(tree(Node(model), word)), Node(model.double()).head(tree(Node(model), word)))


@pytest.mark.parametrize("options", [{"thickness": 2}, {"variant": "official"}], ids=str)
def test_other_models_are_refused_with_the_reason(options):
    model = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16, heads=4, **options).eval()
    assert isinstance(tree_of(model), str)
    assert isinstance(tree_of(models.build("lstm", vocab_size=2, num_outputs=2)), str)
