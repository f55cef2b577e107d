"""What a score and a loss are, each against a few lines that say it again."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from lengthwise import tasks
from lengthwise.errors import NonFiniteError
from lengthwise.evaluate import score_strings
from lengthwise.lab.job import make_trainer
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.models.token_classifier import evaluating
from lengthwise.tasks.base import Batch
from lengthwise.train.counting import count_right
from lengthwise.train.curriculum import WINDOW, GrowingLengths
from lengthwise.train.scoring import loss, right
from lengthwise.train.settings import Curriculum

CPU = torch.device("cpu")


class Says(torch.nn.Module):
    """Gives a string the logits `found` has for it, looked up by the string."""

    def __init__(self, tokens, found):
        super().__init__()
        self.found = {tuple(row): answer for row, answer in zip(tokens.tolist(), found, strict=True)}
        self.seen = []

    def forward(self, tokens, last=False):
        self.seen.append(len(tokens))
        found = torch.stack([self.found[tuple(row)] for row in tokens.tolist()])
        return found[:, -1:] if last else found


@pytest.mark.parametrize(
    ("name", "settings"),
    [("parity", {}), ("parity", {"supervision": "prefix"}), ("tomita-4", {"protocol": "next"})],
)
def test_pieces_weigh_as_many_strings_as_they_have(monkeypatch, name, settings):
    """37 strings eight at a time: the last five, far from the others in loss, are 5 of 37."""
    task, length = tasks.get(name, **settings), 20
    batch = task.sample(length, 37, torch.Generator().manual_seed(0))
    assert len(batch.tokens.unique(dim=0)) == 37
    found = torch.randn(37, length, task.outputs, generator=torch.Generator().manual_seed(1))
    found[-5:] *= 20
    mask = batch.mask
    if task.kind == "set":
        expected = F.binary_cross_entropy_with_logits(found[mask], batch.targets[mask].float())
    else:
        # Where the last place is asked the score and the loss are of the last place alone.
        expected = F.cross_entropy(found[:, -1], batch.targets[:, -1])
    monkeypatch.setattr("lengthwise.train.counting.TOKENS", 8 * length)
    model = Says(batch.tokens, found)
    assert count_right(model, task, batch, device=CPU)[1] == pytest.approx(float(expected), rel=1e-5)
    assert model.seen == [8, 8, 8, 8, 5]


BAD = [float("nan"), float("inf"), float("-inf")]


def spoilt(task, length, bad):
    """Six strings and right answers to them; one has a logit that is `bad`, and its greatest is still the right one."""
    batch = task.test_set(length, 6)
    found = F.one_hot(task.answer(batch.tokens), task.outputs) * 4.0 - 2
    answer = int(batch.targets[3, -1])
    found[3, -1, 1 - answer if bad == float("-inf") else answer] = bad
    assert right(found, batch, task).all()
    return batch, found


@pytest.mark.parametrize("bad", BAD)
def test_a_string_whose_logits_are_not_finite_is_wrong_and_counted(monkeypatch, bad):
    task = tasks.get("parity")
    batch, found = spoilt(task, 20, bad)
    counted = count_right(Says(batch.tokens, found), task, batch, device=CPU)
    assert (counted.right, counted.overflowed) == (5, 1)
    monkeypatch.setattr("lengthwise.train.counting.TOKENS", 4 * 20)
    assert count_right(Says(batch.tokens, found), task, batch, device=CPU)[::2] == (5, 1)
    found[0] = bad
    assert count_right(Says(batch.tokens, found), task, batch, device=CPU)[::2] == (4, 2)


def test_a_test_says_at_which_lengths():
    task = tasks.get("parity")
    batch, found = spoilt(task, 20, BAD[0])
    other = task.test_set(21, 6)
    model = Says(batch.tokens, found)
    model.found |= Says(other.tokens, F.one_hot(task.answer(other.tokens), 2).float()).found
    tested = score_strings(model, task, (20, 21), 6, 0, device=CPU)
    assert tested == ({"20": 5, "21": 6}, {"20": 1})
    assert score_strings(model, task, (20, 21), 6, 0, device=CPU, known=tested) == tested


class Refuses(Says):
    """Refuses a batch for what is not finite in one of its strings, as a scan of blocks does."""

    def forward(self, tokens, last=False):
        found = super().forward(tokens, last)
        if not found.isfinite().all():
            raise NonFiniteError("A must be finite")
        return found


def test_of_a_batch_that_the_model_refuses_one_string_is_wrong():
    task = tasks.get("parity")
    batch, found = spoilt(task, 20, BAD[0])
    model = Refuses(batch.tokens, found)
    assert count_right(model, task, batch, device=CPU)[::2] == (5, 1)
    assert model.seen == [6, *[1] * 6]
    with pytest.raises(NonFiniteError, match="A must be finite"):
        count_right(model, task, batch, device=CPU, strict=True)


@pytest.mark.parametrize("bad", BAD)
def test_validation_refuses_them(quick, bad):
    trainer = make_trainer(quick(train_length=20, lengths=[20, 20], test_lengths="20"))
    (batch,) = trainer.data.validation(0)
    found = F.one_hot(trainer.data.task.answer(batch.tokens), 2).float()
    trainer.states[0].model = Says(batch.tokens, found)
    assert validate(trainer)[0] == 1.0
    found[3, -1, 1] = bad
    trainer.states[0].model = Says(batch.tokens, found)
    with pytest.raises(NonFiniteError, match=r"not finite at length 20 of parity.*lower training\.lr"):
        validate(trainer)


def test_a_set_is_judged_at_every_place():
    """Right at the last place and wrong at the first is wrong."""
    task = tasks.get("tomita-1", protocol="next")
    batch = task.sample(20, 12, torch.Generator().manual_seed(0))
    assert batch.mask.all()
    found = torch.where(batch.targets, 2.0, -2.0)
    assert count_right(Says(batch.tokens, found), task, batch, device=CPU)[0] == 12
    found[:, 0] *= -1
    assert count_right(Says(batch.tokens, found), task, batch, device=CPU)[0] == 0


def test_a_set_is_judged_and_learnt_where_it_is_asked_alone():
    task = tasks.get("tomita-1", protocol="next")
    targets = torch.rand(3, 5, task.outputs, generator=torch.Generator().manual_seed(0)) < 0.5
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[0, 1] = mask[1, 4] = False
    batch = Batch(torch.zeros(3, 5, dtype=torch.long), targets, mask)
    found = torch.where(targets, 2.0, -2.0)
    found[0, 1] *= -3
    found[2, 1] *= -1
    assert right(found, batch, task).tolist() == [True, True, False]
    expected = F.binary_cross_entropy_with_logits(found[mask], targets[mask].float())
    torch.testing.assert_close(loss(found, batch, task), expected)


def validate(trainer):
    """Accuracy and loss of a trainer's one state."""
    (state,) = trainer.states
    with evaluating(state.model):
        return trainer.objective.validate(state, trainer.data.validation(0))


