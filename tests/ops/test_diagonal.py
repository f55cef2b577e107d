"""The diagonal scan: its gradients, what a transition does, stacks, and what it refuses.

That every kernel equals the reference is `tests/laws/test_kernels.py`.
"""

import pytest
import torch

from lengthwise import ops
from lengthwise.errors import Error, ShapeError
from lengthwise.ops import diagonal_scan

KINDS = {"real": torch.float64, "complex": torch.complex128}


def inputs(T, kind="complex", rows=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=KINDS[kind], generator=g, requires_grad=True)  # noqa: E731
    return draw(rows, T, 3), draw(2, T, 3), draw(2, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    assert torch.autograd.gradcheck(lambda a, v, x: diagonal_scan(a, v, x, backend="torch"), inputs(5, kind))


def test_a_transition_of_zero_forgets_and_one_of_one_keeps():
    a, v, x0 = inputs(9)
    a, v = a.detach().clone(), v.detach().clone()
    a[:, 4], a[:, 6], v[:, 6] = 0, 1, 0
    x = diagonal_scan(a, v, x0)
    torch.testing.assert_close(x[:, 4:], diagonal_scan(a[:, 4:], v[:, 4:]))
    torch.testing.assert_close(x[:, 6], x[:, 5])


def test_maps_over_stacks():
    stacks = [torch.stack(pair) for pair in zip(inputs(7), inputs(7, seed=1), strict=True)]
    mapped = torch.func.vmap(diagonal_scan)(*stacks)
    for i in range(2):
        torch.testing.assert_close(mapped[i], diagonal_scan(*(s[i] for s in stacks)))


def test_refuses():
    a, v, x0 = inputs(4)
    with pytest.raises(ShapeError, match=r"a \(B,T,n\) or \(1,T,n\), got a \[2, 3, 3\]"):
        diagonal_scan(a[:, :3], v)
    with pytest.raises(ShapeError, match="got T = 0"):
        diagonal_scan(a[:, :0], v[:, :0])
    with pytest.raises(ShapeError, match=r"initial must be \(B,n\) = \[2, 3\], got \[1, 3\]"):
        diagonal_scan(a, v, x0[:1])
    with pytest.raises(Error, match="no triton kernel"), ops.backend("triton"):
        diagonal_scan(a, v)
