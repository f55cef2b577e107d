"""What callers of Hugging Face models give a model: read rightly, or refused with the reason."""

import pytest
import torch
from transformers import AutoModel

from lengthwise import models
from lengthwise.errors import Error, ShapeError
from lengthwise.models import LengthwiseForCausalLM, LengthwiseModel, presets

V = 13
INFINITE = float("-inf")


def config(name):
    heads = {"heads": 2} if "heads" in models.options(name) else {}
    depth = {"depth": "position"} if name == "regular-gpt" else {}
    return presets.PRESETS[name](V, width=16, **heads, **depth)


def make(name, **fields):
    torch.manual_seed(0)
    made = config(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return LengthwiseForCausalLM(made).eval()


def tokens(B=2, T=9):
    return torch.randint(1, V, (B, T), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", presets.PRESETS)
def test_embeddings_in_the_place_of_tokens(name):
    model, t = make(name, embedding_scale=2.0), tokens()
    embedded = model.get_input_embeddings()(t)
    torch.testing.assert_close(model(inputs_embeds=embedded).logits, model(t).logits)
    wanted = model.generate(t, max_new_tokens=4, do_sample=False)[:, 9:]
    assert torch.equal(model.generate(inputs_embeds=embedded, max_new_tokens=4, do_sample=False), wanted)


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_masks_of_any_kind_say_the_same(name):
    model, t = make(name), tokens()
    alone = model(t[1:, 3:]).logits
    real = torch.ones(2, 9, dtype=torch.bool)
    real[1, :3] = False
    added = torch.zeros(2, 9).masked_fill(~real, INFINITE)
    lowest = torch.zeros(2, 9, dtype=torch.float16).masked_fill(~real, torch.finfo(torch.float16).min)
    for mask in (real, real.int(), real.long(), real.float(), real.bfloat16(), added, lowest):
        torch.testing.assert_close(model(t, attention_mask=mask).logits[1:, 3:], alone)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (torch.zeros(2, 9), "floats that are all 0"),
        (torch.full((2, 9), 0.5), r"1 on real tokens and 0 on padding .* from 0\.5 to 0\.5"),
        (torch.full((2, 9), float("nan")), "1 on real tokens"),
        (torch.tensor([[1] * 4 + [2] * 5] * 2), "from 1 to 2. Numbers of packed sequences are sequence_ids"),
        (torch.ones(2, 1, 9, 9).tril(), r"must be \(B,T\), .* got \[2, 1, 9, 9\]"),
        (torch.zeros(2, 1, 9, 9).masked_fill(torch.ones(9, 9).triu(1).bool(), INFINITE), r"must be \(B,T\)"),
        (torch.ones(9), r"must be \(B,T\)"),
    ],
)
def test_masks_that_may_be_misread_are_refused(mask, words):
    with pytest.raises(Error, match=words):
        make("transformer")(tokens(), attention_mask=mask)


def test_positions_are_those_of_the_layout_or_pack_sequences():
    model, t = make("transformer"), tokens()
    whole = model(t).logits
    torch.testing.assert_close(model(t, position_ids=torch.arange(9)[None]).logits, whole)
    packed = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    for ids in (packed, packed.expand(2, -1)):
        output = model(t, position_ids=ids, labels=t)
        torch.testing.assert_close(output.logits[:, 4:], model(t[:, 4:]).logits)
    torch.testing.assert_close(output.loss, model(t, sequence_ids=(packed == 0).cumsum(1).expand(2, -1), labels=t).loss)
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0
    padded = (mask.cumsum(1) - 1).clamp(min=0)
    torch.testing.assert_close(
        model(t, attention_mask=mask, position_ids=padded).logits, model(t, attention_mask=mask).logits
    )
    cache = model(t[:, :5], use_cache=True).past_key_values
    rest = {"past_key_values": cache, "position_ids": torch.arange(5, 9)[None], "cache_position": torch.arange(5, 9)}
    torch.testing.assert_close(model(t[:, 5:], **rest).logits, whole[:, 5:])
    for ids in (torch.arange(1, 10)[None], torch.arange(9)[None] * 2, torch.arange(9).flip(0)[None]):
        with pytest.raises(Error, match="position_ids must count"):
            model(t, position_ids=ids)
    with pytest.raises(ShapeError, match=r"position_ids must be \(B,T\) or \(1,T\)"):
        model(t, position_ids=torch.arange(9))
    with pytest.raises(Error, match=r"0 to 8, got \[1, 2"):
        model(t, cache_position=torch.arange(1, 10))


