"""Decoding with a cache gives what the full pass gives, and costs per token what one token costs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache

from lengthwise.errors import Error, ShapeError
from lengthwise.mixers import Layout
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.cache import LengthwiseCache

from ..laws.test_positions import obey, token_by_token, whole
from ..mixers import made

CACHED = {
    "regular-gpt": lambda: presets.regular_gpt(5, width=8, heads=2, depth="position"),
    "regular-gpt 3/2": lambda: presets.regular_gpt(5, width=8, heads=2, chunk=3, thickness=2, depth="position"),
    "regular-gpt drop": lambda: presets.regular_gpt(5, width=8, heads=2, missing="drop", depth="position"),
    "regular-gpt discrete": lambda: presets.regular_gpt(5, width=8, heads=2, depth="position", nodes="discrete"),
    "transformer": lambda: presets.transformer(5, width=8, heads=2, layers=2),
    "transformer-xl": lambda: presets.transformer_xl(5, width=8, heads=2, layers=2),
    "chacal": lambda: presets.chacal(5, width=8, heads=2),
    "chacal all": lambda: presets.chacal(5, width=8, heads=2, chain_layers="all", learn_gamma=True, position="none"),
    "chacal transformer-xl": lambda: presets.chacal(5, width=8, heads=2, layers=1, position="transformer-xl"),
    "stick-breaking": lambda: presets.stick_breaking(5, width=8, heads=2, layers=2),
    "path": lambda: presets.path(5, width=8, heads=2, layers=2),
    "path forgetting": lambda: presets.path(5, width=8, heads=2, layers=2, forgetting=True),
    "cope": lambda: presets.cope(5, width=8, heads=2, layers=2, rows=6),
    "universal transformer": lambda: made.config(
        vocab_size=5, width=8, mixer={"name": "softmax", "heads": 2}, depth={"name": "adaptive", "by": "position"}
    ),
    "lstm": lambda: presets.lstm(5, width=8, layers=2),
    "block-lrnn": lambda: presets.block_lrnn(5, width=8, block=4, layers=2),
    "pd-ssm": lambda: presets.pd_ssm(5, width=8, matrices=2),
    "delta-product": lambda: presets.delta_product(5, width=8, heads=2, layers=2),
}


def make(name):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(CACHED[name]()).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return model


@pytest.mark.parametrize("name", CACHED)
def test_law(name):
    """Presets obey the law of `laws/test_positions.py`, step by step, packed and padded, in values and gradients."""
    model = make(name)
    for lengths in ([40], [1, 4, 17, 25]):
        obey(model, lengths, 1e-12, 1e-9)
    text = [torch.randint(0, 5, (40,))]
    with torch.no_grad():  # as it generates
        torch.testing.assert_close(token_by_token(model, text), whole(model, text), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["regular-gpt", "regular-gpt 3/2"])
def test_by_position_is_causal_and_by_sequence_is_not(name):
    model, tokens = make(name), torch.randint(0, 5, (1, 30))
    changed = tokens.clone()
    changed[:, 20:] = 4 - changed[:, 20:]
    with torch.no_grad():
        whole = model(tokens).logits
        torch.testing.assert_close(model(changed).logits[:, :20], whole[:, :20])
        torch.testing.assert_close(model(tokens[:, :20]).logits, whole[:, :20])
        last = torch.stack([model(tokens[:, :t], logits_to_keep=1).logits[:, 0] for t in range(1, 31)], 1)
        torch.testing.assert_close(last, whole)
        model.depth.by = "sequence"
        assert not torch.allclose(model(tokens).logits[:, :8], whole[:, :8])
        torch.testing.assert_close(model(tokens).logits[:, -1], whole[:, -1])


def uncached(model, **options):
    """generate() which reads the whole text again at every step, though depth goes by position."""
    return model.generate(use_cache=False, **options)


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize(
    "way",
    [
        {"do_sample": False},
        {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 3},
        {"do_sample": False, "prefill_chunk_size": 4},
    ],
    ids=["greedy", "beams", "sampled", "chunked prefill"],
)
def test_generate_with_a_cache(name, way):
    model = make(name)
    tokens, mask = torch.randint(0, 5, (3, 11)), torch.ones(3, 11, dtype=torch.long)
    mask[1, :3], mask[2, :9] = 0, 0
    for kept in ({"attention_mask": mask}, {"attention_mask": torch.ones_like(mask)}):
        common = {"input_ids": tokens, "max_new_tokens": 24, "pad_token_id": 0, **kept}
        torch.manual_seed(1)
        found = model.generate(**common, **way)
        torch.manual_seed(1)
        plain = {k: v for k, v in way.items() if k != "prefill_chunk_size"}
        assert torch.equal(found, uncached(model, **common, **plain))


def test_generate_goes_on_from_a_returned_cache():
    model, tokens = make("regular-gpt"), torch.randint(0, 5, (2, 6))
    common = {"do_sample": False, "return_dict_in_generate": True}
    first = model.generate(tokens, max_new_tokens=5, **common)
    assert isinstance(first.past_key_values, LengthwiseCache)
    more = model.generate(first.sequences, past_key_values=first.past_key_values, max_new_tokens=9, **common)
    assert torch.equal(more.sequences, model.generate(tokens, max_new_tokens=14, **common).sequences)


@pytest.mark.parametrize("name", ["regular-gpt", "lstm"])
def test_a_cache_begun_in_inference_mode_goes_on_outside_of_it(name):
    model, tokens, cache = make(name), torch.randint(0, 5, (2, 12)), LengthwiseCache()
    with torch.no_grad():
        whole = model(tokens).logits
    with torch.inference_mode():
        for part in tokens[:, :10].split(5, 1):
            model(part, past_key_values=cache)
    with torch.no_grad():
        for t in (10, 11):
            logits = model(tokens[:, t : t + 1], past_key_values=cache).logits
            torch.testing.assert_close(logits, whole[:, t : t + 1], rtol=1e-12, atol=1e-12)


RECURRENT = ("lstm", "block-lrnn", "pd-ssm", "delta-product", "path", "path forgetting")


@pytest.mark.parametrize("name", [n for n in CACHED if n not in RECURRENT])
def test_rewinding(name):
    model, tokens = make(name), torch.randint(0, 5, (2, 33))
    with torch.no_grad():
        whole = model(tokens).logits
        for n in (1, 4, 5, 16, 30):
            cache = LengthwiseCache()
            model(torch.cat([tokens[:, :n], torch.randint(0, 5, (2, 33 - n))], 1), past_key_values=cache)
            cache.crop(n - 33)
            assert cache.get_seq_length() == n
            found = model(tokens[:, n:], past_key_values=cache).logits
            torch.testing.assert_close(found, whole[:, n:], rtol=1e-12, atol=1e-12)
        cache.crop(-40)
        torch.testing.assert_close(model(tokens, past_key_values=cache).logits, whole)


def test_a_step_does_not_read_the_whole_mask_again(monkeypatch):
    model, tokens, mask = make("chacal"), torch.randint(0, 5, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, :3] = 0
    with torch.no_grad():
        whole, cache = model(tokens, attention_mask=mask).logits[:, 9:], LengthwiseCache()
        model(tokens[:, :9], attention_mask=mask[:, :9], past_key_values=cache)
        monkeypatch.delattr(Layout, "from_mask")
        parts = [model(tokens[:, t : t + 1], attention_mask=mask[:, : t + 1], past_key_values=cache) for t in (9, 10)]
        torch.testing.assert_close(torch.cat([p.logits for p in parts], 1), whole[:, :2])


@pytest.mark.parametrize("name", CACHED)
def test_real_tokens_need_no_mask(name):
    """The cache knows which tokens before them were padding, after it was cropped too."""
    model, tokens, mask = make(name), torch.randint(0, 5, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, :3] = 0
    with torch.no_grad():
        whole, cache = model(tokens, attention_mask=mask).logits, LengthwiseCache()
        model(tokens[:, :7], attention_mask=mask[:, :7], past_key_values=cache)
        if cache.is_croppable:
            cache.crop(-2)
        start = cache.get_seq_length()
        parts = [model(tokens[:, a:b], past_key_values=cache).logits for a, b in ((start, 8), (8, 9), (9, 12))]
        torch.testing.assert_close(torch.cat(parts, 1), whole[:, start:], rtol=1e-12, atol=1e-12)


class Looks(TorchDispatchMode):
    """Names the operations that look at the data, for which a GPU must be waited for."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "unique_dim", "_unique2", "masked_select"):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", CACHED)
