"""Block scan: what a call means, chunks, half precision, stacks and compiled graphs.

That every kernel equals the reference is `tests/laws/test_kernels.py`.
"""

from itertools import pairwise

import pytest
import torch
from torch.func import grad, vmap

from lengthwise import Error
from lengthwise.ops import block_scan
from lengthwise.ops.block_diagonal import ScanCall
from lengthwise.ops.block_diagonal.autograd import by_numba, by_torch
from lengthwise.ops.block_diagonal.reference import oracle

LENGTHS = [1, 2, 3, 31, 63, 64, 65, 127, 500]
KERNELS = ["torch", "numba", "hillis-steele", "blelloch"]


def by_chunks(A, v, start, start_row, index, chunks):
    """The states by so many chunks a row, or by "numba"."""
    call = ScanCall(A, v, start, start_row, index)
    return by_numba(call) if chunks == "numba" else by_torch(call, chunks)


def inputs(B=2, T=7, h=2, b=3, dtype=torch.float64, V=None, seed=0):
    """A, v and initial; with V, tables. Transitions keep a state's size, so that long rows neither grow nor die."""
    draw = torch.Generator().manual_seed(seed)
    lead = (B, T) if V is None else (V,)
    A = torch.linalg.qr(torch.randn(*lead, h, b, b, generator=draw, dtype=torch.float64))[0].contiguous()
    v, initial = (torch.randn(*n, h, b, generator=draw, dtype=torch.float64) for n in (lead, (B,)))
    return [x.to(dtype).requires_grad_() for x in (A * 0.95, v, initial)]


def compare(found, expected, leaves, bound):
    """States and final, and gradients of a random sum of both, relative to their size."""
    draw = torch.Generator().manual_seed(1)
    weights = [torch.randn(y.shape, generator=draw, dtype=torch.float64) for y in expected]
    slopes = lambda ys: torch.autograd.grad(sum((y * w).sum() for y, w in zip(ys, weights, strict=True)), leaves)  # noqa: E731
    for a, b in zip([*found, *slopes(found)], [*expected, *slopes(expected)], strict=True):
        assert a.shape == b.shape
        a, b = a.detach().double(), b.detach().double()
        assert float((a - b).abs().max()) <= bound * max(1, float(b.abs().max()))


def begun(B, T, seed=2):
    return torch.rand(B, T, generator=torch.Generator().manual_seed(seed)) < 0.2


@pytest.mark.parametrize("chunks", ["numba", 1, 2, 5, 31])
@pytest.mark.parametrize(("B", "h"), [(1, 3), (3, 30)])  # small products, and sums of rows
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_any_number_of_chunks_gives_the_same(chunks, B, h, kind):
    T = 67
    A, v, _ = leaves = inputs(B, T, h, dtype=kind)
    start = torch.randn(5, h, 3, dtype=kind).requires_grad_()
    rows = torch.where(begun(B, T), torch.arange(T) % 5, -1)
    rows[:, 0] = torch.arange(B)
    for given in (leaves, (A, v, start)):
        at = None if given is leaves else rows
        expected = oracle(ScanCall(*given, at, None))
        compare([by_chunks(*given, at, None, chunks)], [expected], given, 1e-12 if kind == torch.float64 else 2e-5)


@pytest.mark.parametrize("backend", ["reference", *KERNELS])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_table_is_read_by_any_integers(kind, backend):
    A, v, initial = inputs(B=3, V=3)
    index = torch.tensor([[0, 1, 0], [1, 1, 0], [0, 0, 1]])  # as a mask of bytes it would pick rows instead
    found = block_scan(A, v, initial, index=index.to(kind), backend=backend)
    wanted = block_scan(A, v, initial, index=index, backend="reference")
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_a_table_is_never_spread_over_the_tokens():
    table, v, initial = inputs(4, 200, 2, 4, torch.float32, V=3)
    index, kept = torch.randint(0, 3, (4, 200)), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        block_scan(table, v, initial, index=index)
    assert max(kept) <= 4 * 200 * 2 * 4  # the states


@pytest.mark.parametrize("chunks", ["numba", 1, 4])
@pytest.mark.parametrize("V", [None, 3])
def test_gradcheck(chunks, V):
    A, v, start = inputs(2, 9, 2, 2, V=V)
    index = None if V is None else torch.randint(0, V, (2, 9))
    assert torch.autograd.gradcheck(lambda *x: by_chunks(*x, None, index, chunks), (A, v, start))


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("V", [None, 3])
def test_when_only_some_require_grad(asked, V):
    leaves = [x.detach() for x in inputs(T=20, V=V)]
    index = None if V is None else torch.randint(0, V, (2, 20))
    leaves[asked].requires_grad_()
    found, expected = (block_scan(*leaves, index=index, backend=backend) for backend in ("torch", "reference"))
    compare(found, expected, [leaves[asked]], 1e-12)


