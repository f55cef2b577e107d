"""What single mixers promise beyond the law they share."""

import pytest
import torch

from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.mixers import Layout

from . import made


def test_softmax_is_its_equation():
    torch.manual_seed(0)
    m = made.mixer("softmax", width=6, heads=2)
    x = torch.randn(1, 5, 6)
    q, k, v = (t.view(5, 2, 3).transpose(0, 1) for t in m.qkv(x[0]).chunk(3, -1))
    logits = (q @ k.mT / 3**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    wanted = m.out((logits.softmax(-1) @ v).transpose(0, 1).reshape(5, 6))
    torch.testing.assert_close(m(x, layout=Layout.of(x))[0][0], wanted)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_recurrences_are_torch_s_own(name):
    torch.manual_seed(0)
    m = made.mixer(name, width=4)
    x = torch.randn(3, 7, 4)
    y, state = m(x, layout=Layout.of(x))
    torch.testing.assert_close(y, m.cell(x)[0])
    torch.testing.assert_close(state.hidden[0][0], y[:, -1])


def test_the_pad_is_the_layer_s_own_or_the_model_s():
    own = made.mixer("sliding-dilated", width=4, heads=2)
    shared = made.mixer("sliding-dilated", width=4, heads=2, shared_pad=True)
    drop = made.mixer("sliding-dilated", width=4, heads=2, missing="drop")
    assert "pad" in dict(own.named_parameters())
    assert "pad" not in dict(shared.named_parameters())
    assert "pad" not in dict(drop.named_parameters())
    x = torch.randn(1, 1, 4)
    with pytest.raises(Error, match=r"level\.pad, which is None"):
        shared(x, layout=Layout.of(x))
    # Without its pad the first token reads itself alone.
    torch.testing.assert_close(drop(x, layout=Layout.of(x))[0], drop.out(drop.qkv(x).chunk(3, -1)[2]))


@pytest.mark.parametrize("missing", ["learned-pad", "drop"])
def test_some_of_the_tokens_at_less_cost(missing):
    torch.manual_seed(0)
    m = made.mixer("sliding-dilated", width=8, heads=2, chunk=3, missing=missing)
    for T in (1, 2, 3, 4, 9, 11):
        x = torch.randn(2, T, 8)
        mask = torch.arange(T).expand(2, -1) >= torch.tensor([[0], [T // 2]])
        for layout in (Layout.of(x), Layout.from_mask(mask)):
            wanted = m(x, layout=layout)[0][:, (T - 1) % 3 :: 3]
            torch.testing.assert_close(m.at(x, layout=layout, stride=3), wanted)


def test_refuses():
    with pytest.raises(UnknownName, match="Did you mean 'softmax'"):
        made.mixer("soft-max", width=4)
    with pytest.raises(Error, match="takes no settings, got heads"):
        made.mixer("lstm", width=4, heads=2)
    with pytest.raises(Error, match="heads must divide the width, got 3 heads and width 4"):
        made.mixer("sliding-dilated", width=4, heads=3)
    with pytest.raises(Error, match="chunk must be at least 2, got 1"):
        made.mixer("sliding-dilated", width=4, heads=2, chunk=1)
    with pytest.raises(Error, match="missing must be 'learned-pad' or 'drop', got 'pad'"):
        made.mixer("sliding-dilated", width=4, heads=2, missing="pad")
    m, x = made.mixer("softmax", width=4, heads=2), torch.randn(2, 3, 4)
    _, state = m(x, layout=Layout.of(x))
    with pytest.raises(ShapeError, match="batch must be that of the tokens, 1, got 2"):
        m(x[:1], layout=Layout.of(x[:1], past=3), state=state)
