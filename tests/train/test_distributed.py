"""One model on several devices: the same numbers as from one process, whatever becomes of the processes."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from lengthwise import lab, tasks
from lengthwise.errors import Error, RecordError
from lengthwise.lab.job import Job, run_group
from lengthwise.tasks.base import Batch
from lengthwise.train import Directory, NextToken, Stop, StringObjective
from lengthwise.train.shards import write_pieces

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "lab"))
corpora = import_module("corpora")

COMMON = {
    "training.steps": 20,
    "training.batch": 8,
    "training.validate_every": 10,
    "training.validation_samples": 16,
    "training.checkpoint_every": 5,
    "training.precision": "fp64",
    "tests.samples": 4,
    "model.width": 16,
}


def planned(model, **settings):
    """One experiment on strings; a double underscore stands for the dot of a setting."""
    settings = {name.replace("__", "."): value for name, value in settings.items()}
    (one,) = lab.plan("parity", [model], train_length=9, test_lengths="9,20", settings={**COMMON, **settings})
    return one


def regular(**settings):
    return planned("regular-gpt", model__heads=2, **settings)


def block(**settings):
    return planned("block-lrnn", **settings)


def transformer(**settings):
    return planned("transformer", model__heads=2, model__layers=2, **settings)


def start(count, out, strategy, *experiments):
    """The processes of a job, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out.mkdir(exist_ok=True)
    given = out / "given.pickle"
    given.write_bytes(pickle.dumps(experiments))
    processes = []
    for rank in range(count):
        place = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCH_CPP_LOG_LEVEL": "ERROR"}
        words = [sys.executable, str(HERE / "spread.py"), str(out), strategy, str(given)]
        environment = {**os.environ, **{name: str(value) for name, value in place.items()}}
        processes.append(
            subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    return processes


def ended(processes):
    """What each process wrote to stderr, and its exit code."""
    try:
        said = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return said, [process.returncode for process in processes]


def run(count, out, strategy, *experiments):
    said, codes = ended(start(count, out, strategy, *experiments))
    assert (said, codes) == ([""] * count, [0] * count)
    return finished(out, *experiments)


def finished(out, *experiments):
    """The runs, which one process now reads and, where something is left, ends."""
    outcomes = lab.run(experiments, out, device="cpu", launch="here")
    assert [outcome.error for outcome in outcomes] == [None] * len(experiments)
    return [outcome.run for outcome in outcomes]


def reach(processes, step):
    """Wait until the leader has taken so many steps."""
    for line in processes[0].stdout:
        if int(line) >= step:
            return
    raise AssertionError(processes[0].stderr.read())


def same(some, others, tolerance):
    for a, b in zip(some, others, strict=True):
        for which in ("model", "best"):
            one, other = a.tensors(which), b.tensors(which)
            assert one.keys() == other.keys()
            for name, tensor in other.items():
                torch.testing.assert_close(one[name], tensor, rtol=0, atol=tolerance, msg=name)
        assert [row.keys() for row in a.metrics] == [row.keys() for row in b.metrics]
        for row, other in zip(a.metrics, b.metrics, strict=True):
            assert row["loss"] == pytest.approx(other["loss"], abs=tolerance)


@pytest.mark.parametrize("name", ["parity", "boxes", "even-pairs"])
def test_the_parts_of_a_batch_weigh_as_much_as_what_they_ask(name):
    task = tasks.get(name)
    objective, length = StringObjective(task), task.lengths(1, 60)[-1]
    batch = task.sample(length, 6, torch.Generator().manual_seed(0))
    # A batch whose strings are asked unequally much.
    mask = batch.mask.clone()
    mask[:4, : length // 2] = False
    for whole in (batch, Batch(batch.tokens, batch.targets, mask)):
        table = torch.randn(len(task.vocabulary), task.logits, dtype=torch.float64)

        def measured(part, table=table):
            return objective.measure([part])(
                lambda tokens, last: table[tokens][:, -1:] if last else table[tokens], *part
            )

        parts = [objective.split(whole, rank, 3) for rank in range(3)]
        assert sum(measured(part)[0] * share for part, share in parts) == pytest.approx(float(measured(whole)[0]))
        assert sum(float(measured(part)[1]) for part, _ in parts) / 3 == pytest.approx(float(measured(whole)[1]))


def test_the_parts_of_a_batch_of_text_are_its_rows():
    batch = torch.arange(12).view(4, 3)
    parts = [NextToken().split(batch, rank, 2) for rank in range(2)]
    assert torch.equal(torch.cat([part for part, _ in parts]), batch)
    assert [share for _, share in parts] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strategy": "ddp"}, "torchrun --nproc-per-node 2"),
        ({"strategy": "ddpp"}, "Did you mean 'ddp'"),
        ({"strategy": "ddp", "launch": "ray"}, "launch says where several runs go"),
        ({"strategy": "ddp", "workers": 2}, "workers says where several runs go"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(quick, tmp_path, given, said):
    with pytest.raises(Error, match=said):
        lab.run(quick(), tmp_path, **given)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_folder_of_pieces_counts_when_it_is_whole(tmp_path):
    directory = Directory(tmp_path / "run", {})
    tensors = {"model.a": torch.arange(6.0).view(3, 2), "step": torch.tensor(2.0)}
    with pytest.raises(RecordError, match="storage that all machines share"):
        directory.check_there()
    with directory.locked():
        directory.start()
        directory.check_there()
        for step in (1, 2):
            write_pieces(directory.begin_state(), tensors, None)
            directory.end_state({"step": step})
        directory.begin_state()
        saved = directory.start()
        assert saved.meta["step"] == 2
        assert all(torch.equal(saved.tensors[name], tensor) for name, tensor in tensors.items())
        assert saved.tensors.keys() == tensors.keys()
        (kept,) = (directory.path / "state").iterdir()
        (piece,) = kept.glob("*.safetensors")
        piece.write_bytes(piece.read_bytes()[:-1] + b"?")
        with pytest.raises(RecordError, match="truncated or edited"):
            directory.start()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_are_one(tmp_path, strategy):
    """Fifty steps in double precision: each loss, the validations and the weights."""
    experiments = [make(training__steps=50) for make in (regular, block, transformer)]
    same(run(2, tmp_path / "two", strategy, *experiments), finished(tmp_path / "one", *experiments), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_killed_and_resumed_ends_where_it_would_have_ended(tmp_path, strategy):
    plan = transformer(model__dropout=0.1, training__curriculum="growing")
    whole = run(2, tmp_path / "whole", strategy, plan)
    processes = start(2, tmp_path / "killed", strategy, plan)
    reach(processes, 12)
    for process in processes:
        process.kill()
    ended(processes)
    same(run(2, tmp_path / "killed", strategy, plan), whole, 0)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_text_in_parts_with_activations_computed_again(tmp_path, strategy):
    """Three rows for each process, of which two are read at once; a head tied to the embedding; samples; bf16."""
    settings = {
        "training.steps": 12,
        "training.batch": 6,
        "training.recompute": True,
        "training.validate_every": 6,
        "training.sample_every": 6,
        "training.validation_samples": 8,
        "objective.tokens_at_once": 32,
        "text.held_out": 0.3,
    }
    models = ["transformer width=16 heads=2 layers=2 tie_word_embeddings=true", "bipe width=16 heads=2 layers=1"]
    experiments = []
    for precision, model in zip(("fp32", "bf16"), models, strict=True):
        experiments += lab.plan_language_models(
            corpora.write(tmp_path / "corpus"),
            [model],
            train_length=16,
            test_lengths="16,32",
            vocabulary=280,
            settings={**settings, "training.precision": precision},
            store=tmp_path / "text",
        )
    found, known = run(2, tmp_path / "two", strategy, *experiments), finished(tmp_path / "one", *experiments)
    for one, other, tolerance in zip(found, known, (1e-4, 2e-2), strict=True):
        assert [row["kind"] for row in one.metrics] == [row["kind"] for row in other.metrics]
        losses = [[row["loss"] for row in each.metrics if "loss" in row] for each in (one, other)]
        assert losses[0] == pytest.approx(losses[1], abs=tolerance)
        tested = [each.result["checkpoints"]["last"]["losses"] for each in (one, other)]
        assert tested[0] == pytest.approx(tested[1], abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 4), (1, 2)])
def test_a_checkpoint_is_read_by_any_number_of_processes(tmp_path, before, after):
    """Widths that no number of processes divides, and weights of fewer rows than there are processes."""
    plan = transformer(model__width=14, training__steps=12)
    out = tmp_path / "pieces"
    if before == 1:
        stop_here(out, plan, 7)
    else:
        processes = start(before, out, "fsdp", plan)
        reach(processes, 7)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert ended(processes)[1] == [3] * before
    (kept,) = out.glob("*/state/*")
    assert kept.is_dir() == (before > 1)
    if after > 1:
        run(after, out, "fsdp", plan)
    same(finished(out, plan), finished(tmp_path / "one", plan), 1e-9)


def stop_here(out, plan, step):
    stop = Stop()

    def hear(progress):
        stop.asked = progress.step >= step

    with pytest.raises(lab.Interrupted):
        run_group([plan], Job(out, hear=hear, stop=stop))


@pytest.mark.slow
@pytest.mark.parametrize("gone", [0, 1])
def test_a_process_that_dies_ends_the_job_with_one_line(tmp_path, gone):
    plan = block(training__steps=500)
    processes = start(2, tmp_path, "ddp", plan)
    reach(processes, 12)
    processes[gone].kill()
    said, codes = ended(processes)
    assert codes[1 - gone] == 3
    assert said[gone] == ""
    (line,) = said[1 - gone].splitlines()
    assert "ended" in line
    assert "give the same call again" in line
    assert [path.name[:9] for path in tmp_path.glob("*/state/*")] == ["000000010"]


@pytest.mark.slow
def test_ctrl_c_keeps_the_state_of_the_step(tmp_path):
    plan = block(training__steps=500, training__checkpoint_every=400)
    processes = start(2, tmp_path, "ddp", plan)
    reach(processes, 12)
    for process in 2 * processes:
        process.send_signal(signal.SIGINT)
    said, codes = ended(processes)
    assert (said, codes) == (["error: Stopped; all state is kept.\n", ""], [3, 3])
    (kept,) = tmp_path.glob("*/state/*")
    assert 12 <= int(kept.name[:9]) < 400
