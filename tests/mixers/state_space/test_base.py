"""What the layers of the S4 family promise beyond their systems: Liquid-S4's products, LRU, the diagonal RNN."""

import re
from itertools import combinations
from math import pi

import pytest
import torch

from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.mixers import Layout
from lengthwise.mixers.state_space.system import System
from lengthwise.models import LengthwiseForCausalLM, presets

from .. import made

LAYERS = {
    "s4": ("s4", {}),
    "s4d": ("s4d", {}),
    "liquid-s4": ("liquid-s4", {"order": 3}),
    "liquid-s4 kb": ("liquid-s4", {"kernel": "kb"}),
    "liquid-s4 exact": ("liquid-s4", {"kernel": "exact", "step_max": 0.01}),
    "lru": ("lru", {}),
    "diagonal-lrnn": ("diagonal-lrnn", {}),
    "diagonal-lrnn real": ("diagonal-lrnn", {"numbers": "real"}),
}


def make(name, width=3, **options):
    torch.manual_seed(0)
    mixer, own = LAYERS[name]
    return made.mixer(mixer, width=width, **{**own, **options})


def matrices(layer):
    """Ā (D,N,N), B̄ and C (D,N), complex, from steps of the recurrence on unit states."""
    system = layer.discretise()
    n = system.a.shape[-1]
    zero = system.a.new_zeros(1, *system.a.shape)
    columns = []
    for i in range(n):
        for unit in (1, 1j):
            x = zero.clone()
            x[..., i] = unit
            columns.append(system.step(torch.zeros(1, len(system.a)).double(), x)[1][0])
    real = torch.stack([torch.cat([c.real, c.imag], -1) for c in columns], -1)
    order = [*range(0, 2 * n, 2), *range(1, 2 * n, 2)]
    return real[..., order], system.b, system.c


def times(b, x):
    """b ∘ x, with x (D,2n) the real and imaginary parts."""
    re, im = x.chunk(2, -1)
    z = b * torch.complex(re, im)
    return torch.cat([z.real, z.imag], -1)


def multiplied_out(layer, u, keep):
    """y (D,T): over subsets s_1 < … < s_p <= t that are kept, C Ā… B̄ Ā… B̄ u…u, one Ā for every token not in it."""
    A, b, c = matrices(layer)
    one = torch.cat([torch.ones_like(b.real), torch.zeros_like(b.real)], -1)
    y = torch.zeros(u.shape, dtype=torch.float64)
    for t in range(u.shape[-1]):
        for p in range(1, t + 2):
            for chosen in combinations(range(t + 1), p):
                if not keep(chosen, t):
                    continue
                x = times(b, one) * u[:, chosen[0], None]
                for s in range(chosen[0] + 1, t + 1):
                    x = times(b, x) * u[:, s, None] if s in chosen else (A @ x[..., None])[..., 0]
                re, im = x.chunk(2, -1)
                y[:, t] += (c * torch.complex(re, im)).sum(-1).real
    return y


def consecutive(chosen):
    return chosen[-1] - chosen[0] == len(chosen) - 1


KEPT = {
    "exact": lambda chosen, t: True,
    "kb": lambda chosen, t: len(chosen) == 1 or (len(chosen) <= 3 and consecutive(chosen)),
    "pb": lambda chosen, t: len(chosen) == 1 or (len(chosen) <= 3 and consecutive(chosen) and chosen[-1] == t),
}


