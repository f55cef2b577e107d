"""Documents, blocks and checkpoints: what is read, what is held out, and what is refused."""

import json

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import Error
from lengthwise.lab import language
from lengthwise.lab.language import blocks, checkpoint, documents


class Letters:
    """A tokenizer whose tokens are the letters a to z."""

    eos_token_id = 26

    def __len__(self):
        return 27

    def __call__(self, texts, **_):
        return {"input_ids": [[ord(letter) - 97 for letter in text] for text in texts]}


def test_every_kind_of_file_gives_its_documents(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo<|endoftext|>\n three<|endoftext|> \n")
    (tmp_path / "b.jsonl").write_text('{"text": "four", "id": 4}\n\n"five"\n')
    (tmp_path / "c.json").write_text(json.dumps([{"text": "six"}, "seven", ""]))
    (tmp_path / "d.log").write_text("not read in a folder")
    expected = ["one\n\ntwo", "\n three", "four", "five", "six", "seven"]
    assert language.read([tmp_path]) == expected
    assert language.read([tmp_path / "c.json", str(tmp_path / "b.jsonl")]) == ["six", "seven", "four", "five"]


def test_parquet_gives_its_column(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["one", "", "two"], "id": [1, 2, 3]}), tmp_path / "a.parquet")
    assert language.read([tmp_path]) == ["one", "two"]
    parquet.write_table(pyarrow.table({"content": ["one"]}), tmp_path / "a.parquet")
    with pytest.raises(Error, match='a column "text"'):
        language.read([tmp_path])


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
        language.read([path])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(Error, match="no such file or folder"):
        language.read([tmp_path / "nowhere.txt"])
    with pytest.raises(Error, match="there are none in it"):
        language.read([tmp_path])


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_no_text_is_on_both_sides(share):
    texts = [f"text {i % 80}" for i in range(100)] + [" text 3\n"]
    train, test = language.split(texts, share)
    assert sorted(train + test) == sorted(texts)
    assert not {t.strip() for t in train} & {t.strip() for t in test}
    assert len(set(test)) >= 1
    assert len(set(train)) >= 1
    if 0 < share < 1:
        assert len({t.strip() for t in test}) == round(80 * share)
    # Not where it stands, but what it says, decides.
    assert set(language.split(texts[::-1], share)[1]) == set(test)


def test_one_document_cannot_be_split():
    with pytest.raises(Error, match=r"two documents or more.*--set test=PATH"):
        language.split(["one", " one"], 0.1)


def test_what_is_tested_on_is_not_trained_on():
    texts = language.prepared(["abc", "defg", "abc "[:3]], ["abc", "hi"], Letters(), 3)
    assert texts.counts == {"train": 1, "test": 2}
    assert texts.train.tolist() == [[3, 4, 5]]
    assert texts.test.tolist() == [[0, 1, 2], [26, 7, 8]]
    with pytest.raises(Error, match="Every document to train on"):
        language.prepared(["abc"], ["abc"], Letters(), 3)


def test_text_is_packed_whole_but_for_its_end():
    packed = blocks.pack(["abc", "de", "fghi"], Letters(), 5)
    assert packed.tolist() == [[0, 1, 2, 26, 3], [4, 26, 5, 6, 7]]
    with pytest.raises(Error, match="fill a block of 13 tokens, got 12 in 3 documents"):
        blocks.pack(["abc", "de", "fghi"], Letters(), 13)


def test_an_epoch_reads_every_block_once():
    rows = torch.arange(10)[:, None]
    read = torch.cat([blocks.batch(rows, step, 4, seed=0) for step in range(5)]).flatten().tolist()
    assert sorted(read[:10]) == sorted(read[10:]) == list(range(10))
    assert read[:10] != read[10:]
    assert blocks.batch(rows, 3, 4, seed=0).flatten().tolist() == read[12:16]
    assert blocks.batch(rows, 3, 4, seed=1).flatten().tolist() != read[12:16]


def tiny(path, **more):
    config = GPT2Config(vocab_size=27, n_positions=16, n_embd=8, n_layer=1, n_head=2, **more)
    GPT2LMHeadModel(config).save_pretrained(path)
    return path


def test_a_checkpoint_is_named_by_what_it_holds(tmp_path):
    found = language.find(str(tiny(tmp_path)))
    (tmp_path / "notes.md").write_text("not part of it")
    assert language.find(str(tmp_path)).digest == found.digest
    model = found.model()
    assert all(module.p == 0 for module in model.modules() if isinstance(module, torch.nn.Dropout))
    (tmp_path / "tokenizer.json").write_text("{}")
    assert language.find(str(tmp_path)).digest != found.digest


def test_a_checkpoint_that_cannot_be_used_is_named(tmp_path, monkeypatch):
    with pytest.raises(Error, match=r"no such folder here. Give a folder"):
        language.find(str(tmp_path / "nowhere"))
    with pytest.raises(Error, match=r"a checkpoint is a folder with config.json"):
        language.find(str(tmp_path))
    tiny(tmp_path)
    found = language.find(str(tmp_path))
    with pytest.raises(Error, match="there is no tokenizer in it"):
        found.tokenizer()
    with pytest.raises(Error, match=r"block must be in 2\.\.16"):
        found.check(Letters(), 17)
    monkeypatch.setattr(Letters, "__len__", lambda self: 28)
    with pytest.raises(Error, match="knows 27 tokens and its tokenizer 28"):
        found.check(Letters(), 16)
    (tmp_path / "config.json").write_text(
        (tmp_path / "config.json").read_text().replace('"n_layer": 1', '"n_layer": 2')
    )
    with pytest.raises(Error, match="must hold all weights of GPT2LMHeadModel, and lacks"):
        found.model()
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(Error, match=r"no weights as .safetensors"):
        language.find(str(tmp_path))


def test_a_name_on_the_hub_says_that_it_needs_a_network(monkeypatch):
    import huggingface_hub

    def refuse(name, **_):
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(Error, match=r"ConnectionError.*needs a network"):
        language.find("openai-community/gpt2")


def test_a_name_on_the_hub_is_read_from_where_it_was_put(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tiny(tmp_path)))
    found = language.find("somebody/tiny")
    assert (found.name, found.folder) == ("somebody/tiny", tmp_path)
    assert found.digest == checkpoint.digest(tmp_path)


def test_digests_know_order_and_words():
    assert documents.digest(["a", "b"]) == documents.digest(["a ", "b"])
    assert len({documents.digest(texts) for texts in (["a", "b"], ["b", "a"], ["ab"])}) == 3
