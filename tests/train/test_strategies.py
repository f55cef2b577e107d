"""Models trained together end where they end alone."""

import pytest
import torch

from lengthwise.lab import plan
from lengthwise.lab.job import Job, groups, make_trainer, run_group
from lengthwise.train import Stacked

CPU = torch.device("cpu")


LRNN = [("block-lrnn", {"model.variant": v}) for v in ("lengthwise", "automaton")]
SLOW = [pytest.param("block-lrnn", {"model.variant": v}, marks=pytest.mark.slow) for v in ("paper", "official")]
SPACES = [("s4d", {"model.state": 8}), ("lru", {"model.state": 8})]


def grid(model, options=None, **training):
    settings = {
        "training.steps": 50,
        "training.batch": 8,
        "training.validate_every": 25,
        "training.validation_samples": 16,
        "training.precision": "fp64",
        "training.warmup": 5,
        "tests.samples": 4,
        "model.width": 16,
        **({"model.heads": 2} if model in ("regular-gpt", "transformer") else {}),
        **({"model.layers": 2} if model == "transformer" else {}),
        **(options or {}),
        **{f"training.{name}": value for name, value in training.items()},
    }
    sweep = {"training.lr": [1e-3, 3e-3]}
    return plan("parity", [model], seeds=2, train_length=9, test_lengths="9,20", settings=settings, sweep=sweep)


@pytest.mark.parametrize(
    ("model", "weight_decay"),
    [
        ("regular-gpt", 0.0),
        ("transformer", 0.1),
        pytest.param("regular-gpt", 0.1, marks=pytest.mark.slow),
        pytest.param("transformer", 0.0, marks=pytest.mark.slow),
    ],
)
def test_together_is_alone(model, weight_decay):
    same(grid(model, weight_decay=weight_decay, optimizer="adamw"))


@pytest.mark.parametrize(("model", "options"), LRNN + SLOW + SPACES, ids=str)
def test_together_is_alone_in_recurrences_too(model, options):
    same(grid(model, options, steps=20, validate_every=10))


def test_together_is_alone_with_forgetting_gates_too():
    options = {"model.heads": 2, "model.layers": 1, "model.ends": 4, "model.log_scale": 5}
    same(grid("fox", options, steps=10, validate_every=5))


def stacks(trainer):
    return Stacked(CPU).takes(trainer.states[0], trainer.data, trainer.objective)


def trained(experiments):
    """The states of these experiments, trained together."""
    trainer = make_trainer(experiments)
    assert len(experiments) == 1 or stacks(trainer)
    trainer.run()
    return trainer.states


def same(experiments):
    together = trained(experiments)
    alone = [trained([experiment])[0] for experiment in experiments]
    starts = [state.weights() for state in make_trainer(experiments).states]
    for a, b, start in zip(together, alone, starts, strict=True):
        for name, tensor in a.weights().items():
            torch.testing.assert_close(tensor, b.weights()[name], rtol=0, atol=1e-9, msg=name)
        assert any((tensor - start[name]).abs().max() > 1e-3 for name, tensor in a.weights().items())
        assert a.best["step"] == b.best["step"]
        assert a.best["loss"] == pytest.approx(b.best["loss"], abs=1e-9)


def test_states_differ():
    """The test above means something only if seeds and rates do."""
    states = trained(grid("regular-gpt", steps=10))
    weights = [torch.cat([t.flatten() for t in state.weights().values()]) for state in states]
    assert all((a - b).abs().max() > 1e-3 for i, a in enumerate(weights) for b in weights[:i])


def test_buffers_are_each_state_s_own(quick, toy):
    experiments = quick(toy("Projected"), seeds=2, steps=5, precision="fp64")
    for state, experiment in zip(trained(experiments), experiments, strict=True):
        for name, tensor in trained([experiment])[0].weights().items():
            torch.testing.assert_close(state.weights()[name], tensor, rtol=0, atol=1e-9)


def test_gradients_do_not_mix():
    def gradients(seeds):
        trainer = make_trainer(grid("transformer"))
        batches = [trainer.data.batch(seed, 0, 9) for seed in seeds]
        trainer.strategy.backward(trainer.states, batches, trainer.objective)
        return [[p.grad for p in state.parameters.values() if p.grad is not None] for state in trainer.states]

    one, other = gradients([0, 1, 2, 3]), gradients([0, 7, 2, 3])
    alike = [all(map(torch.equal, a, b)) for a, b in zip(one, other, strict=True)]
    assert alike == [True, False, True, True]


def test_what_cannot_be_stacked_says_so(toy, quick):
    assert not stacks(make_trainer(grid("lstm")[:1]))
    assert not stacks(make_trainer(quick(toy("Dropping"))))
    drawn = {"model.position": "randomized", "model.position_options": {"of": {"name": "rope"}, "longest": 99}}
    assert not stacks(make_trainer(grid("transformer", drawn)[:1]))


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


def test_a_group_where_one_stands_further_catches_up():
    experiments = grid("regular-gpt", steps=20, checkpoint_every=5)
    trainer = make_trainer(experiments)
    for _ in range(10):
        trainer.take_step(trainer.states[:1])
    trainer.run()
    for name, tensor in trained(experiments[:1])[0].weights().items():
        torch.testing.assert_close(tensor, trainer.states[0].weights()[name], rtol=0, atol=1e-9)


def test_grouping():
    experiments = grid("regular-gpt")
    assert [len(g) for g in groups(experiments, "cpu")] == [1, 1, 1, 1]
    assert [len(g) for g in groups(experiments, "cuda")] == [4]
    assert [len(g) for g in groups([*experiments, *grid("transformer")], "cuda:0")] == [4, 4]
    assert [len(g) for g in groups(grid("regular-gpt", curriculum="growing"), "cuda")] == [1, 1, 1, 1]
