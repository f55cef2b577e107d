"""Run directories: what survives a kill, and what is noticed."""

import json
from dataclasses import replace
from pathlib import Path, PurePath

import pytest
import torch

from lengthwise.cli import main
from lengthwise.errors import Error, RecordError
from lengthwise.files import canonical, digest, read_json, write_atomically, write_text
from lengthwise.lab.experiment import Experiment, LengthTests, ModelSpec, TaskSpec
from lengthwise.lab.records import RunDirectory, find, load, read_run
from lengthwise.train.settings import Training

EXPERIMENT = Experiment(TaskSpec("parity"), ModelSpec("lstm"), Training(), LengthTests((50,)))
CHECKPOINT = {"step": 1, "correct": {"50": 3}}
RESULT = {
    "format": 1,
    "steps": 1,
    "parameters": 3,
    "samples": 4,
    "seconds": {"train": 1.0, "evaluate": 0.5},
    "baseline": {"50": 0.5},
    "checkpoints": {"last": CHECKPOINT, "best": CHECKPOINT},
    "machine": {},
    "date": "2026-01-01",
    "command": "lengthwise bench",
}


def state(step: int) -> tuple[dict, dict]:
    return {"model.w": torch.full((3,), float(step))}, {"step": step}


@pytest.fixture
def directory(tmp_path):
    found = RunDirectory(tmp_path, EXPERIMENT)
    with found.locked():
        assert found.start() is None
    return found


@pytest.fixture
def finished(directory):
    directory.log({"kind": "train", "step": 1, "loss": 0.5})
    directory.save_state(*state(1))
    directory.finish({"model": state(1)[0], "best": state(1)[0]}, RESULT)
    return directory


def test_the_hash_is_of_the_content():
    again = Experiment.from_json(json.loads(json.dumps(EXPERIMENT.to_json())))
    assert again == EXPERIMENT
    assert again.hash == EXPERIMENT.hash
    others = [
        Experiment(TaskSpec("parity"), ModelSpec("lstm"), Training(), LengthTests((50,)), seed=1),
        Experiment(TaskSpec("parity"), ModelSpec("lstm"), Training.of(lr=2e-3), LengthTests((50,))),
        Experiment(TaskSpec("parity"), ModelSpec("lstm", source="changed"), Training(), LengthTests((50,))),
    ]
    assert len({e.hash for e in [EXPERIMENT, *others]}) == 4


def test_unknown_keys_are_not_an_experiment():
    data = EXPERIMENT.to_json()
    data["training"]["momentum"] = 0.9
    with pytest.raises(Error, match="momentum"):
        Experiment.from_json(data)


def test_a_checkpoint_comes_back_and_metrics_are_cut_to_it(directory):
    directory.log({"step": 1})
    directory.save_state(*state(1))
    directory.log({"step": 2})
    again = RunDirectory(directory.path.parent, EXPERIMENT)
    tensors, meta = again.start()
    assert meta["step"] == 1
    assert torch.equal(tensors["model.w"], torch.ones(3))
    assert (directory.path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    again.log({"step": 2})
    again.save_state(*state(2))
    assert RunDirectory(directory.path.parent, EXPERIMENT).start().meta["step"] == 2
    assert len(list((directory.path / "state").iterdir())) == 1


def test_a_kill_between_two_checkpoints_leaves_the_newer(directory):
    directory.save_state(*state(1))
    old = next((directory.path / "state").iterdir())
    content = old.read_bytes()
    directory.save_state(*state(2))
    old.write_bytes(content)  # as if killed before the old one went
    assert RunDirectory(directory.path.parent, EXPERIMENT).start().meta["step"] == 2


def test_a_half_written_file_is_swept(directory):
    (directory.path / "state" / ".000000002-x.safetensors.1.tmp").write_bytes(b"half")
    assert RunDirectory(directory.path.parent, EXPERIMENT).start() is None
    assert not list((directory.path / "state").iterdir())


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""])
def test_a_damaged_checkpoint_is_named(directory, damage):
    directory.save_state(*state(1))
    path = next((directory.path / "state").iterdir())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecordError, match=f"{path.name}.*truncated or edited"):
        RunDirectory(directory.path.parent, EXPERIMENT).start()


@pytest.mark.parametrize(
    "name", ["config.json", "metrics.jsonl", "model.safetensors", "best.safetensors", "result.json"]
)
@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b.replace(b"1", b"2"), lambda b: b + b" "])
def test_damage_in_a_finished_run_is_named(finished, name, damage):
    path = finished.path / name
    before = path.read_bytes()
    after = damage(before)
    path.write_bytes(after)
    if name == "result.json" and after == before + b" ":
        read_run(finished.path)  # white space is no edit of a JSON document
    elif after != before:
        with pytest.raises(RecordError, match=name):
            read_run(finished.path)


