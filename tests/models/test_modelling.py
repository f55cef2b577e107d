"""The Hugging Face side: saving, loading, generating, losses, compiling, stacking."""

import pytest
import torch
import torch._dynamo.testing
from torch.func import functional_call, grad, vmap
from transformers import AutoModelForCausalLM

from lengthwise import models
from lengthwise.errors import Error, ShapeError, UnknownName
from lengthwise.mixers import Layout, Level
from lengthwise.models import LengthwiseConfig, LengthwiseForCausalLM, presets

from ..mixers import made

SMALL = {
    "regular-gpt": lambda **k: presets.regular_gpt(5, width=16, heads=2, thickness=2, **k),
    "transformer": lambda **k: presets.transformer(5, width=16, heads=2, layers=2, **k),
    "transformer learned": lambda **k: presets.transformer(5, width=16, heads=2, layers=2, position="learned", **k),
    "transformer-xl": lambda **k: presets.transformer_xl(5, width=16, heads=2, layers=2, **k),
    "rnn": lambda **k: presets.rnn(5, width=16, **k),
    "lstm": lambda **k: presets.lstm(5, width=16, **k),
    "gru": lambda **k: presets.gru(5, width=16, **k),
    "block-lrnn": lambda **k: presets.block_lrnn(5, width=16, block=4, layers=2, **k),
}
ATTENTIVE = ["regular-gpt", "transformer", "transformer learned", "transformer-xl"]


def make(name, **options):
    torch.manual_seed(0)
    return LengthwiseForCausalLM(SMALL[name](**options)).eval()


@pytest.mark.parametrize("name", ["regular-gpt", "transformer-xl", "lstm", "block-lrnn"])
def test_generate_is_the_argmax_loop(name):
    model = make(name)
    rows = [torch.randint(0, 5, (n,)) for n in (3, 6)]
    wanted = []
    for row in rows:
        text = row[None]
        with torch.no_grad():
            for _ in range(7):
                text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], 1)
        wanted.append(text[0, len(row) :])
        true = torch.ones_like(row)[None]
        found = model.generate(row[None], attention_mask=true, max_new_tokens=7, do_sample=False, pad_token_id=0)
        assert torch.equal(found, text)
    tokens, mask = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    for i, row in enumerate(rows):
        tokens[i, 6 - len(row) :], mask[i, 6 - len(row) :] = row, 1
    found = model.generate(tokens, attention_mask=mask, max_new_tokens=7, do_sample=False, pad_token_id=0)
    assert torch.equal(found[:, 6:], torch.stack(wanted))


def test_labels_are_shifted_and_never_cross_sequences():
    model = make("transformer")
    tokens = torch.randint(0, 5, (1, 8))
    labels = tokens.clone()
    labels[0, 5] = -100
    out = model(tokens, labels=labels)
    logp = out.logits[0].log_softmax(-1)
    asked = [t for t in range(1, 8) if t != 5]
    wanted = -torch.stack([logp[t - 1, tokens[0, t]] for t in asked]).mean()
    torch.testing.assert_close(out.loss, wanted)
    ids = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    out = model(tokens, labels=labels, sequence_ids=ids)
    logp = out.logits[0].log_softmax(-1)
    wanted = -torch.stack([logp[t - 1, tokens[0, t]] for t in asked if t != 3]).mean()
    torch.testing.assert_close(out.loss, wanted)
    assert torch.equal(model(tokens, labels=labels, sequence_ids=ids, return_dict=False)[0], out.loss)


def test_logits_to_keep():
    model, tokens = make("transformer"), torch.randint(0, 5, (2, 8))
    whole = model(tokens).logits
    torch.testing.assert_close(model(tokens, logits_to_keep=3).logits, whole[:, -3:])
    index = torch.tensor([1, 4])
    torch.testing.assert_close(model(tokens, logits_to_keep=index).logits, whole[:, index])