def test_a_generated_token_looks_at_no_data(name, padded, monkeypatch):
    """Between two forward passes generate() looks by itself, at whether all rows have ended."""
    model, tokens, looks = make(name), torch.randint(0, 5, (2, 9)), []
    forward = type(model).forward

    def watched(self, *args, **kwargs):
        with Looks() as mode:
            output = forward(self, *args, **kwargs)
        looks.append(mode.seen)
        return output

    monkeypatch.setattr(type(model), "forward", watched)
    monkeypatch.setattr("lengthwise.ops.chain.call._check_gamma", lambda *_: None)  # looks on a CPU alone
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, : 3 * padded] = 0
    model.generate(tokens, attention_mask=mask, max_new_tokens=30, do_sample=False)
    assert len(looks) == 30
    assert looks[0]  # the prompt's mask is looked at, once
    assert looks[1:] == [[]] * 29


def test_an_assistant_may_draft():
    """Assisted decoding rewinds the cache behind every wrong guess."""
    model, draft = make("regular-gpt"), make("regular-gpt drop")
    tokens = torch.randint(0, 5, (1, 6))
    common = {"do_sample": False, "max_new_tokens": 20}
    assert torch.equal(model.generate(tokens, assistant_model=draft, **common), model.generate(tokens, **common))


