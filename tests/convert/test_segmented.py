"""Models given places inside segments, or YaRN: as they were at first, held to oracles, saved and loaded."""

import copy

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from lengthwise import models
from lengthwise.convert import load, to_bipe, to_drope, to_yarn
from lengthwise.convert.segmented import Ids, segment_ids
from lengthwise.errors import Error
from lengthwise.models import pretrained

from .made import BARE, HEADS, LLAMA, original, tokens

ENDS = [3, 7]
NAMES = list(HEADS)


def bipe(name, trained=True, **options):
    model = to_bipe(original(name), **{"ends": ENDS, "rows": 6, **options})
    if trained:
        torch.nn.init.normal_(model.base_model.segment_table.weight)
    return model


def counted(row, ends=ENDS):
    """A token's place in its segment and the segment's place, counted one token after the other."""
    inside = between = 0
    found = []
    for i, token in enumerate(row):
        found.append((inside, between))
        ended = (i + 1) % ends == 0 if isinstance(ends, int) else token in ends
        inside, between = (0, between + 1) if ended else (inside + 1, between)
    return found


@pytest.mark.parametrize("sizes", [[1] * 20, [20], [7, 1, 12], [2, 3, 5, 10]])
def test_ids_are_those_that_counting_gives_in_any_pieces(sizes):
    rows = tokens(B=4)
    ended, before, found = torch.isin(rows, torch.tensor(ENDS)), None, []
    for piece in ended.split(sizes, 1):
        ids, after = segment_ids(piece, torch.ones_like(piece), before)
        before = Ids(*(each[:, -1:] for each in after))
        found.append(torch.stack(ids, -1))
    assert torch.cat(found, 1).tolist() == [[list(place) for place in counted(row)] for row in rows.tolist()]


@pytest.mark.parametrize("name", [*NAMES, *BARE])
def test_a_converted_model_begins_exactly_as_it_was(name):
    own = original(name)
    made = to_bipe(copy.deepcopy(own), ENDS)
    with torch.no_grad():
        assert torch.equal(made(tokens())[0], own(tokens())[0])
        mask = torch.ones(3, 20, dtype=torch.long)
        mask[0, :4] = 0
        assert torch.equal(made(tokens(), attention_mask=mask)[0], own(tokens(), attention_mask=mask)[0])


@pytest.mark.parametrize("ends", [ENDS, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_table_adds_what_stands_at_the_counted_place(name, ends):
    made, own, rows = bipe(name, ends=ends), original(name), tokens()
    inside = torch.tensor([[min(place, 5) for place, _ in counted(row, ends)] for row in rows.tolist()])
    with torch.no_grad():
        embedded = own.get_input_embeddings()(rows) + made.base_model.segment_table(inside)
        assert torch.allclose(made(rows).logits, own(inputs_embeds=embedded).logits)


def test_between_segments_rope_turns_by_the_number_of_the_segment():
    made, own, rows = bipe("llama", between=True), original("llama"), tokens()
    inside, between = torch.tensor([counted(row) for row in rows.tolist()]).unbind(-1)
    with torch.no_grad():
        embedded = own.get_input_embeddings()(rows) + made.base_model.segment_table(inside.clamp(max=5))
        said = own(inputs_embeds=embedded, position_ids=between, attention_mask=torch.ones_like(rows)).logits
        assert torch.allclose(made(rows).logits, said)
        assert not torch.allclose(made(rows).logits, own(inputs_embeds=embedded).logits)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_with_a_cache_and_behind_padding_it_gives_the_same(name, between):
    if between and name == "gpt2":
        return
    made, rows = bipe(name, between=between), tokens()
    with torch.no_grad():
        whole = made(rows).logits
        first = made(rows[:, :9], use_cache=True)
        then = made(rows[:, 9:10], past_key_values=first.past_key_values, use_cache=True)
        rest = made(rows[:, 10:], past_key_values=then.past_key_values, use_cache=True)
        assert torch.allclose(torch.cat([first.logits, then.logits, rest.logits], 1), whole)
        padded = torch.cat([torch.full((3, 5), 3), rows], 1)
        mask = torch.cat([torch.zeros(3, 5), torch.ones(3, 20)], 1).long()
        places = (mask.cumsum(1) - 1).clamp(min=0)
        behind = made(padded, attention_mask=mask, position_ids=places).logits[:, 5:]
        assert torch.allclose(behind, whole)


def test_generation_needs_no_cache_to_be_the_same_and_beams_keep_their_own_places():
    made, rows = bipe("llama"), tokens()[:, :6]
    for options in ({}, {"num_beams": 3}):
        given = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, **options}
        assert torch.equal(made.generate(rows, **given), made.generate(rows, use_cache=False, **given))


def test_the_table_learns():
    made = bipe("gpt2", trained=False).train()
    made(tokens(), labels=tokens()).loss.backward()
    gradient = made.base_model.segment_table.weight.grad
    assert gradient[:3].abs().min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_it_is_saved_and_loaded_by_the_auto_classes(name, tmp_path):
    made = bipe(name)
    made.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(again) is type(made)
    assert torch.equal(again(tokens()).logits, made(tokens()).logits)
    assert torch.equal(
        AutoModel.from_pretrained(tmp_path, dtype=torch.float64).eval()(tokens())[0], made.base_model(tokens())[0]
    )


def test_yarn_is_what_transformers_makes_of_its_config(tmp_path):
    made = to_yarn(original("llama"), 4, trained=16)
    rope = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 16}
    by_config = LlamaForCausalLM(LlamaConfig(**{**LLAMA, "rope_parameters": rope})).double().eval()
    by_config.load_state_dict(original("llama").state_dict())
    with torch.no_grad():
        assert torch.allclose(made(tokens()).logits, by_config(tokens()).logits)
        assert not torch.allclose(made(tokens()).logits, original("llama")(tokens()).logits)
    assert made.config.max_position_embeddings == 64
    made.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert (type(again), again.config.model_type) == (LlamaForCausalLM, "llama")
    assert torch.equal(again(tokens()).logits, made(tokens()).logits)


