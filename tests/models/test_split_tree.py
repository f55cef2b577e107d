"""Models whose sequence is divided among ranks, here threads: logits, loss and gradients are those of one process."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from lengthwise import Error, models
from lengthwise.models.depth import groups
from lengthwise.models.split_tree import Span, climb_alone
from lengthwise.train import sequence_parallel

from ..ops.in_threads import in_threads
from ..ops.test_split_scan import cuts

S, V, B = 4, 5, 2
MODELS = {
    "block-lrnn": {"width": 8, "layers": 2, "block": 4},
    "block-lrnn automaton": {"width": 8, "variant": "automaton", "block": 4},
    "diagonal-lrnn": {"width": 8, "layers": 2, "state": 4},
    "lru": {"width": 8, "layers": 2, "state": 4},
    "regular-gpt": {"width": 8, "heads": 2, "chunk": 2},
    "regular-gpt of 3": {"width": 8, "heads": 2, "chunk": 3, "depth": "position", "nodes": "discrete", "codes": 2},
    "regular-gpt of two layers": {"width": 8, "heads": 2, "chunk": 2, "thickness": 2},
    "regular-gpt by position": {"width": 8, "heads": 2, "chunk": 3, "thickness": 2, "depth": "position"},
    "regular-gpt that drops": {"width": 8, "heads": 2, "chunk": 3, "missing": "drop"},
}
TREES = [name for name in MODELS if name.startswith("regular-gpt")]
PIECES = [(1,), (1, 1), (5, 2), (3, 0, 4), (8, 8), (27, 9, 27), (1, 30, 2, 0)]
QUICK = [("block-lrnn", (3, 0, 4)), ("block-lrnn automaton", (0, 1)), ("diagonal-lrnn", (0, 3, 2)), ("lru", (4, 1, 0))]
QUICK += [(name, pieces) for name in TREES for pieces in [(0, 1), (3, 0, 4), (5, 9, 1)]]
EVERY = [("block-lrnn", (1, 30, 2)), ("block-lrnn automaton", (3, 0, 4)), ("diagonal-lrnn", (0, 1)), ("lru", (5, 2))]
EVERY += [(name, pieces) for name in TREES for pieces in [(3, 0, 4), (6, 1, 2)]]


def build(name, outputs=S):
    torch.manual_seed(0)
    return models.build(name.split()[0], vocab_size=V, num_outputs=outputs, **MODELS[name]).double()


def tokens_of(pieces):
    return torch.randint(0, V, (B, sum(pieces)), generator=torch.Generator().manual_seed(1))


def answers(pieces):
    return torch.randint(0, S, (B, sum(pieces)), generator=torch.Generator().manual_seed(2))


def measured(model, tokens, wanted, last, ranks=None):
    """The loss in double precision, and the logits."""
    logits = model(tokens, last=last)
    if last:
        return F.cross_entropy(logits[:, -1], wanted), logits
    each = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
    return (each if ranks is None else ranks.total(each)), logits


def slopes(model):
    return {name: p.grad for name, p in model.named_parameters()}


def on_a_rank(model, pieces, last, ranks, reuse=False):
    cut = cuts(pieces)[ranks.rank]
    model.inner.split_over(ranks)
    if reuse:
        model.reuse_equal_tokens()
    wanted = answers(pieces)
    loss, logits = measured(model, tokens_of(pieces)[:, cut], wanted[:, -1] if last else wanted[:, cut], last, ranks)
    loss.backward()
    ranks.add_gradients(model.parameters())
    return loss.detach(), logits.detach(), slopes(model)


def agree(name, pieces, last, reuse=False):
    model, wanted = build(name), answers(pieces)
    copies = [deepcopy(model) for _ in pieces]
    loss, logits = measured(model, tokens_of(pieces), wanted[:, -1] if last else wanted, last)
    loss.backward()
    ran = in_threads(len(pieces), lambda ranks: on_a_rank(copies[ranks.rank], pieces, last, ranks, reuse))
    close = {"rtol": 1e-10, "atol": 1e-10}
    for r, (own_loss, own_logits, own_slopes) in enumerate(ran):
        torch.testing.assert_close(own_loss, loss.detach(), **close)
        torch.testing.assert_close(own_logits, logits.detach()[:, slice(None) if last else cuts(pieces)[r]], **close)
        for weight, slope in slopes(model).items():
            assert (slope is None) == (own_slopes[weight] is None)
            if slope is not None:
                torch.testing.assert_close(own_slopes[weight], slope, **close)


@pytest.mark.parametrize(
    ("name", "pieces", "options"),
    [
        *((*each, {"last": True}) for each in QUICK),
        *((*each, {"last": False}) for each in EVERY),
        ("block-lrnn", (30, 2, 11), {"last": False, "reuse": True}),
        *(
            pytest.param(name, pieces, {"last": last}, marks=pytest.mark.slow)
            for name in MODELS
            for pieces in PIECES
            for last in (True, False)
        ),
    ],
    ids=str,
)
def test_answers(name, pieces, options):
    agree(name, pieces, **options)


@pytest.mark.parametrize("pieces", [(4, 0, 3), (0, 5)], ids=str)
def test_the_loss_of_labels(pieces):
    """The last token of a piece is scored by the first of the next. (A model's own loss is in single precision.)"""
    model = build("block-lrnn", outputs=V).inner
    tokens = tokens_of(pieces)
    labels = tokens.masked_fill(torch.rand(tokens.shape, generator=torch.Generator().manual_seed(3)) < 0.2, -100)
    loss = model(tokens, labels=labels).loss
    loss.backward()
    copies = [deepcopy(model) for _ in pieces]

    def own(ranks):
        model, cut = copies[ranks.rank], cuts(pieces)[ranks.rank]
        model.zero_grad()
        model.split_over(ranks)
        loss = model(tokens[:, cut], labels=labels[:, cut]).loss
        loss.backward()
        ranks.add_gradients(model.parameters())
        return loss.detach(), slopes(model), model(tokens[:, cut], labels=labels[:, cut], num_items_in_batch=7).loss

    count = (labels[:, 1:] != -100).sum()
    for own_loss, own_slopes, by_items in in_threads(len(pieces), own):
        torch.testing.assert_close(own_loss, loss.detach(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(by_items.detach(), (loss * count / 7).detach(), rtol=1e-6, atol=1e-6)
        for weight, slope in slopes(model).items():
            torch.testing.assert_close(own_slopes[weight], slope, rtol=1e-5, atol=1e-6)


def test_a_weight_that_nothing_uses_gets_no_gradient():
    p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))

    def own(ranks):
        mine = torch.nn.Parameter(p.detach()), torch.nn.Parameter(q.detach())
        if ranks.rank == 1:
            mine[0].grad = torch.ones(2)
        ranks.add_gradients(mine)
        return mine[0].grad.tolist(), mine[1].grad

    assert in_threads(2, own) == [([1, 1], None)] * 2


def test_what_a_rank_hands_over():
    """At most 2 (C-1) nodes of each level, and one where all pieces have C^j tokens."""
    assert climb_alone(Span(0, 16, 24), 40, 2, 6)[1] == [Span(3, 2, 3)]
    for C, n in [(2, 100), (3, 250), (5, 126)]:
        depth = groups(n, C)
        for lo in range(0, n, 7):
            for hi in range(lo, n, 11):
                spans, edges = climb_alone(Span(0, lo, hi), n, C, depth)
                assert sum((e.hi - e.lo) * C**e.level for e in edges) == hi - lo
                assert all(sum(e.hi - e.lo for e in edges if e.level == s.level) <= 2 * (C - 1) for s in spans)


def test_what_a_tree_exchanges():
    """Forwards and backwards the nodes at the edges, and the lengths of the pieces."""
    for pieces, nodes in [((8, 8), 1), ((1024, 1024), 1), ((8, 7), 3)]:
        model = build("regular-gpt")
        tokens = tokens_of(pieces)

        def own(ranks, model=model, tokens=tokens, pieces=pieces):
            mine = deepcopy(model)
            mine.inner.split_over(ranks)
            mine(tokens[:, cuts(pieces)[ranks.rank]], last=True).sum().backward()
            return ranks.received

        assert in_threads(2, own) == [2 * B * nodes * 8 * 8 + 16] * 2


def test_what_all_positions_exchange():
    """Of vectors, in every group, what stands C^l back and is not the rank's own: (C-1) min(C^l, T) at most."""
    C, T = 3, 9
    model, tokens = build("regular-gpt of 3"), tokens_of((T, T, T))

    def own(ranks):
        mine = deepcopy(model)
        mine.inner.split_over(ranks)
        mine(tokens[:, cuts((T, T, T))[ranks.rank]]).sum().backward()
        return ranks.received

    # Backwards a rank is told of what it has handed over.
    came = [sum(min((C - 1) * min(C**l, T), r * T) for l in range(3)) for r in range(3)]
    assert came == [0, 17, 26]
    got = in_threads(3, own)
    assert sum(got) - 3 * 2 * 16 == 2 * B * 8 * 8 * sum(came)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pieces"), [("block-lrnn", (3, 0, 4)), ("regular-gpt of two layers", (5, 4))])
def test_with_activations_computed_again(name, pieces, monkeypatch):
    """The backward pass then exchanges again what the forward pass did."""

    def checkpointed(name, outputs=S, make=build):
        model = make(name, outputs)
        names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
        enable = next(getattr(model.inner, name) for name in names if hasattr(model.inner, name))
        enable({"use_reentrant": False})
        return model.train()

    monkeypatch.setitem(globals(), "build", checkpointed)
    agree(name, pieces, last=False)


REFUSED = {
    "softmax": (
        models.presets.transformer,
        {},
        "its softmax reads all tokens together, .* diagonal-lrnn, lru, sliding-dilated",
    ),
    "official": (models.presets.regular_gpt, {"variant": "official"}, 'missing="official" pads'),
    "dropout": (models.presets.block_lrnn, {"dropout": 0.1}, "dropout would draw"),
    "s4": (models.presets.s4, {}, "its s4 reads all"),
}


@pytest.mark.parametrize(("preset", "options", "reason"), REFUSED.values(), ids=REFUSED)
def test_models_that_cannot(preset, options, reason):
    model = models.LengthwiseForCausalLM(preset(vocab_size=3, width=8, **options)).train()
    with pytest.raises(Error, match=reason):
        in_threads(1, model.split_over)
    assert model.ranks is None


def test_calls_that_cannot():
    model = build("block-lrnn").inner
    tokens = tokens_of((4,))

    def refused(reason, model, *arguments, lengths=(4, 4), rows=(2, 2), **options):
        def own(ranks):
            mine = deepcopy(model)
            mine.split_over(ranks)
            with pytest.raises(Error, match=reason):
                mine(tokens[: rows[ranks.rank], : lengths[ranks.rank]], *arguments, **options)

        in_threads(2, own)

    refused("attention_mask cannot be given .* one row of real tokens", model, torch.ones(2, 4))
    refused("past_key_values cannot be given", model, use_cache=True)
    refused("as many rows on each, got 1, 2", model, rows=(1, 2))
    refused("must have a token on one of them", model, lengths=(0, 0))
    refused("logits_to_keep is 0 or 1", model, logits_to_keep=2)
    refused(r"labels must be \(B,T\) = \[2, 4\]", model, labels=tokens[:, :2])


def test_for_the_time_of_a_block(tmp_path):
    """With a process group of this process alone."""
    from torch.distributed.fsdp import fully_shard

    classifier, tokens = build("regular-gpt"), tokens_of((5,))
    with pytest.raises(Error, match="this process is in none"), sequence_parallel(classifier):
        pass
    wanted = classifier(tokens, last=True)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        with sequence_parallel(classifier) as ranks:
            torch.testing.assert_close(classifier(tokens, last=True), wanted)
            assert classifier.inner.ranks is ranks
        assert classifier.inner.ranks is None
        fully_shard(classifier.inner, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
        with pytest.raises(Error, match="its weights are sharded"), sequence_parallel(classifier):
            pass
        with (
            pytest.raises(Error, match=r"only a model of this library .* got Linear"),
            sequence_parallel(torch.nn.Linear(1, 1)),
        ):
            pass
    finally:
        torch.distributed.destroy_process_group()
