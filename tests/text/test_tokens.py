"""Tokens of a corpus: those of the tokenizer, on the side of their document, made once, whatever stops the making."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from lengthwise import Error
from lengthwise.errors import RecordError
from lengthwise.text import corpora, documents, packing, tokenizers, tokens, tokens_of
from lengthwise.text.tokens import DocumentEncoder


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


def documents_as_read(texts):
    return hashlib.sha256(b"".join(hashlib.sha256(text.encode()).digest() for text in texts)).hexdigest()


def test_every_side_has_the_tokens_of_its_documents(corpus, tokenizer, tmp_path):
    made = tokens_of(corpus, tokenizer, root=tmp_path / "root")
    texts = dict(zip(("train", "test"), documents.split(list(corpus.documents()), 0.2), strict=True))
    assert len(texts["test"]) == 8
    for side, file in (("train", made.train), ("test", made.test)):
        rows = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in texts[side]]
        assert file.tokens.tolist() == [token for row in rows for token in row]
        places = file.documents.tolist()
        assert [file.tokens[a:b].tolist() for a, b in pairwise(places)] == rows
        assert file.digest == documents_as_read(texts[side])
        assert file.of([2, 0]).tolist() == [*rows[2], *rows[0]]
        assert file.of(range(3), len(rows[0]) + 2).tolist() == [*rows[0], *rows[1][:2]]


def test_what_is_kept_in_a_corpus_is_no_part_of_it(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    for _ in range(2):
        corpus = corpora.open([tmp_path], held_out=0)
        tokens_of(
            corpus, tokenizers.load(tokenizers.train(corpus, 257, root=tmp_path / "root")), root=tmp_path / "root"
        )
        assert list(corpora.open([tmp_path]).documents()) == ["x = 1"]


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
    original = DocumentEncoder.documents
    monkeypatch.setattr(DocumentEncoder, "documents", lambda self, texts: asked.extend(texts) or original(self, texts))
    again = tokens_of(corpus, tokenizer, root=root)
    assert sum(map(len, asked)) == corpus.survey.characters - said[-1] > 0
    for side in ("train", "test"):
        assert torch.equal(getattr(again, side).tokens.long(), getattr(whole, side).tokens.long())
        assert getattr(again, side).documents.tolist() == getattr(whole, side).documents.tolist()
        assert getattr(again, side).digest == getattr(whole, side).digest
    asked.clear()
    tokens_of(corpus, tokenizer, root=root)
    assert asked == []


@pytest.mark.parametrize("words", ["ours", "gpt2", "prefix"])
def test_a_long_document_has_the_tokens_it_has_as_a_whole(tokenizer, words, monkeypatch):
    backend = tokenizer.backend_tokenizer
    if words == "gpt2":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if words == "prefix":  # puts a letter before each text, so a document must not be cut
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    monkeypatch.setattr(tokens, "AT_ONCE", 6)
    monkeypatch.setattr(tokens, "LONG", 6)
    cutting = DocumentEncoder(tokenizer)
    assert cutting.cuts == (words != "prefix")

    @given(st.lists(st.text(" a\n.'é\t", max_size=40), max_size=3))
    def tokens_are_those_of_the_whole(texts):
        rows = [[*backend.encode(text).ids, tokenizer.eos_token_id] for text in texts]
        assert [row.tolist() for row in cutting.documents(texts)] == rows

    tokens_are_those_of_the_whole()
    assert len(list(cutting._pieces("return x\n" * 5))) == (5 if cutting.cuts else 1)


LETTERS = st.sampled_from(
    [*"aZé09'\".,_ \t\n\r\v\f\x1c\x01\x85\xa0\u2003\u2028“’。你²Ⅳ\u0301", "don't", "\r\n", "  ", "<|endoftext|>"]
)


def test_words_that_are_looked_up_have_the_tokens_of_the_library(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    (tmp_path / "a.txt").write_text(
        "é été\té\té “don't” a\xa0é\n" * 50
    )  # so that tokens reach from white space into letters
    corpus = corpora.open([tmp_path / "a.txt"], held_out=0)
    tokenizer = tokenizers.load(tokenizers.train(corpus, 300, root=tmp_path))
    looking = DocumentEncoder(tokenizer)
    assert looking.looks_up
    monkeypatch.setattr(tokens, "KNOWN", 30)

    @given(st.one_of(st.lists(LETTERS, max_size=30).map("".join), st.text(max_size=20)))
    @settings(max_examples=300)
    def tokens_are_those_of_the_library(text):
        assert looking._encode([text]) == looking._without_looking_up([text])

    tokens_are_those_of_the_library()
    monkeypatch.setenv("RAYON_NUM_THREADS", "8")
    assert not DocumentEncoder(tokenizer).looks_up or os.environ.get("TOKENIZERS_PARALLELISM") == "false"
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    assert DocumentEncoder(tokenizer).looks_up
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert not DocumentEncoder(tokenizer).looks_up


@pytest.mark.parametrize("threads", ["1", "8"])
def test_an_end_of_text_that_is_spelled_out_ends_nothing(tmp_path, threads, monkeypatch):
    monkeypatch.setenv("RAYON_NUM_THREADS", threads)
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    (tmp_path / "a.py").write_text('END = "<|endoftext|>"\n')
    corpus = corpora.open([tmp_path / "a.py"], held_out=0)
    tokenizer = tokenizers.load(tokenizers.train(corpus, 257, root=tmp_path / "root"))
    made = tokens_of(corpus, tokenizer, root=tmp_path / "root")
    assert (made.train.tokens.long() == tokenizer.eos_token_id).tolist() == [False] * 22 + [True]
    assert len(made.test) == 0
    with pytest.raises(Error, match="must fill a block of 4 tokens, got 0 in 0 documents"):
        made.test.blocks(4)


def test_large_vocabularies_have_32_bits(tmp_path):
    class Letters:
        eos_token_id = 70_000

        def __len__(self):
            return 70_001

        def get_vocab(self):
            return {"<end>": 70_000}

        def __call__(self, texts, **_):
            return {"input_ids": [[66_000 + ord(letter) for letter in text] for text in texts]}

    (tmp_path / "a.txt").write_text("ab")
    made = tokens_of(corpora.open([tmp_path], held_out=0), Letters(), root=tmp_path / "root")
    assert made.train.blocks(3).tolist() == [[66_097, 66_098, 70_000]]
    assert made.train.tokens.dtype == torch.uint32
    assert packing.batch(made.train.blocks(3), 0, 1, seed=0).tolist() == [[66_097, 66_098, 70_000]]


def test_a_token_that_does_not_fit_its_bits_is_refused(tmp_path):
    class Gaps:
        eos_token_id = 1

        def __len__(self):
            return 2

        def get_vocab(self):
            return {"a": 65_536, "<end>": 1}

        def __call__(self, texts, **_):
            return {"input_ids": [[65_536 for _ in text] for text in texts]}

    (tmp_path / "a.txt").write_text("aa")
    with pytest.raises(Error, match=r"A token's id must be below 65,536, .* got 65,536"):
        tokens_of(corpora.open([tmp_path], held_out=0), Gaps(), root=tmp_path / "root")


def test_texts_that_differ_in_white_space_alone_have_tokens_of_their_own(tokenizer, tmp_path):
    """Their sides are the same, for copies are told by their words."""
    found = []
    for text in ("one", " one\n\n", "one "):
        (tmp_path / "a.json").write_text(json.dumps([text, "two"]))
        made = tokens_of(corpora.open([tmp_path / "a.json"], held_out=0), tokenizer, root=tmp_path / "root").train
        assert made.tokens.tolist()[: made.documents[1] - 1] == tokenizer.encode(text)
        found.append((made.digest, made.numbers.tolist()))
    assert len({digest for digest, _ in found}) == 3
    assert all(numbers == found[0][1] for _, numbers in found)


def test_what_is_drawn_from_the_file_is_what_is_drawn_from_memory(corpus, tokenizer, tmp_path):
    blocks = tokens_of(corpus, tokenizer, root=tmp_path / "root").train.blocks(16)
    packed = packing.pack(list(corpus.train()), tokenizer, 16)
    assert torch.equal(blocks.long(), packed.long())
    assert torch.equal(packing.batch(blocks, 3, 4, seed=0), packing.batch(packed, 3, 4, seed=0))


def test_files_that_changed_are_refused(corpus, tokenizer, tmp_path):
    folder = tokens_of(corpus, tokenizer, root=tmp_path / "root").folder
    with (folder / "test.tokens").open("ab") as file:
        file.write(b"xx")
    with pytest.raises(RecordError, match=r"test\.tokens: must be a file of \d+ bytes"):
        tokens_of(corpus, tokenizer, root=tmp_path / "root")


KILLED = """
import os, signal, sys
from lengthwise.text import corpora, tokenizers, tokens, tokens_of
tokens.PART = 1 << 16
corpus = corpora.open([sys.argv[1]])
read = tokenizers.load(tokenizers.train(corpus, 500, root=sys.argv[2]))
parts = []
def kill(done, all):
    parts.append(done)
    if len(parts) == 3 and sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
