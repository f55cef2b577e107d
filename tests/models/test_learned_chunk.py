"""A chunk chosen by training: the mixture it trains, and the one tree it is afterwards."""

from __future__ import annotations

import pytest
import torch

from lengthwise import lab
from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM, presets

from ..mixers import made

CHUNKS = (2, 3, 4)


def make(**options):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.regular_gpt(5, 3, width=8, heads=2, **options)).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


def single(model, chunk):
    """The ordinary RegularGPT of one chunk with the same weights."""
    alone = make(chunk=chunk).eval()
    weights = {k: v for k, v in model.state_dict().items() if k != "depth.choice"}
    name = "depth.layers.0.mixer.r"
    alone.load_state_dict({**weights, name: weights[name][:, :chunk]})
    return alone


@pytest.mark.parametrize("last", [0, 1])
def test_training_sees_the_mixture_and_evaluation_the_likeliest(last):
    model, tokens = make(largest_chunk=4), torch.randint(0, 5, (2, 11))
    each = torch.stack([single(model, c)(tokens, logits_to_keep=last).logits.softmax(-1) for c in CHUNKS])
    p = torch.tensor([model.depth.probabilities[c] for c in CHUNKS], dtype=torch.float64)
    found = model.train()(tokens, logits_to_keep=last).logits.exp()
    torch.testing.assert_close(found, (p[:, None, None, None] * each).sum(0))
    for i, chunk in enumerate(CHUNKS):
        with torch.no_grad():
            model.depth.choice.copy_(torch.eye(3)[i])
        assert model.depth.chunk == chunk
        wanted = single(model, chunk)(tokens, logits_to_keep=last).logits
        torch.testing.assert_close(model.eval()(tokens, logits_to_keep=last).logits, wanted)


def test_the_loss_moves_the_choice_towards_the_tree_that_is_right():
    model, tokens = make(largest_chunk=4), torch.randint(0, 5, (4, 11))
    with torch.no_grad():
        model.depth.choice.zero_()
    each = torch.stack([single(model, c)(tokens, logits_to_keep=1).logits.log_softmax(-1)[:, 0] for c in CHUNKS])
    answers = each[1].argmax(-1)
    loss = torch.nn.functional.cross_entropy(model.train()(tokens, logits_to_keep=1).logits[:, 0], answers)
    (moved,) = torch.autograd.grad(loss, model.depth.choice)
    chances = each.gather(2, answers.expand(3, -1)[..., None])[..., 0].exp()
    wanted = -10 * (chances / chances.sum(0) - 1 / 3).mean(1)
    torch.testing.assert_close(moved, wanted.double())


def test_refusals():
    model, tokens = make(largest_chunk=3), torch.randint(0, 5, (2, 4))
    with pytest.raises(Error, match="choice of chunks keeps no cache"):
        model(tokens, use_cache=True)
    assert model.eval().generate(tokens, max_new_tokens=2, do_sample=False).shape == (2, 6)
    with pytest.raises(Error, match="largest_chunk must be at least chunk = 3, got 2"):
        presets.regular_gpt(5, chunk=3, largest_chunk=2)
    mixer = {"name": "sliding-dilated", "heads": 2, "chunk": 3}
    for chunks, message in (
        ([2, 2, 3], "different ones"),
        ([3], "different ones"),
        ([2, 4], r"one chunk, got 3 and \[2, 4\]"),
    ):
        with pytest.raises(Error, match=message):
            LengthwiseForCausalLM(
                made.config(vocab_size=5, width=8, mixer=mixer, depth={"name": "adaptive", "chunk": chunks})
            )
    with pytest.raises(Error, match="reads several answers at once"):
        lab.plan("tomita-3", ["regular-gpt"], settings={"task.protocol": "next", "model.largest_chunk": 3})


def test_the_lab_trains_it_alone_and_stacked(tmp_path):
    settings = {"training.steps": 3, "training.batch": 4, "model.width": 8, "model.heads": 2, "model.largest_chunk": 3}
    (run,) = lab.bench("parity", ["regular-gpt"], test_lengths="41", settings=settings, root=tmp_path)
    depth = lab.load_model(run).inner.depth
    assert depth.probabilities.keys() == {2, 3}
    assert not torch.equal(depth.choice, torch.zeros(2))
