"""Key-biased attention: its parts, what digits are left of a large bias, memory, stacks and graphs, and refusals.

That every kernel equals the reference is `tests/laws/test_kernels.py`.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lengthwise import Error, ops
from lengthwise.errors import ShapeError
from lengthwise.mixers import softmax
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.ops import key_biased_attention
from lengthwise.ops.key_biased import squares
from lengthwise.ops.key_biased.squares import parts

SLOPES = 96 * torch.tensor([2.0 ** (-8 * h / 12) for h in (1, 4, 8, 12)], dtype=torch.float64)[:, None]
"""BiPE's: the steepest and the flattest of 12 heads, and two between."""
FAST = ("squares", "torch")


def inputs(T, S=None, B=1, H=4, d=8, dtype=torch.float64, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(B, H, n, d, generator=draw, dtype=torch.float64).to(dtype) for n in (T, S or T, S or T)]


def exact(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rows: Tensor) -> Tensor:
    """y of these queries, in fp64: the bias is counted from that of the query's own key."""
    logits = q[:, :, rows].double() @ k.double().mT * q.shape[-1] ** -0.5 + (bias[:, None, :] - bias[:, rows, None])
    return logits.masked_fill(torch.arange(k.shape[2]) > rows[:, None], -torch.inf).softmax(-1) @ v.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 7), (64, 64), (65, 65), (300, 300), (300, 1000), (1025, 1025)])
def test_every_pair_is_in_one_part(T, S, dtype):
    times, begun = torch.zeros(T, S, dtype=torch.long), 0
    for rows, keys, causal in parts(T, S, dtype):
        pairs = times[rows, keys]
        assert pairs.numel()
        pairs += torch.ones_like(pairs).tril() if causal else 1
        # A query's first part makes its row, which the others add to.
        assert rows.start <= begun
        begun = max(begun, rows.stop)
    assert torch.equal(times, torch.ones_like(times).tril(S - T))


@pytest.mark.parametrize("T", [1, 2, 3, 31, 64, 65, 127])
@pytest.mark.parametrize("backend", FAST)
def test_gradients_are_those_of_differences(backend, T):
    q, k, v = (x.requires_grad_() for x in inputs(T, H=2, d=3))
    bias = torch.randn(2, T, dtype=torch.float64, requires_grad=True)
    run = lambda *given: key_biased_attention(*given, backend=backend)  # noqa: E731
    assert torch.autograd.gradcheck(run, (q, k, v, bias), fast_mode=True)


@pytest.mark.parametrize("tokens", [1, 7, 40])
@pytest.mark.parametrize("backend", FAST)
def test_a_steep_bias_keeps_its_digits_far_from_the_last_key(backend, tokens):
    """Segments of so many tokens, and after a jump the 131,072th of them, where fp32 holds steps of half."""
    T, jump = 910, 896
    q, k, v = inputs(T, d=16, dtype=torch.float32)
    ids = torch.arange(T) // tokens
    bias = SLOPES * torch.where(torch.arange(T) < jump, ids, ids + 131_072)
    y = key_biased_attention(q, k, v, bias, backend=backend)
    most = 5e-6 if backend == "squares" else 2e-4
    torch.testing.assert_close(y.double(), exact(q, k, v, bias, torch.arange(T)), rtol=0, atol=most)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 30])