def test_edited_metrics_of_an_unfinished_run_are_named(directory):
    directory.log({"step": 1, "loss": 0.5})
    directory.save_state(*state(1))
    path = directory.path / "metrics.jsonl"
    path.write_text(path.read_text().replace("0.5", "0.1"))
    with pytest.raises(RecordError, match=r"metrics\.jsonl"):
        RunDirectory(directory.path.parent, EXPERIMENT).start()


def test_an_edited_config_is_named(directory):
    path = directory.path / "config.json"
    path.write_text(path.read_text().replace('"lstm"', '"gru"'))
    with pytest.raises(RecordError, match=r"config\.json.*edited"):
        RunDirectory(directory.path.parent, EXPERIMENT).start()


def test_finish_and_load(finished, tmp_path):
    run = read_run(finished.path)
    assert run.experiment == EXPERIMENT
    assert run.result["steps"] == 1
    assert run.metrics == [{"kind": "train", "step": 1, "loss": 0.5}]
    assert torch.equal(run.tensors("best")["model.w"], torch.ones(3))
    assert not (finished.path / "state").exists()
    assert load(tmp_path) == load([finished.path]) == [run]


def test_a_run_can_be_read_from_inside(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    assert load(".")[0].experiment == EXPERIMENT


def test_of_two_checkpoints_at_one_step_the_later_counts(directory):
    """While a run is tested its step stands still."""
    for score in range(8):
        kept = next((directory.path / "state").iterdir(), None)
        content = kept.read_bytes() if kept else b""
        directory.save_state(state(5)[0], {"step": 5, "score": score})
        if kept:
            kept.write_bytes(content)
        assert RunDirectory(directory.path.parent, EXPERIMENT).start().meta["score"] == score


def test_a_missing_field_is_its_default():
    """Whatever field is added later, yesterday's record is still read, and keeps its hash."""
    data = EXPERIMENT.to_json()
    assert data == {"schema": 1, "data": {"task": {"name": "parity"}}, "model": {"name": "lstm"}, "training": {},
                    "tests": {"lengths": [50]}}  # fmt: skip
    spelled = {
        **data,
        "seed": 0,
        "training": {"steps": 1000, "optimizer": {"lr": 1e-3}, "curriculum": {"lengths": [1, 40]}},
    }
    assert Experiment.from_json(spelled) == EXPERIMENT
    assert Experiment.from_json(spelled).hash == EXPERIMENT.hash == "fa8a7d6131f4ff3c"


SPELLED = Experiment(
    TaskSpec("parity"), ModelSpec("lstm", {"width": 64, "layers": 1, "dropout": 0.25}), Training(), LengthTests((50,))
)


def test_a_preset_s_options_at_their_defaults_are_recorded_and_not_hashed():
    assert SPELLED.hash == replace(SPELLED, model=ModelSpec("lstm", {"dropout": 0.25})).hash == "c8297b62e4eb25a0"
    again = Experiment.from_json(json.loads(json.dumps(SPELLED.to_json())))
    assert again.model.options == {"width": 64, "layers": 1, "dropout": 0.25}
    assert again.hash == SPELLED.hash
    # What an option is by itself is known of presets alone.
    for model in (ModelSpec("mine:LSTM"), ModelSpec("hf:llama", source="x"), ModelSpec("lstm", source="a checkpoint")):
        assert replace(SPELLED, model=model).hash != replace(SPELLED, model=replace(model, options={"width": 64})).hash


def test_a_record_named_by_its_options_as_they_were_given_is_found(tmp_path):
    assert SPELLED.hash_as_given == "2db08ee6a79e5ea0"
    earlier = tmp_path / f"parity-lstm-s0-{SPELLED.hash_as_given}"
    earlier.mkdir()
    (earlier / "config.json").write_text(json.dumps(SPELLED.to_json()))
    with RunDirectory(tmp_path, SPELLED).locked():
        directory = RunDirectory(tmp_path, SPELLED)
        assert directory.path == earlier
        assert directory.start() is None
        # The result of that time has the hash of that time.
        directory.finish({}, {**RESULT, "hash": SPELLED.hash_as_given})
    assert [run.experiment.hash for run in load(tmp_path)] == [SPELLED.hash]
    (tmp_path / SPELLED.directory).mkdir()
    assert RunDirectory(tmp_path, SPELLED).path == tmp_path / SPELLED.directory


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"task": {"name": "parity", "params": {}}, "seed": 0}, "before experiments had a schema number"),
        ({**EXPERIMENT.to_json(), "schema": 99}, "schema 99, and this Lengthwise knows 1. Use a newer"),
        ({**EXPERIMENT.to_json(), "data": {"pictures": {}}}, "pictures"),
    ],
)
def test_what_this_version_cannot_read_is_one_clear_line(data, line):
    with pytest.raises(Error, match=line):
        Experiment.from_json(data)


