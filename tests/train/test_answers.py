"""Training on answers: which tokens are asked for, in any parts, and whichever rows share a batch."""

import pytest
import torch

from lengthwise import models
from lengthwise.text.prompts import AnsweredPrompt
from lengthwise.train import AnswerTokens, PromptsAndAnswers, Single, Stacked, Training, TrainState
from lengthwise.train.answers import IGNORED, AnswerBatch, total_loss
from lengthwise.train.objectives import negative_log_likelihood

SIZES = [(5, 2), (2, 1), (11, 4), (3, 1), (7, 6), (2, 1)]
"""Tokens of each row, and where its answer begins."""


def rows():
    draw = torch.Generator().manual_seed(1)
    return [AnsweredPrompt(torch.randint(1, 7, (T,), generator=draw).int(), start) for T, start in SIZES]


def state(seed=0, **options):
    torch.manual_seed(seed)
    model = models.build("transformer", vocab_size=7, num_outputs=7, width=8, heads=2, layers=1, **options).double()
    return TrainState(model, Training.of(batch=4, lr=1e-2, steps=3), [11], seed=seed)


def by_hand(model, each):
    """-log p of every token of every answer, one row and one token at a time."""
    found = []
    for tokens, start in each:
        p = model(tokens.long()[None])[0].log_softmax(-1)
        found += [-p[t - 1, int(tokens[t])] for t in range(start, len(tokens))]
    return torch.stack(found)


def test_the_loss_is_that_of_the_answers_alone_and_its_gradient_too():
    trained, batch = state(), AnswerBatch.of(rows())
    assert batch.tokens.shape == batch.labels.shape == (6, 11)
    losses = by_hand(trained.model, rows())
    assert len(losses) == sum(T - start for T, start in SIZES)
    losses.mean().backward()
    expected = {name: p.grad.clone() for name, p in trained.parameters.items() if p.grad is not None}
    for tokens_at_once in (1, 25, 1000):
        for p in trained.parameters.values():
            p.grad = None
        loss, _ = Single("cpu").backward([trained], [batch], AnswerTokens(tokens_at_once))[0]
        assert loss.item() == pytest.approx(losses.mean().item())
        for name, grad in expected.items():
            torch.testing.assert_close(trained.parameters[name].grad, grad, rtol=1e-5, atol=1e-7)
        total, predicted = total_loss(
            trained.model, [batch, batch], tokens_at_once, device=torch.device("cpu"), autocast="fp32"
        )
        assert (total / predicted, predicted) == (pytest.approx(losses.mean().item()), 2 * len(losses))


def test_a_prompt_changes_the_loss_and_is_not_learned():
    logits = torch.randn(1, 4, 7, requires_grad=True)
    batch = AnswerBatch.of([AnsweredPrompt(torch.tensor([1, 2, 3, 4]), 3)])
    assert batch.labels.tolist() == [[IGNORED] * 3 + [4]]
    negative_log_likelihood(logits, batch.labels).backward()
    assert logits.grad.abs().sum(-1)[0].gt(0).tolist() == [False, False, True, False]


def test_a_population_learns_as_each_would_alone():
    """Its batches have rows of other lengths, and other numbers of answers' tokens."""
    batches = [AnswerBatch.of(rows()[:2]), AnswerBatch.of(rows()[2:4])]
    together, apart = [state(0), state(1)], [state(0), state(1)]
    losses = Stacked("cpu").backward(together, batches, AnswerTokens())
    alone = [Single("cpu").backward([s], [b], AnswerTokens())[0] for s, b in zip(apart, batches, strict=True)]
    torch.testing.assert_close(losses, torch.stack(alone), rtol=1e-5, atol=1e-7)
    for one, other in zip(together, apart, strict=True):
        for name, p in other.parameters.items():
            torch.testing.assert_close(one.parameters[name].grad, p.grad, rtol=1e-5, atol=1e-7)


def test_every_row_is_read_once_an_epoch():
    data = PromptsAndAnswers(rows(), Training.of(batch=2), 11, rows()[:3])
    read = [tuple(row[row != 0].tolist()) for step in range(3) for row in data.batch(5, step, 11).tokens]
    assert sorted(read) == sorted(tuple(row.tokens.tolist()) for row in rows())
    torch.testing.assert_close(data.batch(5, 1, 11), data.batch(5, 1, 11), rtol=0, atol=0)
    assert len(data.validation(0)) == 3
    assert AnswerTokens().validate(state(), data.validation(0))[1] == pytest.approx(
        by_hand(state().model, rows()[:3]).mean().item()
    )
