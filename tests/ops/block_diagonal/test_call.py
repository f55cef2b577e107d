"""Block scan: what it refuses, and in which words."""

import math

import pytest
import torch

from lengthwise import Error
from lengthwise.errors import NonFiniteError, ShapeError
from lengthwise.ops import block_scan

KERNELS = ["reference", "torch", "numba", "hillis-steele", "blelloch"]


def inputs(B=2, T=7):
    return torch.ones(B, T, 2, 3, 3) / 3, torch.ones(B, T, 2, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initial": torch.zeros(3, 2, 3)}, r"initial must be \(B,h,b\) = \[2, 2, 3\]"),
        ({"begins": torch.zeros(2, 6, dtype=torch.bool)}, r"begins must be \(B,T\) = \[2, 7\]"),
        ({"begins": torch.zeros(2, 7)}, "bool"),
        ({"begins": torch.zeros(2, 7, dtype=torch.bool), "restart": torch.zeros(2, 3)}, r"restart must be \(B,h,b\)"),
        ({"restart": torch.zeros(1, 2, 3)}, "got no begins"),
        ({"cu_seqlens": torch.tensor([0, 7])}, "B = 2"),
        ({"backend": "triton"}, "triton"),
        ({"backend": "hillis"}, "hillis-steele"),
    ],
)
def test_refused(change, words):
    with pytest.raises(Error, match=words):
        block_scan(*inputs(), **change)


@pytest.mark.parametrize("edges", [[0, 5, 3, 7], [0, 6], [1, 7], [7], []])
def test_edges_are_refused(edges):
    with pytest.raises(ShapeError, match="never falling"):
        block_scan(*inputs(1), cu_seqlens=torch.tensor(edges, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"initial must be \(N,h,b\) = \[2, 2, 3\]"):
        block_scan(*inputs(1), torch.zeros(3, 2, 3), cu_seqlens=torch.tensor([0, 3, 7]))


def test_shapes_are_refused():
    A, v = inputs()
    with pytest.raises(ShapeError, match="T = 0"):
        block_scan(A[:, :0], v[:, :0])
    for bad in [(A[..., :2], v), (A, v[:, :3]), (A[0], v[0]), (A[..., 0], v)]:
        with pytest.raises(ShapeError, match="square"):
            block_scan(*bad)
    with pytest.raises(Error, match="floating point"):
        block_scan(A.long(), v.long())
    with pytest.raises(Error, match="alike"):
        block_scan(A.double(), v)


def test_an_index_is_refused():
    A, v = (x[0] for x in inputs(1, 4))
    for wrong in (4, -1):
        with pytest.raises(Error, match=f"below V = 4, .* got {wrong}"):
            block_scan(A, v, index=torch.tensor([[0, 3, wrong]]))
    for bad in (torch.zeros(3, dtype=torch.long), torch.zeros(1, 3)):
        with pytest.raises(ShapeError, match="integers"):
            block_scan(A, v, index=bad)
    with pytest.raises(ShapeError, match="T = 0"):
        block_scan(A, v, index=torch.zeros(2, 0, dtype=torch.long))


@pytest.mark.parametrize("backend", KERNELS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_named(backend, wrong):
    A, v = inputs()
    A[1, 4, 0, 1, 2] = A[0, 5, 0, 0, 0] = wrong
    with pytest.raises(NonFiniteError, match=r"first at t = 4, in row 1 "):
        block_scan(A, v, backend=backend)
    table, inputs_of = (x[0] for x in inputs(1, 4))
    table = table.clone()
    table[2, 0, 0, 0] = wrong
    with pytest.raises(NonFiniteError, match=r"t = 1, in row 0 .*row 2 of the table"):
        block_scan(table, inputs_of, index=torch.tensor([[0, 2, 1]]), backend=backend)
    assert block_scan(table, inputs_of, index=torch.tensor([[0, 3, 1]]), backend=backend)[0].isfinite().all()


@pytest.mark.filterwarnings("error")
def test_a_state_that_grew_too_large_is_no_fault_of_a_transition():
    A, v = inputs()
    assert not block_scan(A * 1e30, v)[0].isfinite().all()
    # Nor is a sum of states, by which they are looked at, that is too large where they are not, or no number.
    for v, wanted in (([2e38, 0, 0], [2e38] * 3), ([math.inf, 0, -math.inf], [math.inf, math.inf, math.nan])):
        found = block_scan(torch.ones(1, 3, 1, 1, 1), torch.tensor(v).view(1, 3, 1, 1))[0]
        torch.testing.assert_close(found.flatten(), torch.tensor(wanted), equal_nan=True)
