"""A replayed step is the launched one. Without a GPU a graph is played by calling again what was recorded."""

import contextlib

import pytest
import torch

from lengthwise import models
from lengthwise.lab import plan
from lengthwise.lab.job import Job, make_trainer, run_group
from lengthwise.train import Interrupted, Stacked, Stop
from lengthwise.train.replay import Replayer

CUDA = torch.device("cuda")


class Player:
    """In the place of a CUDA graph: what is computed while it records is computed again by a replay, in place."""

    recording = None

    def play(self, compute):
        def played(*inputs):
            result = compute(*inputs)
            if Player.recording:
                Player.recording.again = (compute, inputs, result)
            return result

        return played

    def replay(self):
        compute, inputs, result = self.again
        kept = [(weight, weight.grad) for weight in self.weights]
        for weight in self.weights:
            weight.grad = None
        result.copy_(compute(*inputs))
        for weight, gradient in kept:
            made, weight.grad = weight.grad, gradient
            self.gradients[id(weight)].copy_(made)


@pytest.fixture
def player(monkeypatch):
    """What makes `compute` one that is recorded; `weights` are those it makes gradients of."""
    made = []

    @contextlib.contextmanager
    def recorded(graph):
        Player.recording = graph
        try:
            yield
        finally:
            Player.recording = None
        graph.weights = made[0]
        graph.gradients = {id(weight): weight.grad for weight in made[0]}

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Player)
    monkeypatch.setattr(torch.cuda, "graph", recorded)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)

    def wrap(compute, weights):
        made[:] = [weights]
        return Player().play(compute)

    return wrap


def test_a_replay_has_the_result_and_gradients_of_the_inputs_it_is_given(player):
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    calls = []

    def compute(x):
        calls.append(x.clone())
        loss = (weight * x).pow(2).sum()
        loss.backward()
        return loss.detach()

    replayer, played = Replayer(), player(compute, [weight])
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0]), torch.tensor([0.5, 4.0])):
        weight.grad = None
        result = replayer.run("kind", played, [x], [weight])
        assert result.item() == (weight.detach() * x).pow(2).sum().item()
        assert torch.equal(weight.grad, 2 * weight.detach() * x * x)


def test_a_result_outlives_the_next_replay_and_a_shape_or_kind_has_a_recording_of_its_own(player):
    weight = torch.tensor(2.0, requires_grad=True)
    factor = 1.0

    def compute(x):
        loss = factor * weight * x.sum()
        loss.backward()
        return loss.detach()

    replayer, played = Replayer(), player(compute, [weight])
    results = []
    for step in range(6):
        for factor, size in ((1.0, 1), (1.0, 2), (10.0, 2)):
            weight.grad = None
            results.append(replayer.run(factor, played, [torch.full((size,), step + 1.0)], [weight]))
            assert weight.grad.item() == factor * size * (step + 1)
    assert [result.item() for result in results[:6]] == [2.0, 4.0, 40.0, 4.0, 8.0, 80.0]


def test_a_step_that_cannot_be_recorded_is_launched_every_time_and_says_so(player, monkeypatch):
    weight = torch.tensor(2.0, requires_grad=True)

    @contextlib.contextmanager
    def refuses(graph):
        yield
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuses)

    def compute(x):
        loss = weight * x.sum()
        loss.backward()
        return loss.detach()

    def step(x):
        weight.grad = None
        assert replayer.run((), compute, [torch.ones(1) * x], [weight]).item() == 2 * x
        assert weight.grad.item() == x

    replayer = Replayer()
    step(1)
    with pytest.warns(UserWarning, match="cannot be replayed"):
        step(2)
    step(3)


def planned(model="regular-gpt", seeds=2, task="cycle-navigation", **settings):
    return plan(
        task,
        [model],
        seeds=seeds,
        train_length=9,
        test_lengths="9,20",
        settings={
            "training.steps": 60,
            "training.batch": 16,
            "training.validate_every": 20,
            "training.validation_samples": 16,
            "training.checkpoint_every": 20,
            "tests.samples": 16,
            **settings,
        },
    )


@pytest.mark.gpu
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("model", sorted(models.available()))
def test_replayed_training_ends_where_launched_training_ends(model, seeds):
    ends = {}
    for way in ("launched", "replayed"):
        torch.manual_seed(0)
        trainer = make_trainer(planned(model, seeds, **{"training.steps": 40, "training.precision": "fp64"}), CUDA)
        trainer.strategy = Stacked(CUDA)
        if not trainer.strategy.takes(trainer.states[0], trainer.data, trainer.objective):
            pytest.skip("is not stacked")
        if way == "launched":
            trainer.strategy._replayer = None
        trainer.run()
        ends[way] = [state.weights() for state in trainer.states]
    for one, other in zip(ends["launched"], ends["replayed"], strict=True):
        for name, weight in one.items():
            torch.testing.assert_close(other[name], weight, rtol=1e-6, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.gpu
@pytest.mark.parametrize("model", sorted(models.available()))
@pytest.mark.parametrize("length", [1, 2, 13, 64])
def test_models_compute_on_a_gpu_what_they_compute_on_the_cpu(model, length):
    """Logits and gradients, in double precision."""
    torch.manual_seed(1)
    one = models.build(model, vocab_size=7, num_outputs=5).double()
    tokens = torch.randint(7, (3, length))
    answers = one(tokens)
    answers.square().mean().backward()
    expected = {name: weight.grad.clone() for name, weight in one.named_parameters() if weight.grad is not None}
    one.zero_grad()
    one.to(CUDA)
    found = one(tokens.to(CUDA))
    found.square().mean().backward()
    torch.testing.assert_close(found.detach().cpu(), answers.detach(), rtol=1e-7, atol=1e-9)
    for name, weight in one.named_parameters():
        if name in expected:
            torch.testing.assert_close(weight.grad.cpu(), expected[name], rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["regular-gpt", "block-lrnn", "lstm"])
def test_a_run_on_a_gpu_is_finished_by_a_cpu(model, tmp_path):
    class Halfway(Stop):
        looks = 0

        @property
        def asked(self):
            self.looks += 1
            return self.looks > 35

        @asked.setter
        def asked(self, value):
            pass

    experiments = planned(model)
    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path, "cuda", stop=Halfway()))
    outcomes = run_group(experiments, Job(tmp_path))
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert all(outcome.run.result["steps"] == 60 for outcome in outcomes)
