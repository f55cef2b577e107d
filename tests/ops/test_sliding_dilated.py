"""Sliding-dilated attention: its two ways at any chunk, what it allocates, stacks and graphs, and what it refuses.

That every kernel equals the reference is `tests/laws/test_kernels.py`.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.ops import sliding_dilated_attention
from lengthwise.ops.sliding_dilated import eager
from lengthwise.ops.sliding_dilated.call import DilatedCall
from lengthwise.ops.sliding_dilated.eager import by_banded_blocks, by_shifted_copies
from lengthwise.ops.sliding_dilated.reference import oracle

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 13, 24, 25, 26]


def draw(T, S, C, *, seed=0, B=2, H=2, d=3, padded=True, layer=False):
    """`layer`: as a layer hands them over, heads inside tokens in memory."""
    g = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64, requires_grad=True)  # noqa: E731
    rows = lambda n: new(B, n, H, d).transpose(1, 2) if layer else new(B, H, n, d)  # noqa: E731
    pad = (new(H, d), new(H, d)) if padded else None
    return [rows(T), rows(S), rows(S), new(H, C)], pad


def compare(found, wanted, leaves):
    """Values and, of one random weighting of them, the gradients; no gradient is a gradient of zero."""
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    weight = torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(1))
    for a, b in zip(
        torch.autograd.grad((found * weight).sum(), leaves, materialize_grads=True, allow_unused=True),
        torch.autograd.grad((wanted * weight).sum(), leaves, materialize_grads=True, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("C", [2, 4, 32, 128])
@pytest.mark.parametrize("form", [by_shifted_copies, by_banded_blocks])
def test_either_form_fits_any_chunk(form, C, padded):
    shapes = [(1, 0, 1, 1), (2, 0, 1, 1), (37, 0, 1, 1), (37, 5, 3, 1), (131, 0, 8, 1), (3, 90, 2, 1), (5, 1, 6, 1)]
    strided = [(13, 0, 1, C), (1, 200, 1, C), (2, 1, 1, C), (9, 4, 1, 3), (7, 0, 1, C + 3)]
    both = [(7, 3, 2, 3), (1, 9, 4, 5)] if form is by_shifted_copies else []
    for T, more, dilation, stride in shapes + strided + both:
        S = (T - 1) * stride + 1 + more
        (q, k, v, r), pad = draw(T, S, C, seed=T, padded=padded, layer=more == 0, H=1)
        m = torch.arange(S - 1 - (T - 1) * stride, S, stride)
        for positions in (None, torch.stack([m - 2, m % 7 + 3])):
            found, wanted = (
                run(DilatedCall(q, k, v, r, dilation, pad, positions, 0.7, stride)) for run in (form, oracle)
            )
            compare(found, wanted, [q, k, v, r, *(pad or ())])


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("C", [2, 3, 8])
def test_row_by_row_is_the_same(C, padded, monkeypatch):
    """Large batches go a few rows at a time."""
    tensors, pad = draw(11, 11, C, B=5, padded=padded)
    whole = lambda p: sliding_dilated_attention(*tensors, chunk=C, level=0, pad=pad, positions=p)  # noqa: E731
    rows = []
    for positions in (None, torch.arange(11) - torch.arange(5)[:, None]):
        wanted = whole(positions)
        with monkeypatch.context() as patch:
            patch.setattr(eager, "LARGE", 0)
            patch.setattr(eager, "SLAB", 2 * 2 * 11 * 3)
            for name in ("by_shifted_copies", "by_banded_blocks"):
                form = getattr(eager, name)
                patch.setattr(eager, name, lambda call, form=form: (rows.append(len(call.q)), form(call))[1])
            found = whole(positions)
        compare(found, wanted, [*tensors, *(pad or ())])
    assert rows == ([2, 2, 1] * 2 if C < 8 else [1] * 10)


class Largest(TorchDispatchMode):
    """The most numbers in any memory taken inside; views take none."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        memory = lambda x: [t.untyped_storage() for t in tree_leaves(x) if isinstance(t, torch.Tensor)]  # noqa: E731
        old = {m.data_ptr() for m in memory((args, kwargs))}
        sizes = [m.nbytes() // 8 for m in memory(made) if m.data_ptr() not in old]
        self.numel = max([self.numel, *sizes])
        return made


@pytest.mark.parametrize(("C", "level"), [(2, 6), (3, 2), (32, 0), (128, 0), (128, 1)])
def test_never_as_large_as_t_times_t(C, level):
    T = 2048
    for padded in (True, False):
        tensors, pad = draw(T, T, C, B=1, H=1, d=4, padded=padded)
        with Largest() as seen:
            sliding_dilated_attention(*tensors, chunk=C, level=level, pad=pad).sum().backward()
        assert seen.numel <= T * T / 8
    with Largest() as seen, torch.no_grad():
        sliding_dilated_attention(*tensors, chunk=C, level=level, backend="reference")
    assert seen.numel >= T * T


@pytest.mark.parametrize("C", [2, 8, 32])
def test_one_query_copies_its_own_taps_alone(C):
    tensors, _ = draw(1, 2048, C, B=1, H=1, d=4, padded=False)
    with Largest() as seen, torch.no_grad():
        sliding_dilated_attention(*tensors, chunk=C, level=1)
    assert seen.numel <= C * 4


@pytest.mark.parametrize("C", [2, 5, 32])
def test_what_waits_for_the_backward_pass_grows_with_t(C):
    def kept(T):
        tensors, pad = draw(T, T, C, B=1, H=1, d=4)
        sizes = {}

        def note(t):
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes(), t
            return t

        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            y = sliding_dilated_attention(*tensors, chunk=C, level=0, pad=pad)
        assert y.requires_grad
        return sum(size for size, _ in sizes.values())

    assert kept(1024) < 4.1 * kept(256)


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("padded", [True, False])
def test_gradients(backend, padded):
    for T, past, C, level in [(1, 0, 2, 0), (5, 0, 2, 1), (3, 2, 3, 0), (4, 1, 3, 1), (9, 0, 7, 0)]:
        tensors, pad = draw(T, T + past, C, B=1, d=2, padded=padded)

        def run(q, k, v, bias, *pad, C=C, level=level):
            return sliding_dilated_attention(q, k, v, bias, chunk=C, level=level, pad=pad or None, backend=backend)

        assert torch.autograd.gradcheck(run, (*tensors, *(pad or ())))
        if T < 6:
            assert torch.autograd.gradgradcheck(run, (*tensors, *(pad or ())))


@pytest.mark.parametrize("padded", [True, False])
def test_stride_is_some_of_the_queries(padded):
    for T in LENGTHS:
        for C, stride, level in [(2, 2, 0), (3, 3, 0), (2, 5, 1), (5, 2, 1)]:
            (q, k, v, bias), pad = draw(T, T, C, seed=T, padded=padded)
            kept = slice((T - 1) % stride, None, stride)
            for positions in (None, torch.stack([torch.arange(T) - 2, torch.arange(T) % 4])):
                part = None if positions is None else positions[:, kept]
                wanted = sliding_dilated_attention(
                    q, k, v, bias, chunk=C, level=level, pad=pad, positions=positions, backend="reference"
                )[:, :, kept]
                options = {"chunk": C, "level": level, "pad": pad, "positions": part, "stride": stride}
                found = sliding_dilated_attention(q[:, :, kept], k, v, bias, **options, backend="reference")
                torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_by_hand():
    """Equal logits make the weights 1/C, so y is the mean of the values at m, m - 3, m - 6, absent ones the pad's."""
    T, zero = 8, torch.zeros(1, 1, 8, 1)
    v = torch.arange(1.0, T + 1).view(1, 1, T, 1)
    pad = (torch.zeros(1, 1), torch.full((1, 1), 100.0))
    y = sliding_dilated_attention(zero, zero, v, torch.zeros(1, 3), chunk=3, level=1, pad=pad).flatten() * 3
    assert y.tolist() == pytest.approx([201, 202, 203, 100 + 4 + 1, 107, 109, 7 + 4 + 1, 8 + 5 + 2], rel=1e-6)
    # A bias of ln 3 on tap 0 triples its weight; the scale multiplies q · k alone.
    bias = torch.tensor([[3.0, 1.0]]).log()
    y = sliding_dilated_attention(zero, zero, v, bias, chunk=2, level=0).flatten()
    assert y[1:].tolist() == pytest.approx([(3 * n + n - 1) / 4 for n in range(2, T + 1)])


@settings(max_examples=30, deadline=None)
@given(T=st.integers(1, 20), C=st.integers(2, 6), level=st.integers(0, 70), seed=st.integers(0, 99))
def test_causal_and_level_beyond_reach(T, C, level, seed):
    """Later keys change nothing, and at a level beyond the first token only the token itself and the pad are seen."""
    (q, k, v, bias), pad = draw(T, T, C, seed=seed)
    y = sliding_dilated_attention(q, k, v, bias, chunk=C, level=level, pad=pad)
    cut = max(1, T // 2)
    part = sliding_dilated_attention(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut], bias, chunk=C, level=level, pad=pad)
    torch.testing.assert_close(y[:, :, :cut], part)
    if level > 10:
        torch.testing.assert_close(y, sliding_dilated_attention(q, k, v, bias, chunk=C, level=10, pad=pad))


@pytest.mark.parametrize(("C", "level", "stride"), [(2, 1, 1), (2, 0, 2), (3, 1, 1), (8, 0, 1), (16, 0, 16)])
def test_transforms_and_compiles(C, level, stride):
    torch._dynamo.reset()
    tensors, pad = draw(7, 7 * stride, C)
    run = lambda *x: sliding_dilated_attention(*x, chunk=C, level=level, pad=pad, stride=stride)  # noqa: E731
    stacked = [torch.stack([t, t * 0.5]).detach() for t in tensors]
    members = [[t[i] for t in stacked] for i in range(2)]
    torch.testing.assert_close(vmap(run)(*stacked), torch.stack([run(*x) for x in members]))
    slope = grad(lambda *x: run(*x).square().sum(), argnums=(0, 1, 2, 3))
    for i, found in enumerate(zip(*vmap(slope)(*stacked), strict=True)):
        for a, b in zip(found, slope(*members[i]), strict=True):
            torch.testing.assert_close(a, b)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*tensors), run(*tensors))


