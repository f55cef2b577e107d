"""The tokenizer of a folder: read as it was saved, or refused with the reason."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lengthwise import Error
from lengthwise.text import corpora, tokenizers


def test_a_tokenizer_is_read_as_it_was_saved(tmp_path):
    words = Tokenizer(models.WordLevel({"<end>": 0, "one": 1, "two": 2}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(tmp_path)
    tokenizer = tokenizers.load(tmp_path)
    assert (len(tokenizer), tokenizer.eos_token_id) == (3, 0)
    assert tokenizer(["two one"])["input_ids"] == [[2, 1]]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Error, match=f"^{tmp_path}: there is no tokenizer in it"):
        tokenizers.load(tmp_path)
    with pytest.raises(Error, match=r"^somebody/tiny: there is no tokenizer in it"):
        tokenizers.load(tmp_path, "somebody/tiny")


def test_a_damaged_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(Error, match=r"^somebody/tiny: no tokenizer can be read from it: .* Save the model's own"):
        tokenizers.load(tmp_path, "somebody/tiny")


WORDS = "the cat sat on the mat and the dog sat on the cat\n\n\tthen they left."


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(20):
        (folder / f"{i}.txt").write_text(WORDS * (i + 1) + str(i))
    return corpora.open([folder], held_out=0.3)


def test_a_tokenizer_is_trained_once_and_the_same_every_time(corpus, tmp_path, monkeypatch):
    folder = tokenizers.train(corpus, 280, root=tmp_path / "root")
    assert folder == tokenizers.train(corpora.open(corpus.name, held_out=0.3), 280, root=tmp_path / "root")
    other = tokenizers.train(corpus, 280, root=tmp_path / "other")
    assert (folder / "tokenizer.json").read_bytes() == (other / "tokenizer.json").read_bytes()
    assert len({folder, tokenizers.train(corpus, 281, root=tmp_path / "root")}) == 2
    monkeypatch.setattr(Tokenizer, "train_from_iterator", None)
    assert tokenizers.train(corpus, 280, root=tmp_path / "root") == folder


def test_a_trained_tokenizer_is_one_of_transformers(corpus, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tokenizers.train(corpus, 280, root=tmp_path))
    assert (len(tokenizer), tokenizer.eos_token) == (280, "<|endoftext|>")
    assert len(tokenizer.encode(" the cat")) == 2
    # Newlines are words of their own, whatever stands around them.
    assert [tokenizer.decode([id]) for id in tokenizer.encode("t.\n\n\tt")] == ["t", ".", "\n\n", "\t", "t"]


def test_no_text_is_lost(corpus, tmp_path):
    tokenizer = tokenizers.load(tokenizers.train(corpus, 280, root=tmp_path))

    @given(st.text(max_size=30))
    @settings(max_examples=30)
    def comes_back(text):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text

    comes_back()


def test_documents_to_test_on_teach_nothing(tmp_path):
    """Their words, which no other document has, become no tokens."""
    rare = {f"{chr(97 + i) * 3} " * 50 for i in range(20)}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(sorted(rare)))
    corpus = corpora.open([file], held_out=0.5)
    tokenizer = tokenizers.load(tokenizers.train(corpus, 400, root=tmp_path))
    found = sorted((side, len(tokenizer.encode(text.split()[0]))) for side, text in corpus.sides())
    assert found == [("test", 3)] * 10 + [("train", 1)] * 10


def test_a_vocabulary_must_hold_the_bytes(corpus, tmp_path):
    with pytest.raises(Error, match="size > 256, got 256"):
        tokenizers.train(corpus, 256, root=tmp_path)
    assert len(tokenizers.load(tokenizers.train(corpus, 257, root=tmp_path))) == 257


def test_a_tokenizer_is_known_by_what_it_does(corpus, tmp_path):
    folder = tokenizers.train(corpus, 280, root=tmp_path)
    tokenizer = tokenizers.load(folder)
    known = tokenizers.digest(tokenizer)
    tokenizer(["a", "the cat"], truncation=True, max_length=1)
    assert tokenizers.digest(tokenizer) == known == tokenizers.digest(tokenizers.load(folder))
    assert known != tokenizers.digest(tokenizers.load(tokenizers.train(corpus, 281, root=tmp_path)))
