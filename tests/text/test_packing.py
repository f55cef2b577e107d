"""Packing: no token is lost but the last partial block, and an epoch reads every block once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.text import pack_train_and_test, packing


class Letters:
    """A tokenizer whose tokens are the letters a to z."""

    eos_token_id = 26

    def __len__(self):
        return 27

    def __call__(self, texts, **_):
        return {"input_ids": [[ord(letter) - 97 for letter in text] for text in texts]}


def test_what_is_tested_on_is_not_trained_on():
    train, test, _, counts = pack_train_and_test(["abc", "defg", "abc "[:3]], ["abc", "hi"], Letters(), 3)
    assert counts == {"train": 1, "test": 2}
    assert train.tolist() == [[3, 4, 5]]
    assert test.tolist() == [[0, 1, 2], [26, 7, 8]]
    with pytest.raises(Error, match="Every document to train on"):
        pack_train_and_test(["abc"], ["abc"], Letters(), 3)


def test_an_epoch_has_an_order_of_its_own():
    rows = torch.arange(10)[:, None]
    first, second = (packing.batch(rows, step, 10, seed=0).flatten().tolist() for step in (0, 1))
    assert first != second
    assert packing.batch(rows, 0, 10, seed=1).flatten().tolist() != first


DOCUMENTS = st.lists(st.text("abcdefg", min_size=1, max_size=12), min_size=1, max_size=8)


@given(DOCUMENTS, st.integers(1, 9))
def test_packing_loses_no_token_but_those_of_the_last_partial_block(texts, block):
    letters = Letters()
    stream = [token for ids in letters(texts)["input_ids"] for token in (*ids, letters.eos_token_id)]
    if len(stream) < block:
        with pytest.raises(Error, match=f"fill a block of {block} tokens"):
            packing.pack(texts, letters, block)
        return
    packed = packing.pack(texts, letters, block)
    assert packed.shape == (len(stream) // block, block)
    assert packed.flatten().tolist() == stream[: packed.numel()]


def test_documents_are_packed_alike_however_many_are_tokenized_at_once(monkeypatch):
    texts = ["abc", "de", "fghi", "j", "kl"]
    whole = packing.pack(texts, Letters(), 4)
    monkeypatch.setattr(packing, "DOCUMENTS_AT_ONCE", 2)
    assert packing.pack(texts, Letters(), 4).tolist() == whole.tolist()


def test_a_tokenizer_without_an_end_is_refused():
    letters = Letters()
    letters.eos_token_id = None
    with pytest.raises(Error, match="must have an end-of-text token"):
        packing.pack(["abc"], letters, 2)


@given(count=st.integers(1, 12), size=st.integers(1, 7), seed=st.integers(0, 3))
@settings(max_examples=40)
def test_every_epoch_reads_every_block_once(count, size, seed):
    blocks = torch.arange(count)[:, None]
    read = [packing.batch(blocks, step, size, seed) for step in range(-(-3 * count // size))]
    read = torch.cat(read).flatten().tolist()
    for epoch in range(3):
        assert sorted(read[epoch * count : (epoch + 1) * count]) == list(range(count))


@pytest.mark.parametrize(("tokens", "heights"), [(1, [1] * 5), (6, [2, 2, 1]), (7, [2, 2, 1]), (99, [5])])
def test_parts_hold_about_so_many_tokens_and_every_row_once(tokens, heights):
    rows = torch.arange(15).view(5, 3)
    parts = packing.parts(rows, tokens)
    assert [len(part) for part in parts] == heights
    assert torch.cat(list(parts)).tolist() == rows.tolist()
