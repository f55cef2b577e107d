"""Datasets by name: local files of the same schema, read as the hub's would be."""

import json

import pytest

from lengthwise import Error
from lengthwise.text import corpora, hub

datasets = pytest.importorskip("datasets")

PILE = [
    {"text": "A theorem.", "meta": {"pile_set_name": "ArXiv"}},
    {"text": "int main() {}", "meta": {"pile_set_name": "Github"}},
    {"text": "A web page.", "meta": {"pile_set_name": "Pile-CC"}},
    {"text": "A lemma.", "meta": {"pile_set_name": "ArXiv"}},
]
PG19 = [{"short_book_title": "A", "publication_date": 1900, "url": "u", "text": text} for text in ("Once.", "Twice.")]
OPENWEBTEXT2 = [{"title": "A", "text": text, "reddit_scores": [3, 5]} for text in ("A page.", None)]


def write(folder, rows, split="train"):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("preset", "rows", "texts"),
    [
        ("pile", PILE, ["A theorem.", "int main() {}", "A web page.", "A lemma."]),
        ("arxiv", PILE, ["A theorem.", "A lemma."]),
        ("github", PILE, ["int main() {}"]),
        ("pg19", PG19, ["Once.", "Twice."]),
        ("openwebtext2", OPENWEBTEXT2, ["A page."]),
    ],
)
def test_a_preset_knows_the_text_of_its_dataset(tmp_path, preset, rows, texts):
    folder = write(tmp_path / "copy", rows)
    assert list(corpora.open([f"hf:{preset}@{folder}"]).documents()) == texts


def test_splits_and_the_first_documents(tmp_path):
    folder = write(tmp_path / "copy", PILE)
    write(folder, PILE[::-1], "validation")
    assert list(hub.read(f"{folder}:validation")) == [row["text"] for row in PILE[::-1]]
    assert list(hub.read(f"arxiv@{folder}:validation[:1]")) == ["A lemma."]
    assert list(hub.read(f"{folder}:train[:2]")) == ["A theorem.", "int main() {}"]


def test_parquet_with_another_column(tmp_path):
    datasets.Dataset.from_list([{"repo_name": "a", "code": "x = 1"}]).to_parquet(tmp_path / "train.parquet")
    assert list(hub.read(str(tmp_path))) == ["x = 1"]


def test_names_are_read():
    assert hub.parse("allenai/c4/en:validation[:100]") == hub.Named("allenai/c4", "en", "validation", 100, None)
    assert hub.parse("Salesforce/wikitext")[:3] == ("Salesforce/wikitext", None, "train")
    with pytest.raises(Error, match=r"hf:pile:\[:3\]: a dataset is hf:NAME"):
        corpora.open(["hf:pile:[:3]"])


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    folder = write(tmp_path / "copy", [{"words": "one"}])
    with pytest.raises(Error, match="must have a column of text, text, content, code or article, got words"):
        list(hub.read(str(folder)))
    with pytest.raises(Error, match=r"could not be read: Bad split: tset.*name the copy: hf:FOLDER"):
        list(hub.read(f"{folder}:tset"))

    def unreachable(*_, **__):
        raise ConnectionError("Couldn't reach 'emozilla/pg19' on the Hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        Error,
        match=r"^hf:pg19:test: the dataset emozilla/pg19 could not be read: Couldn't reach .* on "
        r"the Hub\. Without a connection, copy it here \(hf download emozilla/pg19 .* name "
        r"the copy: hf:pg19@FOLDER\.$",
    ):
        next(corpora.open(["hf:pg19:test"]).documents())
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"hf:pg19 needs datasets.*pip install 'lengthwise\[datasets\]'"):
        next(hub.read("pg19"))
