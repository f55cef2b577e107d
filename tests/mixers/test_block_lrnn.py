"""The block-diagonal linear recurrence: its equation, the bounds on its blocks, its state, and what it refuses."""

from math import inf

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.mixers import BlockState, Layout
from lengthwise.mixers.transitions import bounded

from . import made

ORDERS = st.sampled_from([1.0, 1.2, 2.0, 3.7, 40.0, inf])


@st.composite
def blocks(draw):
    """(2,b,b), of any scale, some columns or all of them nothing or all alike."""
    b = draw(st.integers(1, 9))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    M = torch.randn(2, b, b, dtype=torch.float64) * 10.0 ** draw(st.integers(-200, 200))
    special = draw(st.sampled_from(["none", "zero column", "alike", "zero"]))
    if special == "zero column":
        M[:, :, draw(st.integers(0, b - 1))] = 0
    elif special == "alike":
        M = M[:, :1].expand(2, b, b).clone()
    return M * 0 if special == "zero" else M


def norms(A, p):
    return torch.linalg.vector_norm(A, p, dim=-2)


@settings(deadline=None, max_examples=50)
@given(blocks(), ORDERS)
def test_no_column_is_longer_than_one(M, p):
    for name in ("paper", "official"):
        A = bounded(name, p)(M)
        assert A.isfinite().all()
        assert (norms(A, p) <= 1 + 1e-6).all()


@settings(deadline=None, max_examples=50)
@given(blocks())
def test_at_p_of_one_no_vector_grows(M):
    for name in ("paper", "official"):
        A = bounded(name, 1.0)(M)
        x = torch.randn(2, M.shape[-1], 3, dtype=torch.float64)
        assert (norms(A @ x, 1) <= norms(x, 1) * (1 + 1e-12)).all()


@settings(deadline=None, max_examples=50)
@given(blocks())
def test_one_hot_columns_are_exact_and_learn_as_a_softmax_does(M):
    M.requires_grad_()
    A = bounded("one-hot", 1.2)(M)
    assert ((A == 0) | (A == 1)).all()
    assert (A.sum(-2) == 1).all()
    assert (A.gather(-2, M.argmax(-2, keepdim=True)) == 1).all()
    g = torch.randn_like(M)
    mine, softs = torch.autograd.grad(A, M, g), torch.autograd.grad(M.softmax(-2), M, g)
    torch.testing.assert_close(mine, softs, rtol=1e-12, atol=1e-300)


def test_an_automaton_never_drifts():
    torch.manual_seed(0)
    layer = made.mixer("block-lrnn", width=12, block=4, normalisation="one-hot", inputs="none", readout="identity")
    words = torch.randn(3, 12)[torch.randint(3, (1, 20_000))]
    with torch.no_grad():
        y, _ = layer(words, layout=Layout.of(words))
    late = y[0, 10_000:].unflatten(-1, (3, 4))
    for block in range(3):
        assert len(late[:, block].unique(dim=0)) <= 4**4  # functions from four states to four


@settings(deadline=None, max_examples=50)
@given(blocks())
def test_rotations_keep_every_length_and_turn_nothing_over(M):
    A = bounded("orthogonal", 1.2)(M)
    x = torch.randn(2, M.shape[-1], 3, dtype=torch.float64)
    torch.testing.assert_close(norms(A @ x, 2), norms(x, 2), rtol=1e-12, atol=0)
    if (norms(M, inf) > 0).all():
        torch.testing.assert_close(torch.linalg.det(A), torch.ones(2, dtype=torch.float64))


def test_the_paper_shortens_what_is_too_long_and_leaves_the_rest():
    M = torch.tensor([[3.0, 0.1], [4.0, -0.2]], dtype=torch.float64)
    A = bounded("paper", 2)(M)
    torch.testing.assert_close(A, torch.tensor([[0.6, 0.1], [0.8, -0.2]], dtype=torch.float64))
    ones = torch.ones(4, 4, dtype=torch.float64)
    torch.testing.assert_close(bounded("paper", 1.2)(ones), ones / 4 ** (1 / 1.2))
    torch.testing.assert_close(bounded("paper", inf)(3 * ones), ones)


