"""The law of kernels: each equals the reference, values and gradients, in every call that it claims to support, and
refuses every other call with the reason that it gives.

A kernel that joins an op is tested here without a line more. A new op joins by an entry in `CALLS`.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lengthwise import Error, ops

BOUNDS = {torch.float64: 1e-11, torch.float32: 5e-5, torch.bfloat16: 5e-2}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class Draw:
    """Random leaves, the same for the same seed: rounded to one dtype, and held in that or in a wider one."""

    def __init__(self, rounded: torch.dtype, held: torch.dtype, device: str):
        self.rounded, self.held, self.device = rounded, held, device
        self.generator = torch.Generator().manual_seed(0)
        self.leaves: list[Tensor] = []

    def leaf(self, x: Tensor) -> Tensor:
        rounded, held = self.rounded, self.held
        if x.is_complex():
            rounded, held = rounded.to_complex(), held.to_complex()
        self.leaves.append(x.to(rounded).to(self.device, held).requires_grad_())
        return self.leaves[-1]

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=dtype)

    def __call__(self, *shape: int) -> Tensor:
        return self.leaf(self.normal(*shape))

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=self.generator).to(self.device)

    def mask(self, *shape: int) -> Tensor:
        return (torch.rand(shape, generator=self.generator) < 0.2).to(self.device)

    def edges(self, *sizes: int) -> Tensor:
        return torch.tensor([0, *sizes], device=self.device).cumsum(0)


Arguments = dict[str, object]


def transitions(draw: Draw, *shape: int) -> Tensor:
    """They keep a state's size, so that in long rows it neither grows nor dies."""
    return draw.leaf(torch.linalg.qr(draw.normal(*shape))[0] * 0.95)


def block_scans() -> Iterator[tuple[str, Callable[[Draw], Arguments]]]:
    def call(draw, B=2, T=31, h=2, b=3, rows=None, **more) -> Arguments:
        lead = (B, T) if rows is None else (rows,)
        return {"A": transitions(draw, *lead, h, b, b), "v": draw(*lead, h, b), "initial": draw(B, h, b), **more}

    def packed(draw, sizes, own_starts, dtype=None) -> Arguments:
        arguments = call(draw, 1, sum(sizes), cu_seqlens=draw.edges(*sizes))
        return {**arguments, "initial": draw(len(sizes), 2, 3)} if own_starts else arguments

    for T in (1, 2, 3, 31, 64, 65, 127, 521):
        yield f"{T} tokens", lambda draw, T=T: call(draw, T=T)
    for b in (1, 2, 8, 9, 33):
        yield f"blocks {b} wide", lambda draw, b=b: call(draw, T=13, b=b)
    yield "many rows and blocks", lambda draw: call(draw, 3, 67, 30)
    yield "a long row", lambda draw: call(draw, 1, 1511, 1, 2)
    yield "no initial state", lambda draw: {**call(draw), "initial": None}
    yield "one initial state for all", lambda draw: {**call(draw), "initial": draw(1, 2, 3)}
    for T in (1, 65, 521):
        yield f"begins, {T} tokens", lambda draw, T=T: call(draw, T=T, begins=draw.mask(2, T))
        yield f"restart, {T} tokens", lambda draw, T=T: call(draw, T=T, begins=draw.mask(2, T), restart=draw(1, 2, 3))
        yield f"a table, {T} tokens", lambda draw, T=T: call(draw, T=T, rows=5, index=draw.integers(4, 2, T))
    yield "a table of many rows", lambda draw: call(draw, 3, 50, rows=100, index=draw.integers(100, 3, 50))
    yield (
        "a table, begins",
        lambda draw: call(
            draw, 40, 29, rows=5, index=draw.integers(5, 40, 29), begins=draw.mask(40, 29), restart=draw(40, 2, 3)
        ),
    )
    for sizes in ([1], [3, 1, 20], [0, 5, 0, 0, 7, 0]):
        yield f"packed {sizes}", lambda draw, sizes=sizes: packed(draw, sizes, own_starts=True)
        yield f"packed {sizes}, one start", lambda draw, sizes=sizes: packed(draw, sizes, own_starts=False)
    yield "one block for all tokens", lambda draw: {
        **call(draw), "A": transitions(draw, 1, 1, 2, 3, 3).expand(2, 31, 2, 3, 3),
    }  # fmt: skip
    yield "swapped in memory", lambda draw: {
        "A": transitions(draw, 3, 30, 2, 4, 4).mT, "v": draw(30, 3, 2, 4).transpose(0, 1),
    }  # fmt: skip


