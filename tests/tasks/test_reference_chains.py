"""Chains of references: the oracle, the split, and the published scores of knowing a part of every chain."""

import math

import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.train.scoring import loss, right

from ..seeded import seeded

SIZES = [(16, 8), (3, 3), (2, 2), (5, 4)]


def chain(row, t, k):
    """The chain of place t by its definition."""
    return [row[t]] if t < k else [row[t] % k, *chain(row, row[t], k)]


@pytest.mark.parametrize(("blocks", "size"), SIZES)
def test_the_oracle_is_plain_recursion(blocks, size):
    task = tasks.get("reference-chains", blocks=blocks, size=size)
    for length in {2 * size, blocks * size}:
        batch = task.sample(length, 4, seeded(0))
        assert batch.mask.all()
        assert batch.targets.shape == (4, length, blocks)
        for row, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            for t in range(length):
                expected = chain(row, t, size)
                assert len(expected) == t // size + 1
                assert targets[t] == expected + [-1] * (blocks - len(expected))


@pytest.mark.parametrize(("blocks", "size"), SIZES)
def test_each_block_is_a_shuffle_of_references_to_the_one_before(blocks, size):
    task = tasks.get("reference-chains", blocks=blocks, size=size)
    tokens = task.sample(blocks * size, 200, seeded(1)).tokens.unflatten(1, (blocks, size))
    assert set(tokens[:, 0].flatten().tolist()) == set(range(size))
    for b in range(1, blocks):
        expected = torch.arange((b - 1) * size, b * size)
        assert torch.equal(tokens[:, b].sort(1).values, expected.expand(200, -1))
        assert len(tokens[:, b].unique(dim=0)) > 1
    assert tokens.max() < len(task.vocabulary)


def known(task, batch, m, guess, sure=30.0):
    """(B, T, E*S) logits that know the first m entries of each chain and lean towards `guess` by 1e-6 elsewhere."""
    E, S = task.questions, task.outputs
    found = torch.zeros(*batch.tokens.shape, E, S)
    found[..., guess] = 1e-6
    truth = torch.nn.functional.one_hot(batch.targets.clamp(min=0), S) * sure
    found[..., :m, :] = truth[..., :m, :]
    return found.flatten(2)


@pytest.mark.parametrize(
    ("m", "accuracy", "cost"), [(0, 0.125, math.log(8)), (4, 0.498, 1.19), (8, 0.768, 0.55), (16, 1, 0)]
)
def test_knowing_a_part_of_each_chain_scores_what_was_published(m, accuracy, cost):
    """Table 1 of the paper: one layer 49.9% and 1.20, two layers 77.6% and 0.54."""
    task = tasks.get("reference-chains")
    batch = task.test_set(128, 16)
    assert int((batch.targets >= 0).sum()) == 16 * 8 * 136
    scores = torch.stack([right(known(task, batch, m, guess), batch, task) for guess in range(8)])
    unknown = sum(max(b + 1 - m, 0) for b in range(16)) / 136
    # Over all guesses an entry is guessed exactly once in eight times.
    assert float(scores.mean()) == pytest.approx(1 - unknown * 7 / 8, abs=1e-12)
    assert float(scores.mean()) == pytest.approx(accuracy, abs=5e-4)
    found = float(loss(known(task, batch, m, 0), batch, task))
    assert found == pytest.approx(unknown * math.log(8), abs=1e-5)
    assert found == pytest.approx(cost, abs=5e-3)


def test_entries_that_do_not_exist_count_for_nothing():
    task = tasks.get("reference-chains", blocks=4, size=3)
    batch = task.test_set(9, 8)
    found = torch.randn(8, 9, 12, generator=seeded(2))
    other = found.unflatten(-1, (4, 3)).clone()
    other[batch.targets < 0] += 100 * torch.randn(3, generator=seeded(3))
    other = other.flatten(2)
    assert torch.equal(right(found, batch, task), right(other, batch, task))
    torch.testing.assert_close(loss(found, batch, task), loss(other, batch, task))


@pytest.mark.parametrize(("blocks", "size"), SIZES)
def test_training_never_sees_how_a_test_string_begins(blocks, size):
    task = tasks.get("reference-chains", blocks=blocks, size=size)
    train, test = (
        {tuple(row[: 2 * size]) for row in tokens.tolist()}
        for tokens in (task.sample(blocks * size, 400, seeded(4)).tokens, task.test_set(2 * size, 400).tokens)
    )
    assert train
    assert test
    assert not train & test


def test_the_test_has_the_distribution_of_the_training():
    task = tasks.get("reference-chains")
    drawn = task.draw(16, 40000, seeded(5))
    held = drawn[task.held_out(drawn)]
    assert len(held) / len(drawn) == pytest.approx(1 / 11, abs=0.006)
    shares = torch.nn.functional.one_hot(held, 8).double().mean(0)
    assert float((shares - 1 / 8).abs().max()) < 5 * math.sqrt(1 / 8 / len(held))


def test_wrong_settings_and_strings_are_refused():
    with pytest.raises(Error, match=r"size must be a whole number in 2\.\.1000, got 1"):
        tasks.get("reference-chains", size=1)
    with pytest.raises(Error, match=r"blocks must be a whole number in 2\.\.1000, got 'many'"):
        tasks.get("reference-chains", blocks="many")
    task = tasks.get("reference-chains", blocks=3, size=2)
    for row in ([0, 1, 1, 0, 1, 3], [0, 2, 1, 0]):
        with pytest.raises(Error, match="strings of another task"):
            task.answer(torch.tensor([row]))
