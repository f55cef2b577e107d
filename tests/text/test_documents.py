"""Documents: what is read from files, what is held out, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.text import corpora, documents


def test_every_kind_of_file_gives_its_documents(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo<|endoftext|>\n three<|endoftext|> \n")
    (tmp_path / "b.jsonl").write_text('{"text": "four", "id": 4}\n\n"five"\n')
    (tmp_path / "c.json").write_text(json.dumps([{"text": "six"}, "seven", ""]))
    (tmp_path / "d.log").write_text("not read in a folder")
    expected = ["one\n\ntwo", "\n three", "four", "five", "six", "seven"]
    assert documents.read([tmp_path]) == expected
    assert documents.read([tmp_path / "c.json", str(tmp_path / "b.jsonl")]) == ["six", "seven", "four", "five"]


def test_parquet_gives_its_column(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["one", "", "two"], "id": [1, 2, 3]}), tmp_path / "a.parquet")
    assert documents.read([tmp_path]) == ["one", "two"]
    parquet.write_table(pyarrow.table({"content": ["one"]}), tmp_path / "a.parquet")
    with pytest.raises(Error, match='a column "text"'):
        documents.read([tmp_path])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.md", "text", "text is read from .txt, .jsonl, .json, .parquet, got '.md'"),
        ("a.txt", " \n", "there is no text in it"),
        ("a.txt", b"\xbd", "must be UTF-8"),
        ("a.jsonl", '{"text": "one"}\n{"text": ', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"body": "one"}\n', r"line 1: .* got \['body'\]"),
        ("a.json", "{}", "must be a list of documents, got dict"),
        ("a.json", "[1]", "document 0: .* got int"),
        ("a.parquet", "no parquet", "must be a parquet file"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Error, match=said):
        documents.read([path])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(Error, match="no such file or folder"):
        documents.read([tmp_path / "nowhere.txt"])
    with pytest.raises(Error, match="there are none in it"):
        documents.read([tmp_path])


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_no_text_is_on_both_sides(share):
    texts = [f"text {i % 80}" for i in range(100)] + [" text 3\n"]
    train, test = documents.split(texts, share)
    assert sorted(train + test) == sorted(texts)
    assert not {t.strip() for t in train} & {t.strip() for t in test}
    assert len(set(test)) >= 1
    assert len(set(train)) >= 1
    if 0 < share < 1:
        assert len({t.strip() for t in test}) == round(80 * share)
    # Not where it stands, but what it says, decides.
    assert set(documents.split(texts[::-1], share)[1]) == set(test)


def test_one_document_cannot_be_split():
    with pytest.raises(Error, match=r"two documents or more.*Name more files"):
        documents.split(["one", " one"], 0.1)


@pytest.mark.parametrize("between", ["\n\n", "\n", "\n \n"])
@pytest.mark.parametrize("lines", [1, 2, 7, 100, 3000])
def test_one_document_is_divided_at_its_lines(lines, between):
    text = between.join(f"line {i}" for i in range(lines))
    parts = documents.divided(text)
    assert "".join(parts) == text
    assert len(parts) <= 100
    assert min(len(parts), 49) == min(lines, 49)
    assert all(part.startswith("line") and part.endswith("\n") for part in parts[:-1])


def test_paragraphs_stay_whole_but_long_ones():
    short = [f"first {i}\nsecond {i}\n\n" for i in range(300)]
    parts = documents.divided("".join(short) + "x\n" * 3000)
    assert all(part.endswith("\n\n") for part in parts if "x" not in part)
    assert sum("x" in part for part in parts) > 20


def test_links_to_other_files_of_a_folder_are_no_documents(tmp_path):
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "c.txt").write_text("three")
    (tmp_path / "inside" / "b.txt").write_text("two")
    for link, target in {"a": "inside/b", "c": "outside/c", "d": "outside/c"}.items():
        (tmp_path / "inside" / f"{link}.txt").symlink_to(tmp_path / f"{target}.txt")
    assert documents.read([tmp_path / "inside"]) == ["two", "three"]
    assert list(corpora.open([tmp_path / "inside"]).documents()) == ["two", "three"]


def test_digests_know_order_and_words():
    assert documents.digest(["a", "b"]) == documents.digest(["a ", "b"])
    assert len({documents.digest(texts) for texts in (["a", "b"], ["b", "a"], ["ab"])}) == 3


@given(st.lists(st.text("ab ", min_size=1, max_size=3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_split_is_stable_under_reordering_and_copying(texts, random):
    texts = [text for text in texts if text.strip()] + ["c", "d"]
    train, test = documents.split(texts, 0.3)
    again = random.sample(texts, len(texts)) + texts[:1]
    assert {text.strip() for text in documents.split(again, 0.3)[1]} == {text.strip() for text in test}
    # Each side keeps the order of its documents.
    for side in (train, test):
        assert side == [text for text in texts if text in set(side)]


def test_documents_that_are_held_out_are_left_out_with_all_their_copies():
    assert documents.without(["one", "two", " one\n", "three"], ["one", "four"]) == ["two", "three"]
