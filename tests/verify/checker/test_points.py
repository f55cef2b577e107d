"""What any float32 evaluation of a node can give lies within the bound at a point, and the bound is narrow."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch

from lengthwise import models
from lengthwise.mixers import Layout, Level
from lengthwise.verify import certificate
from lengthwise.verify.checker import points, tree
from lengthwise.verify.checker.points import Point, PointOperations, bound, chosen, enclosed
from lengthwise.verify.checker.rounding import Arithmetic
from lengthwise.verify.checker.tree import Tree

KINDS = [
    {"variant": "paper"},
    {},
    {"activation": "relu", "chunk": 3},
    {"missing": "drop", "chunk": 4, "variant": "paper", "heads": 4},
]


def built(width=16, scale=0.1, **options):
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=3, num_outputs=4, width=width, **options).inner.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(scale * torch.randn_like(p))
    return model, Tree(certificate.deciding(model), certificate.weights(model))


def at(network, x):
    """Taps at points x (taps,B,D)."""
    return [network.read(Point.at(row)) for row in x.astype(np.float64)]


class Shuffled:
    """The operations in float32, every sum in an order of its own and in parts."""

    def __init__(self, seed):
        self.g = np.random.default_rng(seed)

    def total(self, terms):
        """Over the last axis."""
        terms = self.g.permutation(terms.astype(np.float32), axis=-1)
        parts = np.array_split(terms, self.g.integers(1, 6), axis=-1)
        sums = [np.add.accumulate(part, axis=-1)[..., -1] for part in parts if part.shape[-1]]
        return np.add.accumulate(np.stack(sums, -1), axis=-1)[..., -1]

    def linear(self, x, W, b=None):
        y = self.total(np.float32(x.c)[:, None] * np.float32(W))
        return self._point(y if b is None else y + np.float32(b))

    def add(self, x, y):
        return self._point(np.float32(x.c) + np.float32(y.c))

    def relu(self, x):
        return self._point(np.maximum(x.c, 0))

    def gelu(self, x):
        return self._point(torch.nn.functional.gelu(torch.tensor(np.float32(x.c))).numpy())

    def norm(self, x, w, b, eps):
        c, n = np.float32(x.c), np.float32(x.shape[-1])
        mean = self.total(c)[:, None] / n
        if self.g.integers(2):
            variance = self.total((c - mean) ** 2)[:, None] / n
        else:
            variance = np.maximum(self.total(c * c)[:, None] / n - mean * mean, 0)
        rho = 1 / np.sqrt(variance + np.float32(eps))
        return self._point((c - mean) * rho * np.float32(w) + np.float32(b))

    def attention(self, q, keys, values, r):
        (H, _), B = r.shape, len(q.c)
        heads = lambda x: np.float32(x.c).reshape(B, H, -1)  # noqa: E731
        d = heads(q).shape[-1]
        s = [self.total(heads(q) * heads(k)) / np.float32(np.sqrt(d)) + np.float32(r[:, j]) for j, k in enumerate(keys)]
        e = np.exp(np.stack(s, -1) - np.max(s, 0)[..., None])
        w = e / self.total(e)[..., None]
        v = np.stack([heads(each) for each in values], -1)
        return self._point(self.total(w[:, :, None] * v).reshape(B, -1))

    def _point(self, c):
        assert c.dtype == np.float32 or c.dtype == np.float64
        return Point(np.float64(c), np.zeros(c.shape))


class Granted:
    """Exact operations of torch, each then off by what rounding.py grants, in the directions that move one output."""

    def __init__(self, arithmetic):
        self.arithmetic, self.steps, self.given = arithmetic, [], None

    def off(self, c, granted):
        """c, and beside it what may be added."""
        if self.given is None:
            self.steps.append((torch.zeros_like(c, requires_grad=True), np.broadcast_to(granted, c.shape)))
            return Torch(c + self.steps[-1][0])
        return Torch(c + self.given.pop(0))

    def turn(self, output):
        """From now on all that is granted, as the gradient of `output` says."""
        slopes = torch.autograd.grad(output, [e for e, _ in self.steps], allow_unused=True)
        self.given = [
            torch.zeros_like(e) if s is None else torch.tensor(granted * 0.9999) * s.sign()
            for s, (e, granted) in zip(slopes, self.steps, strict=True)
        ]

    def linear(self, x, W, b=None):
        W, b = torch.tensor(W), torch.zeros(len(W)).double() if b is None else torch.tensor(b)
        terms = x.c.abs() @ W.abs().T + b.abs()
        return self.off(x.c @ W.T + b, self.arithmetic.linear(terms.detach().numpy(), W.numpy()))

    def add(self, x, y):
        return self.off(x.c + y.c, self.arithmetic.add((x.c + y.c).abs().detach().numpy()))

    def relu(self, x):
        return Torch(x.c.relu())

    def gelu(self, x):
        return self.off(torch.nn.functional.gelu(x.c), self.arithmetic.gelu(x.c.abs().detach().numpy()))

    def norm(self, x, w, b, eps):
        y = torch.nn.functional.layer_norm(x.c, x.shape[-1:], torch.tensor(w), torch.tensor(b), eps)
        c = x.c.detach().numpy()
        d = c - c.mean(-1, keepdims=True)
        rho = 1 / np.sqrt((d**2).mean(-1, keepdims=True) + eps)
        return self.off(y, self.arithmetic.norm(np.abs(c), np.abs(d), rho, w, b))

    def attention(self, q, keys, values, r):
        heads = lambda x: x.unflatten(-1, (len(r), -1))  # noqa: E731
        k, v = (heads(torch.stack([x.c for x in row], 1)) for row in (keys, values))
        terms, root = heads(q.c)[:, None] * k, k.shape[-1] ** 0.5
        size = (terms.abs().sum(-1) / root + torch.tensor(r.T).abs()).detach().numpy()
        s = self.off(terms.sum(-1) / root + torch.tensor(r.T), self.arithmetic.scores(size, k.shape[-1])).c
        w = s.softmax(1)
        at = w.detach().numpy()
        w = self.off(w, self.arithmetic.softmax(at, 1 - at)).c
        size = v.abs().flatten(-2).detach().numpy()
        return self.off((w[..., None] * v).sum(1).flatten(-2), self.arithmetic.mix(size))


class Torch:
    def __init__(self, c):
        self.c = c

    @property
    def shape(self):
        return self.c.shape

    def repeated(self, count):
        return Torch(self.c.expand(count, -1))


def with_operations(network, ops, raw):
    """The network by other operations, of which `raw` makes points."""
    same = copy.copy(network)
    same.ops = ops
    if network.padded:
        same._pad = [ops.linear(raw(network.raw), *part) for part in network._qkv[1:]]
    return same


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_every_order_of_summation_lies_within_the_bound(options, count):
    model, network = built(**options)
    network.raw = model.pad.detach().double().numpy()[None] if network.padded else None
    x = np.random.default_rng(1).normal(size=(count, 20, 16)).astype(np.float32)
    node = network.node(at(network, x))
    off = bound(node)
    assert off.max() < 5e-3
    with torch.no_grad():
        layout = Layout(torch.tensor([list(range(count))]).expand(20, -1))
        given = torch.tensor(x).movedim(0, 1)
        pad = Level(pad=model.pad) if network.padded else Level()
        said = model.depth.layers[0](given, layout, pad, stride=network.chunk)[:, -1]
    assert (np.abs(said.double().numpy() - node.c) <= off).all()
    for seed in range(20):
        other = with_operations(network, Shuffled(seed), exactly)
        taps = read(other, x, exactly)
        assert (np.abs(other.node(taps).c - node.c) <= off).all()


def exactly(c):
    return Point(np.float64(c), np.zeros(c.shape))


def read(network, x, raw):
    """As `Tree.read`, by the network's operations."""
    taps = []
    for row in map(raw, x.astype(np.float64)):
        seen = row if network.post else network.ops.norm(row, *network._norms[0])
        taps.append(tree.Tap(row, *(network.ops.linear(seen, *part) for part in network._qkv)))
    return taps


