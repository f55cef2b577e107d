"""What the chain attention layer promises beyond the law of mixers."""

import pytest
import torch

from lengthwise.errors import Error, ShapeError
from lengthwise.mixers import Layout

from . import made


def layer(**options):
    torch.manual_seed(0)
    return made.mixer("chain", width=6, heads=2, **options).double()


def weights(m, x, causal=True):
    """A (B,H,T,T) and V (B,H,T,d), by hand."""
    q, k, v = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in m.qkv(x).chunk(3, -1))
    logits = q @ k.mT / 3**0.5
    if causal:
        logits = logits.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -torch.inf)
    return logits.softmax(-1), v


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("exclude", [True, False])
def test_it_is_its_equation(causal, exclude):
    m, x = layer(gamma=0.7, exclude_diagonal=exclude, causal=causal), torch.randn(2, 9, 6).double()
    A, V = weights(m, x, causal)
    paths = A - A.diagonal(0, -2, -1).diag_embed() if exclude else A
    # The series itself: its 60th power of 0.7 is below 1e-9.
    Y = term = 0.3 * A @ V
    for _ in range(100):
        term = 0.7 * paths @ term
        Y = Y + term
    wanted = m.out(Y.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(m(x, layout=Layout.of(x))[0], wanted, rtol=1e-9, atol=1e-9)


def test_a_learned_gamma_starts_where_it_is_told_and_stays_below_1():
    m, x = layer(gamma=0.9, learn_gamma=True), torch.randn(1, 7, 6).double()
    torch.testing.assert_close(m.gamma(x), torch.full((2,), 0.9).double())
    torch.testing.assert_close(m(x, layout=Layout.of(x))[0], layer(gamma=0.9)(x, layout=Layout.of(x))[0])
    (slope,) = torch.autograd.grad(m(x, layout=Layout.of(x))[0].square().sum(), m.gamma.logit)
    assert slope.all()
    for extreme, wanted in ((-1e4, 0.0), (1e4, 0.999)):
        torch.nn.init.constant_(m.gamma.logit, extreme)
        assert m.gamma(x).tolist() == pytest.approx([wanted] * 2)
        assert m(x, layout=Layout.of(x))[0].isfinite().all()
    assert "learned from 0.9" in repr(m)


def test_an_encoder_reads_all_of_its_text_and_no_padding():
    m = layer(causal=False)
    rows = [torch.randn(1, n, 6).double() for n in (3, 7)]
    x, mask = torch.randn(2, 7, 6).double() * 100, torch.ones(2, 7)
    x[0, :3], x[1], mask[0, 3:] = rows[0], rows[1], 0
    y, state = m(x, layout=Layout.from_mask(mask))
    assert state is None
    for i, row in enumerate(rows):
        torch.testing.assert_close(y[i, : row.shape[1]], m(row, layout=Layout.of(row))[0][0], rtol=1e-9, atol=1e-9)
    inputs = rows[1].requires_grad_()
    (g,) = torch.autograd.grad(m(inputs, layout=Layout.of(inputs))[0][0, 0].sum(), inputs)
    assert g[0].abs().sum(-1).all()  # the first token's output is a function of every token


def test_refuses():
    for gamma in (1.0, -0.1, float("nan")):
        with pytest.raises(Error, match=r"at least 0 and below 1|got nan"):
            layer(gamma=gamma)
    for gamma in (0.0, 0.9995):
        with pytest.raises(Error, match=r"must start above 0 and below 0\.999"):
            layer(gamma=gamma, learn_gamma=True)
    with pytest.raises(Error, match="Unknown setting of mixer"):
        layer(gama=0.9)
    with pytest.raises(Error, match="heads must divide the width, got 4 heads and width 6"):
        made.mixer("chain", width=6, heads=4)
    m, x = layer(), torch.randn(2, 3, 6).double()
    with pytest.raises(Error, match="at least one token, got T = 0"):
        m(x[:, :0], layout=Layout.of(x[:, :0]))
    _, state = m(x, layout=Layout.of(x))
    with pytest.raises(ShapeError, match="batch must be that of the tokens, 1, got 2"):
        m(x[:1], layout=Layout.of(x[:1], past=3), state=state)
    encoder = layer(causal=False)
    with pytest.raises(Error, match="no state to go on from"):
        encoder(x, layout=Layout.of(x, past=3), state=state)
    with pytest.raises(Error, match="rows cannot be packed"):
        encoder(x[:1], layout=Layout.packed(torch.tensor([0, 1, 3])))


@pytest.mark.parametrize("learn", [False, True])
def test_the_sum_of_paths_is_the_mean_without_its_factor(learn):
    torch.manual_seed(0)
    mean = made.mixer("chain", width=8, heads=2, gamma=0.75, learn_gamma=learn).double()
    total = made.mixer("chain", width=8, heads=2, gamma=0.75, learn_gamma=learn, paths="sum").double()
    total.load_state_dict(mean.state_dict())
    x = torch.randn(2, 5, 8).double()
    layout = Layout.of(x)
    bias = mean.out.bias
    torch.testing.assert_close(total(x, layout=layout)[0] - bias, 4 * (mean(x, layout=layout)[0] - bias))
    with pytest.raises(Error, match="mean"):
        made.mixer("chain", width=8, heads=2, paths="median")


@pytest.mark.parametrize("autocast", [False, True])
def test_a_learned_gamma_stays_below_1_in_half_precision(autocast):
    """In bfloat16 0.999 is 1, and the sum of paths would be divided by 0."""
    kind = torch.float32 if autocast else torch.bfloat16
    m = layer(learn_gamma=True, paths="sum").to(kind)
    assert m.gamma.logit is not None
    m.gamma.logit.data.fill_(20.0)
    x = torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(0)).to(kind)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y, _ = m(x, layout=Layout.of(x))
    assert y.dtype == torch.bfloat16
    assert y.isfinite().all()


@pytest.mark.parametrize("learn", [False, True])
def test_a_gamma_for_every_head(learn):
    """Each head as in a layer whose heads all have its γ."""
    torch.manual_seed(0)
    given, x = [0.25, 0.75], torch.randn(2, 5, 8)
    both = made.mixer("chain", width=8, heads=2, gamma=given, learn_gamma=learn)
    torch.nn.init.eye_(both.out.weight)
    for head, gamma in enumerate(given):
        one = made.mixer("chain", width=8, heads=2, gamma=gamma)
        one.load_state_dict({k: v for k, v in both.state_dict().items() if "gamma" not in k})
        y, alone = (layer(x, layout=Layout.of(x))[0][..., 4 * head : 4 * head + 4] for layer in (both, one))
        torch.testing.assert_close(y, alone)
    with pytest.raises(Error, match="each of the 2 heads, got 3"):
        made.mixer("chain", width=8, heads=2, gamma=[0.1, 0.2, 0.3])
    with pytest.raises(Error, match="below 1"):
        made.mixer("chain", width=8, heads=2, gamma=[0.1, 1.0])