LIKE_OTHERS = ("transformer learned", "rnn", "gru")
"""Models that compile as another one does, which the quick tests leave at that."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_OTHERS else []) for name in SMALL]
)
@pytest.mark.parametrize("last", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_compiles(name, last):
    torch._dynamo.reset()
    model, tokens = make(name), torch.randint(0, 5, (2, 9 if last else 4))
    run = torch.compile(
        lambda t: model(t, logits_to_keep=last).logits, backend="aot_eager", fullgraph=name in ATTENTIVE
    )
    torch.testing.assert_close(run(tokens), model(tokens, logits_to_keep=last).logits)


@pytest.mark.parametrize("name", ["transformer", pytest.param("transformer-xl", marks=pytest.mark.slow)])
def test_two_graphs_serve_all_lengths(name):
    """The first length's own, and at the second one whose length is a symbol; 1 would have its own, too."""
    torch._dynamo.reset()
    model, counter = make(name), torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    run = torch.compile(lambda t: model(t).logits, backend=counter, fullgraph=True)
    for length in (4, 7, 11, 13):
        tokens = torch.randint(0, 5, (2, length))
        torch.testing.assert_close(run(tokens), model(tokens).logits)
    assert counter.frame_count == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regular-gpt", "transformer-xl"])
def test_compiles_to_machine_code(name):
    torch._dynamo.reset()
    model, tokens = make(name), torch.randint(0, 5, (2, 9))
    run = torch.compile(lambda t: model(t).logits, fullgraph=True)
    torch.testing.assert_close(run(tokens), model(tokens).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_autocast_is_near_fp32(name):
    model, tokens = make(name), torch.randint(0, 5, (4, 33))
    for last in (0, 1):
        with torch.autocast("cpu", torch.bfloat16):
            half = model(tokens, logits_to_keep=last).logits.float()
        assert half.isfinite().all()
        torch.testing.assert_close(half, model(tokens, logits_to_keep=last).logits, rtol=0.1, atol=0.15)


OFFICIAL = {"variant": "official", "thickness": 2}
"""A network that answers at the last position alone."""


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in models.available()), *(("regular-gpt", o) for o in (OFFICIAL, {"nodes": "discrete"}))],
    ids=str,
)
def test_stackable_tells_the_truth(name, options):
    small = {"width": 8, **options} | ({"heads": 2} if "heads" in models.options(name) else {})
    classifier = models.build(name, vocab_size=3, num_outputs=3, **small)
    assert classifier.stackable == (name not in ("rnn", "lstm", "gru"))
    if not classifier.stackable:
        return
    tokens = torch.randint(0, 3, (3, 2, 5))
    stacked = {n: torch.stack([p.detach(), p.detach() * 0.5, -p.detach()]) for n, p in classifier.named_parameters()}
    for last in (True,) if options is OFFICIAL else (False, True):

        def loss(parameters, tokens, last=last):
            return functional_call(classifier, parameters, (tokens,), {"last": last}).square().sum()

        found = vmap(grad(loss), randomness="error")(stacked, tokens)
        for i in range(3):
            for n, wanted in grad(loss)({n: p[i] for n, p in stacked.items()}, tokens[i]).items():
                torch.testing.assert_close(found[n][i], wanted, rtol=1e-3, atol=1e-4)


def test_norm_and_block_do_as_named():
    post = make("regular-gpt", norm="post")
    assert isinstance(post.norm, torch.nn.Identity)
    x = torch.randn(1, 4, 16)
    layer = post.depth.layers[0]
    told = _told(x, post)
    y = layer(x, **told)
    h = layer.mixer_norm(x + layer.mixer(x, **told)[0])
    torch.testing.assert_close(y, layer.feed_norm(h + layer.down(torch.nn.functional.gelu(layer.up(h)))))
    pre = make("regular-gpt", norm="pre", activation="relu")
    layer = pre.depth.layers[0]
    told = _told(x, pre)
    y = layer(x, **told)
    h = x + layer.mixer(layer.mixer_norm(x), **told)[0]
    torch.testing.assert_close(y, h + layer.down(layer.up(layer.feed_norm(h)).relu()))


def _told(x, model):
    return {"layout": Layout.of(x), "level": Level(pad=model.pad)}


def test_layers_may_differ():
    config = made.config(
        vocab_size=3,
        width=8,
        mixer=[{"name": "softmax", "heads": 2}, {"name": "lstm"}],
        depth={"name": "fixed", "layers": 2},
    )
    names = [type(m).__name__ for m in LengthwiseForCausalLM(config).mixers()]
    assert names == ["Softmax", "Recurrent"]


