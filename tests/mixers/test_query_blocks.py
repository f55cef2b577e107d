"""Stick-breaking attention, PaTH and CoPE against their definitions, token by token, and what is theirs alone."""

import pytest
import torch
import torch.nn.functional as F

from lengthwise.errors import Error
from lengthwise.mixers import Layout, path, query_blocks
from lengthwise.models import LengthwiseForCausalLM, presets

from . import made

D, H = 8, 2
LENGTHS = [1, 2, 3, 31, 64, 65, 127]


def read(mixer, x):
    """Queries, keys and values, (H,T,d)."""
    parts = F.linear(x, mixer.qkv.weight, mixer.qkv.bias).chunk(3, -1)
    return [part.view(len(x), H, -1).transpose(0, 1) for part in parts]


def given_out(mixer, y):
    return mixer.out(y.transpose(0, 1).flatten(1))


def later(x, s):
    """(H,T-s,d), as the last rows of (H,T,d)."""
    return F.pad(x, (0, 0, s, 0))


def stick_breaking(mixer, x):
    """Keys take their share in turn, the nearest first, each of what those before it have left."""
    q, k, v = read(mixer, x)
    left, y, T = torch.ones_like(q[..., :1]), torch.zeros_like(v), len(x)
    for s in range(0 if mixer.current else 1, T):
        z = (q[:, s:] * k[:, : T - s]).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
        share = left[:, s:] * z.sigmoid()
        y, left = y + later(share * v[:, : T - s], s), left - later(share, s)
    return given_out(mixer, y + left * v if mixer.remainder else y)


def reflected(mixer, x):
    """Every new token reflects all keys before it."""
    q, k, v = read(mixer, x)
    maps, d = mixer.reflections, q.shape[-1]
    inner = x @ maps.down.weight.T @ maps.up.weight.T
    keys, y, fades = k[:, :0], [], q.new_zeros(H, 1, 0)
    for i in range(len(x)):
        c = sum(maps.taps[s] * inner[i - s] for s in range(3) if i >= s).view(H, d, 1)
        w = c / c.square().sum(1, keepdim=True).sqrt()
        beta = 2 * maps.strength(x[i]).sigmoid().view(H, 1, 1)
        keys = torch.cat([keys - beta * (keys @ w) @ w.mT, k[:, i : i + 1]], 1)
        if mixer.gates is not None:
            fades = fades + (x[i] @ mixer.gates.weight.T + mixer.gates.bias).sigmoid().log().view(H, 1, 1)
        fades = F.pad(fades, (0, 1))
        weights = (q[:, i : i + 1] @ keys.mT / d**0.5 + fades).softmax(-1)
        y.append(weights @ v[:, : i + 1])
    return given_out(mixer, torch.cat(y, 1))


def counted(mixer, x):
    """From the query backwards every gate adds to the count, and the count's vector to the key."""
    q, k, v = read(mixer, x)
    T, root, last = len(x), q.shape[-1] ** 0.5, mixer.e.shape[1] - 1
    count, logits = torch.zeros_like(q[..., 0]), []
    for s in range(T):
        near, far = q[:, s:], k[:, : T - s]
        count = count + F.pad(((near * far).sum(-1) / root).sigmoid(), (s, 0))
        p = torch.where(count < last, count, last)[:, s:]
        low = p.long()
        part = (p - low)[..., None]
        e = (1 - part) * mixer.e.T[low] + part * mixer.e.T[(low + 1).clamp(max=last)]
        logits.append(F.pad((near * (far + e)).sum(-1) / root, (s, 0), value=-torch.inf))
    weights = torch.stack(logits).softmax(0)[..., None]
    return given_out(mixer, sum(weights[s] * later(v[:, : T - s], s) for s in range(T)))


ORACLES = {
    "stick-breaking": (stick_breaking, {"remainder": False}),
    "stick-breaking with the remainder": (stick_breaking, {"remainder": True}),
    "stick-breaking with the current token": (stick_breaking, {"current": True, "remainder": True}),
    "path": (reflected, {}),
    "path with forgetting": (reflected, {"forgetting": True}),
    "cope": (counted, {"rows": 5}),
}


def make(name, dtype=torch.float64):
    torch.manual_seed(0)
    mixer = made.mixer(name.partition(" with")[0], width=D, heads=H, **ORACLES[name][1]).to(dtype)
    for p in mixer.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return mixer


@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("name", ORACLES)
def test_it_is_its_definition(name, block, monkeypatch):
    """In values and gradients, as one block and as several, which the backward pass makes again."""
    if block:
        monkeypatch.setattr(query_blocks, "ROWS", block)
        monkeypatch.setattr(path, "BLOCK", block)
    mixer, oracle = make(name), ORACLES[name][0]
    for T in LENGTHS if block is None else (31, 65):
        x = torch.randn(T, D, dtype=torch.float64, requires_grad=True)
        found, wanted = mixer(x[None], layout=Layout.of(x[None]))[0][0], oracle(mixer, x)
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
        weights, leaves = torch.randn_like(found), [x, *mixer.parameters()]
        slopes = [
            torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
            for y in (found, wanted)
        ]
        torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)
        assert T <= 3 or all(slope.any() for slope in slopes[0])