@pytest.mark.parametrize("u", [2.0**-24, 2.0**-20, 2.0**-18])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_all_that_is_granted_lies_within_the_bound(options, u):
    """Every operation off by as much as it may be, and in the worst direction. A coarse arithmetic crosses ReLU's 0."""
    model, network = built(**options)
    network.raw = model.pad.detach().double().numpy()[None] if network.padded else None
    coarse = Arithmetic("coarse", u)
    network.arithmetic, network.ops = coarse, PointOperations(coarse)
    if network.padded:
        network._pad = [network.ops.linear(Point.at(network.raw), *part) for part in network._qkv[1:]]
    x = np.random.default_rng(2).normal(size=(2, 10, 16))
    node = network.node(at(network, x))
    off, closest = bound(node), 0.0
    for output in range(16):
        granted = Granted(coarse)
        for _ in range(2):
            other = with_operations(network, granted, lambda c: Torch(torch.tensor(c)))
            y = other.node(read(other, x, lambda c: Torch(torch.tensor(c)))).c[:, output]
            if granted.given is None:
                granted.turn(y.sum())
        moved = np.abs(y.detach().numpy() - node.c[:, output])
        assert (moved <= off[:, output]).all()
        closest = max(closest, float((moved / off[:, output]).max()))
    assert closest > LEAST_SHARE[u]


