"""How attention takes what a position encoding does to its logits: by the fastest way, and to the same result."""

import math

import pytest
import torch
from torch import Tensor

from lengthwise import mixers, models
from lengthwise.errors import Error
from lengthwise.mixers import Layout, softmax
from lengthwise.positions import DenseBias, DistanceBias, KeyBias, Placed, Places, Position, Score

from . import made

H, T, D = 2, 7, 8
BIASES = {
    "key": lambda ids: KeyBias(torch.linspace(-1, 1, H * T, dtype=torch.float64).view(H, T).sin()),
    "key of each row": lambda ids: KeyBias(torch.linspace(-1, 1, 2 * H * T, dtype=torch.float64).view(2, H, T).sin()),
    "distance": lambda ids: DistanceBias(torch.tensor([[0.0, 1, -1, 2], [3, 0, 1, -2]]).double(), ids, ids),
}


class Scores(Position):
    """The given score, whatever is read."""

    at_attention = True

    def __init__(self, score: Score):
        super().__init__()
        self.given = score

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        return self.given


def run(name, score, layout):
    torch.manual_seed(0)
    mixer = made.mixer(name, width=D, heads=H).double()
    x = torch.randn(2, T, D, dtype=torch.float64, requires_grad=True)
    y, _ = mixer(x, layout=layout, placed=Placed(Scores(score), Places(layout.positions)))
    return y, torch.autograd.grad(y.square().sum(), x)[0]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("name", ["softmax", "chain"])
def test_every_kind_of_bias_is_what_it_is_densely(name, bias, padded):
    x = torch.zeros(2, T)
    layout = Layout.from_mask(torch.arange(T) >= torch.tensor([[0], [3]])) if padded else Layout.of(x)
    given = BIASES[bias](layout.positions)
    dense = DenseBias(given.dense().expand(2, H, T, T))
    found, expected = (run(name, Score(bias=b), layout) for b in (given, dense))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(found[0], run(name, Score(), layout)[0])


def test_a_bias_by_distance_is_its_table_s():
    ids = torch.tensor([[0, 1, 2, 3, 0]])
    bias = DistanceBias(torch.tensor([[10.0, 11.0, 12.0]]), ids[:, 2:], ids).dense()
    # Beyond the table stands its last entry; before the query, which nothing reads, its first.
    assert bias[0, 0].tolist() == [[12, 11, 10, 10, 12], [12, 12, 11, 10, 12], [10, 10, 10, 10, 10]]


def test_a_bias_by_key_and_one_token_build_no_mask(monkeypatch):
    monkeypatch.setattr(softmax, "visible", lambda *given: pytest.fail("built a mask"))
    mixer, x = mixers.get("softmax", width=D, heads=H), torch.randn(2, T, D)
    placed = lambda layout, bias: Placed(Scores(Score(bias=bias)), Places(layout.positions))  # noqa: E731
    layout = Layout.of(x[:, :-1])
    _, state = mixer(x[:, :-1], layout=layout, placed=placed(layout, KeyBias(torch.randn(H, T - 1))))
    layout = Layout.of(x[:, -1:], past=T - 1)
    for bias in (KeyBias(torch.randn(H, T)), DenseBias(torch.randn(2, H, 1, T))):
        mixer(x[:, -1:], layout=layout, state=state, placed=placed(layout, bias))


@pytest.mark.parametrize("name", ["softmax", "chain"])
def test_the_scale_is_the_query_s(name):
    """A scale of 0 makes the mean of what may be read; the bias is not scaled."""
    layout = Layout.of(torch.zeros(2, T))
    zero = torch.zeros(2, T)
    torch.manual_seed(0)
    mixer = made.mixer(name, width=D, heads=H).double()
    x = torch.randn(2, T, D, dtype=torch.float64)
    told = lambda score: {"layout": layout, "placed": Placed(Scores(score), Places(layout.positions))}  # noqa: E731
    bias = KeyBias(torch.zeros(H, T, dtype=torch.float64).index_fill(1, torch.tensor([0]), 40.0))
    y = mixer(x, **told(Score(zero)))[0]
    half = mixer(x, **told(Score((torch.arange(T) < 3).double().expand(2, T))))[0]
    torch.testing.assert_close(half[:, :3], mixer(x, layout=layout)[0][:, :3])
    torch.testing.assert_close(half[:, 3:], y[:, 3:]) if name == "softmax" else None
    if name == "softmax":
        v = mixer.qkv(x).chunk(3, -1)[2]
        torch.testing.assert_close(y, mixer.out(v.cumsum(1) / torch.arange(1, T + 1)[:, None]))
        torch.testing.assert_close(mixer(x, **told(Score(zero, bias)))[0], mixer.out(v[:, :1]).expand_as(y))


