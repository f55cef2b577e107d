"""Block scan by torch's operators: how it takes its transitions, and when a row is cut into chunks."""

import pytest
import torch

from lengthwise.ops import block_scan
from lengthwise.ops.block_diagonal import ScanCall, eager
from lengthwise.ops.block_diagonal.autograd import by_torch
from lengthwise.ops.block_diagonal.eager import LONG, NARROW, SHORT, number_of_chunks

from ..test_block_diagonal import begun, compare, inputs


@pytest.mark.parametrize("fits", [1, 400, 2000])  # a tile of one token, of some, and of some with a rest
@pytest.mark.parametrize("V", [None, 4])
@pytest.mark.parametrize("chunks", [1, 5])
@pytest.mark.parametrize(("B", "h"), [(2, 2), (3, 30)])  # small products, and sums of rows
@pytest.mark.parametrize(("kind", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_any_tile_gives_the_same(fits, V, chunks, B, h, kind, bound, monkeypatch):
    monkeypatch.setattr(eager, "FITS", fits)
    T = 37
    A, v, start = leaves = inputs(B, T, h, dtype=kind, V=V)
    index = None if V is None else torch.randint(0, V, (B, T))
    rows = torch.where(begun(B, T), 0, -1)
    rows[:, 0] = 0
    expected = block_scan(*leaves, index=index, begins=rows >= 0, restart=start[:1], backend="reference")[0]
    compare([by_torch(ScanCall(A, v, start, rows, index), chunks)], [expected], leaves, bound)


@pytest.mark.parametrize(("many", "B", "T", "cut"), [
    (1, 1, 100_000, True), (1, 2, 4000, True), (1, 1, SHORT, True), (1, 1, SHORT - 1, False),
    (1, 2, LONG, True), (1, 2, LONG - 1, False), (1, 3, 100_000, False), (1, 128, 40, False),
    (2, 4, SHORT, True), (2, 4, SHORT - 1, False), (2, 8, LONG, True), (2, 8, LONG - 1, False), (2, 9, 100_000, False),
])  # fmt: skip
def test_long_rows_of_a_narrow_batch_are_cut(many, B, T, cut, threads):
    threads(many)
    v = torch.empty(B, T, 8, 8, device="meta")
    K = number_of_chunks(v, None)
    assert (K > 1) == cut
    assert (NARROW if many == 1 else 4 * NARROW) >= B * 64 or not cut
    index = torch.empty(B, T, device="meta")
    assert number_of_chunks(torch.empty(3, 8, 8, device="meta"), index) == K


def test_an_empty_batch_has_no_states():
    for T in (5, 1000):
        states, final = block_scan(torch.zeros(0, T, 2, 3, 3), torch.zeros(0, T, 2, 3))
        assert states.shape == (0, T, 2, 3)
        assert final.shape == (0, 2, 3)


def test_compiled_once_for_all_lengths():
    torch._dynamo.reset()
    compiled = torch.compile(block_scan, backend="aot_eager", fullgraph=True)
    for T in (50, 60, 900, 901, 2500):
        leaves = inputs(1, T)
        compare(compiled(*leaves), block_scan(*leaves, backend="reference"), leaves, 1e-12)
