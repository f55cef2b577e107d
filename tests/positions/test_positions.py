"""Each encoding against its equation, written out slowly; and the registry."""

import math

import pytest
import torch

from lengthwise import positions
from lengthwise.errors import Error, UnknownName
from lengthwise.positions import Layout, Places
from lengthwise.positions.absolute import sinusoid
from lengthwise.positions.score import NOTHING


def test_none_does_nothing():
    p = positions.get("none", width=4, heads=2)
    q, k = torch.randn(2, 1, 2, 3, 2)
    ids = torch.arange(3)[None]
    places, state = p.place(None, Layout(ids))
    assert list(places) == ["token"]
    assert places["token"] is ids
    assert state is None
    assert p.embed(places) is None
    assert p.score(q, places, places) is NOTHING
    assert p.rotate(k, places) is k
    assert p.rotate_queries(q, places) is q
    assert not list(p.parameters())


def test_learned_clamps_at_its_last_row():
    p = positions.get("learned", width=4, heads=1, rows=3)
    rows = p.embed(Places(torch.tensor([[-5, 0, 1, 2, 3, 10**6]])))[0]
    assert torch.equal(rows, p.table.weight[[0, 0, 1, 2, 2, 2]])


def test_sinusoidal_is_its_equation_even_far_out():
    p = positions.get("sinusoidal", width=6, heads=1)
    for t in (0, 1, 40, 1_000_003):
        angles = [t * 10_000 ** (-2 * i / 6) for i in range(3)]
        wanted = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert p.embed(Places(torch.tensor([[t]])))[0, 0].tolist() == pytest.approx(wanted, abs=1e-6)


def test_transformer_xl_is_its_equation():
    H, d, T = 2, 3, 5
    p = positions.get("transformer-xl", width=H * d, heads=H).double()
    for parameter in p.parameters():
        torch.nn.init.normal_(parameter)
    q, k = torch.randn(2, 1, H, T, d, dtype=torch.float64)
    ids = torch.tensor([[0, 1, 2, 0, 1]])
    places = Places(ids)
    score = p.score(q, places, places)
    assert score.scale is None
    turned, same = p.rotate_queries(q, places), p.rotate(k, places)
    logits = turned @ same.mT / math.sqrt(d) + score.bias.dense()
    for h in range(H):
        for i in range(T):
            for j in range(i + 1):
                if ids[0, i] < ids[0, j]:
                    continue
                R = p.relative(sinusoid(ids[0, i] - ids[0, j], H * d).double()).view(H, d)[h]
                wanted = (q[0, h, i] + p.u[h]) @ k[0, h, j] + (q[0, h, i] + p.v[h]) @ R
                torch.testing.assert_close(logits[0, h, i, j], wanted / math.sqrt(d), rtol=1e-6, atol=1e-6)


def accumulated(width=8, heads=2):
    return positions.get("accumulated", width=width, heads=heads, rows=5).double()


def test_accumulated_rotations_are_rope_at_first():
    p, rope = accumulated(), positions.get("rope", width=8, heads=2)
    layout, (q, k) = Layout(torch.arange(7)[None]), torch.randn(2, 1, 2, 7, 4).double()
    places, plain = p.place(torch.randint(5, (1, 7)), layout)[0], rope.place(None, layout)[0]
    wanted = rope.rotate(q, plain) @ rope.rotate(k, plain).mT
    torch.testing.assert_close(p.rotate(q, places) @ p.rotate(k, places).mT, wanted)


def test_accumulated_rotations_turn_by_what_stands_between():
    """The key is turned back by one token after the other, up to the query's; ids beyond the rows share the last."""
    p = accumulated()
    torch.nn.init.normal_(p.a)
    tokens, (q, k) = torch.tensor([[0, 3, 2, 9, 1, 1, 4]]), torch.randn(2, 1, 2, 7, 4).double()
    places = p.place(tokens, Layout(torch.tensor([[0, 1, 2, 3, 0, 1, 2]])))[0]
    logits = p.rotate(q, places) @ p.rotate(k, places).mT
    for start, end in ((0, 4), (4, 7)):
        for t in range(start, end):
            for s in range(start, t + 1):
                key = torch.complex(k[0, :, s, :2], k[0, :, s, 2:])
                for u in range(s + 1, t + 1):
                    angle = p.frequencies(tokens) + p.a[min(tokens[0, u], 4)]
                    key = key * torch.polar(torch.ones(2).double(), -angle)
                wanted = (torch.complex(q[0, :, t, :2], q[0, :, t, 2:]) * key.conj()).real.sum(-1)
                torch.testing.assert_close(logits[0, :, t, s], wanted)


OF_THEIR_OWN = ("bilevel", "multilevel", "coupled", "randomized", "accumulated")
"""They name ids of their own: tests/positions/test_multilevel.py and test_randomized.py, and the tests above."""


@pytest.mark.parametrize("name", [name for name in positions.POSITIONS if name not in OF_THEIR_OWN])
def test_ids_on_padding_are_finite(name):
    p = positions.get(name, width=8, heads=2, **({"rows": 4} if name == "learned" else {}))
    ids = torch.tensor([[-3, -2, -1, 0, 1]])
    q = torch.randn(1, 2, 5, 4)
    places = Places(ids)
    added, score = p.embed(places), p.score(q, places, places)
    for values in (added, score.scale, score.bias and score.bias.dense(), p.rotate(q, places)):
        assert values is None or values.isfinite().all()
    assert (added is not None) == p.at_input
    turned = p.rotate(q, places) is not q or p.rotate_queries(q, places) is not q
    assert (turned or score is not NOTHING) == p.at_attention


def test_refuses():
    with pytest.raises(UnknownName, match="Did you mean 'sinusoidal'"):
        positions.get("sinusoid", width=4, heads=1)
    with pytest.raises(Error, match="Unknown setting of position 'sinusoidal' 'rows'"):
        positions.get("sinusoidal", width=4, heads=1, rows=3)
    with pytest.raises(Error, match=r"width must be even .* got 5"):
        positions.get("sinusoidal", width=5, heads=1)
    with pytest.raises(Error, match="rows must be at least 1, got 0"):
        positions.get("learned", width=4, heads=1, rows=0)
