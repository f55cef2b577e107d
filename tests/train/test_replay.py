"""A replayed step is the launched one. Without a GPU a graph is played by calling again what was recorded."""

import contextlib
import json
from types import SimpleNamespace

import pytest
import torch

from lengthwise import models
from lengthwise.lab import plan
from lengthwise.lab.job import Job, make_trainer, run_group
from lengthwise.train import Interrupted, Stacked, Stop, replay
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
    """Makes what a replayer computes: `scale * weight * Σ x`, of one weight. `player.graphs` are those recorded."""
    weight = torch.tensor(2.0, requires_grad=True)

    @contextlib.contextmanager
    def recorded(graph, pool, stream):
        Player.recording = graph
        try:
            yield
        finally:
            Player.recording = None
        graph.weights, graph.gradients, graph.memory = [weight], {id(weight): weight.grad}, (pool, stream)
        player.graphs.append(graph)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Player)
    monkeypatch.setattr(torch.cuda, "graph", recorded)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "current_stream")
    for name in ("graph_pool_handle", "Stream"):
        monkeypatch.setattr(torch.cuda, name, object)
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: player.streams.append(stream))

    def step(replayer, *numbers, scale=1.0, owner=weight):
        """One step: its result and its gradient."""

        def compute(x):
            loss = scale * weight * x.sum()
            loss.backward()
            return loss.detach()

        weight.grad = None
        result = replayer.run([owner], scale, Player().play(compute), [torch.tensor(numbers)], [weight])
        return result, weight.grad.item()

    player = SimpleNamespace(step=step, weight=weight, graphs=[], streams=[])
    return player


def test_a_replay_has_the_result_and_gradient_of_the_numbers_it_is_given(player):
    replayer = Replayer()
    for x in (1.0, 3.0, 0.5, 4.0):
        result, gradient = player.step(replayer, x, 2.0)
        assert (result.item(), gradient) == (2 * (x + 2), x + 2)
    assert len(player.graphs) == 1


def test_a_result_outlives_the_next_replay_and_a_shape_or_kind_has_a_recording_of_its_own(player):
    replayer, results = Replayer(), []
    for x in range(6):
        for scale, size in ((1.0, 1), (1.0, 2), (10.0, 2)):
            result, gradient = player.step(replayer, *[x + 1.0] * size, scale=scale)
            results.append(result)
            assert gradient == scale * size * (x + 1)
    assert [result.item() for result in results[:6]] == [2.0, 4.0, 40.0, 4.0, 8.0, 80.0]
    assert len(player.graphs) == 3
    assert len({graph.memory for graph in player.graphs}) == 1


def test_there_are_so_many_recordings_at_most_and_none_of_other_owners(player, monkeypatch):
    monkeypatch.setattr(replay, "MOST", 2)
    replayer = Replayer()
    for size in (1, 2, 3) * 3:
        assert player.step(replayer, *[1.0] * size)[1] == size
    assert len(player.graphs) == 2
    for _ in range(3):
        assert player.step(replayer, 5.0, owner="another")[1] == 5
    assert len(player.graphs) == 3
    assert len({graph.memory for graph in player.graphs}) == 2


def test_a_step_is_launched_where_there_is_a_gradient_to_add_to(player):
    replayer = Replayer()
    for _ in range(3):
        player.step(replayer, 1.0)
    (one,) = player.graphs
    one.replay = lambda: pytest.fail("is not to be replayed")

    def add(x):
        (player.weight * x.sum()).backward()
        return x.sum()

    replayer.run([player.weight], 1.0, add, [torch.tensor([3.0])], [player.weight])
    assert player.weight.grad.item() == 1 + 3


def test_a_step_that_cannot_be_recorded_is_launched_every_time_and_says_so(player, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def refuses(graph, pool, stream):
        asked.append(stream)
        yield
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuses)
    replayer = Replayer()
    assert player.step(replayer, 1.0)[1] == 1
    with pytest.warns(UserWarning, match="cannot be replayed"):
        assert player.step(replayer, 2.0)[1] == 2
    for _ in range(2):
        assert player.step(replayer, 3.0)[1] == 3
    assert (len(asked), player.streams) == (1, ["current_stream"])


def test_what_reads_back_is_never_recorded(player, monkeypatch):
    monkeypatch.setattr(replay._ReadsBack, "seen", True)
    replayer = Replayer()
    for x in (1.0, 2.0, 3.0):
        assert player.step(replayer, x)[1] == x
    assert player.graphs == []


@pytest.mark.parametrize(
    ("compute", "seen"),
    [
        (lambda x: x * torch.ones(1).to(x.device), True),
        (lambda x: torch.where(x > 0, x, 1.0) + x.new_full((), 2.0), False),
    ],
)
def test_numbers_that_come_from_the_cpu_are_seen(compute, seen):
    with replay._ReadsBack() as look:
        compute(torch.ones(3, device="meta"))
    assert look.seen == seen


class Heard:
    """In the place of a replayer: hears of what kind the steps are that it is given, and launches them."""

    def __init__(self):
        self.kinds, self.forgot = [], False

    def run(self, owners, kind, compute, tensors, weights):
        self.kinds.append(kind)
        return compute(*tensors)

    def forget(self):
        self.forgot = True


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize(("supervision", "last"), [("last", True), ("prefix", False)])
def test_steps_of_presets_are_given_to_the_replayer_by_what_they_ask(seeds, supervision, last):
    trainer = make_trainer(planned("transformer", seeds, **{"task.supervision": supervision, "training.steps": 2}))
    trainer.strategy = Stacked("cpu")
    trainer.strategy.replayer = heard = Heard()
    trainer.run()
    assert heard.kinds == [last] * 2
    trainer.strategy.collect(trainer.states[0])
    assert heard.forgot


def test_what_is_not_a_preset_or_comes_in_parts_is_launched(toy, quick, monkeypatch):
    for experiments in (quick(toy("Projected"), steps=2), planned("transformer", 1, **{"training.steps": 2})):
        trainer = make_trainer(experiments)
        trainer.strategy = Stacked("cpu")
        trainer.strategy.replayer = heard = Heard()
        if experiments[0].model.name == "transformer":
            monkeypatch.setattr(trainer.objective, "parts", lambda batch: [batch, batch])
        trainer.run()
        assert heard.kinds == []


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
            trainer.strategy.replayer = None
        trainer.run()
        assert way == "launched" or trainer.strategy.replayer._recordings
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

    experiments = planned(model, seeds=1 if model == "lstm" else 2)  # LSTMs are trained one after another
    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path, "cuda", stop=Halfway()))
    stopped = [json.loads(file.read_text().splitlines()[-1])["step"] for file in tmp_path.glob("*/metrics.jsonl")]
    assert len(stopped) == len(experiments)
    assert min(stopped) > 20
    outcomes = run_group(experiments, Job(tmp_path))
    assert [outcome.error for outcome in outcomes] == [None] * len(experiments)
    assert all(outcome.run.result["steps"] == 60 for outcome in outcomes)
