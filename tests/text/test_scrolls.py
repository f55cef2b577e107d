"""SCROLLS from copies on this machine of every kind, what is refused of them, and prompts of a window."""

import json
import zipfile

import pytest

from lengthwise import Error
from lengthwise.text import scrolls, tokenizers
from lengthwise.text.corpora import Corpus
from lengthwise.text.prompts import BEFORE_AN_ANSWER, Prompts

from ..lab import scrolls as made


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    texts = ["What colour is the door? The door is red, green or blue.\n\nAnswer: red"] * 2
    corpus = Corpus("doors", [lambda left_out: iter(texts)], 0)
    return tokenizers.load(tokenizers.train(corpus, 300, root=tmp_path_factory.mktemp("tokenizer")))


def kinds(folder):
    """The same rows in every form that is read."""
    rows = made.rows("qasper", 3)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "lines" / "qasper").mkdir(parents=True)
    (folder / "lines" / "qasper" / "train.jsonl").write_text(lines)
    (folder / "list" / "qasper").mkdir(parents=True)
    (folder / "list" / "qasper" / "train.json").write_text(json.dumps(rows))
    (folder / "zip").mkdir()
    with zipfile.ZipFile(folder / "zip" / "qasper.zip", "w") as archive:
        archive.writestr("qasper/train.jsonl", lines)
    (folder / "parquet" / "qasper").mkdir(parents=True)
    return rows


def test_all_forms_have_the_same_rows(tmp_path):
    rows = kinds(tmp_path)
    expected = [scrolls.Row(row["id"], row["input"], row["output"]) for row in rows]
    for form in ("lines", "list", "zip"):
        assert list(scrolls.rows(tmp_path / form, "qasper", "train")) == expected
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "parquet" / "qasper" / "train.parquet")
    assert list(scrolls.rows(tmp_path / "parquet", "qasper", "train")) == expected
    assert scrolls.digest(expected) != scrolls.digest(expected[::-1])


def test_datasets_reads_a_folder_with_the_tasks_as_configurations(tmp_path):
    pytest.importorskip("datasets")
    made.write(tmp_path, ("qasper", "quality"))
    configs = "".join(
        f"- config_name: {task}\n  data_files:\n"
        + "".join(f"  - split: {s}\n    path: {task}/{s}.jsonl\n" for s in ("train", "validation", "test"))
        for task in ("qasper", "quality")
    )
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    for split in ("train", "validation", "test"):
        assert list(scrolls.rows(f"hf:{tmp_path}", "quality", split)) == list(scrolls.rows(tmp_path, "quality", split))


def test_the_hub_is_asked_for_the_zip_of_a_task(tmp_path, monkeypatch):
    import huggingface_hub

    rows = kinds(tmp_path)
    asked = []

    def download(name, file, repo_type):
        asked.append((name, file, repo_type))
        return str(tmp_path / "zip" / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert len(list(scrolls.rows(scrolls.HUB, "qasper", "train"))) == len(rows)
    assert asked == [("tau/scrolls", "qasper.zip", "dataset")]

    def fail(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(Error, match=r"hf:tau/scrolls: qasper, train could not be read: no route to host\. With a "):
        list(scrolls.rows(scrolls.HUB, "qasper", "train"))


def test_references_of_one_id_are_grouped(tmp_path):
    found = scrolls.grouped(scrolls.rows(made.write(tmp_path), "qasper", "validation"))
    assert len(found) == 4
    assert found[0].outputs == ("It is green.", "green")
    assert [len(each.outputs) for each in scrolls.grouped(scrolls.rows(tmp_path, "qasper", "test"))] == [0] * 4


WRONG = {
    "nowhere": (None, "no such folder. Give the folder of a copy of SCROLLS, or hf:tau/scrolls"),
    "no file": ({}, r"neither qasper/train.jsonl \(.json, .parquet\) nor qasper.zip in it. With a connection, hf dow"),
    "empty": ({"qasper/train.jsonl": "\n"}, "qasper, train: the split is empty"),
    "columns": ({"qasper/train.jsonl": '{"id": "1", "question": "?"}'}, "got id, question: input, output is missing"),
    "no row": ({"qasper/train.jsonl": "7"}, "row 1: a row must have the columns id, input and output, got int"),
    "kinds": ({"qasper/train.jsonl": '{"id": 1, "input": "", "output": ""}'}, "must be texts, got int, str, str"),
    "null": ({"qasper/train.jsonl": '{"id": "1", "input": "", "output": null}'}, "got str, str, NoneType"),
    "no JSON": ({"qasper/train.jsonl": "{"}, r"train.jsonl, line 1: not JSON"),
    "no list": ({"qasper/train.json": "{}"}, r"must be a list of rows, got dict"),
    "no zip": ({"qasper.zip": "x"}, r"no whole qasper/train.jsonl in it"),
    "no dataset": ({"other.txt": "x"}, "neither"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name, tmp_path):
    files, said = WRONG[name]
    for file, text in (files or {}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    with pytest.raises(Error, match=said):
        list(scrolls.rows(tmp_path / "none" if files is None else tmp_path, "qasper", "train"))


def test_bytes_that_are_no_text_and_tasks_that_are_none_are_refused(tmp_path):
    (tmp_path / "quality").mkdir()
    (tmp_path / "quality" / "train.jsonl").write_bytes(b'{"id": "\xff"}')
    with pytest.raises(Error, match="text must be UTF-8"):
        list(scrolls.rows(tmp_path, "quality", "train"))
    with pytest.raises(Error, match="Did you mean 'quality'"):
        list(scrolls.rows(tmp_path, "qualty", "train"))
    assert scrolls.named(["quality", "qasper", "quality"]) == ["qasper", "quality"]
    assert len(scrolls.named([])) == 7


def test_a_prompt_keeps_the_beginning_and_an_answer_its_end(tokenizer):
    def tokens(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    text = "What colour is the door? " + "The door is red. " * 40
    before = tokens(BEFORE_AN_ANSWER)
    prompts = Prompts(tokenizer, window=30 + len(before), budget=10)
    expected = tokens(text)[:20] + before
    assert prompts.prompt(text).tolist() == expected
    short = prompts.answered("The door?", " blue\n")
    assert short.tokens.tolist() == [*tokens("The door?"), *before, *tokens(" blue"), tokenizer.eos_token_id]
    assert short.start == len(tokens("The door?")) + len(before)
    cut = prompts.answered(text, "red " * 40)
    assert cut.tokens.tolist() == expected + tokens(" " + ("red " * 40).strip())[:10]
    assert len(cut.tokens) == prompts.window


def test_a_long_input_has_the_tokens_that_it_has_whole(tokenizer):
    for text in ("The door is red. " * 300, "x" * 5000, "wordwithoutspaces " + "y" * 5000, "é" * 900 + " a" * 900):
        whole = tokenizer(text, add_special_tokens=False)["input_ids"]
        prompts = Prompts(tokenizer, 64, 8)
        assert prompts._beginning(text) == whole[: prompts.places]


def test_windows_without_room_and_tokenizers_without_an_end_are_refused(tokenizer):
    with pytest.raises(Error, match=r"A window of 9 tokens has no place for an input: an answer takes up to 8"):
        Prompts(tokenizer, 9, 8)

    class Endless:
        eos_token_id = None

    with pytest.raises(Error, match="must have an end-of-text token to end answers with"):
        Prompts(Endless(), 64, 8)