def kept(run) -> int:
    """How many numbers are kept for the backward pass."""
    sizes = {}

    def pack(x):
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.element_size()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = run()
    y.sum().backward()
    return sum(sizes.values())


@pytest.mark.parametrize("name", ["stick-breaking", "path", "cope"])
def test_memory_is_no_square_of_the_length(name, monkeypatch):
    """But for PaTH's keys, of which a copy is kept for every block."""
    monkeypatch.setattr(query_blocks, "ROWS", 16)
    monkeypatch.setattr(path, "BLOCK", 16)
    mixer = make(name)

    def needed(T):
        x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
        return kept(lambda: mixer(x, layout=Layout.of(x))[0])

    short, long = needed(64), needed(256)
    copies = D * sum(range(16, 256, 16)) if name == "path" else 0
    assert long < 5 * short + copies
    assert long < H * 256**2 / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stick-breaking", "path", "cope"])
def test_several_blocks_compile_and_map(name, monkeypatch):
    monkeypatch.setattr(query_blocks, "ROWS", 4)
    monkeypatch.setattr(path, "BLOCK", 4)
    torch._dynamo.reset()
    mixer, x = make(name), torch.randn(2, 9, D, dtype=torch.float64, requires_grad=True)
    run = torch.compile(lambda x: mixer(x, layout=Layout.of(x))[0], backend="aot_eager", fullgraph=True)
    wanted = mixer(x, layout=Layout.of(x))[0]
    torch.testing.assert_close(run(x), wanted)
    slopes = [torch.autograd.grad(y.square().sum(), x)[0] for y in (run(x), wanted)]
    torch.testing.assert_close(*slopes)

    def loss(x):
        return mixer(x, layout=Layout.of(x))[0].square().sum()

    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(x[:, None])[:, 0], slopes[1])


def test_the_shares_of_a_stick_sum_to_one_with_the_remainder():
    """However large the logits are: logarithms are summed, not products."""
    mixer = make("stick-breaking with the remainder", torch.float32)
    with torch.no_grad():
        mixer.qkv.weight.mul_(30)
        mixer.qkv.weight[2 * D :] = 0
        mixer.qkv.bias[2 * D :] = 1
    x = torch.randn(1, 300, D)
    y, _ = mixer(x, layout=Layout.of(x))
    torch.testing.assert_close(y, (mixer.out.weight.sum(1) + mixer.out.bias).expand_as(y), rtol=1e-4, atol=1e-4)


def test_equal_tokens_are_told_apart_by_order():
    """Where softmax attention without positions gives one answer to both orders of two tokens, these give two."""
    x = torch.randn(4, D, dtype=torch.float64)
    swapped = x[[1, 0, 2, 3]]
    for name in ORACLES:
        mixer = make(name)
        a, b = (mixer(t[None], layout=Layout.of(t[None]))[0][0, -1] for t in (x, swapped))
        assert not torch.allclose(a, b, atol=1e-4), name
    mixer = made.mixer("softmax", width=D, heads=H).double()
    a, b = (mixer(t[None], layout=Layout.of(t[None]))[0][0, -1] for t in (x, swapped))
    torch.testing.assert_close(a, b)


def test_cope_begins_as_softmax_attention():
    torch.manual_seed(0)
    mixer, plain = made.mixer("cope", width=D, heads=H), made.mixer("softmax", width=D, heads=H)
    plain.load_state_dict({name: p for name, p in mixer.state_dict().items() if name != "e"})
    x = torch.randn(2, 9, D)
    torch.testing.assert_close(mixer(x, layout=Layout.of(x))[0], plain(x, layout=Layout.of(x))[0])


@pytest.mark.parametrize("name", ORACLES)
def test_half_precision_is_finite_and_near(name):
    mixer, x = make(name, torch.float32), torch.randn(2, 40, D)
    wanted, _ = mixer(x, layout=Layout.of(x))
    half, seen = mixer.bfloat16()(x.bfloat16(), layout=Layout.of(x))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), wanted, rtol=0.1, atol=0.2)
    assert (half.float() - wanted).std() < 0.05 * wanted.std()
    half.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in mixer.parameters())
    more, _ = mixer(x[:, :1].bfloat16(), layout=Layout.of(x[:, :1], past=40), state=seen)
    assert more.isfinite().all()


@pytest.mark.parametrize("name", ORACLES)
def test_dropout_drops_weights_while_training(name):
    mixer, x = make(name), torch.ones(1, 20, D, dtype=torch.float64)
    wanted, _ = mixer(x, layout=Layout.of(x))
    mixer.dropout = 0.5
    assert not torch.allclose(mixer(x, layout=Layout.of(x))[0], wanted)
    mixer.eval()
    assert torch.equal(mixer(x, layout=Layout.of(x))[0], wanted)


@pytest.mark.parametrize("name", ["stick-breaking", "path", "cope"])
def test_an_encoding_that_acts_on_attention_is_refused(name):
    for position in ("rope", "alibi"):
        with pytest.raises(Error, match=rf"{position}.*mixer '{name}' takes no positions: .*'none'"):
            LengthwiseForCausalLM(presets.PRESETS[name](5, width=8, heads=2, position=position))
    model = LengthwiseForCausalLM(presets.PRESETS[name](5, width=8, heads=2, position="learned", max_length=3))
    assert model.position.table.weight.shape == (3, 8)
