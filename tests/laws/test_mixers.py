"""The law of mixers: whole = in pieces = token by token = packed = padded left or right, values and gradients.

A new mixer or position joins by one line in `CASES`.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from lengthwise import positions
from lengthwise.errors import Error
from lengthwise.mixers import Layout, Level
from lengthwise.positions import Places

from ..mixers import made

D, HEADS = 8, 2


class Layer(nn.Module):
    """A mixer with a position around or inside it, as the model's shell would have them."""

    def __init__(self, mixer: str, position: str = "none", level: int = 0, shared_pad: bool = False, **options):
        super().__init__()
        spare = {"rows": 7} if position == "learned" else {}
        self.position = positions.get(position, width=D, heads=HEADS, **spare)
        inside = self.position if self.position.at_attention else None
        self.mixer = made.mixer(mixer, width=D, position=inside, **options)
        self.level = level
        self.pad = nn.Parameter(torch.randn(D)) if shared_pad else None
        for p in self.parameters():
            nn.init.normal_(p, std=0.5)

    def forward(self, x: Tensor, layout: Layout, state=None):
        p = self.position.embed(Places(layout.positions))
        x = x if p is None else x + p
        options = {"level": Level(self.level, pad=self.pad)} if self.mixer.traits.takes_level else {}
        return self.mixer(x, layout=layout, state=state, **options)


def heads(name, **options):
    return lambda: Layer(name, heads=HEADS, **options)


CASES = {
    "softmax": heads("softmax"),
    "softmax learned": heads("softmax", position="learned"),
    "softmax sinusoidal": heads("softmax", position="sinusoidal"),
    "softmax transformer-xl": heads("softmax", position="transformer-xl"),
    "softmax log scale": heads("softmax", log_scale=4),
    "softmax log scale alibi": heads("softmax", log_scale=4, position="alibi"),
    "softmax scale-invariant": heads("softmax", position="scale-invariant", qk_norm=True),
    "softmax window": heads("softmax", window=3),
    "softmax window alibi": heads("softmax", window=4, position="alibi"),
    "softmax window rope": heads("softmax", window=1, position="rope"),
    "softmax not positioned": heads("softmax", positioned=False, position="rope"),
    "forgetting": heads("forgetting"),
    "forgetting pro": heads("forgetting", pro=True),
    "forgetting rope": heads("forgetting", position="rope"),
    "forgetting transformer-xl": heads("forgetting", position="transformer-xl", log_scale=4),
    "chain": heads("chain"),
    "chain with the diagonal": heads("chain", gamma=0.5, exclude_diagonal=False),
    "chain learned gamma": heads("chain", learn_gamma=True),
    "chain sum of paths": heads("chain", learn_gamma=True, paths="sum"),
    "chain learned": heads("chain", position="learned"),
    "chain sinusoidal": heads("chain", position="sinusoidal"),
    "chain transformer-xl": heads("chain", position="transformer-xl"),
    "stick-breaking": heads("stick-breaking"),
    "stick-breaking of the paper": heads("stick-breaking", remainder=False),
    "stick-breaking current": heads("stick-breaking", current=True, remainder=False),
    "stick-breaking learned": heads("stick-breaking", position="learned"),
    "path": heads("path"),
    "path forgetting": heads("path", forgetting=True),
    "path sinusoidal": heads("path", position="sinusoidal"),
    "cope": heads("cope", rows=4),
    "cope one row": heads("cope", rows=1),
    "sliding-dilated": heads("sliding-dilated", chunk=2),
    "sliding-dilated level 1": heads("sliding-dilated", chunk=3, level=1),
    "sliding-dilated level 3": heads("sliding-dilated", chunk=2, level=3),
    "sliding-dilated shared pad": lambda: Layer("sliding-dilated", heads=HEADS, chunk=2, level=1, shared_pad=True),
    "sliding-dilated own dilation": heads("sliding-dilated", chunk=2, level=1, dilation=1),
    "sliding-dilated drop": heads("sliding-dilated", chunk=2, level=1, missing="drop"),
    "sliding-dilated sinusoidal": heads("sliding-dilated", chunk=2, position="sinusoidal"),
    "block-lrnn": lambda: Layer("block-lrnn", block=4),
    "block-lrnn official": lambda: Layer("block-lrnn", block=4, normalisation="official", readout="identity"),
    "block-lrnn orthogonal": lambda: Layer("block-lrnn", blocks=3, block=2, normalisation="orthogonal"),
    "block-lrnn automaton": lambda: Layer("block-lrnn", block=4, normalisation="one-hot", inputs="none"),
    "block-lrnn from zero": lambda: Layer("block-lrnn", block=8, transition="linear", p=1.0, learned_initial=False),
    "s4": lambda: Layer("s4", state=6),
    "s4d": lambda: Layer("s4d", state=4),
    "s4d bilinear": lambda: Layer("s4d", state=6, initial="legs", discretisation="bilinear", output="linear"),
    "liquid-s4": lambda: Layer("liquid-s4", state=6, order=3),
    "liquid-s4 kb": lambda: Layer("liquid-s4", state=4, kernel="kb", order=4),
    "liquid-s4 exact": lambda: Layer("liquid-s4", state=4, kernel="exact"),
    "lru": lambda: Layer("lru", state=5),
    "diagonal-lrnn": lambda: Layer("diagonal-lrnn", state=5),
    "diagonal-lrnn real": lambda: Layer("diagonal-lrnn", state=5, numbers="real", output="none"),
    "pd-ssm": lambda: Layer("pd-ssm", state=5, matrices=3),
    "pd-ssm rows": lambda: Layer("pd-ssm", one_hot="rows"),
    "delta-product": heads("delta-product"),
    "delta-product three steps": heads("delta-product", steps=3, values=1),
    "delta-net": heads("delta-product", steps=1, negative=False, gated=False),
    "rnn": lambda: Layer("rnn"),
    "lstm": lambda: Layer("lstm"),
    "gru": lambda: Layer("gru"),
}
CONVOLVED = {"s4", "s4d", "s4d bilinear", "liquid-s4", "liquid-s4 kb"}
LENGTHS = [[1], [2, 1], [3, 5, 2], [7, 8, 9], [13, 1, 16, 17]]


