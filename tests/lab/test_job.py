"""What a run leaves: the last and the best weights, each with its own scores, however often it was stopped."""

import time

import pytest
import torch

from lengthwise import lab, models, tasks
from lengthwise.lab.job import Job, make_trainer, run_group
from lengthwise.lab.records import RunDirectory
from lengthwise.train import Interrupted, Stop


def start(experiment):
    """The state of an experiment before its first step."""
    return make_trainer([experiment]).states[0]


@pytest.fixture
def drifting(quick, toy):
    """Best at its first validation, at step 10; a constant answer at the last one, step 30."""
    return quick(toy("Drifting"), lr=0.01, schedule="constant", clip=None, test_lengths="8,16,24,32")


def stopped(experiments, root, phase, at):
    """Run until `phase` was heard `at` times (or its step is `at`), and stop there."""
    stop, heard = Stop(), []

    def hear(progress):
        heard.append(progress.phase)
        so_far = progress.step if phase == "train" else heard.count(phase)
        stop.asked = so_far >= at and progress.phase == phase

    with pytest.raises(Interrupted):
        run_group(experiments, Job(root, hear=hear, stop=stop))
    return RunDirectory(root, experiments[0]).start()


def asked_again(experiments, root):
    """Go on to the end; the run, and what was heard on the way."""
    heard = []
    job = Job(root, hear=lambda progress: heard.append(progress.phase))
    (outcome,) = run_group(experiments, job)
    assert outcome.run, outcome.traceback
    return outcome.run, heard


def counted(run, which):
    """The right strings of a stored model, counted by hand."""
    task, model = tasks.get("parity"), lab.load_model(run, which)
    assert not model.reuses_equal_tokens
    found = {}
    for length in run.experiment.tests.lengths:
        batch = task.test_set(length, run.experiment.tests.samples)
        with torch.no_grad():
            found[str(length)] = int((model(batch.tokens)[:, -1].argmax(-1) == batch.targets[:, -1]).sum())
    return found


def test_last_and_best_have_their_own_weights_and_scores(tmp_path, drifting):
    run = lab.run(drifting, tmp_path)[0].run
    checkpoints = run.result["checkpoints"]
    assert (checkpoints["best"]["step"], checkpoints["last"]["step"]) == (10, 30)
    assert float(run.tensors("best")["number"]) == pytest.approx(0.1, abs=0.01)
    assert float(run.tensors("model")["number"]) == pytest.approx(0.3, abs=0.01)
    for which in ("last", "best"):
        assert checkpoints[which]["correct"] == counted(run, which)
    assert set(checkpoints["best"]["correct"].values()) == {16}
    assert max(checkpoints["last"]["correct"].values()) < 16


@pytest.mark.parametrize("phase", ["test last", "test best"])
def test_a_test_stopped_half_way_goes_on_where_it_was(tmp_path, drifting, phase):
    lengths = len(drifting[0].tests.lengths)
    whole, heard = asked_again(drifting, tmp_path / "whole")
    assert (heard.count("test last"), heard.count("test best")) == (lengths, lengths)
    state = stopped(drifting, tmp_path / "pieces", phase, 2)
    # Whichever is being tested, a checkpoint goes on from the last weights.
    assert torch.equal(state.tensors["model.number"], whole.tensors("model")["number"])
    assert torch.equal(state.tensors["best.number"], whole.tensors("best")["number"])
    pieces, heard = asked_again(drifting, tmp_path / "pieces")
    left = {"test last": [lengths - 2, lengths], "test best": [0, lengths - 2]}[phase]
    assert [heard.count("test last"), heard.count("test best"), heard.count("train")] == [*left, 0]
    assert pieces.result["checkpoints"] == whole.result["checkpoints"]
    for which in ("model", "best"):
        assert torch.equal(pieces.tensors(which)["number"], whole.tensors(which)["number"])


@pytest.fixture
def bursting(quick, toy):
    """The same, but some strings overflow at 16."""
    return quick(toy("Bursting"), lr=0.01, schedule="constant", clip=None, test_lengths="8,16,24,32")


def begin_with_1():
    return int((tasks.get("parity").test_set(16, 16).tokens[:, 0] == 1).sum())


def test_a_run_that_overflows_at_one_length_keeps_its_scores_at_the_others(tmp_path, bursting):
    (outcome,) = lab.run(bursting, tmp_path)
    assert outcome.run, outcome.error
    last, best = (outcome.run.result["checkpoints"][which] for which in ("last", "best"))
    bad = begin_with_1()
    assert 0 < bad < 16
    lengths = list(map(str, bursting[0].tests.lengths))
    assert best["correct"] == {**dict.fromkeys(lengths, 16), "16": 16 - bad}
    assert list(last["correct"]) == lengths
    assert last["overflowed"] == best["overflowed"] == {"16": bad}


