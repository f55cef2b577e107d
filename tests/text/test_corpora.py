"""Corpora: which documents there are, in which order, and which of them are kept for the test."""

import json

import pytest

from lengthwise import Error
from lengthwise.text import corpora, documents


def test_a_folder_gives_all_its_text(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.md").write_text("two")
    (tmp_path / "a.txt").write_text("one<|endoftext|> \n")
    (tmp_path / "c.jsonl").write_text('{"text": "three"}\n"four"\n')
    (tmp_path / "d.json").write_text(json.dumps(["five"]))
    (tmp_path / "e.json").write_text('{"indent": 2}')
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("hidden")
    assert list(corpora.open([tmp_path]).documents()) == ["one", "three", "four", "five", '{"indent": 2}', "two"]


def test_the_sides_are_those_of_the_split(tmp_path):
    texts = [f"text {i % 30}" for i in range(40)]
    (tmp_path / "a.json").write_text(json.dumps(texts))
    corpus = corpora.open([tmp_path], held_out=0.3)
    train, test = documents.split(texts, 0.3)
    assert [text for side, text in corpus.sides() if side == "test"] == test
    assert list(corpus.train()) == train
    assert corpus.survey.digest == documents.digest(texts)


def test_what_holds_no_text_is_refused(tmp_path):
    with pytest.raises(Error, match="no such file or folder"):
        corpora.open([tmp_path / "nowhere"])
    (tmp_path / "a.bin").write_bytes(b"\x00\xff")
    with pytest.raises(Error, match=r"there is no text in it\. 1 files are no UTF-8 text"):
        corpora.open([tmp_path]).survey  # noqa: B018
    with pytest.raises(Error, match="must be UTF-8 text, and this file is not"):
        corpora.open([tmp_path / "a.bin"]).survey  # noqa: B018