def alone(layer, xs):
    return [layer(x[None], Layout.of(x[None]))[0][0] for x in xs]


def go_on(layer, x, layout, cuts):
    """One row set, read part by part."""
    state, parts = None, []
    for start, end in zip([0, *cuts], [*cuts, x.shape[1]], strict=True):
        y, state = layer(x[:, start:end], layout.pick(slice(start, end)), state)
        parts.append(y)
    return torch.cat(parts, 1)


def in_pieces(layer, xs):
    return [go_on(layer, x[None], Layout.of(x[None]), sorted({len(x) // 3, len(x) // 2} - {0}))[0] for x in xs]


def token_by_token(layer, xs):
    return [go_on(layer, x[None], Layout.of(x[None]), range(1, len(x)))[0] for x in xs]


def packed(layer, xs, cuts=()):
    layout = Layout.packed(torch.tensor([0, *torch.tensor([len(x) for x in xs]).cumsum(0).tolist()]))
    y = go_on(layer, torch.cat(xs)[None], layout, [c for c in cuts if c < layout.positions.shape[1]])
    return list(y[0].split([len(x) for x in xs]))


def packed_in_pieces(layer, xs):
    return packed(layer, xs, cuts=(1, 4, 5, 11))


def packed_token_by_token(layer, xs):
    return packed(layer, xs, cuts=range(1, sum(map(len, xs))))


def left_padded(layer, xs, cuts=()):
    T = max(map(len, xs)) + 2
    mask = torch.stack([torch.arange(T) >= T - len(x) for x in xs])
    rows = torch.stack([torch.cat([noise(T - len(x)), x]) for x in xs])
    y = go_on(layer, rows, Layout.from_mask(mask), [c for c in cuts if c < T])
    assert y.isfinite().all()
    return [row[T - len(x) :] for row, x in zip(y, xs, strict=True)]


def left_padded_in_pieces(layer, xs):
    return left_padded(layer, xs, cuts=(1, 3, 4, 9))


def right_padded(layer, xs):
    T = max(map(len, xs)) + 2
    mask = torch.stack([torch.arange(T) < len(x) for x in xs])
    rows = torch.stack([torch.cat([x, noise(T - len(x))]) for x in xs])
    y, _ = layer(rows, Layout.from_mask(mask))
    assert y.isfinite().all()
    return [row[: len(x)] for row, x in zip(y, xs, strict=True)]


def packed_and_padded(layer, xs):
    """One row: padding, then the sequences end to end, then padding."""
    ids = torch.cat([torch.full((len(x),), i) for i, x in enumerate(xs)])
    sequences = torch.cat([ids.new_full((3,), -1), ids, ids.new_full((2,), 99)])[None]
    row = torch.cat([noise(3), *xs, noise(2)])[None]
    y, _ = layer(row, Layout.from_sequences(sequences, (sequences >= 0) & (sequences < 99)))
    assert y.isfinite().all()
    return list(y[0, 3:-2].split([len(x) for x in xs]))


def noise(n):
    return 100 * torch.randn(n, D, dtype=torch.float64)


FORMS = [
    in_pieces,
    token_by_token,
    packed,
    packed_in_pieces,
    packed_token_by_token,
    left_padded,
    left_padded_in_pieces,
    right_padded,
    packed_and_padded,
]


def slow_if(condition):
    return [pytest.mark.slow] if condition else []


@pytest.mark.parametrize(
    ("name", "lengths"),
    [pytest.param(name, n, marks=slow_if(" " in name and n is LENGTHS[-1])) for name in CASES for n in LENGTHS],
    ids=str,
)
def test_law(name, lengths):
    """The longest strings of a mixer in other settings than its usual ones are read in `make test-all`."""
    torch.manual_seed(0)
    layer = CASES[name]().double()
    xs = [torch.randn(n, D, dtype=torch.float64, requires_grad=True) for n in lengths]
    weights = [torch.randn(n, D, dtype=torch.float64) for n in lengths]
    leaves = [*xs, *layer.parameters()]

    def gradients(ys):
        loss = sum((y * w).sum() for y, w in zip(ys, weights, strict=True))
        return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)

    whole = alone(layer, xs)
    wanted = gradients(whole)
    for form in FORMS:
        found = form(layer, xs)
        report = lambda text, form=form: f"{form.__name__}, lengths {lengths}: {text}"  # noqa: E731
        for a, b in zip(found, whole, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=report)
        for a, b in zip(gradients(found), wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=report)


KINDS = ("block-lrnn", "s4", "s4d", "liquid-s4", "lru", "diagonal-lrnn", "pd-ssm", "rnn", "lstm", "gru")


@pytest.mark.parametrize("name", [name for name in CASES if name.partition(" ")[0] in KINDS])
def test_a_recurrent_state_waits_while_there_is_padding_and_its_rows_go_on_alone(name):
    torch.manual_seed(5)
    layer, x, rows = CASES[name]().double(), torch.randn(3, 6, D, dtype=torch.float64), torch.tensor([2, 0])
    _, state = layer(x[:, :4], Layout.of(x[:, :4]))
    y, _ = layer(x[rows, 4:], Layout.of(x[rows, 4:], past=4), state.select(rows))
    torch.testing.assert_close(y, layer(x, Layout.of(x))[0][rows, 4:])
    _, after = layer(noise(6).view(3, 2, D), Layout.from_mask(torch.zeros(3, 2)), state)
    # Beside its hidden numbers the state of an RNN names the sequence that it is of.
    for a, b in zip(*(tree_leaves(getattr(s, "hidden", s)) for s in (after, state)), strict=True):
        assert a is b or torch.equal(a, b)
    if name not in ("rnn", "lstm", "gru"):
        with pytest.raises(Error, match="at least one token"):
            layer(x[:, :0], Layout.of(x[:, :0]))


@pytest.mark.parametrize("name", CASES)
def test_causal(name):
    """What comes later changes nothing before it, and every token can reach the output of the next."""
    torch.manual_seed(1)
    layer = CASES[name]().double()
    x = torch.randn(1, 9, D, dtype=torch.float64, requires_grad=True)
    y, _ = layer(x, Layout.of(x))
    for t in (0, 4, 8):
        (g,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        # A Fourier transform mixes all tokens, and what should cancel does so up to rounding.
        assert g[0, t + 1 :].abs().sum() <= (1e-14 * g.abs().max() if name in CONVOLVED else 0)
        assert g[0, t].any() or (t == 0 and name == "stick-breaking of the paper")  # whose first token reads nothing


@pytest.mark.parametrize("name", CASES)
def test_autocast(name):
    """bf16 autocast is finite and near fp32."""
    torch.manual_seed(2)
    layer = CASES[name]()
    x = torch.randn(2, 9, D)
    for layout in (Layout.of(x), Layout.from_mask(torch.arange(9).expand(2, -1) >= torch.tensor([[0], [3]]))):
        y, _ = layer(x, layout)
        with torch.autocast("cpu", torch.bfloat16):
            half, _ = layer(x, layout)
        real = slice(None) if layout.real is None else layout.real
        assert half.isfinite().all()
        torch.testing.assert_close(half[real].float(), y[real], rtol=0.1, atol=0.1)


QUICK = [
    name
    for name in CASES
    if " " not in name and name not in ("s4", "s4d", "liquid-s4", "rnn", "gru", "delta-net", "delta-product", "path")
]
"""Every mixer as it is usual, but for those with the longest graphs; all others compile in `make test-all`."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_if(name not in QUICK)) for name in CASES])
def test_compiles(name):
    """One graph on the fast path (torch's own recurrences break it), no wrong result anywhere."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    layer = CASES[name]()
    whole = layer.mixer.traits.stackable
    run = torch.compile(lambda x: layer(x, Layout.of(x))[0], backend="aot_eager", fullgraph=whole)
    x = torch.randn(2, 9, D)
    torch.testing.assert_close(run(x), layer(x, Layout.of(x))[0])


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("rnn", "lstm", "gru")])
def test_stacks(name):
    """Mapped over stacked parameters, with gradients, as populations are trained."""
    torch.manual_seed(4)
    layer = CASES[name]()
    x = torch.randn(3, 2, 5, D)
    stacked = {n: torch.stack([p.detach() * s for s in (1, 0.5, -1)]) for n, p in layer.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x, Layout.of(x)))[0].square().sum()

    found = torch.func.vmap(torch.func.grad(loss))(stacked, x)
    for i in range(3):
        wanted = torch.func.grad(loss)({n: p[i] for n, p in stacked.items()}, x[i])
        for n in wanted:
            torch.testing.assert_close(found[n][i], wanted[n], rtol=1e-4, atol=1e-4)
