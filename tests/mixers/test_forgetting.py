"""Forgetting attention against its formula, ALiBi and BiPE-ALiBi, and what its state keeps of the gates."""

import math

import pytest
import torch

from lengthwise import mixers, models, positions
from lengthwise.errors import Error
from lengthwise.insight import read_attention
from lengthwise.mixers import Layout
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.cache import LengthwiseCache
from lengthwise.positions import KeyBias, Placed, Places

from . import made

H, D = 2, 8


def mixer_of(**options):
    torch.manual_seed(0)
    mixer = made.mixer("forgetting", width=D, heads=H, **options).double()
    for p in mixer.parameters():
        torch.nn.init.normal_(p)
    return mixer


def slowly(mixer, x, closes):
    """One sequence (T,D), with all pairs and every gate between them; `closes` (T,): where gates may close."""
    T, d, heads = len(x), D // H, []
    for h in range(H):
        q, k, v = (part[:, h * d : (h + 1) * d] for part in mixer.qkv(x).chunk(3, -1))
        f = torch.sigmoid(x @ mixer.gates.weight[h] + mixer.gates.bias[h])
        f = torch.where(closes, f, 1)
        rows = []
        for t in range(T):
            kept = torch.stack([f[s + 1 : t + 1].prod() for s in range(t + 1)])
            weights = (k[: t + 1] @ q[t] / math.sqrt(d)).exp() * kept
            rows.append(weights / weights.sum() @ v[: t + 1])
        heads.append(torch.stack(rows))
    return mixer.out(torch.cat(heads, -1))


@pytest.mark.parametrize("T", [1, 2, 13, 37])
@pytest.mark.parametrize("by_segment", [False, True])
def test_it_is_its_formula(T, by_segment):
    mixer = mixer_of(by_segment=by_segment)
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    layout, inside = Layout.of(x), torch.arange(T)[None] % 5
    placed = Placed(None, Places(layout.positions, **{"level-0": inside})) if by_segment else None
    wanted = slowly(mixer, x[0], (inside[0] == 0) | torch.tensor(not by_segment))
    found = mixer(x, layout=layout, placed=placed)[0][0]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    leaves, weights = [x, *mixer.parameters()], torch.randn(T, D, dtype=torch.float64)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), leaves) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def pro_slowly(mixer, x):
    """One sequence (T,D) through the Pro block's attention, token by token and head by head."""
    T, d = len(x), D // H
    norm = lambda u, factor, h: u / (u.square().mean() + 1e-5).sqrt() * factor[h, 0]  # noqa: E731
    shares = torch.sigmoid(x @ mixer.shift.share.weight.T)
    opened = torch.sigmoid(x @ mixer.gated.gate.weight.T)
    heads = []
    for h in range(H):
        at = slice(h * d, (h + 1) * d)
        q, k, v = (part[:, at] for part in mixer.qkv(x).chunk(3, -1))
        f = torch.sigmoid(x @ mixer.gates.weight[h] + mixer.gates.bias[h])
        keys, values, rows = [], [], []
        for t in range(T):
            own, other = shares[t, h], shares[t, H + h]
            before = (k[t - 1], v[t - 1]) if t else (torch.zeros_like(k[0]), torch.zeros_like(v[0]))
            keys.append(norm(own * before[0] + (1 - own) * k[t], mixer.k_norm.factor, h))
            values.append(other * before[1] + (1 - other) * v[t])
            query = norm(q[t], mixer.q_norm.factor, h)
            kept = torch.stack([f[s + 1 : t + 1].prod() for s in range(t + 1)])
            weights = (torch.stack(keys) @ query / math.sqrt(d)).exp() * kept
            read = weights / weights.sum() @ torch.stack(values)
            rows.append(norm(read, mixer.gated.norm.factor, h) * opened[t, at])
        heads.append(torch.stack(rows))
    return mixer.out(torch.cat(heads, -1))


@pytest.mark.parametrize("T", [1, 2, 13, 37])
def test_the_pro_block_is_its_formula(T):
    mixer = mixer_of(pro=True)
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    wanted, found = pro_slowly(mixer, x[0]), mixer(x, layout=Layout.of(x))[0][0]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    leaves, weights = [x, *mixer.parameters()], torch.randn(T, D, dtype=torch.float64)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), leaves) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_the_pro_block_has_narrower_networks():
    """As many weights as LLaMA's block, about: the output gate is a map more, and the networks lose an eighth."""
    layer = fox(block="pro").depth.layers[0]
    assert (layer.up.out_features, fox().depth.layers[0].up.out_features) == (3.5 * D, 4 * D)
    assert layer.mixer.shift.share.out_features == 2 * H
    assert fox().config.mixer.keys().isdisjoint({"pro", "qk_norm"})