@pytest.mark.parametrize("backend", KERNELS)
@pytest.mark.parametrize("T", [7, 64])
def test_bfloat16_is_summed_in_single(backend, T):
    leaves = inputs(T=T, dtype=torch.bfloat16)
    states, final = block_scan(*leaves, backend=backend)
    assert states.dtype == final.dtype == torch.bfloat16
    compare((states, final), block_scan(*(x.double() for x in leaves), backend="reference"), leaves, 2e-2)
    single = inputs(T=T, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = block_scan(*single, backend=backend)
    compare(found, block_scan(*(x.double() for x in single), backend="reference"), single, 2e-5)


@pytest.mark.parametrize("backend", KERNELS)
def test_float16_packed(backend):
    A, v, initial = leaves = inputs(1, 40, dtype=torch.float16)
    packed = {"cu_seqlens": torch.tensor([0, 7, 7, 30, 40])}
    found = block_scan(A, v, initial, **packed, backend=backend)
    assert {x.dtype for x in found} == {torch.float16}
    compare(found, block_scan(*(x.double() for x in leaves), **packed, backend="reference"), leaves, 2e-3)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_sequence_begins(restarts):
    """By the reference: each is what it would be alone."""
    A, v, initial = leaves = inputs(2, 40)
    fresh = inputs(1, 1, seed=3)[2] if restarts else None
    begins, rows = begun(2, 40), []
    for r in range(2):
        edges = sorted({0, *begins[r].nonzero().flatten().tolist()})
        pieces = []
        for a, z in pairwise([*edges, 40]):
            x = fresh if restarts and begins[r, a] else initial[r : r + 1]
            pieces.append(block_scan(A[r : r + 1, a:z], v[r : r + 1, a:z], x, backend="reference")[0])
        rows.append(torch.cat(pieces, 1))
    states = torch.cat(rows)
    found = block_scan(*leaves, begins=begins, restart=fresh, backend="reference")
    compare(found, (states, states[:, -1]), [*leaves, *([fresh] if restarts else [])], 1e-12)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("sizes", [[1], [3, 1, 20], [0, 5, 0, 0, 7, 0]])
def test_packed_is_each_alone(sizes, own):
    """By the reference, as kernels are held to it in the law."""
    A, v, _ = inputs(1, sum(sizes))
    initial = inputs(len(sizes) if own else 1, 1)[2]
    edges = torch.tensor([0, *sizes]).cumsum(0)
    each, starts = [], initial.expand(len(sizes), 2, 3)
    for n, (a, z) in enumerate(pairwise(edges)):
        alone = block_scan(A[:, a:z], v[:, a:z], starts[n : n + 1]) if z > a else (v[:, :0], starts[n : n + 1])
        each.append(alone)
    expected = torch.cat([s for s, _ in each], 1), torch.cat([f for _, f in each])
    compare(block_scan(A, v, initial, cu_seqlens=edges, backend="reference"), expected, [A, v, initial], 1e-12)


def test_without_an_initial_state_it_is_zero():
    A, v, initial = inputs()
    compare(block_scan(A, v), block_scan(A, v, torch.zeros_like(initial)), [A, v], 0.0)


def test_however_its_inputs_lie():
    A, v, initial = (x.detach() for x in inputs(4, 30, 20, dtype=torch.float32))
    leaves = [A.mT.contiguous().mT.requires_grad_(), v.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()]
    compare(block_scan(*leaves, initial), block_scan(*leaves, initial, backend="reference"), leaves, 2e-5)
    assert block_scan(*leaves)[0].is_contiguous()


@pytest.mark.parametrize("V", [None, 4])
@pytest.mark.parametrize("backend", ["reference", *KERNELS])
def test_under_vmap(backend, V):
    """Stacked, mapped gradients, and the gradient of what is mapped, each as if alone."""
    N = 3
    A, v, initial = (torch.stack([x.detach() * s for s in (0.5, 0.8, 1.0)]) for x in inputs(T=9, V=V))
    index = None if V is None else torch.randint(0, V, (N, 2, 9))
    begins = begun(2, 9)

    def run(A, v, x, index):
        return block_scan(A, v, x, index=index, begins=begins, backend=backend)[0].sin().sum()

    each = lambda f: [f(A[n], v[n], initial[n], None if V is None else index[n]) for n in range(N)]  # noqa: E731
    dims = (0, 0, 0, None if V is None else 0)
    torch.testing.assert_close(vmap(run, dims)(A, v, initial, index), torch.stack(each(run)))
    slopes = grad(run, (0, 1, 2))
    alone = [torch.stack(x) for x in zip(*each(slopes), strict=True)]
    mapped = vmap(slopes, dims)(A, v, initial, index)
    outside = grad(lambda *x: vmap(run, dims)(*x, index).sum(), (0, 1, 2))(A, v, initial)
    for a, b, c in zip(alone, mapped, outside, strict=True):
        torch.testing.assert_close(b, a)
        torch.testing.assert_close(c, a)
    shared = vmap(slopes, (None, 0, None, None))(A[0], v, initial[0], None if V is None else index[0])
    given = [slopes(A[0], v[n], initial[0], None if V is None else index[0])[0] for n in range(N)]
    torch.testing.assert_close(shared[0], torch.stack(given))


@pytest.mark.parametrize("T", [1, 40, 2500])
@pytest.mark.parametrize("kind", ["plain", "begins", "packed", "table"])
def test_under_compile(T, kind):
    leaves = inputs(1, T, V=4 if kind == "table" else None)
    options = {
        "plain": {},
        "begins": {"begins": begun(1, T), "restart": torch.ones(1, 2, 3).double()},
        "packed": {"cu_seqlens": torch.tensor([0, T // 2, T])},
        "table": {"index": torch.arange(T)[None] % 4},
    }[kind]
    torch._dynamo.reset()
    compiled = torch.compile(block_scan, backend="aot_eager", fullgraph=True)
    compare(compiled(*leaves, **options), block_scan(*leaves, backend="reference", **options), leaves, 1e-12)


def test_twice_is_refused():
    A, v, initial = inputs()
    (slope,) = torch.autograd.grad(block_scan(A, v, initial)[0].sin().sum(), A, create_graph=True)
    with pytest.raises(Error, match="differentiable once"):
        slope.sum().backward()


def test_nothing_is_kept_without_gradients():
    kept = []
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        states, _ = block_scan(*inputs())
    assert not kept
    assert states.grad_fn is None
