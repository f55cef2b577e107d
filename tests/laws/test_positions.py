"""The law of positions, inside a model: whole = in pieces = token by token = packed = left-padded, and generate().

It runs over every registered encoding, and over two that hold the seam open for what is to come: one whose ids depend
on the tokens, and one that scales the logits by the length. A new encoding joins by being registered.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from lengthwise import positions
from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.models.cache import LengthwiseCache
from lengthwise.positions import DistanceBias, KeyBias, Layout, Places, Position, Score

from ..mixers import made

V, MARK = 6, 0


class Count(NamedTuple):
    croppable = False
    next: Tensor
    """(B,) the count of the next token, if it goes on with the sequence."""

    def select(self, rows: Tensor) -> Count:
        return Count(self.next[rows])


class Restart(Position):
    """Counts anew after every MARK: embeds the count, turns queries and keys by it, and scores by distance."""

    at_input = at_attention = True

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.table, self.by_distance = nn.Embedding(8, width), nn.Parameter(torch.randn(heads, 5))

    def place(self, tokens: Tensor | None, layout: Layout, state: Count | None = None) -> tuple[Places, Count]:
        if tokens is None:
            raise Error("restart: the ids depend on the tokens, so a model must place them.")
        columns = torch.arange(tokens.shape[1]).expand_as(tokens)
        begins = layout.positions == 0
        begins[:, 1:] |= tokens[:, :-1] == MARK
        start = torch.zeros_like(columns[:, 0]) if state is None else -state.next
        start = torch.maximum(torch.where(begins, columns, -(10**6)).cummax(1).values, start[:, None])
        count = columns - start
        return Places(layout.positions, count=count), Count(torch.where(tokens[:, -1] == MARK, 0, count[:, -1] + 1))

    def embed(self, places: Places) -> Tensor:
        return self.table(places["count"].clamp(0, 7))

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        angle = places["count"][:, None, :, None].to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        return Score(bias=DistanceBias(self.by_distance, queries["token"], keys["token"]))


class LogLength(Position):
    """Scales the logits by log(2 + t), and favours late keys by a learned slope for each head."""

    at_attention = True

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.slope = nn.Parameter(torch.randn(heads))

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        scale = (2 + queries["token"].clamp(min=0)).to(q.dtype).log()
        return Score(scale, KeyBias(self.slope[:, None] * keys["token"].to(q.dtype)[:, None]))


class TwoSlopes(LogLength):
    """`LogLength` with a slope of its own in each layer."""

    in_each_layer = True


ONLY_HERE = {"restart": Restart, "log-length": LogLength, "log-length in each layer": TwoSlopes}
MIXERS = {
    "fixed": {"mixer": [{"name": "softmax", "heads": 2}, {"name": "chain", "heads": 2, "gamma": 0.5}]},
    "forgetting": {"mixer": {"name": "forgetting", "heads": 2}, "depth": {"name": "fixed", "layers": 2}},
    "pro": {"mixer": {"name": "forgetting", "heads": 2, "pro": True}, "depth": {"name": "fixed", "layers": 2}},
    "stack": {
        "mixer": [
            {"name": "block-lrnn", "block": 4},
            {"name": "softmax", "heads": 2},
            {"name": "sliding-dilated", "heads": 2, "dilation": 1, "shared_pad": True},
            {"name": "chain", "heads": 2, "gamma": 0.5},
        ],
        "depth": {"name": "fixed", "layers": 4},
    },
    "adaptive": {"mixer": {"name": "softmax", "heads": 2}, "depth": {"name": "adaptive", "by": "position"}},
}
LENGTHS = [[1], [3, 5, 2], [11, 1, 14]]


LEARNED = {"name": "learned", "rows": 4}
OPTIONS = {
    "learned": {"rows": 4},
    "bilevel": {"inside": LEARNED, "between": {"name": "rope"}, "ends": [MARK, 3]},
    "bilevel, alibi": {"inside": LEARNED, "between": {"name": "alibi", "steepness": 96}, "ends": [MARK]},
    "bilevel, equal segments": {"inside": {"name": "t5"}, "between": {"name": "alibi"}, "ends": 3},
    "rope, spread": {"share": 0.5, "spread": True, "base": 8.0},
    "accumulated": {"rows": 4},
    "coupled": {"of": LEARNED, "ends": [MARK], "back": [3]},
    "coupled, rope": {"of": {"name": "rope"}, "ends": [MARK, 2], "back": [3, 5]},
    "hard-alibi, one head": {"masked": 1},
    "randomized": {"of": {"name": "rope"}, "longest": 32},
    "multilevel": {
        "levels": [LEARNED, {"name": "rope"}, {"name": "xpos"}, {"name": "sinusoidal"}],
        "level_ends": [[MARK], [3], [5]],
    },
}
"""What an encoding must be told; fewer rows than tokens. After a comma stands what is special about the settings."""
NAMES = [*positions.POSITIONS, *(name for name in OPTIONS if "," in name)]
WHOLE = [name for name in NAMES if not name.startswith("randomized")]
"""A drawn place depends on how many tokens are read at once, so that no part of the law can hold for it."""
GATED = ("none", "alibi", "transformer-xl", "bilevel", "multilevel")
"""Beside forgetting gates, one encoding of each kind; between segments alone where there are any."""
STACKED = ("transformer-xl", "bilevel")
"""In a stack of several mixers, of which two do without what acts on attention."""
FEW = {"forgetting": GATED, "pro": ("bilevel",), "stack": STACKED}
PAIRS = [(name, kind) for kind in MIXERS for name in FEW.get(kind, [*WHOLE, *ONLY_HERE])]


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for name, kind in ONLY_HERE.items():
        monkeypatch.setitem(positions.POSITIONS, name, kind)


def make(name, kind="fixed"):
    torch.manual_seed(0)
    given = {"depth": {"name": "fixed", "layers": 2}, **MIXERS[kind]}
    if kind in ("forgetting", "pro"):
        given["mixer"] = {**given["mixer"], "by_segment": "level" in name}
    config = made.config(
        vocab_size=V, width=8, position={"name": name.partition(",")[0], **OPTIONS.get(name, {})}, **given
    )
    model = LengthwiseForCausalLM(config).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


def whole(model, xs):
    return [model(x[None]).logits[0] for x in xs]


def go_on(model, tokens, cuts, mask=None):
    cache, parts = LengthwiseCache(), []
    for start, end in zip([0, *cuts], [*cuts, tokens.shape[1]], strict=True):
        seen = None if mask is None else mask[:, :end]
        parts.append(model(tokens[:, start:end], attention_mask=seen, past_key_values=cache).logits)
    assert cache.get_seq_length() == tokens.shape[1]
    return torch.cat(parts, 1)


def in_pieces(model, xs):
    return [go_on(model, x[None], sorted({len(x) // 3, len(x) // 2} - {0}))[0] for x in xs]


def token_by_token(model, xs):
    return [go_on(model, x[None], range(1, len(x)))[0] for x in xs]


def packed(model, xs):
    ids = torch.cat([torch.full((len(x),), i) for i, x in enumerate(xs)])[None]
    return list(model(torch.cat(xs)[None], sequence_ids=ids).logits[0].split([len(x) for x in xs]))


def left_padded(model, xs, cuts=()):
    T = max(map(len, xs)) + 2
    mask = torch.stack([(torch.arange(T) >= T - len(x)).long() for x in xs])
    rows = torch.stack([torch.cat([torch.full((T - len(x),), MARK), x]) for x in xs])
    logits = go_on(model, rows, [c for c in cuts if c < T], mask)
    assert logits.isfinite().all()
    return [row[T - len(x) :] for row, x in zip(logits, xs, strict=True)]


def left_padded_in_pieces(model, xs):
    return left_padded(model, xs, cuts=(1, 3, 4, 9, 10))


FORMS = (in_pieces, token_by_token, packed, left_padded, left_padded_in_pieces)


def obey(model, lengths, bound=1e-10, slope_bound=1e-8):
    """Strings of these lengths have the logits and gradients that each has alone, in whatever form they are read."""
    xs = [torch.randint(model.config.vocab_size, (n,)) for n in lengths]
    weights = [torch.randn(n, model.config.outputs, dtype=torch.float64) for n in lengths]

    def gradients(outputs):
        loss = sum((y * w).sum() for y, w in zip(outputs, weights, strict=True))
        return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)

    expected = whole(model, xs)
    slopes = gradients(expected)
    for form in FORMS:
        outputs = form(model, xs)
        report = lambda text, form=form: f"{form.__name__}, lengths {lengths}: {text}"  # noqa: E731
        torch.testing.assert_close(outputs, expected, rtol=bound, atol=bound, msg=report)
        torch.testing.assert_close(gradients(outputs), slopes, rtol=slope_bound, atol=slope_bound, msg=report)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_law(name, kind):
    model = make(name, kind)
    for lengths in LENGTHS:
        obey(model, lengths)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pair if pair[1] != "adaptive" or pair[0] in STACKED else pytest.param(*pair, marks=pytest.mark.slow)
        for pair in PAIRS
    ],
)
def test_generate(name, kind):
    """Greedily and with beams, from rows of which one is padded: with a cache what there is without."""
    model = make(name, kind)
    tokens, mask = torch.randint(V, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    for beams in (1, 3):
        options = {"max_new_tokens": 12, "do_sample": False, "num_beams": beams, "pad_token_id": 0, "eos_token_id": V}
        cached, plain = (model.generate(tokens, attention_mask=mask, use_cache=use, **options) for use in (True, False))
        assert torch.equal(cached, plain)
        alone = model.generate(tokens[1:, 3:], attention_mask=mask[1:, 3:], **options)
        assert torch.equal(cached[1:, 3:], alone)


def test_ids_depend_on_the_tokens():
    """What stands before a MARK changes no count after it; another MARK changes them."""
    tokens = torch.tensor([[3, 2, MARK, 1, 4, 5, MARK, MARK, 1]])
    places, state = Restart(8, 2).place(tokens, Layout.of(tokens))
    assert places["count"].tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 0]]
    assert places["token"].tolist() == [list(range(9))]
    assert state.next.tolist() == [1]


@pytest.mark.parametrize("name", ["transformer-xl", "restart", "log-length"])
def test_tokens_are_placed_once_for_all_layers(name, monkeypatch):
    calls = []
    kind = positions.POSITIONS[name]
    place = kind.place
    monkeypatch.setattr(kind, "place", lambda self, *given: (calls.append(self), place(self, *given))[1])
    model, tokens = make(name), torch.randint(V, (2, 6))
    cache = LengthwiseCache()
    with torch.no_grad():
        model(tokens, past_key_values=cache)
        model(tokens[:, :1], past_key_values=cache)
    assert len(calls) == 2
    first, second = (cache.states[0, layer] for layer in range(2))
    assert first.layout is second.layout
    assert first.places is second.places is cache.tokens.places
    assert first.places["token"].shape == (2, 7)
    own = [mixer.position is not None for mixer in model.mixers()]
    assert own == [kind.in_each_layer] * 2


def test_a_shared_encoding_needs_one_number_of_heads():
    mixers = [{"name": "softmax", "heads": 2}, {"name": "softmax", "heads": 4}]
    config = made.config(
        vocab_size=V, width=8, position={"name": "log-length"}, mixer=mixers, depth={"name": "fixed", "layers": 2}
    )
    with pytest.raises(Error, match=r"as many heads.* got 2 and, of mixer 'softmax', 4"):
        LengthwiseForCausalLM(config)


def test_what_cannot_be_taken_back_is_not():
    model, tokens = make("restart"), torch.randint(V, (1, 6))
    cache = model(tokens, use_cache=True).past_key_values
    assert not cache.is_croppable
    with pytest.raises(Error, match="cannot be taken back"):
        cache.crop(-1)
    cache = make("log-length")(tokens, use_cache=True).past_key_values
    assert cache.is_croppable


QUICK = ("rope", "bilevel, alibi")
"""One that turns, and one that adds a bias; all others compile in `make test-all`."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in [*NAMES, *ONLY_HERE]]
)
def test_compiles(name):
    """One graph."""
    torch._dynamo.reset()
    model, tokens = make(name).float(), torch.randint(V, (2, 6))
    run = torch.compile(lambda x: model(x).logits, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(tokens), model(tokens).logits)