@pytest.mark.parametrize("name", ["transformer", "bipe"])
def test_yarn_on_models_of_this_library_is_that_of_their_config(name):
    options = {"transformer": {"position": "rope"}, "bipe": {"ends": ENDS}}[name]
    own = models.build(name, vocab_size=11, width=16, heads=2, layers=2, **options).inner.eval()
    made = to_yarn(copy.deepcopy(own), 4, trained=8)
    config = copy.deepcopy(own.config)
    spec = config.position if name == "transformer" else config.position["between"]
    spec.update(scaling="yarn", factor=4.0, trained=8)
    by_config = models.LengthwiseForCausalLM(config).eval()
    by_config.load_state_dict(own.state_dict())
    assert torch.equal(made(tokens()).logits, by_config(tokens()).logits)
    assert not torch.allclose(made(tokens()).logits, own(tokens()).logits)


@pytest.mark.parametrize("scaled", [False, True])
def test_drope_turns_nothing_in_a_llama(scaled, tmp_path):
    """Not even once it is saved and loaded: its angles are 0, and its logits those of attention without places."""
    begun = to_yarn(original("llama"), 4, trained=16) if scaled else original("llama")
    made = to_drope(begun)
    assert not made.model.rotary_emb.inv_freq.any()
    text = torch.tensor([[1, 5, 2, 5]])
    with torch.no_grad():
        early, later = (
            made(text, position_ids=places[None]).logits for places in (torch.arange(4), torch.arange(90, 94))
        )
        assert torch.equal(early, later)
        assert torch.equal(early, made(text, position_ids=torch.zeros(1, 4, dtype=torch.long)).logits)
        made.save_pretrained(tmp_path)
        again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
        assert type(again) is LlamaForCausalLM
        assert torch.equal(again(tokens()).logits, made(tokens()).logits)
        assert not torch.allclose(made(tokens()).logits, original("llama")(tokens()).logits)


@pytest.mark.parametrize("name", ["transformer", "bipe"])
def test_drope_on_models_of_this_library_is_position_none(name):
    options = {"transformer": {"position": "rope"}, "bipe": {"ends": ENDS}}[name]
    own = models.build(name, vocab_size=11, width=16, heads=2, layers=2, **options).inner.eval()
    made = to_drope(copy.deepcopy(own))
    spec = made.config.position if name == "transformer" else made.config.position["between"]
    assert spec == {"name": "none"}
    assert made.state_dict().keys() == own.state_dict().keys()
    assert not torch.allclose(made(tokens()).logits, own(tokens()).logits)
    if name == "transformer":
        bare = models.build(name, vocab_size=11, width=16, heads=2, layers=2, position="none").inner.eval()
        bare.load_state_dict(own.state_dict())
        assert torch.equal(made(tokens()).logits, bare(tokens()).logits)


def test_conversions_are_named_as_data(tmp_path):
    HEADS["llama"]().save_pretrained(tmp_path)
    asked = [{"name": "yarn", "factor": 2}, {"name": "bipe", "ends": ENDS, "between": True}]
    made = load(pretrained.find(str(tmp_path)), asked)
    assert made.config.rope_parameters["factor"] == 2
    assert made.config.segment_ends == ENDS


@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (lambda: to_yarn(original("gpt2"), 4), "GPT2LMHeadModel must have one kind of rotary positions"),
        (lambda: to_yarn(original("llama"), 1), "factor must be a number above 1"),
        (lambda: to_yarn(to_yarn(original("llama"), 2), 2), "scaled already"),
        (lambda: to_yarn(models.build("bipe", vocab_size=5, position="alibi").inner, 2), "YaRN slows rotary"),
        (lambda: to_yarn(models.build("bipe", vocab_size=5).inner, 2), "trained must say"),
        (lambda: to_yarn(bipe("llama", between=True), 2), "trained must say"),
        (lambda: to_drope(original("gpt2")), "to_drope: GPT2LMHeadModel must have one kind of rotary positions"),
        (lambda: to_drope(models.build("bipe", vocab_size=5, position="alibi").inner), "DroPE drops rotary"),
        (lambda: to_drope(torch.nn.Linear(2, 2)), "must be one of Hugging Face's"),
        (lambda: to_bipe(original("gpt2"), []), "ends must be a list of token ids with at least one"),
        (lambda: to_bipe(original("gpt2"), ENDS, between=True), "this model has none"),
        (lambda: to_bipe(original("gpt2"), ENDS, rows=0), "rows must be at least 1"),
        (lambda: to_bipe(bipe("gpt2"), ENDS), "has places inside segments already"),
        (lambda: to_bipe(torch.nn.Linear(2, 2), ENDS), "the model must be a GPT2Model"),
        (lambda: bipe("gpt2")(inputs_embeds=torch.zeros(1, 2, 16).double()), "give input_ids"),
    ],
)
def test_what_cannot_be_is_refused(convert, said):
    with pytest.raises(Error, match=said):
        convert()