def test_rows_are_chosen_and_repeated():
    model, tokens = make("regular-gpt"), torch.randint(0, 5, (3, 20))
    with torch.no_grad():
        whole = model(tokens).logits
        cache = LengthwiseCache()
        model(tokens[:, :9], past_key_values=cache)
        cache.batch_select_indices(torch.tensor([2, 0]))
        cache.batch_repeat_interleave(2)
        rows = torch.tensor([2, 2, 0, 0])
        torch.testing.assert_close(model(tokens[rows, 9:], past_key_values=cache).logits, whole[rows, 9:])


class Elements(TorchDispatchMode):
    """How many the ops made."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        # A view costs nothing.
        if isinstance(out, torch.Tensor) and not func.is_view:
            self.total += out.numel()
        return out


@pytest.mark.parametrize(("chunk", "thickness"), [(2, 1), (3, 2)])
def test_a_token_costs_as_many_groups_as_there_are_and_no_more(chunk, thickness):
    """What is computed for one token grows with the number of groups, and not with the tokens kept."""
    torch.manual_seed(0)
    config = presets.regular_gpt(5, width=8, heads=2, chunk=chunk, thickness=thickness, depth="position")
    model, costs = LengthwiseForCausalLM(config).eval(), []
    for length, depth in ((chunk**4 + 3, 5), (chunk**6 + 3, 7)):
        cache = LengthwiseCache()
        with torch.no_grad():
            model(torch.randint(0, 5, (1, length)), past_key_values=cache)
            model(torch.randint(0, 5, (1, 1)), past_key_values=cache)  # the buffers double here
            with Elements() as elements:
                model(torch.randint(0, 5, (1, 1)), past_key_values=cache)
        assert cache.levels == depth
        costs.append(elements.total / depth)
    assert costs[1] <= 1.05 * costs[0]


def test_refusals():
    tokens = torch.randint(0, 5, (2, 6))
    model = LengthwiseForCausalLM(presets.regular_gpt(5, width=8, heads=2))
    for call in (
        lambda: model(tokens, use_cache=True),
        lambda: model(tokens, past_key_values=LengthwiseCache()),
        lambda: model.generate(tokens, use_cache=True, max_new_tokens=2),
    ):
        with pytest.raises(Error, match="by sequence keeps no cache: a token appended past a power"):
            call()
    assert model.generate(tokens, max_new_tokens=2, do_sample=False).shape == (2, 8)
    official = LengthwiseForCausalLM(presets.regular_gpt(5, width=8, heads=2, variant="official", depth="position"))
    with pytest.raises(Error, match="pad_tokens only the last position"):
        official(tokens, use_cache=True)
    model = make("regular-gpt")
    with pytest.raises(Error, match="LengthwiseCache, got DynamicCache"):
        model(tokens, past_key_values=DynamicCache())
    with pytest.raises(Error, match="leave sequence_ids out"):
        model(tokens, sequence_ids=tokens, use_cache=True)
    cache = model(tokens, attention_mask=torch.tensor([[1] * 5 + [0], [1] * 6]), use_cache=True).past_key_values
    with pytest.raises(Error, match="go on as it began: a row of the cache ends in padding"):
        model(tokens[:, :1], past_key_values=cache)
    cache = model(tokens, attention_mask=torch.tensor([[0] + [1] * 5, [1] * 6]), use_cache=True).past_key_values
    with pytest.raises(ShapeError, match="has 2 rows, got 3"):
        model(tokens[:1, :1].expand(3, 1), past_key_values=cache)
    with pytest.raises(ShapeError, match=r"the tokens of the cache and these, \[2, 7\]"):
        model(tokens[:, :1], attention_mask=torch.ones(2, 1), past_key_values=cache)
    with pytest.raises(ShapeError, match="has 2 rows, got 3"):
        model(tokens[:1, :1].expand(3, 1), attention_mask=torch.tensor([[0] + [1] * 6] * 3), past_key_values=cache)
    lstm = make("lstm")
    cache = lstm(tokens, use_cache=True).past_key_values
    with pytest.raises(Error, match="recurrent state cannot be taken back"):
        cache.crop(-1)
