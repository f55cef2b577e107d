"""Perplexity: what it is of models whose answer is known, however the blocks are read."""

from types import SimpleNamespace

import pytest
import torch

from lengthwise.errors import NonFiniteError
from lengthwise.evaluate import perplexity

BLOCKS = torch.randint(0, 7, (5, 6), generator=torch.Generator().manual_seed(0), dtype=torch.int32)


class Says(torch.nn.Module):
    """Answers with logits that are a function of the tokens."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.shapes = logits, []

    def forward(self, input_ids, use_cache):
        self.shapes.append(tuple(input_ids.shape))
        return SimpleNamespace(logits=self.logits(input_ids))


def test_a_model_that_knows_nothing_is_as_good_as_the_vocabulary_is_large():
    guess = Says(lambda tokens: torch.zeros(*tokens.shape, 7))
    assert perplexity(guess, BLOCKS, device=torch.device("cpu")) == pytest.approx(7)
    assert not guess.training


@pytest.mark.parametrize(
    ("tokens_at_once", "shapes"), [(1, [(1, 6)] * 5), (12, [(2, 6), (2, 6), (1, 6)]), (99, [(5, 6)])]
)
def test_the_parts_in_which_blocks_are_read_change_nothing(tokens_at_once, shapes):
    """Of tokens that a model expects in proportion to their number, the last place's answer being of no account."""
    model = Says(lambda tokens: torch.arange(7.0).expand(*tokens.shape, 7))
    calls = []
    found = perplexity(
        model, BLOCKS, device=torch.device("cpu"), tokens_at_once=tokens_at_once, before=lambda: calls.append(1)
    )
    surprise = -torch.arange(7.0).log_softmax(0)[BLOCKS[:, 1:].long()]
    assert found == pytest.approx(float(surprise.mean().exp()))
    assert model.shapes == shapes
    assert len(calls) == len(shapes)


def test_a_loss_that_is_not_finite_is_an_error():
    model = Says(lambda tokens: torch.full((*tokens.shape, 7), torch.nan))
    with pytest.raises(NonFiniteError, match="loss on the test text is not finite"):
        perplexity(model, BLOCKS, device=torch.device("cpu"))
