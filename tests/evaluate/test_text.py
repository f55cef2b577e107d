"""Perplexity: what it is of models whose answer is known, however the blocks are read."""

import math
from types import SimpleNamespace

import pytest
import torch

from lengthwise.errors import Error
from lengthwise.evaluate import Loss, losses_by_length
from lengthwise.evaluate.text import last_places

BLOCKS = torch.randint(0, 7, (5, 6), generator=torch.Generator().manual_seed(0), dtype=torch.int32)


class Says(torch.nn.Module):
    """Answers with logits that are a function of the tokens."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.shapes = logits, []

    def forward(self, input_ids, use_cache):
        assert not self.training
        self.shapes.append(tuple(input_ids.shape))
        return SimpleNamespace(logits=self.logits(input_ids))


def perplexity(model, **options):
    """Of the blocks, which are the windows of their text."""
    return losses_by_length(model, BLOCKS.flatten(), [6], device=torch.device("cpu"), **options)[6].perplexity


def test_a_model_that_knows_nothing_is_as_good_as_the_vocabulary_is_large():
    guess = Says(lambda tokens: torch.zeros(*tokens.shape, 7))
    assert perplexity(guess) == pytest.approx(7)


@pytest.mark.parametrize(
    ("tokens_at_once", "shapes"), [(1, [(1, 6)] * 5), (12, [(2, 6), (2, 6), (1, 6)]), (99, [(5, 6)])]
)
def test_the_parts_in_which_blocks_are_read_change_nothing(tokens_at_once, shapes):
    """Of tokens that a model expects in proportion to their number, the last place's answer being of no account."""
    model = Says(lambda tokens: torch.arange(7.0).expand(*tokens.shape, 7))
    calls = []
    found = perplexity(model, tokens_at_once=tokens_at_once, before=lambda: calls.append(1))
    surprise = -torch.arange(7.0).log_softmax(0)[BLOCKS[:, 1:].long()]
    assert found == pytest.approx(float(surprise.mean().exp()))
    assert model.shapes == shapes
    assert len(calls) == len(shapes)


def test_of_a_loss_that_is_not_finite_there_is_no_perplexity():
    model = Says(lambda tokens: torch.full((*tokens.shape, 7), torch.nan))
    assert math.isnan(perplexity(model))


class ReadsAll(torch.nn.Module):
    """Knows the more of the next token the more it has read: its logits are those of tokens that were read so far."""

    def forward(self, input_ids, use_cache):
        return SimpleNamespace(logits=torch.nn.functional.one_hot(input_ids, 7).cumsum(1).float())


TEXT = torch.randint(0, 7, (53,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)


def surprise(before, token):
    """-log p by the model that counts, written down for one token."""
    counts = torch.tensor([float((before == i).sum()) for i in range(7)])
    return -counts.log_softmax(0)[int(token)].item()


@pytest.mark.parametrize("length", [2, 3, 7, 53])
def test_windows_follow_one_another_and_predict_all_but_their_first_token(length):
    found = losses_by_length(ReadsAll(), TEXT, [length], device=torch.device("cpu"), tokens_at_once=9)[length]
    each = [
        surprise(TEXT[start : start + i], TEXT[start + i])
        for start in range(0, 53 - length + 1, length)
        for i in range(1, length)
    ]
    assert found.tokens == len(each)
    assert found.mean == pytest.approx(sum(each) / len(each), rel=1e-6)


@pytest.mark.parametrize("length", [2, 3, 7, 53])
def test_a_last_token_is_predicted_from_the_length_less_one_before_it(length):
    options = {"device": torch.device("cpu"), "way": "last-token", "samples": 40, "tokens_at_once": 9}
    found = losses_by_length(ReadsAll(), TEXT, [length], **options)[length]
    places = last_places(53, length, 40, 0).tolist()
    each = [surprise(TEXT[end - length + 1 : end], TEXT[end]) for end in places]
    assert found.tokens == 40
    assert found.mean == pytest.approx(sum(each) / 40, rel=1e-6)


def test_last_tokens_are_the_same_at_every_length_where_enough_stands_before_them():
    short, long = last_places(1000, 2, 500, 0), last_places(1000, 101, 500, 0)
    assert short.min() >= 1
    assert long.min() >= 100
    kept = short[short >= 100]
    assert torch.equal(long[: len(kept)], kept)
    assert len(kept) > 400
    assert not torch.equal(last_places(1000, 2, 500, 1), short)


def test_what_is_known_is_not_measured_again_and_the_rest_is_told_as_it_comes():
    heard = []
    known = {2: Loss(1.5, 9)}
    found = losses_by_length(
        ReadsAll(), TEXT, [2, 4, 8], device=torch.device("cpu"), known=known, after=lambda f: heard.append(list(f))
    )
    assert found[2] == Loss(1.5, 9)
    assert heard == [[2, 4], [2, 4, 8]]


def test_a_loss_that_is_no_number_is_a_finding_at_its_length_alone():
    model = Says(lambda tokens: torch.full((*tokens.shape, 7), torch.nan if tokens.shape[1] > 4 else 0.0))
    found = losses_by_length(model, TEXT, [4, 8], device=torch.device("cpu"))
    assert found[4].perplexity == pytest.approx(7)
    assert found[8].mean is None
    assert math.isnan(found[8].perplexity)
    assert Loss(1000.0, 1).perplexity == math.inf


@pytest.mark.parametrize(("lengths", "said"), [([1], "must be at least 2"), ([54], "fill a window of 54 tokens")])
def test_lengths_that_no_window_has_are_refused(lengths, said):
    with pytest.raises(Error, match=said):
        losses_by_length(ReadsAll(), TEXT, lengths, device=torch.device("cpu"))
