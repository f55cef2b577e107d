"""Rows of unequal width go through training, validation, testing, stacking and export: padding is never asked about."""

import pytest
import torch
import torch.nn.functional as F

from lengthwise import lab
from lengthwise.lab import plan
from lengthwise.lab.job import make_trainer
from lengthwise.tasks import Task, registry
from lengthwise.train import Single
from lengthwise.train.counting import count_right
from lengthwise.train.scoring import loss, right

from ..seeded import seeded

CPU = torch.device("cpu")
PAD = 4


class Ragged(Task):
    """`0110=0.`: at most `length` bits, answered by their parity; target t is token t+1, as in a language model."""

    name = "ragged"
    vocabulary = (*"01=.", "")
    outputs = len(vocabulary)
    supervision = "prefix"
    scoring = "every"
    padding = PAD

    def __init__(self, split: int = 3):
        self.params = {"split": split}

    def draw(self, length, batch, generator):
        n = torch.randint(1, length + 1, (batch, 1), generator=generator)
        bits = torch.randint(2, (batch, length), generator=generator)
        bits[torch.arange(length) >= n] = 0
        tokens = torch.full((batch, length + 3), PAD)
        tokens[:, :length] = bits
        tokens[torch.arange(length + 3) >= n] = PAD
        tokens.scatter_(1, n, 2).scatter_(1, n + 1, bits.sum(1, keepdim=True) % 2).scatter_(1, n + 2, 3)
        return tokens[:, : int(n.max()) + 3]

    def answer(self, tokens):
        ends = torch.full((len(tokens), 1), PAD)
        return torch.cat([tokens[:, 1:], ends], 1)

    def asked(self, tokens):
        answered = (tokens == 2).cumsum(1).bool()
        return answered & (self.answer(tokens) != PAD)

    def baseline(self, length):
        return 0.0

    def held_out(self, tokens):
        places = torch.arange(tokens.shape[1])
        return ((tokens == 1) * places).sum(1) % self.params["split"] == 0


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry.FAMILIES, "ragged", (Ragged, "bits and their parity, as text"))


def experiments(model="lstm", seeds=1, **training):
    settings = {"training.steps": 12, "training.batch": 8, "training.validate_every": 6, "tests.samples": 16}
    settings |= {"training.validation_samples": 16, "training.precision": "fp64", "model.width": 16}
    settings |= {"model.layers": 1, **({} if model == "lstm" else {"model.heads": 2})}
    settings |= {f"training.{name}": value for name, value in training.items()}
    return plan("ragged", [model], seeds=seeds, train_length=6, test_lengths="6,20", settings=settings)


class Knows(torch.nn.Module):
    """Right exactly where it is asked, but for the first asked place of the rows in `wrong`."""

    def __init__(self, task, wrong=()):
        super().__init__()
        self.task, self.wrong = task, set(wrong)

    def forward(self, tokens, last=False):
        assert not last
        batch = self.task.label(tokens)
        found = F.one_hot(batch.targets, self.task.outputs) * 8.0
        found[~batch.mask] *= -1
        for i, row in enumerate(tokens):
            if self.task.write(row) in self.wrong:
                found[i, int(batch.mask[i].float().argmax())] *= -1
        return found


def test_a_string_is_right_when_all_of_its_answer_is():
    task = Ragged()
    batch = task.test_set(9, 40)
    bad = [task.write(row) for row in batch.tokens[:3]]
    missed = sum(task.write(row) in bad for row in batch.tokens)
    assert count_right(Knows(task), task, batch, device=CPU)[0] == 40
    assert count_right(Knows(task, bad), task, batch, device=CPU)[0] == 40 - missed


def test_the_loss_is_the_mean_over_answers_whatever_the_pieces(monkeypatch):
    task = Ragged()
    batch = task.test_set(9, 37)
    # Ask some strings for less than others.
    batch.mask[:8] &= batch.tokens[:8] != 2
    model = make_trainer(experiments()).states[0].model.float()
    expected = F.cross_entropy(model(batch.tokens)[batch.mask], batch.targets[batch.mask]).detach()
    torch.testing.assert_close(loss(model(batch.tokens), batch, task), expected)
    assert count_right(model, task, batch, device=CPU)[1] == pytest.approx(float(expected), rel=1e-5)
    monkeypatch.setattr("lengthwise.train.counting.TOKENS", 5 * batch.tokens.shape[1])
    assert count_right(model, task, batch, device=CPU)[1] == pytest.approx(float(expected), rel=1e-5)


def test_padding_changes_neither_loss_nor_score():
    task, model = Ragged(), make_trainer(experiments("transformer")).states[0].model
    batch = task.sample(6, 8, seeded(0))
    wide, other = task.align([batch, task.sample(20, 8, seeded(1))])
    assert wide.tokens.shape == other.tokens.shape > batch.tokens.shape
    assert [task.write(row) for row in wide.tokens] == [task.write(row) for row in batch.tokens]
    found = [model(b.tokens) for b in (batch, wide)]
    torch.testing.assert_close(loss(found[0], batch, task), loss(found[1], wide, task))
    assert torch.equal(right(found[0], batch, task), right(found[1], wide, task))


def test_states_with_rows_of_unequal_width_train_together():
    trainer = make_trainer(experiments("transformer", seeds=2))
    batches = [trainer.data.task.sample(n, 8, seeded(n)) for n in (3, 6)]
    assert batches[0].tokens.shape[1] < batches[1].tokens.shape[1]
    together = trainer.strategy.backward(trainer.states, batches, trainer.objective)
    for i, (state, batch) in enumerate(zip(trainer.states, batches, strict=True)):
        alone = Single(CPU).backward([state], [batch], trainer.objective)
        torch.testing.assert_close(together[i, 0], alone[0, 0])
        assert together[i, 1] == alone[0, 1]


def test_growing_learns_from_the_length_and_not_from_the_width(monkeypatch):
    trainer = make_trainer(experiments(curriculum="growing", grow_from=2, steps=40))
    learnt, curriculum = [], trainer.states[0].curriculum
    monkeypatch.setattr(curriculum, "learn", lambda length, accuracy, step: learnt.append((length, step)))
    trainer.run()
    assert [step for _, step in learnt] == list(range(1, 41))
    assert {length for length, _ in learnt} == {1, 2}
    assert curriculum.steps == 40


def test_a_whole_run(tmp_path):
    run = lab.run(experiments(curriculum="log-uniform"), tmp_path, device="cpu")[0].run
    assert run
    assert run.result["checkpoints"]["last"]["correct"].keys() == {"2", "3", "4", "6", "20"}
    assert all(isinstance(n, int) for n in run.result["checkpoints"]["last"]["correct"].values())
    assert {row["length"] for row in run.metrics if row["kind"] == "train"} <= set(range(1, 7))
