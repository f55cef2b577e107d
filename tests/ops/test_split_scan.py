"""Scans over ranks: the composition law, and values and gradients of every rank against one process."""

from itertools import accumulate

import pytest
import torch

from lengthwise import Error, ops
from lengthwise.ops import block_scan, diagonal_scan
from lengthwise.ops.block_diagonal.autograd import Blocks
from lengthwise.ops.split_scan import entering, leaving

from .in_threads import in_threads
from .test_block_diagonal import inputs

PIECES = [(1,), (1, 1), (0, 1), (1, 0), (2, 0, 5), (0, 3, 0, 4, 0), (7, 1, 13), (31, 66, 2, 1), (0, 500, 3)]
"""How many tokens each rank holds."""


def cuts(pieces):
    return [slice(end - n, end) for n, end in zip(pieces, accumulate(pieces), strict=True)]


@pytest.mark.parametrize("pieces", [(1, 2, 4), (3, 3, 1), (1, 1, 1, 1, 1, 1, 1)])
def test_pieces_compose_wherever_a_sequence_is_cut(pieces):
    """Without ranks: s_r from the (P, z) of the pieces, and μ_r from their y, by torch's own gradients."""
    A, v, start = inputs(T=sum(pieces))
    whole, _ = block_scan(A, v, start, backend="reference")
    scan = Blocks("torch")
    transfers = [scan.transfer(start.detach(), A.detach()[:, cut], v.detach()[:, cut], None) for cut in cuts(pieces)]
    P, z = (torch.stack(each) for each in zip(*transfers, strict=True))
    s_r = entering(P, z, start.detach()).requires_grad_()
    found = [
        block_scan(A[:, cut], v[:, cut], s, backend="reference")[0] for cut, s in zip(cuts(pieces), s_r, strict=True)
    ]
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-12, atol=1e-12)

    g = torch.randn(whole.shape, dtype=whole.dtype, generator=torch.Generator().manual_seed(3))
    alone = torch.stack(
        [torch.autograd.grad((x * g[:, cut]).sum(), s_r, retain_graph=True)[0][r]
         for r, (x, cut) in enumerate(zip(found, cuts(pieces), strict=True))]
    )  # fmt: skip
    mu = leaving(P, alone)
    slopes = torch.autograd.grad((whole * g).sum(), (A, v, start))
    parts = [torch.autograd.grad((x * g[:, cut]).sum() + (x[:, -1] * mu_r).sum(), (A, v), retain_graph=True)
             for x, cut, mu_r in zip(found, cuts(pieces), mu, strict=True)]  # fmt: skip
    for wanted, got in zip(slopes[:2], zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(sum(got), wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        alone[0] + (P[0].mT @ mu[0].unsqueeze(-1)).squeeze(-1), slopes[2], rtol=1e-12, atol=1e-12
    )


def of_one_process(scan, leaves, g):
    states = scan(*leaves)
    return states, torch.autograd.grad((states * g).real.sum(), leaves)


def over(ranks, pieces, scan, leaves, g):
    """This rank's states, and its gradients of its own copies of the leaves."""
    cut = cuts(pieces)[ranks.rank]
    own = [x.detach().clone().requires_grad_() for x in leaves]
    states = scan(*own, ranks=ranks, cut=cut)
    (states * g[:, cut]).real.sum().backward()
    return states.detach(), [x.grad for x in own], ranks.received


def agree(pieces, scan, leaves):
    whole = scan(*leaves)
    g = torch.randn(whole.shape, dtype=whole.dtype, generator=torch.Generator().manual_seed(4))
    states, slopes = of_one_process(scan, leaves, g)
    ran = in_threads(len(pieces), lambda ranks: over(ranks, pieces, scan, leaves, g))
    torch.testing.assert_close(torch.cat([s for s, _, _ in ran], 1), states, rtol=1e-11, atol=1e-11)
    for k, wanted in enumerate(slopes):
        got = sum(torch.zeros_like(wanted) if found[k] is None else found[k] for _, found, _ in ran)
        torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)
    return [received for _, _, received in ran]


