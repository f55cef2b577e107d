"""Equal subtrees are computed once, and nothing but the time shows it."""

from __future__ import annotations

import pytest
import torch

from lengthwise.models import LengthwiseForCausalLM, presets, sharing

LENGTHS = [1, 2, 3, 5, 8, 9, 16, 17, 31, 64, 81, 82]
OPTIONS = [
    {"chunk": 2},
    {"chunk": 3},
    {"chunk": 5},
    {"chunk": 2, "norm": "pre"},
    {"chunk": 3, "missing": "drop"},
    {"chunk": 2, "largest_chunk": 3},
]


def make(**options):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.regular_gpt(3, 4, width=8, heads=2, **options)).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


def both(monkeypatch, call):
    """With sharing and without, and how many nodes passed a group each time."""
    counted = []
    for on in (True, False):
        nodes = 0

        def count(x):
            nonlocal nodes
            nodes += x.shape[0] * x.shape[1]

        with monkeypatch.context() as patch:
            if not on:
                patch.setattr(sharing, "possible", lambda *_: False)
            counted.append((*call(count), nodes))
    return counted


def run(model, tokens, mask=None):
    def call(count):
        layer = model.depth.layers[0]
        forward = layer.forward
        layer.forward = lambda x, *args, **kwargs: (count(x), forward(x, *args, **kwargs))[1]
        logits = model(tokens, attention_mask=mask, logits_to_keep=1).logits
        del layer.forward
        weights = torch.arange(logits.numel()).view_as(logits).cos()
        gradients = torch.autograd.grad((logits * weights).sum(), list(model.parameters()), allow_unused=True)
        return logits, gradients

    return call


def same(a, b):
    torch.testing.assert_close(a[0], b[0], rtol=1e-12, atol=1e-12)
    for x, y in zip(a[1], b[1], strict=True):
        if x is not None or y is not None:
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients_are_the_same(options, monkeypatch):
    model, saved = make(**options), 0
    for length in LENGTHS:
        shared, plain = both(monkeypatch, run(model, torch.randint(0, 3, (6, length))))
        same(shared, plain)
        saved += plain[2] - shared[2]
    assert saved > 0 or options["chunk"] == 5  # 3^5 different chunks are more than there are


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_different_lengths(options, monkeypatch):
    model = make(**options)
    for left in (True, False):
        tokens, mask = torch.randint(0, 3, (len(LENGTHS), 85)), torch.zeros(len(LENGTHS), 85, dtype=torch.long)
        for i, n in enumerate(LENGTHS):
            mask[i, slice(85 - n, None) if left else slice(n)] = 1
        shared, plain = both(monkeypatch, run(model, tokens, mask))
        same(shared, plain)
        assert shared[2] < plain[2]


def test_a_small_vocabulary_costs_a_few_nodes(monkeypatch):
    model, tokens = make(chunk=2), torch.randint(0, 2, (128, 32))
    shared, plain = both(monkeypatch, run(model, tokens))
    assert plain[2] == 128 * (32 + 16 + 8 + 4 + 2)
    kinds = [len(tokens.view(-1, width).unique(dim=0)) for width in (2, 4, 8)]
    assert kinds == [4, 16, pytest.approx(220, abs=10)]
    assert shared[2] == 2 * sum(kinds) + 128 * (4 + 2)


@pytest.mark.parametrize(
    "options", [{"thickness": 2}, {"variant": "official"}, {"dropout": 0.5}], ids=["two layers", "official", "dropout"]
)
def test_where_equal_tokens_are_not_equal_nodes_nothing_is_shared(options, monkeypatch):
    model, tokens = make(chunk=2, **options).train(), torch.randint(0, 2, (16, 32))
    monkeypatch.setattr(sharing, "leaves", lambda *_: pytest.fail("shared"))
    model(tokens, logits_to_keep=1)


@pytest.mark.parametrize("kind", ["hook on a map", "hook on the embedding", "dropout inside"])
def test_where_a_stranger_may_treat_equal_nodes_unequally_nothing_is_shared(kind, monkeypatch):
    model, tokens = make(chunk=2).train(), torch.randint(0, 2, (16, 32))
    if kind == "dropout inside":
        model.depth.layers[0].up = torch.nn.Sequential(model.depth.layers[0].up, torch.nn.Dropout(0.5))
    else:
        at = model.embedding if "embedding" in kind else model.depth.layers[0].mixer.qkv
        at.register_forward_hook(lambda module, inputs, y: y + torch.randn_like(y))
    monkeypatch.setattr(sharing, "leaves", lambda *_: pytest.fail("shared"))
    model(tokens, logits_to_keep=1)


def test_tuples_that_would_not_fit_an_integer_are_left_alone(monkeypatch):
    monkeypatch.setattr(sharing, "INTEGERS", 4**3)
    model = make(chunk=3)
    shared, plain = both(monkeypatch, run(model, torch.randint(0, 3, (6, 27))))
    same(shared, plain)
    assert shared[2] == plain[2]