@pytest.mark.parametrize("kernel", KEPT)
def test_liquid_s4_keeps_the_products_it_says(kernel):
    layer = make("liquid-s4", width=2, state=4, kernel=kernel, order=3, output="none").double()
    x = torch.randn(1, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        y = layer(x, layout=Layout.of(x))[0] - layer.skip * x
        torch.testing.assert_close(y[0].mT, multiplied_out(layer, x[0].mT, KEPT[kernel]), rtol=1e-10, atol=1e-12)


def test_lru_is_its_equation_and_starts_on_its_ring():
    layer = make("lru", state=200, r_min=0.4, r_max=0.9, phase=pi / 2, output="none").double()
    λ = torch.exp(torch.complex(-layer.nu.exp(), layer.theta.exp()))
    assert 0.4 <= λ.abs().min() < 0.45
    assert 0.85 < λ.abs().max() <= 0.9
    assert λ.angle().min() >= 0
    assert λ.angle().max() <= pi / 2
    torch.testing.assert_close(layer.log_gamma.exp(), (1 - λ.abs().square()).sqrt(), rtol=1e-5, atol=1e-5)
    u, x = torch.randn(1, 5, 3, dtype=torch.float64), torch.zeros(200, dtype=torch.complex128)
    B, C = torch.view_as_complex(layer.B), torch.view_as_complex(layer.C)
    y, state = layer(u, layout=Layout.of(u))
    for t in range(5):
        x = λ * x + layer.log_gamma.exp() * (B @ u[0, t].to(B.dtype))
        torch.testing.assert_close(y[0, t], (C @ x).real + layer.skip * u[0, t])
    torch.testing.assert_close(state.x[0], x)


@pytest.mark.parametrize("numbers", ["real", "complex"])
def test_transitions_of_the_diagonal_rnn_are_bounded_and_reach_the_bound(numbers):
    layer = make("diagonal-lrnn", numbers=numbers)
    a, _ = layer.transitions(10 * torch.randn(4, 50, 3))
    assert a.is_complex() == (numbers == "complex")
    assert a.abs().max() <= 1 + 1e-6
    assert a.abs().max() > 1 - 1e-6
    assert a.abs().min() < 1


def test_diagonal_transitions_commute():
    """Where tokens move the state alone and none is added, their order is forgotten (Proposition 2)."""
    layer = make("diagonal-lrnn").double()
    torch.nn.init.zeros_(layer.inputs.weight)
    torch.nn.init.zeros_(layer.inputs.bias)
    first = torch.randn(1, 4, 3, dtype=torch.float64)
    _, start = layer(first, layout=Layout.of(first))
    start = start._replace(x=torch.randn(1, 64, dtype=torch.complex128))
    ends = [layer(x, layout=Layout.of(x, past=4), state=start)[1].x for x in (first, first[:, [2, 0, 3, 1]])]
    torch.testing.assert_close(*ends)


@pytest.mark.parametrize("name", LAYERS)
def test_decoding_is_training_in_single_precision_and_its_state_stays_small(name):
    layer = make(name, width=8)
    x = torch.randn(2, 300, 8)
    with torch.no_grad():
        whole, end = layer(x, layout=Layout.of(x))
        _, state = layer(x[:, :100], layout=Layout.of(x[:, :100]))
        size = sum(part.numel() for part in state if part is not None)
        for t in range(100, 300):
            y, state = layer(x[:, t : t + 1], layout=Layout.of(x[:, :1], past=t), state=state)
            torch.testing.assert_close(y[:, 0], whole[:, t], rtol=1e-4, atol=1e-4)
            assert sum(part.numel() for part in state if part is not None) == size
    for a, b in zip(state, end, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a - b).abs().max() <= 1e-4 * max(1, b.abs().max())


@pytest.mark.parametrize("name", LAYERS)
def test_in_half_precision_the_recurrence_is_single(name):
    layer = make(name, width=8).bfloat16()
    x = torch.randn(2, 20, 8, dtype=torch.bfloat16)
    y, state = layer(x, layout=Layout.of(x))
    assert y.dtype == torch.bfloat16
    assert y.isfinite().all()
    assert state.x.dtype in (torch.complex64, torch.float32)


REFUSED = [
    ("s4", {"state": 5}, Error, "s4: state must be even .* got 5. Use 6"),
    ("s4d", {"state": 0}, Error, "s4d: state must be even .* got 0. Use 2"),
    ("s4", {"step_min": 0.2}, Error, "0 < step_min <= step_max, got 0.2 and 0.1"),
    ("liquid-s4", {"step_min": 0.0}, Error, "0 < step_min <= step_max"),
    ("s4", {"output": "gated"}, Error, "output must be 'glu', 'linear' or 'none', got 'gated'"),
    ("s4d", {"initial": "leg"}, Error, "initial must be .* got 'leg'. Did you mean 'legs'"),
    ("s4d", {"discretisation": "euler"}, Error, "discretisation must be 'zoh' or 'bilinear', got 'euler'"),
    ("liquid-s4", {"kernel": "bp"}, Error, "kernel must be .* got 'bp'. Did you mean 'pb'"),
    ("liquid-s4", {"order": 1}, Error, "order must be at least 2, got 1. Of order 1 it is s4"),
    ("lru", {"state": 0}, Error, "lru: state must be at least 1, got 0"),
    ("lru", {"r_min": 1.0}, Error, "0 <= r_min < r_max <= 1, got 1.0 and 1.0"),
    ("lru", {"phase": 7.0}, Error, "at most 2π, got 7.0"),
    ("diagonal-lrnn", {"numbers": "quaternion"}, Error, "numbers must be 'complex' or 'real', got 'quaternion'"),
    ("diagonal-lrnn", {"state": 0}, Error, "diagonal-lrnn: state must be at least 1, got 0"),
    ("s4", {"heads": 2}, UnknownName, "Unknown setting of mixer 's4' 'heads'. Known: output, state"),
    ("liquid-s4", {"heads": 2}, UnknownName, "Unknown setting of mixer 'liquid-s4' 'heads'. Known: kernel"),
]


@pytest.mark.parametrize(("name", "options", "kind", "words"), REFUSED)
def test_refuses(name, options, kind, words):
    with pytest.raises(kind, match=words):
        made.mixer(name, width=4, **options)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("T", [1, 3])
def test_refuses_states_of_other_rows_and_layers(name, T):
    layer, x = make(name), torch.randn(2, T, 3)
    _, state = layer(x, layout=Layout.of(x))
    _, narrow = make(name, state=6)(x, layout=Layout.of(x))
    _, other = make(name, width=1)(x[..., :1], layout=Layout.of(x))
    shape = list(state.x.shape)
    for wrong, tokens in ((state, x[:1]), (narrow, x), (other, x)):
        if wrong.x.shape == (len(tokens), *shape[1:]):
            continue  # one state for all channels, whatever their number
        words = f"{layer.name}: x of the state must be {[len(tokens), *shape[1:]]}, got {list(wrong.x.shape)}. Go on"
        with pytest.raises(ShapeError, match=re.escape(words)):
            layer(tokens, layout=Layout.of(tokens, past=T), state=wrong)
    wrong = state._replace(recent=x if state.recent is None else None)
    with pytest.raises(ShapeError, match=f"{layer.name}: recent of the state must be"):
        layer(x, layout=Layout.of(x, past=T), state=wrong)


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_are_the_same_where_nobody_asks_for_the_state(name):
    layer, x = make(name).double(), torch.randn(2, 7, 3, dtype=torch.float64)
    packed = Layout.from_sequences(torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2]]))
    _, start = layer(x, layout=Layout.of(x))
    for layout, state in ((Layout.of(x), None), (Layout.of(x, past=7), start), (packed, None)):
        whole, _ = layer(x, layout=layout, state=state)
        torch.testing.assert_close(layer(x, layout=layout, state=state, ends=False)[0], whole, rtol=0, atol=0)
    for some in ({"ends": False}, {}):
        convolves = getattr(layer, "convolves", False)
        assert (layer(x, layout=Layout.of(x), **some)[1] is None) == (convolves and "ends" in some)


@pytest.mark.parametrize("name", ["s4", "s4d", "liquid-s4"])
def test_a_model_asks_for_the_state_only_to_keep_it(name, monkeypatch):
    asked = []
    run = System.run
    monkeypatch.setattr(System, "run", lambda *a, ends=True: asked.append(ends) or run(*a, ends=ends))
    model = LengthwiseForCausalLM(getattr(presets, name.replace("-", "_"))(5, width=4, layers=1))
    tokens = torch.zeros(1, 3, dtype=torch.long)
    for use_cache in (False, True):
        model(tokens, use_cache=use_cache)
    assert asked == [False, True]
