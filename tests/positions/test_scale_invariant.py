"""Scale-invariant attention and p-RoPE against their formulas, written down pair by pair."""

import math

import pytest
import torch

from lengthwise import positions
from lengthwise.mixers import Layout
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.positions import Places

from ..mixers import made

D, H, TAU = 16, 2, 3.0


def mixer_of(**options):
    torch.manual_seed(0)
    position = positions.get("scale-invariant", width=D, heads=H, tau=TAU, share=0.5)
    mixer = made.mixer("softmax", width=D, heads=H, qk_norm=True, position=position, **options).double()
    for p in mixer.parameters():
        torch.nn.init.normal_(p)
    return mixer


def slowly(mixer, x, sharper):
    """One sequence (T,D): the first two of four pairs turn, every pair of tokens by itself; `sharper` (T,)."""
    T, d = len(x), D // H
    norm = lambda u, factor: u / (u.square().mean(-1, keepdim=True) + 1e-5).sqrt() * factor  # noqa: E731
    heads = []
    for h in range(H):
        q, k, v = (part[:, h * d : (h + 1) * d] for part in mixer.qkv(x).chunk(3, -1))
        q, k = norm(q, mixer.q_norm.factor[h, 0]), norm(k, mixer.k_norm.factor[h, 0])
        rows = []
        for i in range(T):
            logits = []
            for j in range(i + 1):
                product, t = 0.0, i - j
                for c in range(d // 2):
                    angle = t * 10_000.0 ** (-2 * c / d) if c < d // 4 else 0.0
                    # Of (a + ib) e^(iwi) and the conjugate of (e + if) e^(iwj), the real part.
                    (a, b), (e, f) = (q[i, c], q[i, c + d // 2]), (k[j, c], k[j, c + d // 2])
                    product = product + math.cos(angle) * (a * e + b * f) - math.sin(angle) * (b * e - a * f)
                scale = math.sqrt(1 + 2 * math.log(1 + t / TAU)) * sharper[i, h]
                logits.append(scale * product / math.sqrt(d) - 2 * math.log(1 + t / TAU))
            rows.append(torch.stack(logits).softmax(0) @ v[: i + 1])
        heads.append(torch.stack(rows))
    return mixer.out(torch.cat(heads, -1))


@pytest.mark.parametrize("log_scale", [None, 4])
@pytest.mark.parametrize("T", [1, 2, 13])
def test_it_is_its_formula(T, log_scale):
    mixer = mixer_of(log_scale=log_scale)
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    n = torch.arange(1, T + 1, dtype=torch.float64)[:, None]
    sharper = torch.ones(T, H).double() if log_scale is None else mixer.a * n.log()
    wanted, found = slowly(mixer, x[0], sharper), mixer(x, layout=Layout.of(x))[0][0]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    leaves, weights = [x, *mixer.parameters()], torch.randn(T, D, dtype=torch.float64)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), leaves) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_between_segments_it_counts_segments():
    """With segments of one token BiPE's numbers are the tokens', and so is everything else."""
    plain = filled(position="scale-invariant")
    between = {"name": "scale-invariant"}
    levels = filled(position="bilevel", position_options={"inside": {"name": "none"}, "between": between, "ends": 1})
    levels.load_state_dict(plain.state_dict())
    tokens = torch.randint(7, (2, 23))
    torch.testing.assert_close(levels(tokens).logits, plain(tokens).logits, rtol=1e-10, atol=1e-10)
    levels.position.ends = [5]
    assert not torch.allclose(levels(tokens).logits, plain(tokens).logits)


def test_drawn_places_are_those_it_counts():
    """From as many places as there are tokens, they are the tokens' own."""
    plain = filled(position="scale-invariant")
    drawn = filled(position="randomized", position_options={"of": {"name": "scale-invariant"}, "longest": 23})
    drawn.load_state_dict(plain.state_dict())
    tokens = torch.randint(7, (2, 23))
    torch.testing.assert_close(drawn(tokens).logits, plain(tokens).logits, rtol=1e-10, atol=1e-10)


def filled(**options):
    torch.manual_seed(1)
    model = LengthwiseForCausalLM(presets.transformer(7, width=D, heads=H, layers=2, qk_norm=True, **options))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model.double().eval()


@pytest.mark.parametrize(("share", "turning"), [(0.0, 0), (0.3, 1), (0.5, 2), (1.0, 4)])
def test_of_p_rope_the_fastest_pairs_turn(share, turning):
    whole, part = (positions.get("rope", width=D, heads=H, **given) for given in ({}, {"share": share}))
    x, places = torch.randn(1, H, 5, D // H, dtype=torch.float64), Places(torch.arange(3, 8)[None])
    entries = torch.arange(D // H) % (D // H // 2)
    turned = torch.where(entries < turning, whole.rotate(x, places), x)
    torch.testing.assert_close(part.rotate(x, places), turned, rtol=1e-12, atol=1e-12)