LEAST_SHARE = {2.0**-24: 0.4, 2.0**-20: 0.3, 2.0**-18: 0.0}
"""How much of the bound is reached: it is not far too wide, either."""


@pytest.mark.parametrize(("radius", "share"), [(1e-5, 0.8), (1e-3, 0.5), (0.02, 0.0)])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_boxes_with_all_that_is_granted_lie_within_the_bound(options, radius, share):
    """The corner of each box, and every rounding, that move one output furthest as slopes at the middle say."""
    model, network = built(**options)
    network.raw = model.pad.detach().double().numpy()[None] if network.padded else None
    x = np.random.default_rng(2).normal(size=(2, 10, 16))
    node = network.node([network.read(Point.at(row, np.full(row.shape, radius))) for row in x])
    image, off, closest = enclosed(node), bound(node), 0.0
    for output in range(16):
        granted = Granted(network.arithmetic)
        for _ in range(2):
            other = with_operations(network, granted, lambda c: Torch(torch.tensor(c)))
            y = other.node(read(other, x, lambda c: granted.off(torch.tensor(c), radius))).c[:, output]  # noqa: B023
            if granted.given is None:
                granted.turn(y.sum())
        y = y.detach().numpy()
        assert ((y >= image.lo[:, output]) & (y <= image.hi[:, output])).all()
        closest = max(closest, float((np.abs(y - node.c[:, output]) / off[:, output]).max()))
    assert closest >= share


EXACT = Arithmetic("exact", 2.0**-53)
W, V = np.random.default_rng(5).normal(size=(2, 6, 6))
ALONE = {
    "relu": lambda ops, x: ops.relu(x),
    "gelu": lambda ops, x: ops.gelu(x),
    "norm": lambda ops, x: ops.norm(x, W[0], W[1], 1e-5),
    "second norm": lambda ops, x: ops.norm(ops.linear(x, W), V[0], V[1], 1e-5),
    "feed": lambda ops, x: ops.add(x, ops.linear(ops.relu(ops.linear(x, W)), V)),
    "own": lambda ops, x: ops.attention(ops.linear(x, W), [x], [x], W[:2, :1]),
    "taps": lambda ops, x: ops.attention(x, [ops.linear(x, W), x], [ops.linear(x, V), x], W[:2, :2]),
}


@pytest.mark.parametrize("radius", [1e-6, 1e-3, 1e-2, 0.05])
@pytest.mark.parametrize("name", ALONE)
def test_what_bends_lies_within_the_bound(name, radius):
    """All corners of a box around each point: a box so wide that slopes at its middle say little of them."""
    centre = np.random.default_rng(6).normal(size=(50, 1, 6)) * np.array([0.02, 0.2, 0.2, 1, 1, 1])
    corners = radius * np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
    ops = PointOperations(EXACT)
    out = ALONE[name](ops, Point(centre[:, 0], np.full((50, 6), radius)))
    off = bound(out)
    moved = ALONE[name](ops, exactly((centre + corners).reshape(-1, 6))).c.reshape(50, len(corners), 6)
    reached = np.abs(moved - out.c[:, None]).max(1) / off
    assert reached.max() < 1
    assert reached.max() > 0.6
    assert np.isfinite(off).any()


