"""Exported test strings are those of `test_set`, and the Hugging Face library reads them as they lie."""

import json

import pytest
import torch

from lengthwise import Error, tasks


@pytest.mark.parametrize(
    ("name", "params"), [("parity", {}), ("word-problem", {"group": "S3"}), ("tomita-3", {"protocol": "next"})]
)
def test_files_hold_the_test_set(tmp_path, name, params):
    task = tasks.get(name, **params)
    directory = tasks.export(task, [7, 4], 5, tmp_path / "new" / "data", seed=3)
    assert sorted(p.name for p in (directory / "data").iterdir()) == ["length_4.jsonl", "length_7.jsonl"]
    batch = task.test_set(7, 5, seed=3)
    lines = (directory / "data" / "length_7.jsonl").read_text().splitlines()
    assert len(lines) == 5
    for line, tokens, targets, mask in zip(lines, *batch, strict=True):
        row = json.loads(line)
        assert row["tokens"] == tokens.tolist()
        assert row["targets"] == targets.int().tolist()
        assert row["mask"] == mask.tolist()
        assert row["answer"] == row["targets"][-1]
        assert row["text"] == task.write(tokens)


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path):
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(Error, match="not an empty directory"):
        tasks.export(tasks.get("parity"), [4], 2, tmp_path)
    with pytest.raises(Error, match="not an empty directory"):
        tasks.export(tasks.get("parity"), [4], 2, tmp_path / "mine")
    with pytest.raises(Error, match="length must be odd"):
        tasks.export(tasks.get("modular-arithmetic"), [3, 4], 2, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(Error, match="at least one"):
        tasks.export(tasks.get("parity"), [], 2, tmp_path / "new")


def test_strings_to_train_on_and_to_validate_with(tmp_path):
    task = tasks.get("parity")
    made = tasks.export(task, [50], 3, tmp_path / "a", train=40, validation=10, train_lengths=(3, 6))
    again = tasks.export(task, [50], 3, tmp_path / "b", train=40, validation=10, train_lengths=(3, 6))
    other = tasks.export(task, [50], 3, tmp_path / "c", seed=1, train=40, train_lengths=(3, 6))
    read = lambda place, name: (place / "data" / f"{name}.jsonl").read_text()  # noqa: E731
    assert read(made, "train") == read(again, "train") != read(other, "train")
    assert not (other / "data" / "validation.jsonl").exists()
    lines = [json.loads(line) for line in read(made, "train").splitlines()]
    assert len(lines) == 40
    assert {row["length"] for row in lines} == {3, 4, 5, 6}
    assert [row["length"] for row in lines] != sorted(row["length"] for row in lines)
    for row in lines:
        assert row["answer"] == sum(row["tokens"]) % 2
        assert row["labels"] == [-100] * (row["length"] - 1) + [row["answer"]]
        assert row["input_ids"] == row["tokens"]
    assert len(read(made, "validation").splitlines()) == 10


def test_labels_are_of_the_places_that_are_asked(tmp_path):
    for name, params, n in (("tomita-3", {"protocol": "next"}, 6), ("reference-chains", {}, 16), ("boxes", {}, 6)):
        directory = tasks.export(tasks.get(name, **params), [n], 4, tmp_path / name)
        for line in (directory / "data" / f"length_{n}.jsonl").read_text().splitlines():
            row = json.loads(line)
            for label, target, asked in zip(row["labels"], row["targets"], row["mask"], strict=True):
                flat = lambda x: x if isinstance(x, list) else [x]  # noqa: E731
                assert flat(label) == [t if asked and t != -1 else -100 for t in flat(target)]


def test_the_answer_that_a_model_writes_is_exported_whole(tmp_path):
    task = tasks.get("arithmetic-steps")
    directory = tasks.export(task, [3], 4, tmp_path / "steps")
    for line in (directory / "data" / "length_3.jsonl").read_text().splitlines():
        row = json.loads(line)
        chain = row["text"].split()
        assert task.write(row["answer"]).split() == chain[chain.index("=") + 1 :]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_datasets_reads_named_files(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    directory = tasks.export(tasks.get("parity"), [9, 12], 5, tmp_path / "p", train=20, validation=4, format=kind)
    files = {"train": f"train.{kind}", "validation": f"validation.{kind}", "test": f"length_*.{kind}"}
    found = datasets.load_dataset(
        {"jsonl": "json"}.get(kind, kind),
        data_files={split: str(directory / "data" / name) for split, name in files.items()},
        cache_dir=str(tmp_path / "cache"),
    )
    assert {split: len(found[split]) for split in found} == {"train": 20, "validation": 4, "test": 10}
    assert all(len(row["input_ids"]) == len(row["labels"]) == row["length"] for row in found["test"])
    whole = datasets.load_dataset(str(directory), cache_dir=str(tmp_path / "cache"))
    assert set(whole) == {"train", "validation", "length_9", "length_12"}


def test_wrong_splits_and_formats_are_refused(tmp_path, monkeypatch):
    parity = tasks.get("parity")
    with pytest.raises(Error, match="numbers of strings"):
        tasks.export(parity, [4], 2, tmp_path / "new", train=-1)
    with pytest.raises(Error, match="format must be 'jsonl' or 'parquet', got 'csv'"):
        tasks.export(parity, [4], 2, tmp_path / "new", format="csv")
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[parquet\]'"):
        tasks.export(parity, [4], 2, tmp_path / "new", format="parquet")
    assert not (tmp_path / "new").exists()


class Firsts(tasks.Task):
    vocabulary = ("a", "b")
    outputs = 2

    def draw(self, length, batch, generator):
        return torch.randint(2, (batch, length), generator=generator)

    def answer(self, tokens):
        return tokens[:, :1].expand_as(tokens)

    def baseline(self, length):
        return 0.5


class Lasts(Firsts):
    """Letters; the answer is the last one.

    And more."""

    def answer(self, tokens):
        return tokens


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (tasks.get("modular-sum", modulus=3), "| length_6 | 4 | 0.3333 |"),
        (Firsts(), "# Firsts\n\nFirsts\n"),
        (Lasts(), "# Lasts\n\nLetters; the answer is the last one.\n"),
    ],
)
def test_the_card_rebuilds_the_data(tmp_path, task, line):
    card = (tasks.export(task, [6], 4, tmp_path / "own") / "README.md").read_text()
    assert line in card
    names: dict = {"length": 6}
    exec(card.split("```python\n")[1].split("```")[0].replace("task.test_set", "found = task.test_set"), names)
    assert type(names["task"]) is type(task)
    assert names["found"].tokens.tolist() == task.test_set(6, 4).tokens.tolist()


def test_a_card_that_cannot_be_written_leaves_no_files(tmp_path):
    class Broken(Firsts):
        def baseline(self, length):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tasks.export(Broken(), [6], 4, tmp_path / "own")
    assert not (tmp_path / "own").exists()