def chain_attentions() -> Iterator[tuple[str, Callable[[Draw], Arguments]]]:
    def call(draw, B=2, T=31, past=0, H=3, d=4, **more) -> Arguments:
        arguments = {"q": draw(B, H, T, d), "k": draw(B, H, T + past, d), "v": draw(B, H, T, d)}
        solved = {"solved": draw(B, H, past, d)} if past else {}
        return {**arguments, "gamma": draw.leaf(torch.linspace(0, 0.9, H, dtype=torch.float64)), **solved, **more}

    for T in (1, 2, 3, 63, 64, 65, 127, 130, 257):
        yield f"{T} tokens", lambda draw, T=T: call(draw, T=T)
    for T, past in ((1, 1), (1, 64), (2, 129), (131, 1)):
        yield f"{T} tokens after {past}", lambda draw, T=T, past=past: call(draw, T=T, past=past)
    for T in (1, 37, 150):
        yield f"{T} tokens, with the diagonal", lambda draw, T=T: call(draw, T=T, exclude_diagonal=False)
        yield f"{T} tokens, one gamma", lambda draw, T=T: {**call(draw, T=T), "gamma": 0.5}
        yield f"{T} tokens, softmax", lambda draw, T=T: {**call(draw, T=T), "gamma": 0.0, "scale": 0.3}
        yield f"{T} tokens, bias", lambda draw, T=T: call(draw, T=T, bias=draw(2, 3, T, T))
        yield f"{T} tokens, a bias of queries", lambda draw, T=T: call(draw, T=T, bias=draw(1, 3, T, 1))
        yield f"{T} tokens, biases of keys", lambda draw, T=T: call(draw, T=T, bias=draw(T), key_bias=draw(3, T))
        yield (
            f"{T} tokens, sequences",
            lambda draw, T=T: call(
                draw, T=T, sequences=torch.stack([x := torch.arange(T) // 9, x // 7]).to(draw.device)
            ),
        )
        yield f"{T} tokens, encoder", lambda draw, T=T: call(draw, T=T, causal=False)
    for sizes in ([1], [1, 1, 5], [100, 3, 130, 64]):
        yield (
            f"packed {sizes}",
            lambda draw, sizes=sizes: call(draw, 1, sum(sizes), cu_seqlens=draw.edges(*sizes)),
        )
    yield (
        "after packed ones",
        lambda draw: call(
            draw, T=3, past=9, sequences=torch.tensor([[0] * 5 + [1] * 7, [0] * 11 + [1]]).to(draw.device)
        ),
    )
    # From some hundred tokens on the fused kernel reads a row's numbers side by side, wherever they lie.
    yield "swapped in memory", lambda draw: {name: draw(1, 2, 16, 300).mT for name in ("q", "k", "v")}
    yield "expanded", lambda draw: {name: draw(1, 2, 300, 1).expand(-1, -1, -1, 16) for name in ("q", "k", "v")}
    yield "no gradients, values wider than keys", lambda draw: {**call(draw, T=150), "v": draw(2, 3, 150, 7)}


def sliding_dilated_attentions() -> Iterator[tuple[str, Callable[[Draw], Arguments]]]:
    def call(draw, chunk, level, T, past=0, stride=1, padded=True, placed=False, swapped=False) -> Arguments:
        B, H, d = 2, 2, 3
        keys = (T - 1) * stride + 1 + past

        def rows(n):
            return draw(B, n, H, d).transpose(1, 2) if swapped else draw(B, H, n, d)

        arguments = {"q": rows(T), "k": rows(keys), "v": rows(keys), "bias": draw(H, chunk), "chunk": chunk}
        m = torch.arange(keys - 1 - (T - 1) * stride, keys, stride)
        return {
            **arguments,
            "level": level,
            "stride": stride,
            "pad": (draw(H, d), draw(H, d)) if padded else None,
            "positions": torch.stack([m - 2, m % 4]).to(draw.device) if placed else None,
        }

    for padded in (True, False):
        for chunk, level in ((2, 0), (2, 3), (3, 1), (5, 2), (8, 0), (8, 1), (32, 0), (50, 1)):
            for T, past in ((1, 0), (2, 1), (3, 90), (13, 6), (131, 0)):
                for placed in (False, True):
                    options = {"past": past, "padded": padded, "placed": placed, "swapped": T % 2 == 0}
                    name = f"chunk {chunk}, level {level}, {T} after {past}, {padded=}, {placed=}"
                    yield name, lambda draw, at=(chunk, level, T), options=options: call(draw, *at, **options)
        for chunk, level, stride in ((2, 0, 2), (3, 0, 3), (2, 1, 5), (16, 0, 16), (32, 0, 3), (8, 2, 2)):
            for T in (1, 2, 9):
                options = {"stride": stride, "padded": padded, "placed": T == 9}
                name = f"chunk {chunk}, level {level}, every {stride}th of {T}, {padded=}"
                yield name, lambda draw, at=(chunk, level, T), options=options: call(draw, *at, **options)


def diagonal_scans() -> Iterator[tuple[str, Callable[[Draw], Arguments]]]:
    for T in (1, 2, 3, 5, 9, 16, 17, 127):
        for dtype in (torch.float64, torch.complex128):
            for rows in (1, 2):

                def call(draw, T=T, dtype=dtype, rows=rows) -> Arguments:
                    a, v, x = (draw.normal(B, *more, 3, dtype=dtype) for B, more in ((rows, (T,)), (2, (T,)), (2, ())))
                    return {"a": draw.leaf(0.9 * a / a.abs()), "v": draw.leaf(v), "initial": draw.leaf(x)}

                yield f"{T} tokens, {dtype}, {rows} rows of transitions", call


def key_biased_attentions() -> Iterator[tuple[str, Callable[[Draw], Arguments]]]:
    def call(draw, T, past=0, B=2, H=3, d=4, **more) -> Arguments:
        keys = (B, H, T + past, d)
        bias = more.pop("key_bias", None)
        bias = draw(B, H, T + past) if bias is None else draw.leaf(bias)
        return {"q": draw(B, H, T, d), "k": draw(*keys), "v": draw(*keys), "key_bias": bias, **more}

    for T in (1, 2, 3, 31, 64, 65, 127, 128, 129, 300):
        yield f"{T} tokens", lambda draw, T=T: call(draw, T)
    for T, past in ((1, 1), (1, 300), (2, 129), (131, 1), (257, 200)):
        yield f"{T} tokens after {past}", lambda draw, T=T, past=past: call(draw, T, past)
    yield "one bias for all rows", lambda draw: {**call(draw, 150), "key_bias": draw(3, 150)}
    yield "one bias for all heads", lambda draw: {**call(draw, 150), "key_bias": draw(2, 1, 150)}
    for T in (40, 300):
        # ALiBi between segments of 7 tokens, as steep as in BiPE, so far from 0 that few digits are left for q · k.
        slope = torch.tensor([0.4, 7.6, 60.5])[:, None]
        for sign in (1, -1):
            bias = sign * slope.double() * (1e5 + torch.arange(T) // 7)
            yield f"{T} tokens, steep {sign}", lambda draw, T=T, bias=bias: call(draw, T, key_bias=bias)
        never = (torch.arange(T) - T // 3).abs() < torch.tensor([[[3]], [[T // 2]]])  # some; and all at first
        hidden = torch.zeros(2, 3, T, dtype=torch.float64).masked_fill(never, -torch.inf)
        yield f"{T} tokens, keys that are never read", lambda draw, T=T, bias=hidden: call(draw, T, key_bias=bias)
    for scale in (0.0, -0.7, 2.0):
        yield f"scale {scale}", lambda draw, scale=scale: call(draw, 140, scale=scale)
    yield (
        "swapped in memory",
        lambda draw: {**{name: draw(1, 2, 4, 150).mT for name in ("q", "k", "v")}, "key_bias": draw(150, 2).T},
    )
    yield "one head, wide", lambda draw: call(draw, 130, B=1, H=1, d=65)


CALLS = {
    "block_scan": dict(block_scans()),
    "chain_attention": dict(chain_attentions()),
    "diagonal_scan": dict(diagonal_scans()),
    "key_biased_attention": dict(key_biased_attentions()),
    "sliding_dilated_attention": dict(sliding_dilated_attentions()),
}
KERNELS = [(op.name, kernel.name) for op in ops.OPS.values() for kernel in op.kernels]


def outputs_and_gradients(run: Callable, arguments: Arguments, leaves: list[Tensor]) -> list[Tensor]:
    """What it gives, and the gradients of a random sum of that."""
    outputs = tree_leaves(run(**arguments))
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64, device=outputs[0].device)
    for y in outputs:
        wide = torch.complex128 if y.is_complex() else torch.float64
        weight = torch.randn(y.shape, generator=generator, dtype=wide).to(y.device)
        total = total + (y.to(wide) * weight).sum().real
    slopes = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [*(y.detach() for y in outputs), *slopes]


@cache
def wanted(op: str, name: str, dtype: torch.dtype, device: str) -> list[Tensor]:
    """What the reference makes of a call, in float64, which all kernels of the op are held against."""
    draw = Draw(dtype, torch.float64, device)
    arguments = CALLS[op][name](draw)
    return outputs_and_gradients(lambda **x: getattr(ops, op)(**x, backend="reference"), arguments, draw.leaves)


class Made(Exception):
    """The call that an op makes of a user's arguments."""


def call_of(op: str, arguments: Arguments) -> object:
    def stop(call, backend):
        raise Made(call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops.OPS[op], "run", stop)
        with pytest.raises(Made) as made:
            getattr(ops, op)(**arguments)
    return made.value.args[0]


def test_every_op_has_calls():
    assert set(CALLS) == set(ops.OPS)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", BOUNDS, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize(("op", "kernel"), KERNELS)
def test_a_kernel_equals_the_reference_or_says_why_it_cannot_run(op, kernel, dtype, device):
    function, ran = getattr(ops, op), 0
    for name, make in CALLS[op].items():
        if dtype == torch.bfloat16 and "complex" in name:
            continue  # there is no such dtype
        draw = Draw(dtype, dtype, device)
        arguments = make(draw)
        (supports,) = (k.supports for k in ops.OPS[op].kernels if k.name == kernel)
        reason = supports(call_of(op, arguments))
        if reason is not None:
            with pytest.raises(Error, match=f"^{op}: kernel '{kernel}' cannot run: {re.escape(reason)}. Use 'auto'"):
                function(**arguments, backend=kernel)
            continue
        ran += 1
        found = outputs_and_gradients(lambda **x: function(**x, backend=kernel), arguments, draw.leaves)
        for part, (a, b) in enumerate(zip(found, wanted(op, name, dtype, device), strict=True)):
            assert a.shape == b.shape, name
            assert a.dtype == (dtype.to_complex() if a.is_complex() else dtype), name
            off = float((a.to(b.dtype) - b).abs().max()) if b.numel() else 0.0
            most = BOUNDS[dtype] * max(1.0, float(b.abs().max()) if b.numel() else 0.0)
            assert off <= most, f"{op} by {kernel}, {name}: {off} in output or gradient {part}"
    assert ran or kernel not in ("torch", "reference")
