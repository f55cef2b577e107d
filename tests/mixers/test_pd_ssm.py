"""PD-SSM against its equations, with the straight-through gradient written out on dense matrices."""

from math import pi

import pytest
import torch
import torch.nn.functional as F

from lengthwise.errors import Error, ShapeError
from lengthwise.mixers import Layout, pd_ssm
from lengthwise.mixers.state_space import SpaceState

from . import made


def oracle(m, u):
    """(T,D) of one row (T,D): the matrices of the paper, or of the released code, one after another."""
    x, ys = torch.zeros(m.state, dtype=torch.complex128), []
    x[0] = 1
    B = torch.complex(m.inputs[0], m.inputs[1])
    for u_t in u:
        M = torch.einsum("k,kab->ab", m.select(u_t).softmax(-1), m.dictionary)
        S = M.softmax(-1)
        H = F.one_hot(M.argmax(-1), m.state).to(S.dtype)
        P = H - S.detach() + S
        D = torch.polar(m.magnitude(u_t), 2 * pi * m.phase(u_t)).diag()
        A = P.mT.to(D.dtype) @ D if m.by_columns else D @ P.to(D.dtype)
        x = A @ x + B @ u_t.to(D.dtype)
        ys.append(m.norm(m.readout(torch.cat([x.real, x.imag])) + m.skip * u_t))
    return torch.stack(ys)


def make(**options):
    torch.manual_seed(0)
    return made.mixer("pd-ssm", width=6, **{"state": 5, "matrices": 3, **options}).double()


def gradients(y, leaves):
    torch.manual_seed(1)
    return torch.autograd.grad((y * torch.randn_like(y)).sum(), leaves, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("one_hot", ["columns", "rows"])
@pytest.mark.parametrize("T", [1, 2, 3, 13, 29])
def test_it_is_its_equation(T, one_hot, monkeypatch):
    monkeypatch.setattr(pd_ssm, "ENTRIES", 100)  # four tokens at a time
    m = make(one_hot=one_hot)
    u = torch.randn(2, T, 6, dtype=torch.float64, requires_grad=True)
    y, wanted = m(u, layout=Layout.of(u))[0], torch.stack([oracle(m, row) for row in u])
    torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-12)
    leaves = [u, *m.parameters()]
    for a, b in zip(gradients(y, leaves), gradients(wanted, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_table_and_an_index_are_the_rows_themselves(stacked):
    m = make()
    table = torch.randn(4, 6, dtype=torch.float64)
    index = torch.tensor([[0, 3, 3, 1, 0, 3, 1], [3, 3, 1, 1, 1, 0, 0]])  # none reads row 2
    weights = dict(m.named_parameters())

    def loss(weights, table, index, x):
        y, _ = torch.func.functional_call(m, weights, (x(table),), {"layout": Layout.of(index), "index": index})
        return (y * torch.arange(6)).sum()

    def looked_up(weights, table):
        return loss(weights, table, index, lambda table: table)

    def spelled_out(weights, table):
        y, _ = torch.func.functional_call(m, weights, (table[index],), {"layout": Layout.of(index)})
        return (y * torch.arange(6)).sum()

    both = []
    for run in (looked_up, spelled_out):
        grad = torch.func.grad_and_value(run, argnums=(0, 1))
        if stacked:
            pairs = {name: torch.stack([w, 2 * w]) for name, w in weights.items()}
            both.append(torch.func.vmap(grad, in_dims=(0, None))(pairs, table))
        else:
            both.append(grad(weights, table))
    torch.testing.assert_close(*both, rtol=1e-10, atol=1e-11)


def test_refuses():
    m, u = make(), torch.randn(2, 4, 6, dtype=torch.float64)
    with pytest.raises(ShapeError, match=r"state must be \(B,N\) = \[2, 5\], got \[1, 5\]"):
        m(u, layout=Layout.of(u), state=SpaceState(torch.zeros(1, 5)))
    with pytest.raises(Error, match="Did you mean 'columns'"):
        make(one_hot="column")