made = tokens_of(corpus, read, root=sys.argv[2], progress=kill)
print(made.train.digest, len(made.train), int(made.train.tokens.long().sum()), len(made.test))
"""


@pytest.mark.slow
def test_a_killed_process_is_gone_on_with(tmp_path):
    def call(root, kill):
        words = [sys.executable, "-c", KILLED, str(Path(json.__file__).parent.parent / "asyncio"), str(root), kill]
        return subprocess.run(words, capture_output=True, text=True)

    assert call(tmp_path / "a", "kill").returncode == -signal.SIGKILL
    (unfinished,) = (tmp_path / "a").glob("tokens/*.unfinished")
    assert (unfinished / "train.tokens").stat().st_size > 0
    again, whole = call(tmp_path / "a", "no"), call(tmp_path / "b", "no")
    assert (again.returncode, again.stdout) == (0, whole.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says how much memory a process has had")
def test_a_large_file_needs_little_memory(tmp_path):
    """200 MB in one document without an end, surveyed, and tokens made of the first 20: well below a gigabyte."""
    code = """
import sys
from lengthwise.text import corpora, tokenizers, tokens_of
corpus = corpora.open([sys.argv[1]], held_out=0)
assert corpus.survey.characters == int(sys.argv[3])
read = tokenizers.load(tokenizers.train(corpora.open([sys.argv[2]], held_out=0), 500, root=sys.argv[2] + "/root"))
class Enough(Exception): pass
def stop(done, all):
    if done > 2e7:
        raise Enough
try:
    tokens_of(corpus, read, root=sys.argv[2] + "/root", progress=stop)
except Enough:
    # Not ru_maxrss, which a process takes over from the one that started it.
    print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    small = "".join(path.read_text() for path in sorted(Path(json.__file__).parent.glob("*.py")))
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.txt").write_text(small)
    times = 200_000_000 // len(small)
    with (tmp_path / "large.txt").open("w") as file:
        for _ in range(times):
            file.write(small)
    words = [sys.executable, "-c", code, str(tmp_path / "large.txt"), str(tmp_path / "small"), str(times * len(small))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 1 << 30
