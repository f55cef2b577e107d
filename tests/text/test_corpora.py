"""Corpora: which documents there are, in which order, and which of them are kept for the test."""

import json
import tracemalloc
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.text import corpora, documents, text_files


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


def test_what_holds_no_text_is_refused(tmp_path):
    with pytest.raises(Error, match="no such file or folder"):
        corpora.open([tmp_path / "nowhere"])
    (tmp_path / "a.bin").write_bytes(b"\x00\xff")
    with pytest.raises(Error, match=r"there is no text in it\. 1 files are no UTF-8 text"):
        corpora.open([tmp_path]).survey  # noqa: B018
    with pytest.raises(Error, match="must be UTF-8 text, and this file is not"):
        corpora.open([tmp_path / "a.bin"]).survey  # noqa: B018


def test_the_standard_library_is_the_same_every_time():
    corpus = corpora.open(["stdlib"])
    first = list(corpus.documents())
    assert 300 < len(first) == corpus.survey.documents
    assert corpus.survey.digest == corpora.open("stdlib").survey.digest
    assert any("class Fraction(" in text for text in first)
    assert not any("import unittest\n" in text and "class Test" in text for text in first[:50])


def test_binary_files_of_a_folder_are_left_out_and_counted_once(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.png").write_bytes(b"\x89PNG\x00")
    (tmp_path / "c.c").write_bytes("caf\xe9".encode("latin-1"))
    (tmp_path / "d.md").write_text("é")
    corpus = corpora.open([tmp_path])
    with pytest.warns(UserWarning, match=rf"2 files are no UTF-8 text and were left out, {tmp_path / 'b.png'} first"):
        assert list(corpus.documents()) == ["x = 1", "é"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert corpus.survey.documents == 2


def test_data_among_code_is_text_and_bytes_anywhere_leave_a_file_out(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 4)
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (tmp_path / "b.json").write_text('[{"id": 1}]')
    for name, late in (("c.txt", b"abcdefgh\xff"), ("d.txt", b"abcdefgh\xc3"), ("e.py", b"abcdefgh\0")):
        (tmp_path / name).write_bytes(late)
    (tmp_path / "f.txt").write_text("abcéédeé")
    with pytest.warns(UserWarning, match=rf"3 files are no UTF-8 text and were left out, {tmp_path / 'c.txt'} first"):
        found = list(corpora.open([tmp_path]).documents())
    assert found == ['{"id": 1}\n{"id": 2}\n', '[{"id": 1}]', "abcéédeé"]
    with pytest.raises(Error, match=r"a\.jsonl, line 1: a document is a string or has a field"):
        list(corpora.open([tmp_path / "a.jsonl"]).documents())


def test_a_character_may_lie_across_what_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 4)
    (tmp_path / "a.py").write_text("abcéd")  # é is the bytes 3 and 4
    assert list(corpora.open([tmp_path / "a.py"]).documents()) == ["abcéd"]
    (tmp_path / "b.txt").write_bytes(b"abcdef\xff")
    with pytest.raises(Error, match=r"b\.txt: text must be UTF-8, got other bytes"):
        list(corpora.open([tmp_path / "b.txt"]).documents())


@given(st.lists(st.sampled_from(["a", "b\n", "é", "<|endoftext|>", "<|", "\r\n"]), max_size=30), st.integers(1, 9))
def test_a_file_read_in_pieces_is_the_file_read_whole(tmp_path_factory, parts, piece):
    file = tmp_path_factory.mktemp("a") / "a.txt"
    file.write_bytes("".join(parts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "PIECE", piece)
        assert list(text_files.read_one(file, [])) == list(documents.READERS[".txt"](file))


def test_a_long_document_is_cut_after_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST", 10)
    monkeypatch.setattr(text_files, "PIECE", 7)
    text = "one\ntwo\nthree\n" + 25 * "x" + "\nfour"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.md").write_text(text)
    for name in ("a.txt", "a.md"):
        pieces = list(corpora.open([tmp_path / name], held_out=0).documents())
        assert "".join(pieces) == text
        assert pieces[:2] == ["one\ntwo\n", "three\n"]
        assert max(map(len, pieces)) <= 10


def test_of_a_document_too_long_to_be_read_at_once_parts_are_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST", 10_000)
    monkeypatch.setattr(text_files, "PIECE", 3_000)
    text = "".join(f"Chapter {i}\n\n" for i in range(1000))  # 12,890 characters: one part of most of it, and the rest
    for name in ("book.txt", "book.md"):
        (tmp_path / name).write_text(text)
        with pytest.warns(UserWarning, match="a long document was divided"):
            sides = list(corpora.open([tmp_path / name], held_out=0.1).sides())
        assert "".join(part for _, part in sides) == text
        held_out = sum(len(part) for side, part in sides if side == "test")
        assert 0.05 < held_out / len(text) < 0.15
        assert max(len(part) for _, part in sides) < 300


def test_what_follows_a_long_document_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST", 100)
    monkeypatch.setattr(text_files, "PIECE", 30)
    long, short = "a line\n" * 40, "another\n" * 10
    (tmp_path / "a.txt").write_text(f"{short}<|endoftext|>{long}<|endoftext|>{short}")
    with pytest.warns(UserWarning, match="a long document was divided"):
        read = list(corpora.open([tmp_path / "a.txt"]).documents())
    assert (read[0], read[-1], "".join(read[1:-1])) == (short, short, long)


@given(st.lists(st.text("ab ", max_size=3), max_size=30), st.floats(0.01, 0.99))
def test_any_corpus_is_split_as_its_documents_are(tmp_path_factory, texts, share):
    texts = [text for text in texts if text.strip()] + ["c", "d"]
    file = tmp_path_factory.mktemp("a") / "a.json"
    file.write_text(json.dumps(texts))
    corpus = corpora.open([file], held_out=share)
    sides = [[text for side, text in corpus.sides() if side == name] for name in ("train", "test")]
    assert sides == list(documents.split(texts, share))


def test_one_long_file_is_divided_where_some_is_held_out(tmp_path):
    text = "".join(f"Chapter {i}\n\n" for i in range(1000))
    (tmp_path / "book.txt").write_text(text)
    assert list(corpora.open([tmp_path / "book.txt"], held_out=0).documents()) == [text]
    corpus = corpora.open([tmp_path / "book.txt"], held_out=0.1)
    with pytest.warns(UserWarning, match=r"book\.txt: one document, divided .* into \d+") as warned:
        parts = list(corpus.documents())
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert corpus.survey.documents == len(parts) > 49
    assert "".join(parts) == text
    sides = [side for side, _ in corpus.sides()]
    assert sides.count("test") == round(len(parts) / 10)
    assert documents.split([text], 0.1)[1] == [part for side, part in corpus.sides() if side == "test"]


def test_nothing_is_held_out_if_nothing_is_asked(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    corpus = corpora.open([tmp_path], held_out=0)
    assert list(corpus.sides()) == [("train", "one")]
    with pytest.raises(Error, match="two documents or more"):
        corpora.open([tmp_path]).survey  # noqa: B018
    for share in (-0.1, 1, float("nan")):
        with pytest.raises(Error, match="held_out is a share"):
            corpora.open([tmp_path], held_out=share)
    with pytest.raises(Error, match="A corpus must be named"):
        corpora.open([])


def test_a_corpus_is_never_held_in_memory(tmp_path, monkeypatch):
    """Eight megabytes as one document, as many, and as lines of JSON, read with the memory of a hundredth."""
    monkeypatch.setattr(text_files, "LONGEST", 1 << 14)
    monkeypatch.setattr(text_files, "PIECE", 1 << 13)
    line = "All of this text is one line, and there are many lines of it.\n"
    (tmp_path / "one.txt").write_text(line * (1 << 17))
    (tmp_path / "many.jsonl").write_text((json.dumps({"text": line * 9}) + "\n") * (1 << 14))
    corpus = corpora.open([tmp_path], held_out=0)
    tracemalloc.start()
    try:
        assert sum(map(len, corpus.documents())) == len(line) * ((1 << 17) + 9 * (1 << 14))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_runs_and_their_page_are_no_part_of_a_corpus(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("a page of the corpus")
    run = tmp_path / "runs" / "tales-lstm-s0-0123456789abcdef"
    run.mkdir(parents=True)
    (run / "holder").write_text("process 1")
    (run.parent / "index.html").write_text("the page of the runs")
    assert list(corpora.open([tmp_path]).documents()) == ["x = 1", "a page of the corpus"]
    # A run that is named is read.
    assert list(corpora.open([run]).documents()) == ["process 1"]
