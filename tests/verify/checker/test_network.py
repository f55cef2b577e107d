"""What the checker says a model computes, the model does compute: in float32, node by node and step by step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lengthwise import models
from lengthwise.verify import certificate
from lengthwise.verify.checker.cascade import Cascade
from lengthwise.verify.checker.intervals import Interval
from lengthwise.verify.checker.points import Point, enclosed
from lengthwise.verify.checker.recurrence import Recurrence
from lengthwise.verify.checker.tree import Tree
from lengthwise.verify.checker.weights import Rejected


def built(name, **options):
    torch.manual_seed(0)
    model = models.build(name, vocab_size=3, num_outputs=4, **options).inner.eval()
    with torch.no_grad():
        for p in model.parameters():  # also what begins as 0 or 1
            p.add_(0.1 * torch.randn_like(p))
    return model, (certificate.deciding(model), certificate.weights(model))


def logits(model, words):
    with torch.no_grad():
        return model(torch.tensor(words), logits_to_keep=1).logits[:, -1].double().numpy()


def holds(said, range_, width=2e-3):
    assert (range_.lo <= said).all()
    assert (said <= range_.hi).all()
    assert (range_.hi - range_.lo).max() < width


TREES = [
    {},
    {"variant": "paper"},
    {"activation": "relu"},
    {"chunk": 3, "heads": 2},
    {"chunk": 9, "heads": 1},
    {"missing": "drop"},
    {"missing": "drop", "chunk": 4, "variant": "paper", "heads": 4},
    {"embedding_scale": 1.7, "expansion": 2},
    {"depth": "position"},
]


@pytest.mark.parametrize("options", TREES, ids=str)
def test_trees(options):
    model, given = built("regular-gpt", width=16, **options)
    tree = Tree(*given)

    def node(word):
        """The vector of a word of up to C^2 symbols, by the checker."""
        if len(word) <= tree.chunk:
            return tree.node([tree.read(tree.leaves.take([s])) for s in word])
        cut = len(word) % tree.chunk
        parts = ([word[:cut]] if cut else []) + [word[k : k + tree.chunk] for k in range(cut, len(word), tree.chunk)]
        images = [enclosed(node(part)) for part in parts]
        return tree.node([tree.read(Point.at(image.mid, image.radius)) for image in images])

    g = np.random.default_rng(0)
    for length in range(1, min(tree.chunk**2, 6) + 1):
        word = g.integers(0, 3, length).tolist()
        said = logits(model, [word])
        holds(said, enclosed(tree.head(node(word))), 0.1 if length <= tree.chunk else 1.0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_recurrences(cell, layers):
    model, given = built(cell, width=8, layers=layers)
    network = Recurrence(*given)
    for word in itertools.product(range(3), repeat=2):
        state = Interval.of(np.zeros((1, network.size)))
        for s in word:
            state = network.step(state, np.array([s]))
        holds(logits(model, [word]), network.answer(state))


@pytest.mark.parametrize(
    "options", [{}, {"layers": 2}, {"layers": 3, "residual": "all"}, {"readout": "linear"}], ids=str
)
def test_cascades(options):
    model, given = built("block-lrnn", width=8, block=4, variant="automaton", **options)
    network = Cascade(*given)
    L = len(network.layers)
    for word in itertools.product(range(3), repeat=2):
        states = [layer.entries[1][None] for layer in network.layers]
        for s in word:
            case = np.array([[s] + [0] * k for k in range(L)], dtype=object)
            for k, layer in enumerate(network.layers):
                to, gap = layer.functions(network.before(k, np.array([case[k]], dtype=np.int64), states))
                assert (gap > 0).all()
                states[k] = to[0, layer.entries[0], states[k][0]][None]
        x = network.before(L, np.array([[word[-1]] + [0] * L]), states)
        holds(logits(model, [word]), network.head(x))


@pytest.mark.parametrize("options", TREES[:6], ids=str)
def test_a_node_of_boxes_holds_all_their_points(options):
    model, given = built("regular-gpt", width=16, **options)
    tree = Tree(*given)
    g = torch.Generator().manual_seed(1)
    centre = torch.randn(2, 16, generator=g).double()
    radius = 1e-4 * torch.rand(2, 16, generator=g).double()
    taps = [tree.read(Point.at(centre[i : i + 1].numpy(), radius[i : i + 1].numpy())) for i in range(2)]
    image = enclosed(tree.node(taps))
    assert (image.hi - image.lo).max() < 2e-2
    points = centre + radius * (2 * torch.rand(500, 2, 16, generator=g) - 1).double()
    points[:2] = torch.stack([centre - radius, centre + radius])
    with torch.no_grad():
        from lengthwise.mixers import Layout, Level

        layout = Layout(torch.tensor([[0, 1]]).expand(len(points), -1))
        layer = model.depth.layers[0]
        made = layer(points.float(), layout, Level(pad=model.pad), stride=tree.chunk)[:, -1].double().numpy()
    assert ((image.lo <= made) & (made <= image.hi)).all()


def test_steps_of_boxes_hold_all_their_points():
    for cell in ("rnn", "gru", "lstm"):
        model, given = built(cell, width=8, layers=2)
        network = Recurrence(*given)
        g = np.random.default_rng(0)
        centre, radius = g.normal(size=(1, network.size)) * 0.5, np.full((1, network.size), 0.02)
        image = network.step(Interval.of(centre).widened(radius), np.array([1]))
        parts = (centre + radius * g.uniform(-1, 1, (500, network.size))).reshape(500, -1, 8).swapaxes(0, 1)
        x, after = model.embedding(torch.ones(500, 1, dtype=torch.long)), []
        hidden = iter(torch.tensor(parts).float()[:, None])
        for layer in model.depth.layers:
            state = (next(hidden), next(hidden)) if cell == "lstm" else next(hidden)
            x, end = layer.mixer.cell(x, state)
            after += [h[0] for h in (end if cell == "lstm" else (end,))]
        made = torch.cat(after, -1).detach().double().numpy()
        assert ((image.lo <= made) & (made <= image.hi)).all()
        assert (image.hi - image.lo).max() < 0.3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thickness": 2}, "thickness must be 1"),
        ({"variant": "official"}, "pad_tokens must be False"),
    ],
)
def test_what_is_no_tree_of_one_layer_is_refused(options, said):
    with pytest.raises(Rejected, match=said):
        Tree(*built("regular-gpt", width=16, **options)[1])


def test_what_the_checker_does_not_know_is_refused():
    config, weights = built("regular-gpt", width=16)[1]
    for field, option in [("mixer", "window"), ("block", "scale"), ("depth", "skip")]:
        with pytest.raises(Rejected, match="does not know"):
            Tree({**config, field: {**config[field], option: 1}}, weights)
    with pytest.raises(Rejected, match="nothing uses: more"):
        Tree(config, {**weights, "more": np.zeros(1, dtype=np.float32)})
    with pytest.raises(Rejected, match=r"no weight norm\.weight"):
        Tree({**config, "final_norm": True}, weights)
    with pytest.raises(Rejected, match="not evaluated in float32"):
        Tree(config, {name: x.astype(np.float64) for name, x in weights.items()}, "float32")
    Tree(config, weights, "float64")


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e-40, 1e35])
def test_numbers_that_cannot_be_bounded_are_refused(number):
    config, weights = built("regular-gpt", width=16)[1]
    head = weights["head.weight"].copy()
    head[0, 0] = number
    with pytest.raises(Rejected, match=r"the weight head\.weight has"):
        Tree(config, {**weights, "head.weight": head})
