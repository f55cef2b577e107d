"""A snapped model is its algebra: saved, loaded, padded, decoded or read at every position, and refused beyond it."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM

from lengthwise import Error, models, tasks, theory, verify

CYCLE = tasks.get("cycle-navigation")


@pytest.fixture(scope="module")
def raw():
    """A model that is right, its weights moved a little: nodes are near the centres and not on them."""
    model = theory.regular_gpt(CYCLE.machine, depth="position")
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1e-4 * torch.randn(weight.shape, generator=draw) * (weight != 0)
    return model.eval()


@pytest.fixture(scope="module")
def found(raw):
    return verify.extract(raw, CYCLE)


@pytest.fixture(scope="module")
def snapped(found):
    return found.snap()


def words(length, count=64):
    return torch.randint(3, (count, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def last(model, tokens, **options):
    return model(tokens, logits_to_keep=1, **options).logits[:, -1]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 65, 500])
def test_it_says_what_the_algebra_says(snapped, found, raw, length):
    tokens = words(length)
    logits = last(snapped, tokens)
    assert logits.argmax(-1).tolist() == found.algebra.answers(tokens) == CYCLE.machine.run(tokens)[:, -1].tolist()
    assert last(raw, tokens).argmax(-1).equal(logits.argmax(-1))
    # One vector of logits for each element: nothing of the way to a node is left in it.
    assert len(torch.unique((1e3 * logits).round(), dim=0)) == len(set(found.algebra.elements_of(tokens).tolist()))


def test_saved_and_loaded(snapped, tmp_path):
    snapped.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert loaded.config.depth == snapped.config.depth
    tokens = words(33)
    assert torch.equal(last(loaded, tokens), last(snapped, tokens))
    assert torch.equal(loaded.depth.layers[0].centres, snapped.depth.layers[0].centres)


def test_padded_and_step_by_step(snapped):
    tokens = words(13, 4)
    whole = snapped(tokens).logits
    mask = torch.ones(4, 13, dtype=torch.long)
    mask[0, :6], mask[1, :1] = 0, 0
    padded = last(snapped, tokens * mask, attention_mask=mask)
    torch.testing.assert_close(padded[0], last(snapped, tokens[:1, 6:])[0])
    torch.testing.assert_close(padded[2], whole[2, -1])
    cache, steps = None, []
    for t in range(13):
        made = snapped(tokens[:, t : t + 1], past_key_values=cache, use_cache=True)
        cache = made.past_key_values
        steps.append(made.logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_equal_tokens_once(snapped):
    model = copy.deepcopy(snapped)
    model.reuse_equal_tokens()
    tokens = words(100)
    torch.testing.assert_close(last(model, tokens), last(snapped, tokens))


def test_a_node_outside_the_radius_is_an_error(raw, found):
    algebra = found.algebra
    with pytest.raises(Error, match=r"a node is .* from the nearest of 4 centres, and at most"):
        last(raw.snap(algebra.centres[1:], 0.1), words(20))
    with pytest.raises(Error, match="at most 1e-12 is allowed"):
        last(raw.snap(algebra.centres, 1e-12), words(20))


def test_the_network_still_composes(raw, found):
    """A snapped model is no table of the machine: with other weights it says something else, or nothing."""
    broken = copy.deepcopy(raw)
    with torch.no_grad():
        broken.embedding.weight[1] = broken.embedding.weight[2]
    said = last(broken.snap(found.algebra.centres, found.algebra.radius), words(20)).argmax(-1)
    assert not said.equal(CYCLE.machine.run(words(20))[:, -1])


def test_training_leaves_nodes_alone(snapped, raw):
    model = copy.deepcopy(snapped).train()
    assert torch.equal(last(model, words(20)), last(raw, words(20)))


def test_what_cannot_be_snapped(raw):
    lstm = models.build("lstm", vocab_size=2, num_outputs=2, width=4).inner
    with pytest.raises(Error, match="only the nodes of a RegularGPT of one layer a group"):
        lstm.snap(torch.zeros(1, 4), 1.0)
    with pytest.raises(Error, match=r"centres must be \(N,D\) with D = 50"):
        raw.snap(torch.zeros(2, 3), 1.0)
    with pytest.raises(Error, match="must be finite"):
        raw.snap(torch.zeros(2, 50), float("nan"))
    config = models.presets.regular_gpt(2, width=8, heads=2)
    config.depth = {**config.depth, "snapped": {"centres": 2}}
    with pytest.raises(Error, match="snapped nodes are"):
        models.LengthwiseForCausalLM(config)
