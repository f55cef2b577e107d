"""Chain attention: what a call means, blocks, precision, stacks and compiled graphs, and what it must refuse.

That every kernel equals the reference is `tests/laws/test_kernels.py`.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from lengthwise import Error, ops
from lengthwise.errors import ShapeError
from lengthwise.ops import chain_attention
from lengthwise.ops.chain.call import ChainCall, rates
from lengthwise.ops.chain.eager import by_torch
from lengthwise.ops.chain.reference import system, weights


def inputs(B=2, H=3, T=7, S=None, d=4, dtype=torch.float64, seed=0, grad=True):
    draw = torch.Generator().manual_seed(seed)
    make = lambda n: torch.randn(B, H, n, d, generator=draw, dtype=torch.float64).to(dtype).requires_grad_(grad)  # noqa: E731
    return make(T), make(S or T), make(T)


def rate(gamma, H=3, dtype=torch.float64):
    return torch.linspace(0, 0.95, H, dtype=dtype).requires_grad_() if gamma == "per head" else gamma


def compare(found, expected, leaves, bound, gamma=0.0):
    """Values, and gradients of a random sum of them, relative to their size.

    The norm of B^-1 is 1/(1-γ): beyond γ = 0.9 gradients, which cancel in the softmax, are bound accordingly.
    """
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(
        found.dtype
    )
    slopes = lambda y: torch.autograd.grad((y * weight.to(y.dtype)).sum(), leaves) if leaves else []  # noqa: E731
    ours, theirs = [found.detach(), *slopes(found)], [expected.detach(), *slopes(expected)]
    bounds = [bound] + [bound * max(1, 0.1 / (1 - gamma))] * len(leaves)
    for a, b, most in zip(ours, theirs, bounds, strict=True):
        assert a.shape == b.shape
        assert float((a.double() - b.double()).abs().max()) <= most * max(1, float(b.double().abs().max()))


@pytest.mark.parametrize("block", [1, 5, 16, 64])
@pytest.mark.parametrize("exclude", [True, False])
def test_any_block_size_gives_the_same(block, exclude):
    q, k, v = inputs(T=37)
    gamma = rate("per head")
    expected = chain_attention(q, k, v, gamma, exclude_diagonal=exclude, backend="reference")
    call = ChainCall(q, k, v, rates(gamma, q), None, None, not exclude, q.shape[-1] ** -0.5, v[:, :, :0], True)
    found = by_torch(call, block)
    compare(found, expected, [q, k, v, gamma], 1e-12)


def test_reference_is_the_equation():
    """B Y = (1-γ) A V written out for one head, and the sum over paths it stands for."""
    q, k, v = (x[0, 0].detach() for x in inputs(1, 1, 6))
    A = weights(q, k, None, 0.5, torch.ones(6, 6, dtype=torch.bool).triu(1))
    paths = A.tril(-1)
    expected = sum((0.9 * paths).matrix_power(n) for n in range(6)) @ (0.1 * A @ v)
    found = chain_attention(q[None, None], k[None, None], v[None, None], 0.9, backend="reference")[0, 0]
    torch.testing.assert_close(found, expected)
    Y = chain_attention(q[None, None], k[None, None], v[None, None], 0.9, exclude_diagonal=False)[0, 0]
    U = torch.linalg.solve(torch.eye(6, dtype=A.dtype) - 0.9 * A, v)
    torch.testing.assert_close(Y, 0.1 * A @ U)
    torch.testing.assert_close(Y, (0.1 / 0.9) * (U - v))


def test_gamma_zero_is_softmax_attention():
    for T in (1, 5, 130, 300):
        q, k, v = inputs(T=T)
        compare(
            chain_attention(q, k, v, 0.0), F.scaled_dot_product_attention(q, k, v, is_causal=True), [q, k, v], 1e-12
        )


@pytest.mark.parametrize("T", [1, 5, 70])
@pytest.mark.parametrize("exclude", [True, False])
def test_gradcheck(T, exclude):
    q, k, v = inputs(1, 2, T, d=2)
    gamma, bias = torch.tensor([0.3, 0.9]).double().requires_grad_(), torch.randn(2, T).double().requires_grad_()
    run = lambda q, k, v, g, b: chain_attention(q, k, v, g, key_bias=b, exclude_diagonal=exclude)  # noqa: E731
    assert torch.autograd.gradcheck(run, (q, k, v, gamma, bias), fast_mode=T > 5)


@pytest.mark.parametrize("T", [9, 150])
def test_padding_is_hidden_by_a_key_bias(T):
    q, k, v = inputs(T=T + 4)
    hidden = torch.zeros(2, 1, T + 4).double()
    hidden[:, :, :4] = -1e30
    whole = chain_attention(q, k, v, key_bias=hidden)
    assert torch.isfinite(whole).all()
    alone = chain_attention(*(x[:, :, 4:] for x in (q, k, v)))
    compare(whole[:, :, 4:], alone, [q, k, v], 1e-12)


@pytest.mark.parametrize("exclude", [True, False])
def test_for_encoders_it_is_the_fixed_point(exclude):
    """Eq. 6: f(Z) = A(γZ + (1-γ)V), iterated until it stands still."""
    q, k, v = inputs(T=23)
    found = chain_attention(q, k, v, 0.9, causal=False, exclude_diagonal=exclude)
    A = weights(q, k, None, 0.5)
    paths = torch.eye(23) - system(A, torch.tensor(1.0), not exclude)
    Z = torch.zeros_like(v)
    for _ in range(400):
        Z = 0.9 * paths @ Z + 0.1 * A @ v
    compare(found, Z, [q, k, v], 1e-10)
    assert torch.autograd.gradcheck(lambda *x: chain_attention(*x, causal=False), inputs(1, 1, 4, d=2))
    compare(
        chain_attention(q, k, v, 0.0, causal=False), F.scaled_dot_product_attention(q, k, v), [q, k, v], 1e-12
    )  # fmt: skip


@pytest.mark.parametrize("shared", [0, 1, 2])
@pytest.mark.parametrize("B", [1, 2])
@pytest.mark.parametrize("T", [1, 5, 150])
def test_what_a_stack_shares(T, B, shared):
    stacked = [torch.stack([x, x * 0.5]) for x in inputs(B, T=T)]
    stacked[shared] = stacked[shared][0]
    dims = tuple(None if i == shared else 0 for i in range(3))
    alone = [chain_attention(*(x if at is None else x[i] for x, at in zip(stacked, dims, strict=True))) for i in (0, 1)]
    compare(torch.func.vmap(chain_attention, in_dims=dims)(*stacked), torch.stack(alone), [], 1e-12)


@pytest.mark.parametrize("T", [1, 5, 70, pytest.param(150, marks=pytest.mark.slow)])
def test_under_vmap_and_compile(T):
    q, k, v = (torch.stack([x, x * 0.5]) for x in inputs(T=T, dtype=torch.float32))
    gamma = torch.tensor([[0.1, 0.5, 0.9], [0.0, 0.2, 0.3]], requires_grad=True)
    stacked = torch.func.vmap(chain_attention)(q, k, v, gamma)
    alone = torch.stack([chain_attention(*x) for x in zip(q, k, v, gamma, strict=True)])
    compare(stacked, alone, [gamma], 1e-5)
    shared = torch.func.vmap(chain_attention, in_dims=(0, None, 0))(q, k[0], v)
    compare(shared, torch.stack([chain_attention(a, k[0], b) for a, b in zip(q, v, strict=True)]), [], 1e-5)
    compiled = torch.compile(chain_attention, backend="aot_eager", fullgraph=True)
    leaves = [x[0].detach().requires_grad_() for x in (q, k, v)]
    compare(compiled(*leaves, gamma[0]), chain_attention(*leaves, gamma[0]), [*leaves, gamma], 1e-5)


def test_under_autocast_sums_are_single_precision():
    q, k, v = inputs(T=300, d=16, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = chain_attention(q, k, v)
        (gradient,) = torch.autograd.grad(found.sum(), q)
    assert found.dtype == torch.float32
    compare(found, chain_attention(q.double(), k.double(), v.double(), backend="reference"), [], 2e-5)
    (expected,) = torch.autograd.grad(chain_attention(q, k, v).sum(), q)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("T", [1, 5, 65, 128, 200])
def test_its_output_lies_in_rows(T):
    """A view over its last dimensions, as some models take, must not fail at some lengths."""
    assert chain_attention(*inputs(T=T)).is_contiguous()


def test_nothing_of_the_size_of_the_square_is_kept():
    """The adjoint keeps tensors of T·d numbers alone."""
    q, k, v = inputs(1, 1, 2048, d=4, dtype=torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        chain_attention(q, k, v)
    assert max(kept) <= 2048 * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gamma": 1.0}, "below 1, got 1.0"),
        ({"gamma": -0.1}, "at least 0"),
        ({"gamma": math.nan}, "below 1"),
        ({"gamma": torch.zeros(2)}, r"\(H,\) = \[3\]"),
        ({"gamma": torch.tensor(1.0)}, "below 1"),
        ({"gamma": torch.tensor([0.5, -0.1, 0.2])}, "at least 0"),
        ({"gamma": "0.9"}, "below 1"),
        ({"bias": torch.zeros(5, 5)}, "broadcastable"),
        ({"key_bias": torch.zeros(7)}, "key_bias"),
        ({"cu_seqlens": torch.tensor([0, 7])}, "B = 2"),
        ({"sequences": torch.zeros(2, 3)}, "sequences"),
        ({"solved": torch.zeros(2, 3, 1, 4)}, "solved"),
        ({"causal": False, "sequences": torch.zeros(2, 7)}, "causality"),
        ({"backend": "triton"}, "triton"),
    ],
)
def test_refused(change, words):
    gamma = change.pop("gamma", 0.9)
    with pytest.raises(Error, match=words):
        chain_attention(*inputs(), gamma, **change)


def test_shapes_are_refused():
    for shape in ((0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)):
        with pytest.raises(ShapeError, match="must be at least 1"):
            chain_attention(*[torch.zeros(shape)] * 3)
    q, k, v = inputs()
    for bad in [(q[:, :, :0], k[:, :, :0], v[:, :, :0]), (q, k[:, :, :3], v), (q, k, v[:, :2]), (q[0], k[0], v[0])]:
        with pytest.raises(ShapeError):
            chain_attention(*bad)
    with pytest.raises(ShapeError, match="solved"):
        chain_attention(q[:, :, :3], k, v[:, :, :3])
    with pytest.raises(ShapeError, match="never falling"):
        chain_attention(q[:1], k[:1], v[:1], cu_seqlens=torch.tensor([0, 5, 3, 7]))
    with pytest.raises(Error, match="floating point"):
        chain_attention(q.long(), k.long(), v.long())
    with ops.backend("reference"):
        assert chain_attention(q, k, v).shape == q.shape
