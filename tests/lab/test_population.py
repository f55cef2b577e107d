"""Members trained together end where they end alone."""

import pytest
import torch

from lengthwise.lab import plan
from lengthwise.train import TrainState
from lengthwise.train.strategies import losses, stacks
from lengthwise.lab.run import Job, groups, run_group
from lengthwise.train import Trainer

CPU = torch.device("cpu")


LRNN = [("block-lrnn", {"model.variant": v}) for v in ("lengthwise", "paper", "official", "automaton")]
SPACES = [("s4d", {"model.state": 8}), ("lru", {"model.state": 8})]


def grid(model, options=None, **training):
    settings = {
        "training.steps": 50,
        "training.batch": 8,
        "training.validate_every": 25,
        "training.validation_samples": 16,
        "training.precision": "fp64",
        "training.warmup": 5,
        "evaluation.samples": 4,
        "model.width": 16,
        **({"model.heads": 2} if model in ("regular-gpt", "transformer") else {}),
        **({"model.layers": 2} if model == "transformer" else {}),
        **(options or {}),
        **{f"training.{name}": value for name, value in training.items()},
    }
    rates = [1e-3, 3e-3]
    return plan(
        "parity", [model], seeds=2, train_length=9, test_lengths="9,20", settings=settings, learning_rates=rates
    )


@pytest.mark.parametrize("model", ["regular-gpt", "transformer"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_together_is_alone(model, weight_decay):
    same(grid(model, weight_decay=weight_decay, optimizer="adamw"))


@pytest.mark.parametrize(("model", "options"), LRNN + SPACES, ids=str)
def test_together_is_alone_in_recurrences_too(model, options):
    same(grid(model, options, steps=20, validate_every=10))


def same(experiments):
    together = [Member(experiment, CPU) for experiment in experiments]
    alone = [Member(experiment, CPU) for experiment in experiments]
    assert stacks(together[0])
    assert train(together, [None] * 4)
    for member in alone:
        train([member], [None])
    starts = [Member(experiment, CPU).weights() for experiment in experiments]
    for a, b, start in zip(together, alone, starts, strict=True):
        for name, tensor in a.weights().items():
            torch.testing.assert_close(tensor, b.weights()[name], rtol=0, atol=1e-9, msg=name)
        assert any((tensor - start[name]).abs().max() > 1e-3 for name, tensor in a.weights().items())
        assert a.best["step"] == b.best["step"]
        assert a.best["loss"] == pytest.approx(b.best["loss"], abs=1e-9)


def test_members_differ():
    """The test above means something only if seeds and rates do."""
    members = [Member(experiment, CPU) for experiment in grid("regular-gpt", steps=10)]
    train(members, [None] * 4)
    weights = [torch.cat([t.flatten() for t in m.weights().values()]) for m in members]
    assert all((a - b).abs().max() > 1e-3 for i, a in enumerate(weights) for b in weights[:i])


def test_buffers_are_each_members_own(quick, toy):
    experiments = quick(toy("Projected"), seeds=2, steps=5, precision="fp64")
    together = [Member(experiment, CPU) for experiment in experiments]
    alone = [Member(experiment, CPU) for experiment in experiments]
    assert stacks(together[0])
    train(together, [None] * 2)
    for a, b in zip(together, alone, strict=True):
        train([b], [None])
        for name, tensor in b.weights().items():
            torch.testing.assert_close(a.weights()[name], tensor, rtol=0, atol=1e-9)


def test_gradients_do_not_mix():
    members = [Member(experiment, CPU) for experiment in grid("transformer")]
    found, _ = losses(members, [member.batch() for member in members])
    found[1].backward()
    for index, member in enumerate(members):
        grads = [p.grad for p in member.parameters.values() if p.grad is not None]
        assert any(g.abs().max() > 0 for g in grads) == (index == 1)


def test_what_cannot_be_stacked_says_so(toy, quick):
    assert not stacks(Member(grid("lstm")[0], CPU))
    assert not stacks(Member(quick(toy("Dropping"))[0], CPU))


@pytest.mark.parametrize("model", ["regular-gpt", "lstm"])
def test_a_group_of_runs_is_recorded_as_single_ones(tmp_path, model):
    """Stacked where it can be, one by one where not: the same records either way."""
    experiments = grid(model, steps=20)
    grouped = run_group(experiments, Job(tmp_path / "grouped"))
    for experiment, outcome in zip(experiments, grouped, strict=True):
        assert outcome.run, outcome.error
        single = run_group([experiment], Job(tmp_path / "single"))[0]
        assert outcome.run.experiment == single.run.experiment == experiment
        for name, tensor in outcome.run.tensors().items():
            torch.testing.assert_close(tensor, single.run.tensors()[name], rtol=0, atol=1e-9)
        assert outcome.run.result["checkpoints"]["last"] == single.run.result["checkpoints"]["last"]


def test_a_group_where_one_stands_further_catches_up(tmp_path):
    experiments = grid("regular-gpt", steps=20, checkpoint_every=5)
    first = Member(experiments[0], CPU)
    while first.step < 10:
        found, _ = losses([first], [first.batch()])
        found.sum().backward()
        first.norm()
        first.update()
    others = [Member(experiment, CPU) for experiment in experiments[1:]]
    train([first, *others], [None] * 4)
    alone = Member(experiments[0], CPU)
    train([alone], [None])
    for name, tensor in alone.weights().items():
        torch.testing.assert_close(tensor, first.weights()[name], rtol=0, atol=1e-9)


def test_grouping():
    experiments = grid("regular-gpt")
    assert [len(g) for g in groups(experiments, "cpu")] == [1, 1, 1, 1]
    assert [len(g) for g in groups(experiments, "cuda")] == [4]
    assert [len(g) for g in groups([*experiments, *grid("transformer")], "cuda:0")] == [4, 4]
    assert [len(g) for g in groups(grid("regular-gpt", curriculum="growing"), "cuda")] == [1, 1, 1, 1]