@pytest.mark.parametrize(("C", "stride"), [(2, 1), (3, 1), (8, 1), (16, 16)])
@pytest.mark.parametrize("autocast", [True, False])
def test_half_precision(C, stride, autocast):
    """Under autocast a layer hands over half precision and a bias in single; elsewhere all is half."""
    tensors, pad = draw(9, 9 * stride, C)
    call = lambda x, p: sliding_dilated_attention(*x, chunk=C, level=0, pad=p, stride=stride)  # noqa: E731
    half = lambda x: [t.detach().bfloat16() for t in x]  # noqa: E731
    wanted = call(tensors, pad)
    *qkv, bias = half(tensors)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = call([*qkv, bias.float() if autocast else bias], tuple(half(pad)))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"chunk": 1}, Error, "at least 2, got 1"),
        ({"level": -1}, Error, "at least 0, got -1"),
        ({"bias": torch.zeros(2, 3)}, ShapeError, r"\[2, 2\], got \[2, 3\]"),
        ({"q": torch.zeros(2, 2, 0, 3)}, ShapeError, "T = 0"),
        ({name: torch.zeros(2, 2, 5, 0) for name in "qkv"}, ShapeError, "must be at least 1"),
        ({name: torch.zeros(2, 0, 5, 3) for name in "qkv"} | {"bias": torch.zeros(0, 2)}, ShapeError, "at least 1"),
        ({"q": torch.zeros(2, 2, 9, 3)}, ShapeError, r"S > \(T - 1\)"),
        ({"stride": 0}, Error, "stride must be at least 1"),
        ({"stride": 2}, ShapeError, r"stride = 8"),
        ({"pad": (torch.zeros(3), torch.zeros(3))}, ShapeError, "pad must be"),
        ({"positions": torch.zeros(2, 4)}, ShapeError, "positions must be"),
        ({"v": torch.zeros(2, 2, 4, 3)}, ShapeError, "k, v are"),
        ({"backend": "triton"}, Error, "no triton kernel"),
        ({"backend": "trition"}, UnknownName, "Did you mean 'triton'"),
    ],
)
def test_refuses(change, error, words):
    x = torch.zeros(2, 2, 5, 3)
    good = {"q": x, "k": x, "v": x, "bias": torch.zeros(2, 2), "chunk": 2, "level": 0}
    with pytest.raises(error, match=words):
        sliding_dilated_attention(**{**good, **change})