@pytest.mark.parametrize(
    ("pieces", "kernel"),
    [*((each, "torch") for each in PIECES), pytest.param((7, 0, 13), "numba", marks=pytest.mark.slow)],
)
def test_blocks_over_ranks_are_those_of_one_process(pieces, kernel):
    if kernel == "numba":
        pytest.importorskip("numba")

    def scan(A, v, initial, ranks=None, cut=slice(None)):
        return block_scan(A[:, cut], v[:, cut], initial, ranks=ranks, backend=kernel)[0]

    agree(pieces, scan, inputs(T=sum(pieces)))


def test_tables_over_ranks():
    tokens = torch.randint(0, 6, (2, 45), generator=torch.Generator().manual_seed(5))

    def scan(A, v, initial, ranks=None, cut=slice(None)):
        return block_scan(A, v, initial, index=tokens[:, cut], ranks=ranks)[0]

    agree((11, 30, 4), scan, inputs(V=6))


def test_the_last_state_of_a_piece():
    """Of every rank, a rank without tokens too, in values and gradients."""
    A, v, initial = leaves = inputs(T=7)
    for pieces in [(3, 4, 0, 0), (0, 3, 0, 4)]:

        def last(ranks, pieces=pieces):
            own, cut = [x.detach().clone().requires_grad_() for x in leaves], cuts(pieces)[ranks.rank]
            _, final = block_scan(own[0][:, cut], own[1][:, cut], own[2], ranks=ranks)
            (final * (ranks.rank + 1)).sum().backward()
            return final.detach(), [x.grad for x in own]

        states = torch.cat([initial[:, None], block_scan(A, v, initial)[0]], 1)
        wanted = [states[:, cut.stop] for cut in cuts(pieces)]
        slopes = torch.autograd.grad(sum((x * (r + 1)).sum() for r, x in enumerate(wanted)), leaves)
        ran = in_threads(len(pieces), last)
        torch.testing.assert_close([x for x, _ in ran], wanted, rtol=1e-11, atol=1e-11)
        for k, slope in enumerate(slopes):
            got = sum(torch.zeros_like(slope) if grads[k] is None else grads[k] for _, grads in ran)
            torch.testing.assert_close(got, slope, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "kinds", [(torch.float64, torch.float64), (torch.complex128,) * 2, (torch.float64, torch.complex128)]
)
@pytest.mark.parametrize("rows", [1, 2])
def test_diagonal_over_ranks(kinds, rows):
    draw = torch.Generator().manual_seed(6)
    for pieces in [(1,), (0, 1), (2, 0, 5), (7, 1, 13), (0, 3, 0, 14, 0)]:
        T = sum(pieces)
        shapes = (rows, T, 4), (2, T, 4), (2, 4)
        leaves = [torch.randn(s, dtype=k, generator=draw).mul(0.8).requires_grad_()
                  for s, k in zip(shapes, (*kinds, kinds[1]), strict=True)]  # fmt: skip

        def scan(a, v, initial, ranks=None, cut=slice(None)):
            return diagonal_scan(a[:, cut], v[:, cut], initial, ranks=ranks)

        agree(pieces, scan, leaves)


def test_what_is_exchanged_does_not_grow_with_the_length():
    """Forwards P and z, backwards y; between two ranks z and y alone."""

    def scan(A, v, initial, ranks=None, cut=slice(None)):
        return block_scan(A[:, cut], v[:, cut], initial, ranks=ranks)[0]

    B, h, b, number = 2, 2, 3, 8
    for n in (3, 100):
        assert agree((n, n), scan, inputs(B, 2 * n, h, b)) == [2 * B * h * b * number] * 2
        assert agree((n, n, n), scan, inputs(B, 3 * n, h, b)) == [2 * B * h * (b * b + 2 * b) * number] * 3


def test_refusals():
    A, v, initial = inputs()
    ranks = object()
    with pytest.raises(Error, match="hold one sequence each"):
        block_scan(A, v, initial, begins=torch.zeros(2, 7, dtype=torch.bool), ranks=ranks)
    with pytest.raises(Error, match="'blelloch'"):
        block_scan(A, v, initial, ranks=ranks, backend="blelloch")
    with pytest.raises(Error, match=r"this process is in none. Start it with torchrun"):
        ops.Ranks()
