"""Documents: how they are told apart, how a long one is divided, and what files of them are refused."""

import pytest

from lengthwise import Error
from lengthwise.text import corpora, documents


def read(path):
    return list(corpora.open(path, held_out=0).documents())


def test_parquet_gives_its_column(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["one", "", "two"], "id": [1, 2, 3]}), tmp_path / "a.parquet")
    assert read(tmp_path) == ["one", "two"]
    parquet.write_table(pyarrow.table({"content": ["one"]}), tmp_path / "a.parquet")
    with pytest.raises(Error, match='a column "text"'):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", " \n", "there is no text in it"),
        ("a.txt", b"\xbd", "must be UTF-8"),
        ("a.jsonl", '{"text": "one"}\n{"text": ', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"body": "one"}\n', r"line 1: .* got \['body'\]"),
        ("a.parquet", "no parquet", "must be a parquet file"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Error, match=said):
        read(path)


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
    assert read(tmp_path / "inside") == ["two", "three"]
