"""Packing: an epoch reads every block once, and parts hold every row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise.text import packing


def test_an_epoch_has_an_order_of_its_own():
    rows = torch.arange(10)[:, None]
    first, second = (packing.batch(rows, step, 10, seed=0).flatten().tolist() for step in (0, 1))
    assert first != second
    assert packing.batch(rows, 0, 10, seed=1).flatten().tolist() != first


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