def shapes_seen(run):
    """The shapes every embedding is asked for outside training, while `run()` runs."""
    seen = []

    def note(module, inputs):
        if isinstance(module, torch.nn.Embedding) and not module.training:
            seen.append(tuple(inputs[0].shape))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        run()
    finally:
        hook.remove()
    return seen


@pytest.mark.parametrize("share", [1, 4])
def test_processes_share_the_memory(monkeypatch, quick, toy, share):
    """Each takes its share when it validates and when it tests: three T×T matrices of 8 heads in half of it."""
    free = 2 * 3 * 8 * 4 * 64 * 64 * 8
    monkeypatch.setattr("lengthwise.train.counting.memory_free", lambda device: free)
    trainer = make_trainer(quick(toy("Tiny"), train_length=64, lengths=[64, 64], test_lengths="64"))
    trainer.objective.share = share
    seen = shapes_seen(lambda: validate(trainer))
    assert set(seen) == {(8 // share, 64)}
    asked = {"device": CPU, "share": share}
    seen = shapes_seen(lambda: score_strings(trainer.states[0].model, trainer.data.task, (64,), 16, 0, **asked))
    assert set(seen) == {(8 // share, 64)}


@pytest.mark.parametrize("model", ["regular-gpt", "block-lrnn"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_equal_tokens_are_computed_once_unless_dropout_draws(quick, monkeypatch, model, dropout):
    """In training and in every test."""
    (experiment,) = quick(model, model_settings={"width": 16, "dropout": dropout}, steps=2, validate_every=1)
    switched, forward = [], LengthwiseForCausalLM.forward

    def noted(self, *args, **kwargs):
        switched.append((self.training, self.reuses_equal_tokens))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(LengthwiseForCausalLM, "forward", noted)
    trainer = make_trainer([experiment])
    trainer.run()
    score_strings(trainer.states[0].model, trainer.data.task, (9,), 4, 0, device=CPU)
    assert set(switched) == {(True, not dropout), (False, True)}


def test_a_model_is_judged_as_it_answers_not_as_it_trains(quick, toy):
    trainer = make_trainer(quick(toy("Moody")))
    model = trainer.states[0].model
    model.train()
    assert validate(trainer)[0] == 1.0
    assert model.training
    assert score_strings(model, trainer.data.task, (9, 30), 12, 0, device=CPU) == ({"9": 12, "30": 12}, {})


def test_validation_spreads_over_the_training_lengths(quick):
    trainer = make_trainer(quick(train_length=80, test_lengths="80", validation_samples=64))
    lengths = sorted(batch.tokens.shape[1] for batch in trainer.data.validation(0))
    assert len(lengths) == 16
    assert lengths[-1] == 80
    assert lengths[0] <= 8
    assert max(b - a for a, b in itertools.pairwise(lengths)) <= 8


def test_the_window_starts_anew_at_each_length():
    growing = GrowingLengths([2, 3, 5, 8], Curriculum(grow_from=2, grow_at=0.9), 1)
    reached = []
    for at in range(3 * WINDOW):
        growing.learn(growing.lengths[growing.longest], 1.0, at)
        reached.append((at + 1, growing.longest))
    assert [min(at for at, longest in reached if longest == n) for n in (1, 2, 3)] == [WINDOW, 2 * WINDOW, 3 * WINDOW]