@pytest.mark.parametrize("name", [*NAMES, *ONLY_HERE])
def test_maps(name):
    """torch.func.vmap over stacked parameters, as populations are trained."""
    model, tokens = make(name).float(), torch.randint(V, (2, 6))
    expected = model(tokens).logits
    stacked = {name: torch.stack([p.detach(), p.detach() * 0.5]) for name, p in model.named_parameters()}
    mapped = torch.func.vmap(lambda given: torch.func.functional_call(model, given, (tokens,)).logits)(stacked)
    torch.testing.assert_close(mapped[0], expected, rtol=1e-4, atol=1e-4)


TURNING = {
    "rope": {},
    "rope, spread": {"share": 0.5, "spread": True, "base": 8.0},
    "pope": {},
    "accumulated": {"rows": 9},
}
HELD = {"alibi": {}, "hard-alibi": {"masked": 2}, "kerple-power": {}}


def weights(name, options, T, width=32, heads=2):
    """(H,T) what the last of T tokens reads of each, and the greatest logit that vectors so long can have."""
    torch.manual_seed(T)
    position = positions.get(name.partition(",")[0], width=width, heads=heads, **options).double()
    q, k = (nn.functional.normalize(x, dim=-1) for x in torch.randn(2, 1, heads, T, width // heads).double())
    if name == "accumulated":
        nn.init.normal_(position.a)
    places = position.place(torch.randint(9, (1, T)), Layout(torch.arange(T)[None]))[0]
    bias, root = position.score(q, places, places).bias, (width // heads) ** 0.5
    q, k = position.rotate_queries(q, places)[:, :, -1:], position.rotate(k, places)
    logits = q @ k.mT / root if bias is None else q @ k.mT / root + bias.dense()[..., -1:, :]
    return logits.softmax(-1)[0, :, 0].detach(), (q.norm(dim=-1) * k.norm(dim=-1)).max().item() / root


@pytest.mark.parametrize("name", TURNING)
def test_rotations_alone_read_ever_less_of_what_is_near(name):
    """Turned vectors keep their lengths, so no logit leaves [-m, m], and n of T tokens weigh e^2m n / T at most."""
    read = {T: weights(name, TURNING[name], T) for T in (64, 512, 4096)}
    for T, (of, m) in read.items():
        assert m == pytest.approx(read[64][1], rel=0.3), "however far away"
        assert (of[:, -8:].sum(1) <= torch.e ** (2 * m) * 8 / T).all()
    assert (read[4096][0][:, -8:].sum(1) < 0.1 * read[64][0][:, -8:].sum(1)).all()


FAR = (64, 512, 4096, 16384)
NEAR = 8
"""The last tokens; all before them are far."""


@pytest.mark.parametrize("name", TURNING)
def test_rotations_alone_give_all_attention_to_what_is_far(name):
    """n far tokens weigh at least 1 / (1 + e^2m w / n) beside w near ones, which goes to 1."""
    far = []
    for n in FAR:
        of, m = weights(name, TURNING[name], n + NEAR)
        far.append(of[:, :-NEAR].sum(1).min().item())
        assert far[-1] >= 1 / (1 + torch.e ** (2 * m) * NEAR / n)
    assert far == sorted(far)
    assert far[-1] > 0.99


def test_under_alibi_what_is_far_weighs_no_more_however_much_there_is():
    """At most 1 / (1 + e^-2m (e^aw - 1)), for any n: reached to a percent by equal logits."""
    slopes = torch.tensor([2**-4, 2**-8]).double()
    for n in FAR:
        of, m = weights("alibi", {}, n + NEAR)
        bound = 1 / (1 + torch.e ** (-2 * m) * torch.expm1(slopes * NEAR))
        assert (of[:, :-NEAR].sum(1) <= bound).all()
    equal = (-slopes[:, None] * torch.arange(FAR[-1]).double()).softmax(1)[:, NEAR:].sum(1)
    torch.testing.assert_close(equal, 1 / (1 + torch.expm1(slopes * NEAR)), rtol=0.01, atol=0)


@pytest.mark.parametrize("name", HELD)
def test_a_bias_by_distance_keeps_what_is_near(name):
    near = {T: weights(name, HELD[name], T)[0][0, -24:].sum() for T in (512, 4096)}
    assert near[4096] > 0.8 * near[512] > 0.4