def test_dropout_acts_only_in_training():
    model, tokens = make("transformer", dropout=0.5), torch.randint(0, 5, (2, 8))
    assert torch.equal(model(tokens).logits, model(tokens).logits)
    model.train()
    assert not torch.equal(model(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"mixer": {"name": "softmaxx"}}, UnknownName, "Did you mean 'softmax'"),
        ({"mixer": {"heads": 2}}, Error, '"name"'),
        (
            {"mixer": {"name": "softmax", "head": 2}},
            UnknownName,
            "Did you mean 'heads'",
        ),
        ({"mixer": {"name": "softmax", "heads": 3}}, Error, "heads must divide the width, got 3 heads and width 64"),
        ({"mixer": [{"name": "softmax"}]}, Error, "mixer lists 1 for 5 layers"),
        ({"position": {"name": "sinusoid"}}, UnknownName, "sinusoidal"),
        ({"position": {"name": "transformer-xl"}, "mixer": {"name": "lstm"}}, Error, "takes no positions"),
        ({"depth": {"name": "adaptiv"}}, UnknownName, "adaptive"),
        ({"depth": {"name": "fixed", "chunk": 2}}, UnknownName, "layers"),
        ({"depth": {"name": "fixed", "layers": 0}}, Error, "thickness\\) must be at least 1, got 0"),
        ({"block": {"norms": "pre"}}, UnknownName, "norm"),
        ({"block": {"norm": "middle"}}, Error, "pre or post, got 'middle'"),
        ({"num_outputs": 3, "tie_word_embeddings": True}, Error, "num_outputs = vocab_size, got 3 and 2"),
        ({"vocab_size": 0}, Error, "vocab_size must be at least 1"),
        (
            {"mixer": {"name": "sliding-dilated", "chunk": 3}, "depth": {"name": "adaptive", "chunk": 2}},
            Error,
            "one chunk, got 3 and 2",
        ),
    ],
)
def test_refuses_configs(config, error, words):
    with pytest.raises(error, match=words):
        LengthwiseForCausalLM(made.config(**config))


def test_refuses_calls():
    model, tokens = make("regular-gpt"), torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(ShapeError, match="T >= 1"):
        model(tokens[:, :0])
    with pytest.raises(ShapeError, match="attention_mask must be shaped"):
        model(tokens, attention_mask=torch.ones(2, 5))
    with pytest.raises(Error, match="padding between"):
        model(tokens, attention_mask=torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]))
    with pytest.raises(Error, match="logits_to_keep at 0"):
        model(tokens, labels=tokens, logits_to_keep=1)


def test_a_config_takes_its_fields_those_of_transformers_and_no_others(tmp_path):
    for key, hint in [
        ("wdith", "Did you mean 'width'"),
        ("hiden_size", "Did you mean 'hidden_size'"),
        ("zzz", "Known"),
    ]:
        with pytest.raises(UnknownName, match=f"Unknown config field '{key}'. {hint}"):
            LengthwiseConfig(**{key: 32})
    parts = {name: getattr(presets.transformer(2), name) for name in ("mixer", "position", "depth", "block")}
    config = LengthwiseConfig(
        hidden_size=32, pad_token_id=0, dtype="float32", num_labels=3, attn_implementation="eager", **parts
    )
    assert (config.width, config.pad_token_id, config.num_labels) == (32, 0, 3)
    # What other tools leave in a saved config is no mistake of whoever loads it.
    config.made_with = "care"
    config.save_pretrained(tmp_path)
    for again in (LengthwiseConfig.from_pretrained(tmp_path), LengthwiseConfig.from_dict(config.to_dict())):
        assert (again.width, again.pad_token_id, again.made_with) == (32, 0, "care")
    assert AutoModelForCausalLM.from_config(again).config.width == 32


def test_one_range_for_all_weights():
    """Token embeddings, positions and maps alike: positions of unit variance would drown small embeddings."""
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(
        presets.transformer(500, width=64, position="learned", max_length=256, initializer_range=0.02)
    )
    found = {name: float(p.std()) for name, p in model.named_parameters() if p.dim() == 2}
    assert {name for name in found if "position" in name}
    assert all(0.018 < std < 0.022 for std in found.values()), found