@pytest.mark.parametrize("phase", ["test last", "test best"])
def test_what_overflowed_outlives_a_stop(tmp_path, bursting, phase):
    whole, _ = asked_again(bursting, tmp_path / "whole")
    lengths = bursting[0].tests.lengths
    state = stopped(bursting, tmp_path / "pieces", phase, lengths.index(16) + 1)
    assert state.meta["scores"][phase.split()[1]]["overflowed"] == {"16": begin_with_1()}
    pieces, heard = asked_again(bursting, tmp_path / "pieces")
    assert heard.count(phase) == len(lengths[lengths.index(16) + 1 :]) == 2
    assert pieces.result["checkpoints"] == whole.result["checkpoints"]


def test_patience_outlives_a_stop(tmp_path, quick, toy):
    """Validations at 10 (the best), 20 and 30 (no better, twice): stopping after 20 must not make it 40."""
    experiments = quick(toy("Blind"), steps=100, patience=2)
    stopped(experiments, tmp_path, "train", 20)
    run, _ = asked_again(experiments, tmp_path)
    assert (run.result["steps"], run.result["stopped"]) == (30, "patience")


def test_the_time_spent_outlives_a_stop(tmp_path, quick):
    experiments = quick()
    stop = Stop()

    def hear(progress):
        time.sleep(0.1)
        stop.asked = progress.step >= 15

    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path, hear=hear, stop=stop))
    run, _ = asked_again(experiments, tmp_path)
    assert run.result["seconds"]["train"] >= 1.5


def test_the_last_step_is_validated(tmp_path, quick):
    run = lab.run(quick(steps=25), tmp_path)[0].run
    assert [row["step"] for row in run.metrics if row["kind"] == "validation"] == [10, 20, 25]


@pytest.mark.parametrize("model", ["lstm", "toys:Tiny"])
def test_seeds_start_from_their_own_weights(quick, toy, model):
    experiments = quick(toy("Tiny") if ":" in model else model, seeds=2)
    first, second, again = (start(e).weights() for e in [*experiments, experiments[0]])
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], second[name]) for name in first if first[name].ndim > 1)


def test_noise_is_fresh_at_every_step_and_seed(quick, toy):
    draws = []
    for experiment in quick(toy("Moody"), seeds=2, steps=6):
        trainer = make_trainer([experiment])
        trainer.run()
        model = trainer.states[0].core
        assert len(model.draws) == 6
        draws += model.draws
    assert len(set(draws)) == 12


@pytest.mark.parametrize("clip", [1.0, None])
def test_a_gradient_that_is_not_finite_stops_before_its_step(tmp_path, quick, toy, clip):
    experiments = quick(toy("Steep"), clip=clip)
    (outcome,) = run_group(experiments, Job(tmp_path))
    assert "The gradient is not finite" in outcome.error
    assert "at step 1," in outcome.error
    state = RunDirectory(tmp_path, experiments[0]).start()
    before = start(experiments[0]).weights()
    assert all(torch.equal(state.tensors[f"model.{name}"], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_failure_in_a_group_is_not_the_others(tmp_path, quick, toy, order):
    pair = [quick(toy("Raises"))[0], quick(toy("Tiny"))[0]]
    outcomes = run_group([pair[i] for i in order], Job(tmp_path))
    assert [outcome.experiment for outcome in outcomes] == [pair[i] for i in order]
    broken, good = (outcomes[order.index(i)] for i in (0, 1))
    assert broken.run is None
    assert "the toy broke" in broken.error
    assert good.run is not None
    assert good.run.result["steps"] == 30


def test_a_job_shares_the_memory_when_it_validates_and_tests(monkeypatch, tmp_path, quick):
    """What is left of the memory to each of four processes is what every batch is measured by."""
    from lengthwise.train import counting

    sizes, batch_size = [], counting.batch_size
    monkeypatch.setattr(counting, "memory_free", lambda device: 1 << 40)
    monkeypatch.setattr(
        counting, "batch_size", lambda n, samples, free: sizes.append(free) or batch_size(n, samples, free)
    )
    (outcome,) = run_group(quick(), Job(tmp_path, share=4))
    assert outcome.run, outcome.error
    assert set(sizes) == {1 << 38}


def test_a_run_builds_its_task_and_its_model_once(tmp_path, quick, monkeypatch):
    (experiment,) = quick()
    built, rebuild, build = [], tasks.rebuild, models.build
    monkeypatch.setattr(tasks, "rebuild", lambda *a, **k: built.append("task") or rebuild(*a, **k))
    monkeypatch.setattr(models, "build", lambda *a, **k: built.append("model") or build(*a, **k))
    (outcome,) = run_group([experiment], Job(tmp_path))
    assert outcome.run, outcome.error
    assert built == ["task", "model"]


def test_no_step_computes_a_hash(tmp_path, quick, monkeypatch):
    """It names the run and its progress; both know it before the first step."""
    (experiment,) = quick()
    assert experiment.hash
    heard = []
    monkeypatch.setattr(lab.Experiment, "to_json", lambda *a, **k: pytest.fail("computed again"))
    state = start(experiment)
    assert state.name == experiment.hash
    trainer = make_trainer([experiment])
    trainer.hear = heard.append
    trainer.run()
    assert {progress.what for progress in heard} == {experiment.hash}
    assert [progress.step for progress in heard] == list(range(1, 31))
