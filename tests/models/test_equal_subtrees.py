"""Equal tokens are computed once where the switch is on, and nothing but the time shows it; or it is refused."""

import pytest
import torch

from lengthwise import models
from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM, TokenClassifier, depth, equal_subtrees, presets
from lengthwise.models.token_classifier import equal_tokens as reusing

LENGTHS = [1, 2, 3, 5, 8, 9, 16, 17, 31, 64, 81, 82]
OPTIONS = [
    {"chunk": 2},
    {"chunk": 3},
    {"chunk": 5},
    {"chunk": 2, "norm": "pre"},
    {"chunk": 3, "missing": "drop"},
    {"chunk": 2, "nodes": "discrete", "codes": 4},
]


def make(**options):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.regular_gpt(3, 4, width=8, heads=2, **options)).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


def both(model, call):
    """With the switch on and off, and how many nodes passed a group each time."""
    counted = []
    for on in (True, False):
        nodes = 0

        def count(x):
            nonlocal nodes
            nodes += x.shape[0] * x.shape[1]

        model.reuse_equal_tokens(on)
        counted.append((*call(count), nodes))
    return counted


def run(model, tokens, mask=None):
    def call(count):
        layer = model.depth.layers[0]
        forward = layer.forward
        layer.forward = lambda x, *args, **kwargs: (count(x), forward(x, *args, **kwargs))[1]
        logits = model(tokens, attention_mask=mask, logits_to_keep=1).logits
        del layer.forward
        weights = torch.arange(logits.numel()).view_as(logits).cos()
        gradients = torch.autograd.grad((logits * weights).sum(), list(model.parameters()), allow_unused=True)
        return logits, gradients

    return call


def same(a, b):
    torch.testing.assert_close(a[0], b[0], rtol=1e-12, atol=1e-12)
    for x, y in zip(a[1], b[1], strict=True):
        if x is not None or y is not None:
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients_are_the_same(options):
    model, saved = make(**options), 0
    for length in LENGTHS:
        shared, plain = both(model, run(model, torch.randint(0, 3, (6, length))))
        same(shared, plain)
        saved += plain[2] - shared[2]
    assert saved > 0 or options["chunk"] == 5  # 3^5 different chunks are more than there are


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_different_lengths(options):
    model = make(**options)
    for left in (True, False):
        tokens, mask = torch.randint(0, 3, (len(LENGTHS), 85)), torch.zeros(len(LENGTHS), 85, dtype=torch.long)
        for i, n in enumerate(LENGTHS):
            mask[i, slice(85 - n, None) if left else slice(n)] = 1
        shared, plain = both(model, run(model, tokens, mask))
        same(shared, plain)
        assert shared[2] < plain[2]


def test_a_small_vocabulary_costs_a_few_nodes():
    model, tokens = make(chunk=2), torch.randint(0, 2, (128, 32))
    shared, plain = both(model, run(model, tokens))
    assert plain[2] == 128 * (32 + 16 + 8 + 4 + 2)
    kinds = [len(tokens.view(-1, width).unique(dim=0)) for width in (2, 4, 8)]
    assert kinds == [4, 16, pytest.approx(220, abs=10)]
    assert shared[2] == 2 * sum(kinds) + 128 * (4 + 2)


def test_tuples_that_would_not_fit_an_integer_are_left_alone(monkeypatch):
    monkeypatch.setattr(equal_subtrees, "INTEGERS", 4**3)
    model = make(chunk=3)
    shared, plain = both(model, run(model, torch.randint(0, 3, (6, 27))))
    same(shared, plain)
    assert shared[2] == plain[2]


def lrnn(**options):
    torch.manual_seed(0)
    return LengthwiseForCausalLM(presets.block_lrnn(3, 4, width=8, block=4, **options)).double()


BOTH = pytest.mark.parametrize("build", [make, lrnn])
TOKENS = torch.randint(0, 3, (6, 17), generator=torch.Generator().manual_seed(0))


def ask(model, tokens=TOKENS):
    return model(tokens, logits_to_keep=1).logits


