"""The op against its oracle, values and gradients, at awkward lengths; and what it refuses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap

from lengthwise import ops
from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.ops import sliding_dilated_attention

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 13, 24, 25, 26]


def draw(T, S, C, *, seed=0, B=2, H=2, d=3, padded=True):
    g = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64, requires_grad=True)  # noqa: E731
    pad = (new(H, d), new(H, d)) if padded else None
    return [new(B, H, T, d), new(B, H, S, d), new(B, H, S, d), new(H, C)], pad


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("C", [2, 3, 5])
@pytest.mark.parametrize("level", range(5))
def test_equals_its_reference(C, level, padded):
    for T in LENGTHS:
        for past in (0, 1, 6):
            tensors, pad = draw(T, T + past, C, seed=T, padded=padded)
            leaves = [*tensors, *(pad or ())]
            for positions in (None, torch.stack([torch.arange(T) - 2, torch.arange(T) % 4 + past])):
                found, wanted = (
                    sliding_dilated_attention(
                        *tensors, chunk=C, level=level, pad=pad, positions=positions, backend=backend
                    )
                    for backend in ("torch", "reference")
                )
                torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
                weight = torch.randn_like(found)
                for a, b in zip(
                    torch.autograd.grad((found * weight).sum(), leaves, allow_unused=True),
                    torch.autograd.grad((wanted * weight).sum(), leaves, allow_unused=True),
                    strict=True,
                ):
                    a, b = (torch.zeros(()) if g is None else g for g in (a, b))
                    torch.testing.assert_close(
                        *torch.broadcast_tensors(a, b), rtol=1e-11, atol=1e-11, check_dtype=False
                    )


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("padded", [True, False])
def test_gradients(backend, padded):
    for T, past, C, level in [(1, 0, 2, 0), (5, 0, 2, 1), (3, 2, 3, 0), (4, 1, 3, 1)]:
        tensors, pad = draw(T, T + past, C, B=1, d=2, padded=padded)

        def run(q, k, v, bias, *pad, C=C, level=level):
            return sliding_dilated_attention(q, k, v, bias, chunk=C, level=level, pad=pad or None, backend=backend)

        assert torch.autograd.gradcheck(run, (*tensors, *(pad or ())))


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
                for backend in ("reference", "torch"):
                    found = sliding_dilated_attention(
                        q[:, :, kept],
                        k,
                        v,
                        bias,
                        chunk=C,
                        level=level,
                        pad=pad,
                        positions=part,
                        stride=stride,
                        backend=backend,
                    )
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


def test_transforms_and_compiles():
    tensors, pad = draw(7, 7, 2)
    run = lambda q, k, v, bias: sliding_dilated_attention(q, k, v, bias, chunk=2, level=1, pad=pad)  # noqa: E731
    stacked = [torch.stack([t, t * 0.5]) for t in tensors]
    alone = torch.stack([run(*(t[i] for t in stacked)) for i in range(2)])
    torch.testing.assert_close(vmap(run)(*stacked), alone)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*tensors), run(*tensors))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"chunk": 1}, Error, "at least 2, got 1"),
        ({"level": -1}, Error, "at least 0, got -1"),
        ({"bias": torch.zeros(2, 3)}, ShapeError, r"\[2, 2\], got \[2, 3\]"),
        ({"q": torch.zeros(2, 2, 0, 3)}, ShapeError, "T = 0"),
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


def test_backend_switch(monkeypatch):
    """The call's own wish goes before the block's; `auto` always finds something to run."""
    import lengthwise.ops.sliding_dilated as op

    ran = []
    for name, run in list(op.IMPLEMENTATIONS.items()):
        monkeypatch.setitem(op.IMPLEMENTATIONS, name, lambda *a, name=name, run=run: (ran.append(name), run(*a))[1])
    tensors, pad = draw(3, 3, 2)
    call = lambda **k: sliding_dilated_attention(*tensors, chunk=2, level=0, pad=pad, **k)  # noqa: E731
    call()
    with ops.backend("reference"):
        call()
        call(backend="torch")
        with ops.backend("auto"):
            call()
    with pytest.raises(Error, match="cannot run"), ops.backend("triton"):
        call()
    call()
    assert ran == ["torch", "reference", "torch", "torch", "torch"]
    with pytest.raises(UnknownName), ops.backend("cuda"):
        pass
