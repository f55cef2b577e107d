"""Ids of segments within segments against reading the tokens one by one, and what a level may be."""

import warnings

import pytest
import torch

from lengthwise import positions
from lengthwise.errors import Error
from lengthwise.mixers import Layout
from lengthwise.positions import Placed, Places
from lengthwise.positions.multilevel import level_ids

ROPE = {"name": "rope"}
LEARNED = {"name": "learned", "rows": 4}


def one_by_one(tokens, ends):
    """The ids as a reader counts them: one counter for every level; an end resets those below it."""
    counters, rows = [0] * (len(ends) + 1), []
    for token in tokens:
        rows.append(list(counters))
        level = max((k + 1 for k, each in enumerate(ends) if token in each), default=0)
        counters = [0] * level + [counters[level] + 1] + counters[level + 1 :]
    return torch.tensor(rows).T


@pytest.mark.parametrize("length", [1, 2, 7, 60])
@pytest.mark.parametrize("ends", [[[0]], [[0, 1], [2]], [[0], [1], [2]], [[0, 2], [2]]])
def test_ids_are_what_a_reader_counts(length, ends):
    tokens = torch.randint(5, (3, length), generator=torch.Generator().manual_seed(length))
    ended = [torch.isin(tokens, torch.tensor(each)) for each in ends]
    begins = torch.arange(length).expand_as(tokens) == 0
    ids, following = level_ids(ended, begins)
    for row in range(3):
        wanted = one_by_one([*tokens[row].tolist(), 4], ends)
        assert torch.equal(torch.stack([level[row] for level in ids]), wanted[:, :-1])
        assert torch.equal(following[row], wanted[:, -1])


def test_bilevel_ids():
    """The separator is the last token of its segment, both ids begin at 0, and padding and packing begin anew."""
    bipe = positions.get("bilevel", width=8, heads=2, inside=LEARNED, between=ROPE, ends=[9])
    tokens = torch.tensor([[5, 5, 9, 5, 9, 9, 5]])
    places, state = bipe.place(tokens, Layout.of(tokens))
    assert places["level-0"].tolist() == [[0, 1, 2, 0, 1, 0, 0]]
    assert places["level-1"].tolist() == [[0, 0, 0, 1, 1, 2, 3]]
    assert places["token"].tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert state.ids.tolist() == [[1, 3]]
    packed = Layout.packed(torch.tensor([0, 2, 7]))
    assert bipe.place(tokens, packed)[0]["level-1"].tolist() == [[0, 0, 0, 1, 1, 2, 3]]
    assert bipe.place(tokens, packed)[0]["level-0"].tolist() == [[0, 1, 0, 0, 1, 0, 0]]


def test_segments_of_one_length_need_no_tokens():
    cut = positions.get("bilevel", width=8, heads=2, inside=LEARNED, between=ROPE, ends=3)
    places, _ = cut.place(None, Layout.of(torch.empty(1, 7)))
    assert places["level-0"].tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert places["level-1"].tolist() == [[0, 0, 0, 1, 1, 1, 2]]


def test_levels_add_up():
    """Learned vectors by the inner id at the input, RoPE by the outer one; two ALiBi are one bias by key."""
    bipe = positions.get("bilevel", width=8, heads=2, inside=LEARNED, between=ROPE, ends=[0])
    tokens = torch.tensor([[1, 0, 1, 1]])
    places, _ = bipe.place(tokens, Layout.of(tokens))
    inner, outer = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
    assert torch.equal(bipe.embed(places), bipe.levels[0].table(inner))
    q = torch.randn(1, 2, 4, 4)
    assert torch.equal(bipe.rotate(q, places), bipe.levels[1].rotate(q, Places(outer)))
    both = positions.get("bilevel", width=8, heads=2, inside={"name": "alibi"}, between={"name": "alibi"}, ends=[0])
    bias = both.score(q, places, places).bias
    one = positions.get("alibi", width=8, heads=2)
    summed = sum(one.score(q, Places(ids), Places(ids)).bias.values for ids in (inner, outer))
    assert isinstance(bias, positions.KeyBias)
    assert torch.equal(bias.values, summed)


