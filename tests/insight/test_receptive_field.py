"""Receptive fields with known answers."""

import json
from pathlib import Path

import pytest
import torch

from lengthwise import Error, insight, models
from lengthwise.errors import NonFiniteError, ShapeError
from lengthwise.insight import receptive_field as module

TOKENS = torch.randint(2, (3, 40), generator=torch.Generator().manual_seed(0))


def brought(name: str, **options) -> models.TokenClassifier:
    torch.manual_seed(0)
    return models.build(f"{Path(__file__).parent / 'toys.py'}:{name}", vocab_size=2, num_outputs=2, **options)


@pytest.mark.parametrize("window", [1, 7, 40])
def test_a_window_is_seen_as_it_is(window):
    found = insight.measure_receptive_field(brought("Window", window=window), TOKENS)
    assert found.shares == pytest.approx([1 / window] * window + [0] * (40 - window), abs=1e-6)
    assert found.newest(1.0) == window
    assert found.newest(0.5) == -(-window // 2)
    # The curve reaches 1 at the window, where the straight line is at window/40.
    assert found.bend == pytest.approx(1 - window / 40, abs=1e-6)
    assert found.cumulative[-1] == pytest.approx(1)


def test_gradients_by_hand():
    """The share of a token is the norm of the Jacobian of all logits with respect to its embedding."""
    torch.manual_seed(0)
    classifier = models.build("transformer", vocab_size=2, num_outputs=3, width=8, heads=2, layers=2).double()
    found = insight.measure_receptive_field(classifier, TOKENS[:1, :9])
    model = classifier.inner

    def answer(x):
        hook = model.embedding.register_forward_hook(lambda *_: x)
        try:
            return classifier(TOKENS[:1, :9])[0, -1]
        finally:
            hook.remove()

    jacobian = torch.autograd.functional.jacobian(answer, model.embedding(TOKENS[:1, :9]).detach())
    norms = jacobian[:, 0].pow(2).sum((0, 2)).sqrt().flip(0)
    assert found.shares == pytest.approx((norms / norms.sum()).tolist(), rel=1e-9)


def test_strings_count_alike():
    torch.manual_seed(0)
    classifier = models.build("lstm", vocab_size=2, num_outputs=2, width=8)
    alone = [insight.measure_receptive_field(classifier, row).shares for row in TOKENS.split(1)]
    together = insight.measure_receptive_field(classifier, TOKENS)
    assert together.strings == 3
    assert together.shares == pytest.approx(torch.tensor(alone).mean(0).tolist(), rel=1e-5)


def test_many_logits_are_estimated(monkeypatch):
    torch.manual_seed(0)
    classifier = models.build("gru", vocab_size=2, num_outputs=100, width=16)
    estimated = insight.measure_receptive_field(classifier, TOKENS[:1])
    assert estimated == insight.measure_receptive_field(classifier, TOKENS[:1]), "seeded"
    monkeypatch.setattr(module, "EXACT", 100)
    exact = insight.measure_receptive_field(classifier, TOKENS[:1])
    assert estimated.shares != exact.shares
    assert estimated.cumulative == pytest.approx(exact.cumulative, abs=0.03)


def test_every_token_has_a_way_to_the_last_answer():
    torch.manual_seed(0)
    classifier = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16, heads=2)
    assert min(insight.measure_receptive_field(classifier, TOKENS).shares) > 0


def test_nothing_is_dropped():
    sizes = {"vocab_size": 2, "num_outputs": 2, "width": 8, "heads": 2, "layers": 1}
    classifier = models.build("transformer", **sizes, dropout=0.5).train()
    assert insight.measure_receptive_field(classifier, TOKENS) == insight.measure_receptive_field(classifier, TOKENS)


def test_it_is_plain_data():
    found = insight.measure_receptive_field(brought("Window"), TOKENS, task="parity")
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (data["task"], data["length"], data["newest_90"]) == ("parity", 40, 7)
    assert data["bend"] == found.bend


def test_what_has_no_field_is_named():
    with pytest.raises(Error, match=r"nn\.Embedding"):
        insight.measure_receptive_field(brought("OneHot"), TOKENS)
    with pytest.raises(ShapeError, match=r"got \[4\]"):
        insight.measure_receptive_field(brought("Window"), TOKENS[0, :4])
    classifier = brought("Window")
    with torch.no_grad():
        classifier.inner.head.weight.zero_()
    with pytest.raises(NonFiniteError, match="zero everywhere"):
        insight.measure_receptive_field(classifier, TOKENS)
    with torch.no_grad():
        classifier.inner.head.weight.fill_(torch.inf)
    with pytest.raises(NonFiniteError, match="not finite"):
        insight.measure_receptive_field(classifier, TOKENS)