@pytest.fixture
def reused(monkeypatch):
    """How often equal tokens were looked for: by their subtrees, or by a table of the vocabulary."""
    found = []
    leaves, of = depth.leaves, LengthwiseForCausalLM._equal_tokens
    monkeypatch.setattr(depth, "leaves", lambda *a: found.append("subtrees") or leaves(*a))

    def table(self, ids):
        equal = of(self, ids)
        if equal is not None and equal.table is not None:
            found.append("table")
        return equal

    monkeypatch.setattr(LengthwiseForCausalLM, "_equal_tokens", table)
    return found


@BOTH
def test_it_is_off_until_it_is_switched_on(build, reused):
    model = build()
    ask(model)
    assert not reused
    assert not model.reuses_equal_tokens
    model.reuse_equal_tokens()
    ask(model)
    assert len(reused) == 1
    model.reuse_equal_tokens(False)
    ask(model)
    assert len(reused) == 1


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (presets.transformer(3, width=8, heads=2), "nothing in this model"),
        (presets.block_lrnn(3, width=8, dropout=0.5), "dropout draws"),
        (presets.regular_gpt(3, width=8, heads=2, thickness=2), "nothing in this model"),
        (presets.regular_gpt(3, width=8, heads=2, variant="official"), "nothing in this model"),
        (presets.regular_gpt(3, width=8, heads=2, dropout=0.5), "dropout draws"),
    ],
    ids=["transformer", "block-lrnn with dropout", "two layers", "official", "dropout"],
)
def test_where_equal_tokens_are_not_equal_it_is_refused(config, reason):
    model = LengthwiseForCausalLM(config).train()
    assert reason in model.reuse_refusal()
    with pytest.raises(Error, match=f"reuse_equal_tokens: {reason}"):
        model.reuse_equal_tokens()
    assert not model.reuses_equal_tokens
    model.reuse_equal_tokens(False)


def test_positions_at_the_input_make_equal_tokens_unequal():
    config = presets.block_lrnn(3, width=8)
    config.position = {"name": "sinusoidal"}
    assert "positions are added" in LengthwiseForCausalLM(config).reuse_refusal()


@BOTH
def test_dropout_that_begins_to_draw_switches_it_off(build):
    model = build(dropout=0.5).eval()
    model.reuse_equal_tokens()
    assert model.eval().reuses_equal_tokens
    assert not model.train().reuses_equal_tokens
    plain = build().eval()
    plain.reuse_equal_tokens()
    assert plain.train().reuses_equal_tokens


@BOTH
@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
@pytest.mark.parametrize("place", ["embedding", "depth", "layer", "inside", "everywhere"])
def test_where_a_hook_must_see_every_token_it_is_refused(build, kind, place):
    model = build()
    module = {
        "embedding": model.embedding,
        "depth": model.depth,
        "layer": model.depth.layers[0],
        "inside": list(model.depth.modules())[-1],
    }.get(place)
    name = f"register_module_{kind}" if module is None else f"register_{kind}"
    with getattr(torch.nn.modules.module if module is None else module, name)(lambda *_: None):
        assert "a hook on the embedding or the depth" in model.reuse_refusal()
    assert model.reuse_refusal() is None
    with model.head.register_forward_hook(lambda *_: None):
        assert model.reuse_refusal() is None


def test_strangers_put_into_a_layer():
    model = make(chunk=2).train()
    model.depth.layers[0].up = torch.nn.Sequential(model.depth.layers[0].up, torch.nn.Dropout(0.5))
    assert "dropout draws" in model.reuse_refusal()
    model.eval().reuse_equal_tokens()
    assert not model.train().reuses_equal_tokens


