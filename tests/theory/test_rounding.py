"""The bounds on rounding: each step tried as hard as it can be, then the whole."""

import pytest
import torch
import torch.nn.functional as F

from lengthwise.automata import Semiautomaton
from lengthwise.mixers import Layout, Level
from lengthwise.theory.regular_gpt_weights import regular_gpt
from lengthwise.theory.rounding import EPS, FP32, MARGIN, MOST_STATES, norm_bound, rounding_bounds, rounding_is_harmless


def off(x):
    return float((x - x.round()).abs().max())


def machine(n):
    return Semiautomaton(torch.randint(n, (n, 3), generator=torch.Generator().manual_seed(n)))


def undone(x, ones):
    """A layer norm as `_norms` sets it."""
    D = x.shape[-1]
    weight = torch.full((D,), (ones / D - (ones / D) ** 2 + EPS) ** 0.5)
    return F.layer_norm(x, (D,), weight, torch.full((D,), ones / D))


def errors(exact, e):
    """Together, apart, by chance, and the worst: all apart but one."""
    sign = 2 * exact - 1
    g = torch.Generator().manual_seed(0)
    coin = torch.randint(2, exact.shape, generator=g) * 2.0 - 1
    one, nought = (torch.zeros_like(exact).index_fill_(-1, i, 1.0) for i in (exact.argmax(-1), exact.argmin(-1)))
    for direction in (1, -1):
        for shape in (torch.ones_like(exact), sign, exact, coin, one, sign - 2 * one, sign + 2 * nought * (1 - exact)):
            yield direction * e * shape


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, MOST_STATES])
@pytest.mark.parametrize("ones", [1, 2])
def test_norm_bound(n, ones):
    D, count = 2 * n**2, ones * n
    exact = torch.zeros(D)
    exact[torch.randperm(D, generator=torch.Generator().manual_seed(n))[:count]] = 1
    for e in (0.0, FP32, 1e-5, 1e-3, 1e-2):
        worst = max(float((undone(exact + error, count) - exact).abs().max()) for error in errors(exact, e))
        bound = norm_bound(e, count, D)
        assert worst <= bound
        if n > 1 and bound < 1:
            # The inputs' errors count twice, where the bound says four times; the rest is sums in an unlucky order.
            assert bound <= 2.5 * worst + 8 * (D + 8) * FP32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_heads_copy_exactly(dtype):
    n = 5
    model = regular_gpt(machine(n)).to(dtype)
    state = torch.rand(1, 9, n * n, generator=torch.Generator().manual_seed(0)).to(dtype)
    x = torch.cat([state, torch.zeros_like(state)], -1)
    older = torch.cat([torch.eye(n, dtype=dtype).flatten().expand(1, 2, -1), state[:, :-2]], 1)
    with torch.no_grad():
        y, _ = model.depth.layers[0].mixer(x, layout=Layout.of(x), level=Level(1, pad=model.pad))
    assert torch.equal(y, torch.cat([older - state, state], -1))


def test_the_largest_machine():
    assert all(rounding_is_harmless(n) for n in range(1, MOST_STATES + 1))
    assert not rounding_is_harmless(MOST_STATES + 1)
    assert rounding_bounds(MOST_STATES).read < MARGIN
    assert not any(rounding_is_harmless(n, 2.0**-8) for n in range(1, 400))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 14])
def test_measured_within_the_bounds_at_every_depth(n):
    model, found = regular_gpt(machine(n)), {"mixer_norm": [], "feed_norm": []}
    for name, seen in found.items():
        getattr(model.depth.layers[0], name).register_forward_hook(lambda m, i, out, seen=seen: seen.append(off(out)))
    tokens = torch.randint(3, (1, 600), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model(tokens).logits.argmax(-1), machine(n).run(tokens))
    assert len(found["feed_norm"]) == 10
    state, read = rounding_bounds(n)
    assert max(found["feed_norm"]) <= state
    assert max(found["mixer_norm"]) <= read


def feed_forward(layer, x):
    return layer.down(layer.activation(layer.up(x)))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_whatever_comes_in_below_the_margin_leaves_as_fresh_rounding(n):
    layer = regular_gpt(machine(n)).depth.layers[0]
    g = torch.Generator().manual_seed(0)
    A, B = F.one_hot(torch.randint(n, (2, 40, n), generator=g), n).float()
    read = torch.cat([A.flatten(1), B.flatten(1)], 1)
    wanted = torch.cat([(A @ B).flatten(1), torch.zeros(40, n * n)], 1)
    for error in errors(read.flatten(), 0.1249):
        x = read + error.view_as(read)
        with torch.no_grad():
            after = x + feed_forward(layer, x)
            assert (after - wanted).abs().max() <= 32 * FP32
            assert (layer.feed_norm(after) - wanted).abs().max() <= rounding_bounds(n).state


def test_beyond_the_margin_it_would_not():
    layer = regular_gpt(machine(3)).depth.layers[0]
    x = torch.eye(3).flatten().repeat(2)[None]
    with torch.no_grad():
        x = x + 0.2 * (1 - 2 * x)
        assert off(x + feed_forward(layer, x)) > 0.1


def test_one_step_at_the_largest_machine():
    """The whole layer of n = MOST_STATES, its 3e11 weights taken as the sparse sums they are."""
    n, g = MOST_STATES, torch.Generator().manual_seed(0)
    state, read = rounding_bounds(n)
    A, B = F.one_hot(torch.randint(n, (2, n), generator=g), n).float()
    h = torch.cat([A.flatten(), B.flatten()])
    wanted = torch.cat([(A @ B).flatten(), torch.zeros(n * n)])
    for error in errors(h, 2 * state):
        a = undone(h + error, 2 * n)
        assert off(a) <= read <= MARGIN
        x, y = a[: n * n].view(n, 1, n), a[n * n :].view(n, n).T[None]
        z = 2 * x + 2 * y
        product = ((z - 2.5).relu() - (z - 3.5).relu()).sum(-1)
        fed = torch.cat([product.flatten(), torch.zeros(n * n)]) + (a - ((a + 0.5).relu() - 0.5))
        assert (undone(fed, n) - wanted).abs().max() <= state