@pytest.mark.parametrize("name", presets.PRESETS)
def test_hidden_states(name):
    model, t = make(name), tokens()
    output = model(t, output_hidden_states=True)
    first, last = output.hidden_states[0], output.hidden_states[-1]
    assert {state.shape for state in output.hidden_states} == {(2, 9, 16)}
    assert (
        torch.equal(first, model.get_input_embeddings()(t))
        or model.position.at_input
        or model.config.embedding_scale != 1
    )
    torch.testing.assert_close(model.head(last if model.hidden is None else model.hidden(last).relu()), output.logits)
    torch.testing.assert_close(output.logits, model(t).logits)
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    kept = {"attention_mask": mask, "logits_to_keep": 1}
    torch.testing.assert_close(model(t, output_hidden_states=True, **kept).logits, model(t, **kept).logits)
    for state, again in zip(
        output.hidden_states, model(t, output_hidden_states=True, **kept).hidden_states, strict=True
    ):
        torch.testing.assert_close(state[0], again[0])
    assert not any(layer._forward_hooks for layer in model.depth.layers)
    made = model.generate(
        t, max_new_tokens=4, do_sample=False, return_dict_in_generate=True, output_hidden_states=True
    ).hidden_states
    assert [step[-1].shape[1] for step in made] == [9, 1, 1, 1]


def test_hidden_states_of_every_token_may_not_exist():
    official = LengthwiseForCausalLM(presets.regular_gpt(V, width=16, heads=2, variant="official"))
    with pytest.raises(Error, match="pads among the tokens"):
        official(tokens(), output_hidden_states=True, logits_to_keep=1)


def test_the_rest_of_a_call():
    model, t = make("transformer"), tokens()
    left_out = ["attention_mask", "position_ids", "inputs_embeds", "past_key_values", "labels", "use_cache"]
    left_out += ["cache_position", "logits_to_keep", "output_attentions", "output_hidden_states", "return_dict"]
    nothing = dict.fromkeys([*left_out, "num_items_in_batch", "sequence_ids"])
    assert torch.equal(model(input_ids=t, **nothing).logits, model(t).logits)
    assert torch.equal(model(t, output_attentions=False, output_hidden_states=False).logits, model(t).logits)
    loss = model(t, labels=t).loss
    for items in (32, torch.tensor(32)):
        torch.testing.assert_close(model(t, labels=t, num_items_in_batch=items).loss, loss / 2)
    assert [part.shape for part in model(t, return_dict=False)] == [(2, 9, V)]
    for call, words in (
        ({"input_ids": t, "output_attentions": True}, "no attention weights to give"),
        ({}, "got neither"),
        ({"input_ids": t, "inputs_embeds": torch.zeros(2, 9, 16)}, "got both"),
        ({"inputs_embeds": torch.zeros(2, 16)}, r"inputs_embeds must be \(B,T,D\)"),
    ):
        with pytest.raises(Error, match=words):
            model(**call)


@pytest.mark.parametrize("name", ["regular-gpt", "chacal", "lstm"])
def test_the_model_without_its_head(name, tmp_path):
    model, t = make(name), tokens()
    model.save_pretrained(tmp_path)
    bare = AutoModel.from_pretrained(tmp_path)
    assert isinstance(bare, LengthwiseModel)
    wanted = model(t, output_hidden_states=True)
    output = bare(t, output_hidden_states=True, use_cache=True)
    torch.testing.assert_close(output.last_hidden_state, wanted.hidden_states[-1])
    torch.testing.assert_close(bare(t).last_hidden_state, wanted.hidden_states[-1])
    torch.testing.assert_close(output.hidden_states, wanted.hidden_states)
    assert output.past_key_values.length == 9
