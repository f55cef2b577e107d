"""Tokens of a corpus: those of the tokenizer, on the side of their document, made once, whatever stops the making."""

from itertools import pairwise

import pytest
import torch

from lengthwise import Error
from lengthwise.text import corpora, documents, tokenizers, tokens, tokens_of
from lengthwise.text.encoder import Encoder


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(40):
        (folder / f"{i:02}.py").write_text(f"# The number {i}.\n\n\ndef f{i}(x):\n    return x + {i}\n" * (1 + i % 3))
    return corpora.open([folder], held_out=0.2)


@pytest.fixture
def tokenizer(corpus, tmp_path):
    return tokenizers.load(tokenizers.train(corpus, 300, root=tmp_path / "root"))


def test_every_side_has_the_tokens_of_its_documents(corpus, tokenizer, tmp_path):
    made = tokens_of(corpus, tokenizer, root=tmp_path / "root")
    texts = dict(zip(("train", "test"), documents.split(list(corpus.documents()), 0.2), strict=True))
    assert len(texts["test"]) == 8
    for side, file in (("train", made.train), ("test", made.test)):
        rows = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in texts[side]]
        assert file.tokens.tolist() == [token for row in rows for token in row]
        places = file.documents.tolist()
        assert [file.tokens[a:b].tolist() for a, b in pairwise(places)] == rows
        assert file.digest == documents.digest(texts[side])


def test_blocks_are_a_view_of_the_file(corpus, tokenizer, tmp_path):
    train = tokens_of(corpus, tokenizer, root=tmp_path / "root").train
    blocks = train.blocks(7)
    assert blocks.shape == (len(train) // 7, 7)
    assert blocks.data_ptr() == train.tokens.data_ptr()
    assert blocks[[2, 0]].long().tolist() == [train.tokens[14:21].tolist(), train.tokens[:7].tolist()]
    assert (train.tokens.dtype, torch.iinfo(train.tokens.dtype).bits) == (torch.uint16, 16)
    with pytest.raises(Error, match=f"must fill a block of {len(train) + 1} tokens, got {len(train)} in 32 documents"):
        train.blocks(len(train) + 1)


def test_a_call_that_was_stopped_goes_on_where_it_was(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "PART", 300)
    whole = tokens_of(corpus, tokenizer, root=tmp_path / "whole")
    said = []

    def stop(done, all):
        said.append(done)
        if len(said) == 3:
            raise KeyboardInterrupt

    root = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        tokens_of(corpus, tokenizer, root=root, progress=stop)
    (unfinished,) = root.glob("tokens/*.unfinished")
    with (unfinished / "train.tokens").open("ab") as file:
        file.write(b"half of a part that was being written")
    asked = []
    original = Encoder.documents
    monkeypatch.setattr(Encoder, "documents", lambda self, texts: asked.extend(texts) or original(self, texts))
    again = tokens_of(corpus, tokenizer, root=root)
    assert sum(map(len, asked)) == corpus.survey.characters - said[-1] > 0
    for side in ("train", "test"):
        assert torch.equal(getattr(again, side).tokens.long(), getattr(whole, side).tokens.long())
        assert getattr(again, side).documents.tolist() == getattr(whole, side).documents.tolist()
        assert getattr(again, side).digest == getattr(whole, side).digest
    asked.clear()
    tokens_of(corpus, tokenizer, root=root)
    assert asked == []