def test_the_settings_of_a_training_have_one_name_each():
    changed = Training.of(curriculum="growing", lengths=(2, 9), optimizer="adamw", lr=0.5, patience=3, steps=7)
    assert (changed.curriculum.kind, changed.curriculum.lengths) == ("growing", (2, 9))
    assert (changed.optimizer.kind, changed.optimizer.lr) == ("adamw", 0.5)
    assert (changed.checkpointing.patience, changed.steps) == (3, 7)
    flat = changed.settings()
    assert Training.of(**{k: tuple(v) if isinstance(v, list) else v for k, v in flat.items()}) == changed


def test_a_stray_file_does_not_fail_a_finished_run(directory):
    (directory.path / "state" / ".DS_Store").write_text("")
    directory.finish({"model": state(1)[0]}, RESULT)
    assert not (directory.path / "state").exists()
    assert read_run(directory.path).result["format"] == 1


def test_nothing_to_load(tmp_path):
    with pytest.raises(RecordError, match="no such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="no finished run"):
        load(tmp_path)


@pytest.mark.parametrize(("code", "remedy"), [(28, "Free some space"), (13, "rights"), (30, "can be written")])
def test_the_system_says_no(tmp_path, monkeypatch, code, remedy):
    def refuse(fd):
        raise OSError(code, "the system says no")

    monkeypatch.setattr("os.fsync", refuse)
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(RecordError, match=remedy) as caught:
        write_atomically(path, b"after")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def _bench(root):
    words = "bench parity -m lstm --train-length 4 --test-lengths 8 --set training.steps=2 --set tests.samples=4"
    return main([*words.split(), "--set", "model.width=4", "--out", str(root)])


def _one_line(capsys):
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line


def test_a_run_directory_of_before_is_met_with_one_line(tmp_path, capsys):
    """Its config.json has no schema number, or its result another format."""
    assert _bench(tmp_path) == 0
    (path,) = tmp_path.glob("parity-lstm-*")
    config, result = path / "config.json", path / "result.json"
    content = read_json(config)
    config.write_text(json.dumps({"task": {"name": "parity", "params": {}}, "seed": 0}))
    said = {key: value for key, value in read_json(result).items() if key != "sha256"}
    said["files"]["config.json"] = digest(config.read_bytes())
    result.write_text(json.dumps({**said, "sha256": digest(canonical(said))}))
    for call in (lambda: _bench(tmp_path), lambda: main(["report", str(tmp_path)])):
        capsys.readouterr()
        assert call() in (1, RecordError.exit_code)
        line = _one_line(capsys)
        assert "Recorded before experiments had a schema number" in line
        assert "Run it again" in line
    config.write_text(json.dumps(content))
    said = {**said, "format": 0, "files": {**said["files"], "config.json": digest(config.read_bytes())}}
    result.write_text(json.dumps({**said, "sha256": digest(canonical(said))}))
    for call in (lambda: _bench(tmp_path), lambda: main(["report", str(tmp_path)])):
        capsys.readouterr()
        assert call() in (1, RecordError.exit_code)
        assert "result.json: written in format 0, and this Lengthwise reads 1. Delete" in _one_line(capsys)


def test_one_surrogate_hides_no_page(tmp_path):
    write_text(tmp_path / "page.html", "caf\udce9 and the rest")
    assert (tmp_path / "page.html").read_bytes() == b"caf\\udce9 and the rest"
    assert RunDirectory(tmp_path, EXPERIMENT).record_error("caf\udce9").read_bytes() == b"caf\\udce9"


def test_the_lock_goes_also_where_the_holder_s_note_cannot(directory, monkeypatch):
    def refuse(self, missing_ok=False):
        raise PermissionError(13, "the system says no")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with directory.locked():
            assert directory.held()
    assert not directory.held()


def test_each_unfinished_run_is_not_compared_with_each_finished_one(tmp_path, monkeypatch):
    for i in range(40):
        (tmp_path / f"ended-{i}").mkdir()
        (tmp_path / f"ended-{i}" / "result.json").write_text("{}")
        (tmp_path / f"begun-{i}" / "state").mkdir(parents=True)
        (tmp_path / f"begun-{i}" / "config.json").write_text("{}")
    compared = 0
    equal = PurePath.__eq__

    def counted(self, other):
        nonlocal compared
        compared += 1
        return equal(self, other)

    monkeypatch.setattr(PurePath, "__eq__", counted)
    found = find(tmp_path)
    monkeypatch.undo()
    assert len(found.unfinished) == len(found.left_out) == 40
    assert compared < 400