def test_a_long_segment_is_said_once():
    bipe = positions.get("bilevel", width=8, heads=2, inside=LEARNED, between=ROPE, ends=[9])
    tokens = torch.zeros(1, 6, dtype=torch.long)
    with pytest.warns(UserWarning, match="6 tokens long, and the positions inside segments have 4 rows"):
        bipe.place(tokens, Layout.of(tokens))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bipe.place(tokens, Layout.of(tokens))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ends": []}, r"ends must be a list of token ids with at least one, .* got \[\]"),
        ({"ends": 0}, r"got 0"),
        ({"ends": [1], "between": {"base": 3}}, r'a level is a dict with a "name"'),
        ({"ends": [1], "between": {"name": "kerple-log"}}, "cannot be 'kerple-log'"),
        ({"ends": [1], "between": {"name": "rope", "rows": 3}}, "Unknown setting of position 'rope' 'rows'"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(Error, match=message):
        positions.get("bilevel", width=8, heads=2, **{"inside": LEARNED, "between": ROPE, **settings})


def test_levels_and_ends_fit():
    with pytest.raises(Error, match="got 2 levels and 2 ends"):
        positions.get("multilevel", width=8, heads=2, levels=[ROPE, ROPE], level_ends=[[1], [2]])


def test_a_mixer_by_itself_cannot_know_the_ends():
    bipe = positions.get("bilevel", width=8, heads=2, inside=LEARNED, between=ROPE, ends=[9])
    with pytest.raises(Error, match="depends on the tokens"):
        bipe.place(None, Layout.of(torch.empty(1, 4)))
    assert Placed(None, Places(torch.zeros(1, 4))).places["token"].shape == (1, 4)


def test_coupled_places_are_those_of_the_paper_s_figure():
    """653 + 049 = 702, whose answer is written from its last digit: digits of one significance stand at one place."""
    made = positions.get("coupled", width=8, heads=2, of=LEARNED, ends=[10], back=[11])
    tokens = torch.tensor([[6, 5, 3, 10, 0, 4, 9, 11, 2, 0, 7, 0]])
    places, _ = made.place(tokens, Layout.of(tokens))
    assert places["level-0"].tolist() == [[1, 2, 3, 4, 1, 2, 3, 4, 3, 2, 1, 0]]
    assert torch.equal(made.embed(places), made.levels[0].table(places["level-0"].clamp(max=3)))


@pytest.mark.parametrize("length", [1, 2, 7, 60])
def test_coupled_places_are_what_a_reader_counts(length):
    made = positions.get("coupled", width=8, heads=2, of=ROPE, ends=[0, 1], back=[2])
    tokens = torch.randint(6, (4, length), generator=torch.Generator().manual_seed(length))
    places, state = made.place(tokens, Layout.of(tokens))
    for row in range(4):
        at, way, read = 1, 1, []
        for token in tokens[row].tolist():
            read.append(max(at, 0))
            way = -1 if token == 2 else way
            at, way = (1, 1) if token in (0, 1) else (at + way, way)
        assert places["level-0"][row].tolist() == read
        assert state.ids[row].tolist() == [at, way]


def test_coupled_places_are_moved_in_training_alone():
    made = positions.get("coupled", width=8, heads=2, of=ROPE, ends=[0], back=[2], offset=5)
    tokens = torch.ones(1, 3, dtype=torch.long)
    moved = {tuple(made.train().place(tokens, Layout.of(tokens))[0]["level-0"][0].tolist()) for _ in range(200)}
    assert moved == {(n, n + 1, n + 2) for n in range(1, 7)}
    assert made.eval().place(tokens, Layout.of(tokens))[0]["level-0"].tolist() == [[1, 2, 3]]
    with pytest.raises(Error, match="depend on the tokens"):
        made.place(None, Layout.of(tokens))
