"""State passing against one long sequence whose gradient is cut at the border, and what is refused of it."""

import pytest
import torch
from torch.nn import functional as F

from lengthwise import lab, models
from lengthwise.errors import Error
from lengthwise.lab.job import Job, run_group
from lengthwise.models.cache import LengthwiseCache
from lengthwise.train import Interrupted, NextToken, Stop
from lengthwise.train.objectives import check_state_passing

from ..lab import corpora

RECURRENT = ("lstm", "gru", "block-lrnn", "s4d", "diagonal-lrnn", "pd-ssm", "delta-product")
V, B, T = 7, 3, 5


def made(name):
    torch.manual_seed(0)
    return models.build(name, vocab_size=V, num_outputs=V, width=8, layers=2).double()


def losses(model, batch, passing, tokens_at_once=4096):
    objective = NextToken(tokens_at_once, state_passing=passing)
    measure = objective.measure([batch])
    return [measure(model, *part)[0] for part in objective.parts(batch)]


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("passing", [0, 1, 2])
def test_a_state_that_is_passed_is_one_long_sequence(name, passing):
    """Row n reads the rows before it; the first come behind the last. However the batch is read in parts."""
    model, batch = made(name), torch.randint(V, (B, T))
    wanted = 0.0
    for n in range(B):
        text = torch.cat([batch[(n - k) % B] for k in range(passing, -1, -1)])
        logits = model(text[None])[0, -T:]
        wanted = wanted + F.cross_entropy(logits[:-1], batch[n, 1:], reduction="sum") / (B * (T - 1))
    for tokens_at_once in (1, 2 * T, 4096):
        torch.testing.assert_close(
            sum(losses(model, batch, passing, tokens_at_once)).double(), wanted, rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("name", [name for name in RECURRENT if name != "pd-ssm"])  # its slopes are no derivatives
def test_the_gradient_is_cut_at_the_border(name):
    """It is that of the later rows alone, in a state that a copy of the model has left."""
    model, batch = made(name), torch.randint(V, (B, T))
    weights = list(model.parameters())
    (loss,) = losses(model, batch, 1)
    slopes = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    cache = LengthwiseCache()
    whole = model(batch.roll(1, 0), past=cache).sum() * 0
    uncut = whole + F.cross_entropy(model(batch, past=cache)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
    torch.testing.assert_close(uncut, loss.double(), rtol=1e-6, atol=0)
    other = torch.autograd.grad(uncut, weights, allow_unused=True, materialize_grads=True)
    assert any(not torch.allclose(a, b) for a, b in zip(slopes, other, strict=True))
    # A step of the weights behind the border alone moves the loss as the slopes say.
    direction = [torch.randn_like(weight) for weight in weights]
    moved = []
    for size in (1e-6, -1e-6):
        cache = LengthwiseCache()
        with torch.no_grad():
            model(batch.roll(1, 0), past=cache)
            for weight, way in zip(weights, direction, strict=True):
                weight += size * way
            moved.append(F.cross_entropy(model(batch, past=cache)[:, :-1].flatten(0, 1), batch[:, 1:].flatten()))
            for weight, way in zip(weights, direction, strict=True):
                weight -= size * way
    along = sum((slope * way).sum() for slope, way in zip(slopes, direction, strict=True))
    torch.testing.assert_close((moved[0] - moved[1]) / 2e-6, along, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "blocks", "said"),
    [
        ("transformer", 1, "Softmax keeps the keys of all tokens"),
        ("regular-gpt", 1, "SlidingDilated keeps the keys"),
        ("lstm", 3, "state_passing=3 needs more windows in a batch than that, got training.batch=3"),
    ],
)
def test_what_has_no_state_to_pass_is_refused(name, blocks, said):
    with pytest.raises(Error, match=said):
        check_state_passing(models.build(name, vocab_size=V, num_outputs=V), blocks, 3)


def test_one_that_is_stopped_goes_on_bit_for_bit(tmp_path):
    settings = {"training.steps": 6, "training.batch": 4, "training.checkpoint_every": 1, "text.held_out": 0.3}
    settings |= {"model.width": 8, "objective.state_passing": 2, "training.validation_samples": 4}
    plan = lambda **more: lab.plan_language_models(  # noqa: E731
        corpora.write(tmp_path / "corpus"),
        ["block-lrnn"],
        train_length=16,
        test_lengths="16",
        vocabulary=280,
        settings={**settings, **more},
        store=tmp_path,
    )
    experiments, stop = plan(), Stop()
    (whole,) = run_group(experiments, Job(tmp_path / "whole"))

    def hear(progress):
        stop.asked = progress.step >= 3

    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path / "pieces", hear=hear, stop=stop))
    (pieces,) = run_group(experiments, Job(tmp_path / "pieces"))
    assert whole.run.result["folders"] == pieces.run.result["folders"]
    (without,) = run_group(plan(**{"objective.state_passing": 0}), Job(tmp_path / "whole"))
    assert without.run.result["folders"] != whole.run.result["folders"]
    with pytest.raises(Error, match="Softmax keeps the keys"):
        lab.plan_language_models(
            tmp_path / "corpus", ["transformer"], train_length=16, settings=settings, vocabulary=280, store=tmp_path
        )