def test_official_centres_columns_and_scales_up_too():
    M = 1e-3 * torch.tensor([[1.0, 5.0], [3.0, 4.0]], dtype=torch.float64)
    A = bounded("official", 1)(M)
    torch.testing.assert_close(A, torch.tensor([[-0.5, 0.25], [0.5, -0.25]], dtype=torch.float64))


def test_one_reflection_after_the_other_is_the_product():
    torch.manual_seed(0)
    for b in range(1, 8):
        M, wanted = torch.randn(b, b, dtype=torch.float64), torch.eye(b, dtype=torch.float64)
        for u in M.T[: b - b % 2]:
            wanted = wanted @ (torch.eye(b, dtype=torch.float64) - 2 * torch.outer(u, u) / u.dot(u))
        torch.testing.assert_close(bounded("orthogonal", 1.2)(M), wanted)


def test_permutations_of_all_dimensions_but_one_are_rotations():
    """Here the exchange of the first two of eight, with the sign in the last: two mirrors, and six that cancel."""
    e = torch.eye(8, dtype=torch.float64)
    M = torch.stack([e[0] - e[1], e[7], *[e[2]] * 6], 1)
    wanted = e[[1, 0, 2, 3, 4, 5, 6, 7]] * torch.tensor([1.0] * 7 + [-1.0])[:, None]
    torch.testing.assert_close(bounded("orthogonal", 2)(M), wanted.double())


@pytest.mark.parametrize("name", ["paper", "official", "orthogonal"])
@pytest.mark.parametrize("p", [1.0, 1.2, 2.0, 5.0])
def test_gradients_of_the_bounds(name, p):
    torch.manual_seed(1)
    M = (2 * torch.randn(3, 4, 4, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(bounded(name, p), M)
    for special in (torch.zeros(4, 4), torch.ones(4, 4), torch.eye(4)):
        M = special.double().requires_grad_()
        (g,) = torch.autograd.grad(bounded(name, p)(M).square().sum(), M)
        assert g.isfinite().all()


def make(width=6, seed=0, **options):
    torch.manual_seed(seed)
    m = made.mixer("block-lrnn", width=width, **options).double()
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return m


@pytest.mark.parametrize("kind", ["linear", "two-layer"])
def test_it_is_its_equation(kind):
    m = make(blocks=2, block=2, transition=kind, inputs=kind, normalisation="none")
    u = torch.randn(1, 5, 6, dtype=torch.float64)
    x, wanted = m.initial.flatten(), []
    for u_t in u[0]:
        A = torch.block_diag(*m.transition(u_t).view(2, 2, 2))
        x = A @ x + m.inputs(u_t)
        wanted.append(m.readout.weight @ x + m.readout.bias)
    y, state = m(u, layout=Layout.of(u))
    torch.testing.assert_close(y[0], torch.stack(wanted))
    torch.testing.assert_close(state.x[0].flatten(), x)
    if kind == "linear":
        assert m.inputs.bias is None


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6))
def test_the_state_grows_at_most_by_its_inputs(seed):
    """At p = 1, in the 1-norm of each block; and orthogonal blocks in the 2-norm."""
    for p, normalisation in ((1.0, "paper"), (1.0, "official"), (2.0, "orthogonal")):
        m = make(8, seed, block=4, p=p, normalisation=normalisation, readout="identity")
        u = 3 * torch.randn(2, 30, 8, dtype=torch.float64)
        x = m(u, layout=Layout.of(u))[0].unflatten(-1, (2, 4))
        v = m.transitions(u)[1]
        allowed = torch.linalg.vector_norm(m.initial, p, dim=-1) + torch.linalg.vector_norm(v, p, dim=-1).cumsum(1)
        assert (torch.linalg.vector_norm(x, p, dim=-1) <= allowed * (1 + 1e-12)).all()