@pytest.mark.parametrize(("radius", "finite"), [(0.1, 0.5), (0.2, 0.5), (0.4, 0.05)])
@pytest.mark.parametrize("name", ["gelu", "norm", "second norm", "own", "taps"])
def test_wide_boxes_are_bounded_too(name, radius, finite):
    """Where a norm's ρ or the weights of attention are moved by much: bounds are still known, and hold."""
    g = np.random.default_rng(7)
    centre, ops = 2 * g.normal(size=(50, 1, 6)), PointOperations(EXACT)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
    inside = radius * np.concatenate([signs, g.uniform(-1, 1, (200, 6))])
    out = ALONE[name](ops, Point(centre[:, 0], np.full((50, 6), radius)))
    off = bound(out)
    moved = ALONE[name](ops, exactly((centre + inside).reshape(-1, 6))).c.reshape(50, len(inside), 6)
    assert (np.abs(moved - out.c[:, None]).max(1) <= off).all()
    assert np.isfinite(off).mean() >= finite


def test_a_norm_forgets_how_long_its_input_is():
    """A box along the input itself, half as long as that: only what lies across it is left."""
    ops = PointOperations(EXACT)
    along = ops.linear(Point(np.ones((1, 1)), np.full((1, 1), 0.5)), W[:, :1])
    assert bound(ops.norm(along, W[0], W[1], 1e-5)).max() < 1e-3


def discrete(width=32, groups=4, choices=4):
    """With random weights, and codes."""
    model, _ = built(width, 0.3, activation="relu", variant="paper")
    config, weights = copy.deepcopy(certificate.deciding(model)), certificate.weights(model)
    config["depth"]["nodes"] = {"groups": groups, "codes": choices}
    g = np.random.default_rng(3)
    at = "depth.layers.0.nodes"
    weights[f"{at}.choose.weight"] = g.normal(size=(groups * choices, width)).astype(np.float32)
    weights[f"{at}.choose.bias"] = np.zeros(groups * choices, dtype=np.float32)
    weights[f"{at}.codebook"] = g.normal(size=(groups * choices, width)).astype(np.float32)
    return config, weights


def decided(config, weights):
    network = Tree(config, weights)
    g = np.random.default_rng(4)
    vectors = network.codes(g.integers(0, network.choices, (12, network.groups)))
    taps = network.read(vectors)
    index = [g.integers(0, 12, 40) for _ in range(2)]
    z = network.choices_of(network.node([taps.take(i) for i in index]))
    return chosen(z, network.groups), z.c.reshape(40, network.groups, -1)


def test_choices_are_decided_and_by_no_more_than_they_are():
    (picked, gap), z = decided(*discrete())
    best = np.sort(z, -1)
    true = (best[..., -1] - best[..., -2]).min(-1)
    assert (picked == z.argmax(-1)).all()
    assert (gap < true).all()
    assert (gap > true - 0.3).all()  # of logits of up to 146


@pytest.mark.parametrize("ahead", [0.0, 1e-9, 1e-7, 1e-6])
def test_what_rounding_may_turn_is_not_decided(ahead):
    """Two choices of the same weights, one ahead by less than a digit of what they are."""
    config, weights = discrete()
    at = "depth.layers.0.nodes.choose"
    weights[f"{at}.weight"][1] = weights[f"{at}.weight"][0]
    weights[f"{at}.bias"][:2] = [300 + ahead, 300]
    (_, gap), _ = decided(config, weights)
    assert not (gap > 0).any()
    weights[f"{at}.bias"][:2] = [301, 300]
    assert (decided(config, weights)[0][1] > 0).any()


def test_what_is_no_number_is_not_decided():
    x = Point(np.full((1, 4), np.nan), np.zeros((1, 4)))
    assert np.isinf(bound(PointOperations(Arithmetic("float32", 2.0**-24)).linear(x, np.ones((2, 4))))).all()
    wide = Point(np.zeros((1, 4)), np.full((1, 4), 10.0))
    norm = PointOperations(Arithmetic("float32", 2.0**-24)).norm(wide, np.ones(4), np.zeros(4), 1e-5)
    assert np.isinf(bound(norm)).all()


def test_cancellation_is_followed():
    """x - x is 0 however little is known of x."""
    ops = PointOperations(Arithmetic("float32", 2.0**-24))
    x = Point(np.ones((1, 3)), np.full((1, 3), 1e-3))
    both = np.concatenate([np.eye(3), np.eye(3)])
    y = ops.linear(ops.linear(x, both), np.concatenate([np.eye(3), -np.eye(3)], 1))
    assert y.radius.min() > 1e-3
    assert bound(y).max() < 1e-5


def test_slopes_of_sums_are_added():
    assert points._sum(np.zeros((1, 2, 2)), None).tolist() == [[[1, 0], [0, 1]]]
