"""Exported test strings are those of `test_set`, and the Hugging Face library reads them as they lie."""

from __future__ import annotations

import json

import pytest

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


def test_the_card_rebuilds_the_data(tmp_path):
    task = tasks.get("modular-sum", modulus=3)
    directory = tasks.export(task, [6], 4, tmp_path / "sum")
    card = (directory / "README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    names: dict = {"length": 6}
    exec(code.replace("task.test_set", "found = task.test_set"), names)
    assert names["found"].tokens.tolist() == task.test_set(6, 4).tokens.tolist()
    assert "| length_6 | 4 | 0.3333 |" in card


def test_datasets_reads_it_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    task = tasks.get("cycle-navigation", supervision="prefix")
    directory = tasks.export(task, [40, 5], 6, tmp_path / "cycle")
    found = datasets.load_dataset(str(directory), cache_dir=str(tmp_path / "cache"))
    assert set(found) == {"length_5", "length_40"}
    assert found["length_40"]["tokens"] == task.test_set(40, 6).tokens.tolist()
    assert found["length_5"]["answer"] == task.test_set(5, 6).targets[:, -1].tolist()


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
