"""Segments: what the tokens say about their ends is what a reader of the text counts."""

import pytest

from lengthwise.text import corpora, segment_ends, tokenizers

TEXT = 'He left. "She came."\nWhy? It is 3 o\'clock...\n\nA new one!\n'


@pytest.fixture(scope="module")
def bytes_of_python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(TEXT * 5)
    corpus = corpora.open([folder], held_out=0)
    return tokenizers.load(tokenizers.train(corpus, 300, root=folder / "root"))


def test_sentences_and_lines(bytes_of_python):
    ends = segment_ends(bytes_of_python, by="line")
    tokens = bytes_of_python.encode("one\ntwo\n\nthree")
    assert sum(token in ends for token in tokens) == 2