def test_an_encoding_with_a_state_needs_a_model():
    class Stateful(Position):
        def place(self, tokens, layout, state=None):
            return Places(layout.positions), layout.positions

    mixer, x = mixers.get("softmax", width=D, heads=H, position=Stateful()), torch.randn(2, T, D)
    with pytest.raises(Error, match="Stateful goes on from a state, which a model's cache keeps"):
        mixer(x, layout=Layout.of(x))


@pytest.mark.parametrize("bias", [None, "key"])
def test_log_scale_is_its_equation(bias):
    """Head by head and query by query; the bias does not grow."""
    torch.manual_seed(0)
    mixer = made.mixer("softmax", width=D, heads=H, log_scale=20).double()
    torch.testing.assert_close(mixer.a, torch.full((H,), 1 / math.log(20)).double(), rtol=1e-6, atol=0)
    torch.nn.init.normal_(mixer.a)
    x = torch.randn(1, T, D, dtype=torch.float64)
    layout = Layout.of(x)
    key = torch.randn(H, T, dtype=torch.float64) if bias else torch.zeros(H, T, dtype=torch.float64)
    placed = Placed(Scores(Score(bias=KeyBias(key))), Places(layout.positions)) if bias else None
    d, heads = D // H, []
    for h in range(H):
        q, k, v = (part[0, :, h * d : (h + 1) * d] for part in mixer.qkv(x).chunk(3, -1))
        rows = [
            (mixer.a[h] * math.log(n) * (k[:n] @ q[n - 1]) / math.sqrt(d) + key[h, :n]).softmax(0) @ v[:n]
            for n in range(1, T + 1)
        ]
        heads.append(torch.stack(rows))
    wanted = mixer.out(torch.cat(heads, -1))
    torch.testing.assert_close(mixer(x, layout=layout, placed=placed)[0][0], wanted, rtol=1e-10, atol=1e-10)


def test_log_scale_starts_as_softmax_attention_at_that_many_keys():
    plain, grown = (made.mixer("softmax", width=D, heads=H, log_scale=scale).double() for scale in (None, T))
    grown.load_state_dict({**plain.state_dict(), "a": grown.a})
    x = torch.randn(2, T, D, dtype=torch.float64)
    expected, found = (mixer(x, layout=Layout.of(x))[0] for mixer in (plain, grown))
    torch.testing.assert_close(found[:, [0, -1]], expected[:, [0, -1]], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(found[:, 1:-1], expected[:, 1:-1])


def test_log_scale_counts_in_full_precision():
    """In bf16 no number beyond 256 is whole; and padding counts for nothing."""
    mixer = made.mixer("softmax", width=D, heads=H, log_scale=64)
    x = torch.randn(1, 5, D)
    layout = Layout(torch.arange(100_000, 100_005)[None])
    wanted = mixer.compared(x, layout, None, None)[0]
    with torch.autocast("cpu", torch.bfloat16):
        half = mixer.compared(x, layout, None, None)[0]
    torch.testing.assert_close(half.float(), wanted, rtol=0.02, atol=0.02)
    assert mixer.compared(x, Layout(torch.arange(-3, 2)[None]), None, None)[0][:, :, :4].abs().max() == 0


@pytest.mark.parametrize("preset", ["transformer", "bipe"])
def test_log_scale_is_an_option_of_presets(preset):
    plain = models.presets.PRESETS[preset](5, width=8, heads=2, layers=2)
    assert "log_scale" not in plain.mixer
    model = models.build(preset, vocab_size=5, num_outputs=5, width=8, heads=2, layers=2, log_scale=16).inner
    assert [mixer.a.shape for mixer in model.mixers()] == [(2,), (2,)]
    loss = model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss
    loss.backward()
    assert all(mixer.a.grad.any() for mixer in model.mixers())
    with pytest.raises(Error, match="log_scale must be a whole number at least 2 or None, got 1"):
        models.build(preset, vocab_size=5, num_outputs=5, log_scale=1)