def constant(mixer, slopes):
    """Gates of e^-m, whatever is read."""
    torch.nn.init.zeros_(mixer.gates.weight)
    with torch.no_grad():
        mixer.gates.bias.copy_(-torch.expm1(torch.tensor(slopes, dtype=torch.float64)).log())


def test_a_constant_gate_is_alibi():
    forgetting, alibi = mixer_of(), positions.get("alibi", width=D, heads=H)
    plain = mixers.get("softmax", width=D, heads=H, position=alibi).double()
    constant(forgetting, alibi.slopes)
    plain.load_state_dict(forgetting.state_dict(), strict=False)
    x = torch.randn(2, 41, D, dtype=torch.float64)
    found, wanted = (mixer(x, layout=Layout.of(x))[0] for mixer in (forgetting, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def fox(**options):
    torch.manual_seed(1)
    model = models.build("fox", vocab_size=6, num_outputs=6, width=D, heads=H, layers=2, **options).inner
    return model.double().eval()


def test_a_constant_gate_between_segments_is_bipe_alibi():
    ours = fox(ends=[3], max_length=4)
    bipe = models.build(
        "bipe", vocab_size=6, num_outputs=6, width=D, heads=H, layers=2, ends=[3], max_length=64, position="alibi"
    )
    slopes = bipe.inner.position.encodings()[1].slopes
    wanted = fox(ends=[3], max_length=4, position="alibi", position_options={"steepness": 96.0})
    wanted.load_state_dict(ours.state_dict())
    for model in (ours, wanted):
        for mixer in model.mixers():
            constant(mixer, slopes if model is ours else [1e-300] * H)
    tokens = torch.randint(6, (2, 30))
    torch.testing.assert_close(ours(tokens).logits, wanted(tokens).logits, rtol=1e-10, atol=1e-10)


def test_segments_of_one_token_are_fox():
    """But for the one place inside segments, which is added to every token alike."""
    every, segments = fox(), fox(ends=1)
    torch.nn.init.zeros_(segments.position.levels[0].table.weight)
    segments.load_state_dict(every.state_dict(), strict=False)
    tokens = torch.randint(6, (2, 30))
    torch.testing.assert_close(every(tokens).logits, segments(tokens).logits, rtol=1e-10, atol=1e-10)


def test_inside_a_segment_nothing_is_forgotten():
    """Gates that are shut leave each token its own segment alone; the separator belongs to the one it ends."""
    model = fox(ends=[3])
    for mixer in model.mixers():
        constant(mixer, [600.0] * H)
    tokens = torch.tensor([[1, 2, 3, 4, 5, 0, 3, 2]])
    logits = model(tokens).logits[0]
    for start, end in ((0, 3), (3, 7), (7, 8)):
        alone = model(tokens[:, start:end]).logits[0]
        torch.testing.assert_close(logits[start:end], alone, rtol=1e-10, atol=1e-10)


def test_the_gates_of_a_long_text_keep_their_digits():
    """c falls to -90,000 over 131,072 tokens, where fp32 has steps of 1/128; and a later sum goes on from it."""
    mixer = made.mixer("forgetting", width=D, heads=H)
    x, T = torch.zeros(1, 131_072, D), 131_072
    c = mixer._cumulated(x, Layout.of(x), None, None)
    assert c.dtype == torch.float64
    steps = torch.arange(1, T + 1, dtype=torch.float64)
    torch.testing.assert_close(c[0, 0], torch.sigmoid(torch.tensor(0.0)).log().double() * steps, rtol=1e-12, atol=0)
    later = mixer._cumulated(x[:, :3], Layout.of(x[:, :3], past=T), None, c)
    torch.testing.assert_close(later[0, 0], c[0, 0, -1] + c[0, 0, :3], rtol=1e-12, atol=0)


def test_padding_closes_no_gate():
    mixer = mixer_of()
    x = torch.randn(1, 6, D, dtype=torch.float64)
    layout = Layout.from_mask(torch.tensor([[0, 0, 1, 1, 1, 1]]))
    c = mixer._cumulated(x, layout, None, None)
    assert c[:, :, :2].abs().max() == 0
    assert (c[:, :, 2:].diff(dim=-1) < 0).all()


def test_the_bias_is_by_key_and_the_last_key_s_is_0():
    mixer, x = mixer_of(), torch.randn(2, 9, D, dtype=torch.float64)
    _, seen, bias = mixer.compared(x, Layout.of(x), None, None)
    assert isinstance(bias, KeyBias)
    assert bias.values.shape == seen.gates.shape == (2, H, 9)
    assert (bias.values[..., -1] == 0).all()
    assert (bias.values.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("form", ["whole", "padded", "packed", "continued"])
def test_bf16_is_near(form):
    """Over 600 tokens c falls to -400, where bf16 has steps of 2; only its differences are rounded."""
    torch.manual_seed(3)
    mixer, x, T = made.mixer("forgetting", width=64, heads=4), torch.randn(2, 600, 64), 600
    layout = {
        "padded": Layout.from_mask(torch.arange(T) >= torch.tensor([[0], [70]])),
        "packed": Layout.from_sequences((torch.arange(T) // 250).expand(2, -1)),
    }.get(form, Layout.of(x))

    def read(mixer, x):
        if form != "continued":
            return mixer(x, layout=layout)[0]
        first, state = mixer(x[:, :500], layout=layout.pick(slice(0, 500)))
        return torch.cat([first, mixer(x[:, 500:], layout=layout.pick(slice(500, T)), state=state)[0]], 1)

    wanted, half = read(mixer, x), read(mixer.bfloat16(), x.bfloat16())
    assert half.dtype == torch.bfloat16
    real = layout.real_tokens()
    torch.testing.assert_close(half[real].float(), wanted[real], rtol=0.03, atol=0.03)


@pytest.mark.parametrize("position", ["t5", "kerple-log", "transformer-xl"])
def test_bf16_is_near_with_a_bias_of_pairs_beside_the_gates(position):
    torch.manual_seed(3)
    config = presets.fox(9, width=32, heads=2, layers=1, position=position)
    model = LengthwiseForCausalLM(config).eval()
    tokens = torch.randint(9, (1, 512))
    with torch.no_grad():
        wanted = model(tokens).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = model(tokens).logits
    torch.testing.assert_close(half.float(), wanted, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("options", [{}, {"ends": [3]}, {"ends": 4}, {"block": "pro"}], ids=str)
def test_a_cache_can_be_cut_back(options):
    """As assisted decoding does; the numbers of segments and shifted keys cannot be, and the cache says so."""
    model, tokens = fox(**options), torch.randint(6, (2, 12))
    with torch.no_grad():
        cache = LengthwiseCache()
        model(tokens[:, :9], past_key_values=cache)
        model(tokens[:, 9:10], past_key_values=cache)
        if options:
            with pytest.raises(Error, match="cannot be taken back"):
                cache.crop(-1)
        else:
            cache.crop(7)
        start = cache.get_seq_length()
        cache.batch_select_indices(torch.tensor([1, 1]))
        logits = model(tokens[[1, 1], start:], past_key_values=cache).logits
    assert cache.is_croppable is (not options)
    torch.testing.assert_close(logits, model(tokens[[1, 1]]).logits[:, start:], rtol=1e-10, atol=1e-10)


def test_the_gates_start_where_they_are_told():
    model = fox(gate_bias=3.0)
    for mixer in model.mixers():
        assert (mixer.gates.bias == 3).all()
        assert 0.005 < mixer.gates.weight.std() < 0.05
    log_f = model.mixers()[0].gates(torch.randn(1, 100, D).double())
    assert log_f.exp().mean().item() == pytest.approx(1 / (1 + math.exp(-3)), abs=0.01)


def test_the_shown_weights_are_those_of_the_gates():
    classifier = models.build("fox", vocab_size=6, num_outputs=6, width=D, heads=H, layers=1, ends=2).double()
    (mixer,) = classifier.inner.mixers()
    constant(mixer, [600.0] * H)
    (shown,) = read_attention(classifier, torch.tensor([1, 2, 3, 4]))
    assert shown.mixer == "forgetting"
    assert (shown.weights[:, 2:, :2] < 1e-200).all()
    assert (shown.weights[:, 1, 0] > 0).all()


def test_refusals():
    mixer, x = mixer_of(by_segment=True), torch.randn(1, 3, D, dtype=torch.float64)
    with pytest.raises(Error, match=r"by_segment needs the segments.*position bilevel or multilevel"):
        mixer(x, layout=Layout.of(x))
    config = made.config(
        vocab_size=6, width=D, mixer={"name": "forgetting", "heads": H, "by_segment": True}, position={"name": "rope"}
    )
    with pytest.raises(Error, match=r"mixer 'forgetting' reads where segments begin, and position .*'rope'.* has none"):
        models.LengthwiseForCausalLM(config)