def test_131072_tokens(tokens):
    T = 131_072
    q, k, v = inputs(T, H=1, d=4, dtype=torch.float32)
    bias = SLOPES[1:2] * (torch.arange(T) // tokens)
    rows = torch.cat([torch.arange(200), torch.arange(T // 2, T // 2 + 200), torch.arange(T - 200, T)])
    y = key_biased_attention(q, k, v, bias)[:, :, rows]
    for some, found in zip(rows.split(100), y.split(100, 2), strict=True):
        torch.testing.assert_close(found.double(), exact(q, k, v, bias, some), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", FAST)
def test_half_precision_is_as_exact_as_a_matrix_of_biases_in_single(backend):
    T = 1500
    q, k, v = inputs(T, d=16, dtype=torch.bfloat16)
    bias = SLOPES * (torch.arange(T) // 7)
    matrix = (bias[:, None, :] - bias[:, :, None]).float()
    matrix.masked_fill_(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
    wanted = exact(q, k, v, bias, torch.arange(T))
    off = lambda y: float((y - wanted).square().mean().sqrt())  # noqa: E731
    by_matrix = off(F.scaled_dot_product_attention(q, k, v, attn_mask=matrix[None]))
    assert off(key_biased_attention(q, k, v, bias, backend=backend)) <= 1.05 * by_matrix
    # In bfloat16 itself the bias is of no use.
    assert off(key_biased_attention(q, k, v, bias.to(torch.bfloat16).double())) > 2 * by_matrix


class Held(TorchDispatchMode):
    """The most bytes that tensors ever held together; what an operator uses inside is not seen."""

    def __init__(self):
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for x in tree_leaves(found):
            if isinstance(x, Tensor):
                storage = x.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {at: kept for at, kept in self.alive.items() if not kept[0].expired()}
        self.most = max(self.most, sum(size for _, size in self.alive.values()))
        return found


@pytest.mark.parametrize("learned", [False, True])
def test_memory_is_linear(learned):
    T, H, d = 16_384, 1, 4
    q, k, v = (x.requires_grad_() for x in inputs(T, H=H, d=d, dtype=torch.float32))
    bias = (SLOPES[:1] * torch.arange(T)).requires_grad_(learned)
    leaves = [q, k, v, *([bias] if learned else [])]
    with Held() as held:
        torch.autograd.grad(key_biased_attention(q, k, v, bias).sum(), leaves)
    # q, k, v, y, their gradients and the bias are 32 numbers a token; a matrix of all pairs would be 16,384.
    assert 32 * 4 * T < held.most < 100 * 4 * T


def test_a_query_with_no_key_to_read_reads_its_own():
    q, k, v = inputs(200, B=2)
    bias = torch.zeros(2, 1, 200).masked_fill(torch.arange(200) < torch.tensor([[[0]], [[150]]]), -torch.inf)
    for backend in (*FAST, "reference"):
        y = key_biased_attention(q, k, v, bias, backend=backend)
        torch.testing.assert_close(y[1, :, :150], v[1, :, :150])
        alone = key_biased_attention(*(x[1:, :, 150:] for x in (q, k, v)), torch.zeros(4, 50))
        torch.testing.assert_close(y[1:, :, 150:], alone)


def test_drops_the_weights_it_is_told_to():
    q, k, _ = inputs(300)
    ones, bias = torch.ones_like(k), torch.zeros(4, 300)
    torch.manual_seed(0)
    for backend in ("auto", "torch", "reference"):
        y = key_biased_attention(q, k, ones, bias, dropout=0.5, backend=backend)[:, :, 100:]
        assert abs(float(y.mean()) - 1) < 0.02
        assert 0.01 < float(y.std()) < 0.5
    with pytest.raises(Error, match=r"'squares' cannot run: fused attention on a CPU drops no weights\. Use 'auto'"):
        key_biased_attention(q, k, ones, bias, dropout=0.5, backend="squares")


@pytest.mark.parametrize("shape", [(3, 70), (2, 3, 70)])
def test_compiles_and_maps(shape):
    """One graph, in which it is one operator, and vmap of grad, as in populations; each with and without slopes."""
    q, k, v = inputs(70, B=2, H=3)
    bias, weight = torch.randn(*shape, dtype=torch.float64), torch.randn(2, 3, 70, 8, dtype=torch.float64)
    loss = lambda *given: (key_biased_attention(*given) * weight).sum()  # noqa: E731
    for learned in ((0, 1, 2), (0, 1, 2, 3)):
        leaves = [x.clone().requires_grad_(i in learned) for i, x in enumerate((q, k, v, bias))]
        wanted = torch.autograd.grad(loss(*leaves), [leaves[i] for i in learned])
        torch._dynamo.reset()
        run = torch.compile(loss, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(torch.autograd.grad(run(*leaves), [leaves[i] for i in learned]), wanted)
        stacked = [torch.stack([x.detach() * 0.5, x.detach()]) for x in leaves]
        mapped = torch.func.vmap(torch.func.grad(loss, argnums=learned))(*stacked)
        torch.testing.assert_close(tuple(x[1] for x in mapped), wanted)


def test_is_differentiable_once():
    q, k, v = (x.requires_grad_() for x in inputs(5))
    y = key_biased_attention(q, k, v, torch.zeros(4, 5))
    (slope,) = torch.autograd.grad(y.sum(), q, create_graph=True)
    with pytest.raises(Error, match=r"differentiable once, and was asked for more\. Use backend='reference'"):
        torch.autograd.grad(slope.sum(), k)


def test_under_autocast_it_computes_in_what_it_is_given():
    q, k, v = inputs(70, dtype=torch.float32)
    bias = SLOPES * torch.arange(70)
    wanted = key_biased_attention(q, k, v, bias)
    with torch.autocast("cpu", torch.bfloat16):
        for backend in FAST:
            torch.testing.assert_close(key_biased_attention(q, k, v, bias, backend=backend), wanted, rtol=0, atol=2e-4)


def test_refuses():
    q, k, v = inputs(5)
    bias = torch.zeros(4, 5)
    with pytest.raises(ShapeError, match=r"key_bias must be \(H,S\) = \[4, 5\] or \(B,H,S\), got \[5\]"):
        key_biased_attention(q, k, v, bias[0])
    with pytest.raises(ShapeError, match=r"k and v must be \[1, 4, 'S', 8\] with S >= 5 .*, got \[1, 4, 4, 8\]"):
        key_biased_attention(q, k[:, :, :4], v[:, :, :4], bias[:, :4])
    with pytest.raises(ShapeError, match=r"q is \(B,H,T,d\) and k, v are \(B,H,S,d\), got"):
        key_biased_attention(q[0], k, v, bias)
    with pytest.raises(ShapeError, match=r"B, H, T and d must be at least 1"):
        key_biased_attention(q[:, :, :0], k, v, bias)
    with pytest.raises(Error, match=r"must be of one floating point type, got torch\.float32, torch\.float64"):
        key_biased_attention(q.float(), k, v, bias)
    with pytest.raises(Error, match=r"dropout must be at least 0 and below 1, got 1"):
        key_biased_attention(q, k, v, bias, dropout=1)
    assert ops.OPS["key_biased_attention"].kernels[0].name == "squares"


ALIBI = {
    "transformer": presets.transformer(7, position="alibi", layers=2, width=16, heads=2),
    "bipe": presets.bipe(7, position="alibi", ends=[0], layers=2, width=16, heads=2),
}


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ALIBI)
def test_a_training_step_takes_the_squares(name, compiled, monkeypatch):
    """In every layer, forward and backward, padded or not; no other attention is called, and no mask is made."""
    run = []
    for name_ in ("attention", "attention_adjoint"):
        pass_ = getattr(squares, name_)
        monkeypatch.setattr(squares, name_, lambda *given, n=name_, pass_=pass_: (run.append(n), pass_(*given))[1])
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *_, **__: pytest.fail("other attention"))
    monkeypatch.setattr(softmax, "visible", lambda *_: pytest.fail("a mask"))
    torch._dynamo.reset()
    model, tokens = LengthwiseForCausalLM(ALIBI[name]), torch.randint(7, (2, 70))
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    step = lambda: model(tokens, labels=tokens).loss  # noqa: E731
    (torch.compile(step, backend="aot_eager") if compiled else step)().backward()
    count = 2 * len(list(parts(70, 70, torch.float32)))
    assert run == ["attention"] * count + ["attention_adjoint"] * count
    if not compiled:
        model(tokens, attention_mask=mask, labels=tokens).loss.backward()
        assert run[2 * count :] == run[: 2 * count]