@pytest.mark.parametrize("normalisation", ["paper", "official", "orthogonal"])
def test_a_table_and_an_index_are_the_rows_themselves(normalisation):
    m = make(block=3, normalisation=normalisation)
    table = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    index = torch.randint(0, 4, (3, 11))
    plain = Layout.of(index)
    padded = Layout.from_mask(torch.arange(11) >= torch.tensor([[0], [3], [10]]))
    packed = Layout.from_sequences(torch.tensor([0] * 4 + [1] * 6 + [2]).expand(3, -1))
    state = BlockState(torch.randn(3, 2, 3, dtype=torch.float64))
    for layout, begun in ((plain, None), (plain, state), (padded, None), (padded, state), (packed, None)):
        real = torch.ones_like(index, dtype=torch.bool) if layout.real is None else layout.real
        found, end = m(table, layout=layout, state=begun, index=index)
        wanted, other = m(table[index], layout=layout, state=begun)
        torch.testing.assert_close(found[real], wanted[real], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(end.x, other.x, rtol=1e-12, atol=1e-12)
        leaves = [table, *m.parameters()]
        for a, b in zip(
            torch.autograd.grad(found[real].square().sum(), leaves, allow_unused=True, materialize_grads=True),
            torch.autograd.grad(wanted[real].square().sum(), leaves, allow_unused=True, materialize_grads=True),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_shapes_of_the_state():
    shape = lambda **options: made.mixer("block-lrnn", width=24, **options).shape  # noqa: E731
    assert shape() == (3, 8)
    assert shape(block=4) == (6, 4)
    assert shape(blocks=4) == (4, 6)
    assert shape(blocks=5, block=7) == (5, 7)
    m = made.mixer("block-lrnn", width=24, blocks=5, block=7)
    assert m.transition[0].out_features == m.transition[2].out_features == 5 * 7 * 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block": 5}, r"block alone must divide the width, got block 5 and width 6\. Give blocks too, or .* of 5\."),
        ({"blocks": 4}, r"blocks alone must divide the width, got blocks 4 .* Give block too"),
        ({}, r"block alone must divide the width, got block 8 and width 6"),
        ({"block": 0}, r"block must be at least 1, got 0"),
        ({"block": 2, "blocks": -1}, r"blocks must be at least 1, got -1"),
        ({"block": 3, "p": 0.99}, r"p must be a number at least 1, got 0\.99"),
        ({"block": 3, "p": float("nan")}, r"p must be a number at least 1, got nan"),
        ({"block": 3, "blocks": 3, "readout": "identity"}, r"got a state of 9 and width 6\. Use readout='linear'"),
        ({"block": 3, "normalisation": "papr"}, r"normalisation must be .* got 'papr'\. Did you mean 'paper'"),
        ({"block": 3, "transition": "tow-layer"}, r"transition must be .* got 'tow-layer'\. Did you mean 'two-layer'"),
        ({"block": 3, "inputs": "lin"}, r"inputs must be .* got 'lin'\. Did you mean 'linear'"),
        ({"block": 3, "inputs": "none", "learned_initial": False}, r"every state is 0\. Use learned_initial=True"),
        ({"block": 3, "readout": "lin"}, r"readout must be .* got 'lin'\. Did you mean 'linear'"),
        ({"blok": 3}, r"Unknown setting of mixer"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(Error, match=said) as error:
        made.mixer("block-lrnn", width=6, **options)
    assert ("Unknown" in said) == isinstance(error.value, UnknownName)


def test_refuses_another_s_state():
    m = made.mixer("block-lrnn", width=6, block=3)
    u = torch.randn(2, 4, 6)
    with pytest.raises(ShapeError, match=r"state must be \(B,h,b\) = \[2, 2, 3\], got \[1, 2, 3\]"):
        m(u, layout=Layout.of(u), state=BlockState(torch.zeros(1, 2, 3)))
