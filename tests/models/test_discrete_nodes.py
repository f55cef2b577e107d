"""Discrete nodes: one of finitely many vectors at every node, the gradients of a softmax, and no trace where unused."""

import pytest
import torch

from lengthwise import models
from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.discrete_nodes import DiscreteNodes


def make(**options):
    torch.manual_seed(0)
    options = {"width": 16, "heads": 2, "nodes": "discrete", "groups": 3, "codes": 4, **options}
    return LengthwiseForCausalLM(presets.regular_gpt(3, 4, **options)).double()


def test_a_node_is_the_sum_of_one_vector_from_every_group():
    nodes = DiscreteNodes(8, groups=3, codes=4).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    y = nodes(x)
    for b, t in torch.cartesian_prod(torch.arange(2), torch.arange(5)).tolist():
        z = (nodes.choose.weight @ x[b, t] + nodes.choose.bias).view(3, 4)
        wanted = sum(nodes.codebook[4 * g + int(z[g].argmax())] for g in range(3))
        torch.testing.assert_close(y[b, t], wanted)
    torch.testing.assert_close(nodes.vectors(nodes.logits(x).argmax(-1)), y)


def test_its_gradient_is_that_of_a_softmax():
    nodes = DiscreteNodes(4, groups=2, codes=3).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, 4, dtype=torch.float64)
    soft = nodes.logits(x).softmax(-1).flatten(-2) @ nodes.codebook
    wanted, found = (torch.autograd.grad((y * w).sum(), x)[0] for y in (soft, nodes(x)))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("options", [{}, {"chunk": 3}, {"norm": "pre"}, {"variant": "official"}, {"thickness": 2}])
def test_all_nodes_of_long_words_are_in_the_codebook(options):
    model = make(**options)
    made = []
    model.depth.layers[-1].register_forward_hook(lambda _, given, y: made.append(y.flatten(0, 1)))
    last = model(torch.randint(3, (4, 100)), logits_to_keep=1).logits
    nodes = model.depth.layers[-1].nodes
    known = nodes.vectors(torch.cartesian_prod(*[torch.arange(4)] * 3))
    assert (torch.cdist(torch.cat(made), known).amin(1) < 1e-6).all()
    assert last.isfinite().all()


def test_continuous_nodes_are_what_they_were():
    config = presets.regular_gpt(3, 4, width=16)
    assert "nodes" not in config.depth
    assert not any("nodes" in name for name in LengthwiseForCausalLM(config).state_dict())
    assert presets.regular_gpt(3, width=32, nodes="discrete").depth["nodes"] == {"groups": 4, "codes": 8}


def test_refusals():
    with pytest.raises(Error, match="groups and codes are of discrete nodes, got 4 and None"):
        presets.regular_gpt(3, groups=4)
    with pytest.raises(Error, match=r"codes must be .*at least 2"):
        models.build("regular-gpt", vocab_size=2, num_outputs=2, nodes="discrete", codes=1)
    config = presets.regular_gpt(3, nodes="discrete")
    config.depth = {**config.depth, "nodes": {"groups": 2}}
    with pytest.raises(Error, match="nodes are discrete by their groups and codes"):
        LengthwiseForCausalLM(config)
