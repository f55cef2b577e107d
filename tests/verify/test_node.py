"""The node function gives the model's own last position, and its enclosures hold what the model computes."""

from __future__ import annotations

import pytest
import torch

from lengthwise import models
from lengthwise.errors import Error
from lengthwise.verify.prove.affine import Affine, Directions
from lengthwise.verify.prove.enclosures import FLOAT32
from lengthwise.verify.prove.node import Node, Plain, gaps, refusal

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
            found = node.logits(Plain(node.tree(word.tolist()))).x
            assert torch.allclose(found, model(word[None], last=True)[:, 0], atol=1e-10, rtol=0), n


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_enclosures_hold_what_float32_computes(options):
    """Of taps anywhere in their boxes, the computed node lies inside, and its logits."""
    model = made(options)
    node, C, d = Node(model), options.get("chunk", 2), 16
    draw = torch.Generator().manual_seed(3)
    for present in range(1, C + 1):
        for radius in (0.0, 1e-4, 1e-2):
            directions = Directions()
            centres = [torch.randn(4, d, generator=draw).double() for _ in range(present)]
            taps = [Affine.boxes(c, torch.full_like(c, radius), directions, FLOAT32) for c in centres]
            form = node.combine(taps)
            logits = node.logits(form)
            size, r = form.c.abs().max(), form.radius()
            assert r.max() < 0.1 * size or radius == 1e-2
            for _ in range(50):
                signs = [torch.rand(4, d, generator=draw).double() * 2 - 1 for _ in centres]
                signs = [torch.where(torch.rand(4, d, generator=draw) < 0.5, s.sign(), s) for s in signs]
                points = [(c + 0.999 * radius * s).float() for c, s in zip(centres, signs, strict=True)]
                if radius == 0:
                    points = [c.float() for c in centres]
                with torch.no_grad():
                    value = node.combine([Plain(x) for x in points])
                    said = node.logits(value).x
                assert ((value.x.double() - form.c).abs() <= r).all()
                assert ((said.double() - logits.c).abs() <= logits.radius()).all()


def test_gaps_are_those_of_the_worst_member():
    x = Affine.boxes(torch.tensor([[1.0, 0.0, -2.0]]), torch.tensor([[0.25, 0.25, 0.1]]), Directions(), FLOAT32)
    assert gaps(x, torch.tensor([0])).item() == pytest.approx(0.5, abs=1e-5)
    assert gaps(x, torch.tensor([1])).item() < 0
    named = torch.tensor([[True, False, False]])
    assert gaps(x, named, several=True).item() == pytest.approx(-0.25, abs=1e-5)


@pytest.mark.parametrize("options", [{"thickness": 2}, {"largest_chunk": 3}, {"variant": "official"}], ids=str)
def test_other_models_are_refused_with_the_reason(options):
    model = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16, heads=4, **options).eval()
    assert refusal(model)
    with pytest.raises(Error, match="node:"):
        Node(model)
    assert refusal(models.build("lstm", vocab_size=2, num_outputs=2))
