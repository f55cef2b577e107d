"""Gated DeltaProduct against its equations, one step after another."""

import pytest
import torch
import torch.nn.functional as F

from lengthwise.errors import Error
from lengthwise.mixers import Layout, delta_product

from . import made

KINDS = {
    "gated, two steps": {},
    "three steps": {"steps": 3, "gated": False},
    "delta-net": {"steps": 1, "negative": False, "gated": False, "values": 1},
}


def oracle(m, x):
    """(T,D) of one row (T,D)."""
    H, n, (D, _, W) = m.heads, m.steps, m.sizes
    d, e = D // H, W // n // H
    inputs, ys = torch.cat([x.new_zeros(3, sum(m.sizes)), m.qkv(x)]), []
    S = x.new_zeros(H, e, d)
    for t, x_t in enumerate(x):
        c = F.silu(sum(m.taps[s] * inputs[t + 3 - s] for s in range(4)))
        q, k, v = c.split(m.sizes)
        q, k, v = q.view(H, d), k.view(n, H, d), v.view(n, H, e)
        q, k = (a / (a.square().sum(-1, keepdim=True) + 1e-6).sqrt() for a in (q, k))
        beta = (2 if m.negative else 1) * m.strength(x_t).sigmoid().view(n, H)
        if m.fade is not None:
            S = S * (-m.log_rate.exp() * F.softplus(m.fade(x_t) + m.fade_bias)).exp()[:, None, None]
        for i in range(n):
            erased = torch.eye(d) - beta[i, :, None, None] * k[i, :, :, None] * k[i, :, None]
            S = S @ erased + beta[i, :, None, None] * v[i, :, :, None] * k[i, :, None]
        y = (S @ q[..., None])[..., 0] / d**0.5
        y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * m.scale
        ys.append(m.out(y.flatten() * F.silu(m.gate(x_t))))
    return torch.stack(ys)


def make(**options):
    torch.manual_seed(0)
    return made.mixer("delta-product", width=6, **{"heads": 2, **options}).double()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", [1, 2, 3, 13, 29])
def test_it_is_its_equation(T, kind, monkeypatch):
    monkeypatch.setattr(delta_product, "BLOCK", 5)
    m = make(**KINDS[kind])
    x = torch.randn(2, T, 6, dtype=torch.float64, requires_grad=True)
    y, wanted = m(x, layout=Layout.of(x))[0], torch.stack([oracle(m, row) for row in x])
    torch.testing.assert_close(y, wanted, rtol=1e-11, atol=1e-12)
    g = torch.randn_like(y)
    leaves = [x, *m.parameters()]
    both = (torch.autograd.grad(out, leaves, g, allow_unused=True, materialize_grads=True) for out in (y, wanted))
    for a, b in zip(*both, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


def test_refuses():
    with pytest.raises(Error, match="heads must divide the width, got 4 heads and width 6"):
        make(heads=4)
    m, x = make(), torch.randn(2, 0, 6, dtype=torch.float64)
    with pytest.raises(Error, match=r"at least one token, got T = 0"):
        m(x, layout=Layout.of(x))
