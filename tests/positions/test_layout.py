"""What `Layout` makes of masks, packings and continuations."""

import pytest
import torch

from lengthwise.errors import Error, ShapeError
from lengthwise.mixers import Layout


def test_padding_counts_down_on_the_left_and_on_on_the_right():
    layout = Layout.from_mask(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]))
    assert layout.positions.tolist() == [[-2, -1, 0, 1], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert layout.real.tolist() == [[False, False, True, True], [True, True, True, False], [True] * 4]
    new = Layout.from_mask(torch.tensor([[0, 0, 1, 1]]), new=1)
    assert (new.positions.tolist(), new.real.tolist()) == ([[1]], [[True]])


@pytest.mark.parametrize("mask", [[1, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0]])
def test_padding_between_tokens_is_refused(mask):
    with pytest.raises(Error, match="must stand together"):
        Layout.from_mask(torch.tensor([mask]))


def test_packing():
    packed = Layout.packed(torch.tensor([0, 2, 3, 6]))
    assert packed.positions.tolist() == [[0, 1, 0, 0, 1, 2]]
    assert packed.sequences.tolist() == [[0, 0, 1, 2, 2, 2]]
    again = Layout.from_sequences(torch.tensor([[5, 5, 1, 5, 5, 5]]))
    assert torch.equal(again.positions, packed.positions)
    assert torch.equal(again.sequences, packed.sequences)


def test_then_joins_what_pick_takes_apart():
    whole = Layout.from_mask(torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]))
    joined = whole.pick(slice(0, 2)).then(whole.pick(slice(2, 4)))
    assert torch.equal(joined.positions, whole.positions)
    assert torch.equal(joined.real, whole.real)
    plain = Layout.of(torch.zeros(2, 3))
    assert plain.then(Layout.of(torch.zeros(2, 1), past=3)).plain
    assert plain.then(whole).real[:, :3].all()
    with pytest.raises(ShapeError, match="their sequences"):
        plain.then(Layout.from_sequences(torch.zeros(2, 1, dtype=torch.long)))
