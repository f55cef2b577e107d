"""Balls hold what float32 makes of vectors that are off by their rounding, and are closer than entries one by one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lengthwise import models
from lengthwise.verify.prove.affine import Directions
from lengthwise.verify.prove.codes import CodedNode
from lengthwise.verify.prove.enclosures import EXACT, FLOAT32, SMOOTH
from lengthwise.verify.prove.points import Balls, Points, largest_singular_value

N, D, COUNT = 3, 24, 3_000


def balls(seed, ball=1e-2, arithmetic=FLOAT32, shape=(N, D), e=1.0):
    """Vectors, and members of them: within e of each entry, and within the ball, half of them at its edge."""
    draw = torch.Generator().manual_seed(seed)
    c = torch.randn(*shape, generator=draw, dtype=torch.float64)
    form = Balls(c, c.new_zeros(len(c), 0, shape[1]), torch.full_like(c, e * ball), Directions(), arithmetic)
    form = form._within(form.e, torch.full_like(c[:, :1], ball))
    delta = torch.randn(len(c), COUNT, shape[1], generator=draw, dtype=torch.float64)
    # Most are all over the ball; some have few entries that are not zero.
    few = torch.rand(delta.shape, generator=draw) < torch.rand(len(c), COUNT, 1, generator=draw) ** 3
    delta = delta * few
    delta = delta / delta.norm(dim=-1, keepdim=True).clamp(min=1e-30) * form.ball()[:, None]
    delta[:, COUNT // 2 :] *= torch.rand(len(c), COUNT - COUNT // 2, 1, generator=draw, dtype=torch.float64)
    delta = delta.clamp(-form.e[:, None], form.e[:, None])
    return form, (c[:, None] + delta)


def holds(form, values):
    off = values.double() - form.c[:, None]
    own = 2.0**-48 * (values.double().abs() + 1)  # of the test's own sums
    assert (off.abs() <= form.radius()[:, None] + own).all()
    assert (off.norm(dim=-1) <= form.ball() + own.norm(dim=-1)).all()
    assert form.ball().isfinite().all()


def matrix(rows, columns, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 5


@pytest.mark.parametrize("arithmetic", [FLOAT32, EXACT])
@pytest.mark.parametrize("ball", [1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("what", ["linear", "sum", "relu", "norm", "rms", *SMOOTH])
def test_what_is_computed_lies_within(what, ball, arithmetic):
    form, x = balls(1, ball, arithmetic, e=0.5)
    exact = arithmetic is EXACT
    if not exact:  # what the model has may be a little farther off
        x = x.float()
        off = (x - form.c[:, None]).abs().amax(1), (x - form.c[:, None]).norm(dim=-1, keepdim=True).amax(1)
        form = form._within(torch.maximum(form.e, off[0]), torch.maximum(form.ball(), off[1]))
    w, b = matrix(1, D, 5)[0] + 1, matrix(1, D, 6)[0]
    if not exact:  # what the model has
        w, b = w.float(), b.float()
    if what == "linear":
        W, add = matrix(40, D), matrix(1, 40, 2)[0]
        W, add = (W, add) if exact else (W.float(), add.float())
        made, values = form.linear(W.double(), add.double()), F.linear(x, W, add)
    elif what == "sum":
        other, y = balls(2, 3 * ball, arithmetic)
        y = y if exact else y.float().double()
        other = other._within(other.e + 2.0**-22, other.ball() + 2.0**-20)
        made, values = form + other, x + y.to(x.dtype)
    elif what == "relu":
        made, values = form.relu(), x.relu()
    elif what in SMOOTH:
        if exact:
            pytest.skip("the bound of a smooth function counts ulps of the arithmetic")
        made, values = form.smooth(what), SMOOTH[what].value(x)
    else:
        made = form.norm(w.double(), b.double(), 1e-5, what == "norm")
        values = F.layer_norm(x, (D,), w, b, 1e-5) if what == "norm" else F.rms_norm(x, (D,), w, 1e-5) + b
    assert isinstance(made, Balls)
    holds(made, values)


def test_a_norm_bends_more_near_zero():
    """A vector with little spread may be turned round by its rounding, and one with none has no bound."""
    for shrunk, finite in ((0.05, True), (0.0, False)):
        form, x = balls(3, 1e-2, EXACT)
        middle = form.c.mean(-1, keepdim=True)
        moved = middle + (form.c - middle) * shrunk
        form = Balls(moved, form.G, form.e, form.directions, EXACT)._within(form.e, form.ball())
        made = form.norm(torch.ones(D, dtype=torch.float64), None, 0.0, True)
        assert bool(made.ball().isfinite().all()) == finite
        if finite:
            holds(made, F.layer_norm(x - x.mean(1, keepdim=True) + moved[:, None], (D,), eps=0.0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (50, 3), (64, 64)])
@pytest.mark.parametrize("kind", ["random", "one direction", "orthogonal", "zero"])
def test_the_largest_singular_value_is_bounded(shape, kind):
    W = matrix(*shape, seed=sum(shape))
    if kind == "one direction":
        W = W[:, :1] @ W[:1]
    elif kind == "orthogonal":
        W = torch.linalg.qr(W).Q if shape[0] >= shape[1] else torch.linalg.qr(W.T).Q.T
    elif kind == "zero":
        W = W * 0
    true = float(torch.linalg.svdvals(W)[0])
    assert true <= largest_singular_value(W) <= 1.1 * true + 1e-12


def test_a_ball_is_forgotten_with_its_entries():
    """Whatever makes another e, in whatever way, has the ball that this e implies, and not the one before."""
    form, _ = balls(4, 1e-3)
    for made in (
        form.scaled(100.0),
        form.rounded(torch.ones_like(form.e), FLOAT32),
        form.heads(2).merged(),
        form * form,
    ):
        assert isinstance(made, Balls)
        torch.testing.assert_close(made.ball(), made.e.norm(dim=-1, keepdim=True))


def test_balls_are_closer_than_entries_where_a_node_is_wide():
    """A node of width 128: entries one by one say nothing, and the ball does."""
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=4, num_outputs=4, width=128, nodes="discrete").inner.eval()
    node = CodedNode(model, FLOAT32)
    read = node.leaves
    taps = [type(read)(read.c[i], read.G[i], read.e[i], Directions(), FLOAT32) for i in ([0, 1, 2, 3], [3, 2, 1, 1])]
    z = node.node.combine(taps).linear(node.choose_weight, node.choose_bias)
    plain = [Points(x.c, x.G, x.e, x.directions, FLOAT32) for x in taps]
    entries = node.node.combine(plain).linear(node.choose_weight, node.choose_bias)
    assert float(z.radius().max()) < 0.05 * float(entries.radius().max())
    with torch.no_grad():
        group, nodes = model.depth.layers[0], model.depth.layers[0].nodes
        leaves = model.embedding.weight * model.config.embedding_scale
        from lengthwise.mixers import Layout, Level

        x = torch.stack([leaves[[0, 1, 2, 3]], leaves[[3, 2, 1, 1]]], 1)
        computed = group.choice_logits(x, Layout.of(x), Level(pad=model.pad), stride=2)[:, 0].flatten(1)
        assert nodes is not None
    assert ((computed.double() - z.c).abs() <= z.radius()).all()