@BOTH
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_lora(build, rate, reused):
    peft = pytest.importorskip("peft")
    inside = ["qkv", "up"] if build is make else ["inputs.0", "transition.0"]
    model = build()
    plain = ask(model)
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(target_modules=inside, r=2, init_lora_weights=False, lora_dropout=rate)
    ).double()
    adapted.train()
    if rate:
        assert "dropout draws" in model.reuse_refusal()
    adapted.eval()
    wanted = ask(adapted)
    assert not torch.allclose(wanted, plain)
    torch.testing.assert_close(wanted, adapted(TOKENS).logits[:, -1:], rtol=1e-12, atol=1e-12)
    model.reuse_equal_tokens()
    torch.testing.assert_close(ask(adapted), wanted, rtol=1e-12, atol=1e-12)
    assert len(reused) == 1


@BOTH
def test_parametrised_weights(build, reused):
    model = build()
    plain = ask(model)
    for module in [m for m in model.depth.modules() if isinstance(m, torch.nn.Linear)]:
        torch.nn.utils.parametrizations.weight_norm(module)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("original0"):
                p.mul_(1.5)
    wanted = ask(model)
    assert not torch.allclose(wanted, plain)
    model.reuse_equal_tokens()
    torch.testing.assert_close(ask(model), wanted, rtol=1e-12, atol=1e-12)
    assert len(reused) == 1


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("length", [6, 17])
def test_compiled(build, length, reused):
    """The graph breaks where the tokens are looked at; the answer is the same."""
    model, tokens = build(), TOKENS[:, :length]
    wanted = ask(model, tokens)
    model.reuse_equal_tokens()
    torch._dynamo.reset()
    torch.testing.assert_close(ask(torch.compile(model, backend="eager"), tokens), wanted, rtol=1e-12, atol=1e-12)
    assert len(reused) == 1
    torch._dynamo.reset()


def test_stacked_models_look_up_but_share_no_subtrees(reused):
    assert "stacked by torch.func.vmap" in make().reuse_refusal(stacked=True)
    model = lrnn()
    stacked = {name: torch.stack([p.detach(), 0.9 * p.detach()]) for name, p in model.named_parameters()}

    def run():
        return torch.func.vmap(lambda ps: ask(Answer(model, ps)))(stacked)

    wanted = run()
    model.reuse_equal_tokens(stacked=True)
    torch.testing.assert_close(run(), wanted, rtol=1e-12, atol=1e-12)
    assert reused == ["table"]


class Answer:
    """A model with these parameters."""

    def __init__(self, model, parameters):
        self.model, self.parameters = model, parameters

    def __call__(self, *args, **kwargs):
        return torch.func.functional_call(self.model, self.parameters, args, kwargs)


@pytest.fixture
def alone(tmp_path):
    """A process group of this process."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield distributed.device_mesh.init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


@BOTH
def test_sharded(build, alone, reused):
    """Refused once the weights are sharded; sharded after it was switched on, the answer is the same."""
    from torch.distributed.fsdp import fully_shard

    for before in (False, True):
        model = build()
        wanted = ask(model)
        if before:
            model.reuse_equal_tokens()
        fully_shard(model.depth.layers[0], mesh=alone)
        fully_shard(model, mesh=alone)
        assert "its weights are sharded" in model.reuse_refusal()
        torch.testing.assert_close(ask(model), wanted, rtol=1e-12, atol=1e-12)
    assert len(reused) == 1


def test_a_model_from_outside_has_no_such_switch():
    classifier = TokenClassifier(torch.nn.Embedding(3, 4), 4, "mine")
    assert not classifier.reuses_equal_tokens
    classifier.reuse_equal_tokens(False)
    with pytest.raises(Error, match="mine: reuse_equal_tokens: a model from outside this library"):
        classifier.reuse_equal_tokens()


def test_for_the_time_of_a_block():
    classifier = models.build("regular-gpt", vocab_size=3, num_outputs=4, width=8, heads=2)
    for before in (False, True):
        classifier.reuse_equal_tokens(before)
        for inside in (False, True):
            with reusing(classifier, reused=inside):
                assert classifier.reuses_equal_tokens is inside
            assert classifier.reuses_equal_tokens is before
    dropping = models.build("regular-gpt", vocab_size=3, num_outputs=4, width=8, heads=2, dropout=0.1).train()
    with reusing(dropping, reused=True):
        assert not dropping.reuses_equal_tokens
