"""Built BiPE Transformers against their Bi-NFAs: every set of states that may be reached, at every token."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise import Error, theory
from lengthwise.automata import NFA, BiNFA
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.models.cache import LengthwiseCache
from lengthwise.theory import state_labels
from lengthwise.theory.bi_nfa_vector import Regions, bounds
from lengthwise.theory.bi_nfa_weights import offset_weight


def lively(sizes, symbols=3, seed=0, lost=0.02):
    """Most states have one successor, and some lose it: sets hardly die out or fill up."""
    rng = np.random.default_rng(seed)
    machine = BiNFA.random(sizes, symbols, rng, density=0.3 / max(sizes))
    parts = [
        NFA(p.matrices & (rng.random((*p.matrices.shape[:2], 1)) >= lost), p.start, {int(rng.integers(p.num_states))})
        for p in machine.parts
    ]
    return BiNFA(parts, machine.leaves, machine.start)


def counter():
    """Two parts that count tokens, to 2 and to 3, and change at every separator but after every third token."""
    two, three = NFA(np.eye(2)[None, [1, 0]], accepting={0}), NFA(np.eye(3)[None, [1, 2, 0]], accepting={0})
    return BiNFA([two, three], [[[0, 1], [0, 1]], [[0, 1], [1, 0], [1, 0]]])


def word(machine, lengths, seed=0, rest=0):
    """Segments of these lengths, separators included, and as many tokens as `rest` after the last."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(machine.separator, size=sum(lengths) + rest)
    tokens[np.cumsum(lengths, dtype=int) - 1] = machine.separator
    return torch.from_numpy(tokens)[None]


def begun(machine, tokens):
    return F.pad(tokens, (1, 0), value=machine.num_symbols)


@torch.no_grad()
def reached(machine, model, tokens, **inputs):
    """Whether each state may have been reached, by the model, after each token; the first logit must agree."""
    yes = model(begun(machine, tokens), **inputs).logits[:, 1:] > 0
    assert torch.equal(yes[..., 0], (yes[..., 1:] & torch.from_numpy(machine.accepts_state)).any(-1))
    return yes[..., 1:]


AWKWARD = {
    "single tokens": [1] * 31,
    "empty and full": [1, 32, 1, 1, 32, 17, 1, 2, 31],
    "primes": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31],
    "one": [32],
    "falling": [9, 8, 7, 6, 5, 4, 3, 2, 1],
    "open": [],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [[1], [3], [2, 3], [3, 1, 4], [2, 2, 2, 2, 2]])
def test_right_at_every_token_of_awkward_segments(sizes, dtype):
    machine = lively(sizes, seed=len(sizes))
    model = theory.bipe(machine, longest=32, segments=32).to(dtype)
    seen = 0.0
    for seed, lengths in enumerate(AWKWARD.values()):
        for rest in (0, 1, 30) if lengths else (1, 2, 31, 32):
            tokens = word(machine, lengths, seed, rest)
            wanted = machine.run(tokens)
            assert torch.equal(reached(machine, model, tokens), wanted), lengths
            seen += float(wanted.any(-1).float().mean())
    assert seen > 5  # of 19: not all because nothing can be reached


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(0, 10**6), st.floats(0, 0.6), st.data())
def test_any_bi_nfa_and_any_word(sizes, seed, lost, data):
    machine = lively(sizes, 2, seed, lost)
    T = data.draw(st.integers(1, 24))
    tokens = torch.tensor([data.draw(st.lists(st.integers(0, 2), min_size=T, max_size=T))])
    model = theory.bipe(machine, longest=24, segments=25)
    assert torch.equal(reached(machine, model, tokens), machine.to_nfa().run(tokens))
    empty = model(begun(machine, tokens[:, :0])).logits[0, 0, 0] > 0
    assert bool(empty) == machine.accepts([])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[3, 3, 3], [2, 4, 1, 3], [5]])
@pytest.mark.parametrize("mean", [1, 20, 400])
def test_right_at_two_thousand_tokens(sizes, mean):
    machine, rng = lively(sizes, seed=mean, lost=0), np.random.default_rng(mean)
    lengths = np.minimum(rng.geometric(1 / mean, size=2000), 1000) if mean > 1 else np.ones(2000, dtype=int)
    lengths = lengths[: int(np.searchsorted(lengths.cumsum(), 2000, side="right"))].tolist()
    tokens = word(machine, lengths, rest=2000 - sum(lengths))
    model = theory.bipe(machine, longest=max(*lengths, 2000 - sum(lengths), 1), segments=len(lengths) + 1)
    wanted = machine.run(tokens)
    assert 0.05 < float(wanted[:, -100:].float().mean()) < 0.95
    assert torch.equal(reached(machine, model, tokens), wanted)


def test_two_thousand_tokens_of_one_machine():
    machine = lively([2, 3], seed=4, lost=0)
    lengths = [1, 64, *[13, 50, 1, 29] * 20, 20]
    tokens = word(machine, lengths, rest=2000 - sum(lengths))
    model = theory.bipe(machine, longest=64, segments=128)
    wanted = machine.run(tokens)
    assert 0.05 < float(wanted[:, -100:].float().mean()) < 0.95
    assert torch.equal(reached(machine, model, tokens), wanted)


def test_a_segment_longer_than_the_table_is_right_up_to_its_end_and_warned_of():
    machine = counter()
    model = theory.bipe(machine, longest=8, segments=8)
    tokens = word(machine, [3, 8, 20, 5], seed=2)
    with pytest.warns(UserWarning, match="20 tokens long"):
        found = reached(machine, model, tokens)
    wanted = machine.run(tokens)
    assert torch.equal(found[:, :19], wanted[:, :19])
    assert not torch.equal(found, wanted)


def test_more_segments_than_it_was_built_for():
    machine = counter()
    model = theory.bipe(machine, longest=8, segments=4)
    tokens = word(machine, [2, 3, 5, 2] * 10, seed=2)
    found, wanted = reached(machine, model, tokens), machine.run(tokens)
    assert torch.equal(found[:, :12], wanted[:, :12])
    assert not torch.equal(found, wanted)


def test_it_decodes_with_a_cache():
    machine = lively([3, 2], seed=3)
    model, tokens = theory.bipe(machine, longest=16, segments=16), word(machine, [1, 5, 16, 1, 2, 9], rest=3)
    cache, found = LengthwiseCache(), []
    with torch.no_grad():
        for part in begun(machine, tokens).split([1, 3, 1, 1, 20, *[1] * 12], 1):
            found.append(model(part, past_key_values=cache).logits[..., 1:] > 0)
    assert torch.equal(torch.cat(found, 1)[:, 1:], machine.run(tokens))


def test_left_padding_and_packed_words():
    machine = lively([2, 3], seed=5)
    model = theory.bipe(machine, longest=16, segments=16)
    words = [word(machine, lengths, seed=i, rest=i) for i, lengths in enumerate([[3, 1, 7], [16], [1, 1, 1, 1]])]
    wanted = [machine.run(tokens)[0] for tokens in words]
    T = max(tokens.shape[1] for tokens in words) + 1
    rows = [F.pad(begun(machine, tokens), (T - 1 - tokens.shape[1], 0)) for tokens in words]
    mask = torch.stack([torch.arange(T) >= T - 1 - tokens.shape[1] for tokens in words])
    with torch.no_grad():
        padded = model(torch.cat(rows), attention_mask=mask.long()).logits[..., 1:] > 0
        packed = torch.cat([begun(machine, tokens) for tokens in words], 1)
        numbers = torch.cat([torch.full((1, tokens.shape[1] + 1), i) for i, tokens in enumerate(words)], 1)
        together = model(packed, sequence_ids=numbers).logits[0, :, 1:] > 0
    for i, each in enumerate(wanted):
        assert torch.equal(padded[i, T - len(each) :], each)
        assert torch.equal(together[numbers[0] == i][1:], each)


def test_it_is_an_ordinary_bipe_model(tmp_path):
    state, machine = torch.get_rng_state(), lively([2, 2])
    model, tokens = theory.bipe(machine, longest=8, segments=8), word(machine, [5, 8, 1, 2])
    assert torch.equal(torch.get_rng_state(), state)
    assert type(model) is LengthwiseForCausalLM
    assert model.config.position["between"] == {"name": "rope", "base": 1e8}
    assert all(p.requires_grad and p.dtype == torch.float32 and p.isfinite().all() for p in model.parameters())
    ordinary = LengthwiseForCausalLM(model.config).state_dict()
    assert {k: v.shape for k, v in ordinary.items()} == {k: v.shape for k, v in model.state_dict().items()}
    model.save_pretrained(tmp_path)
    again = LengthwiseForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(begun(machine, tokens)).logits, model(begun(machine, tokens)).logits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(reached(machine, again, tokens), machine.run(tokens))


@pytest.mark.parametrize("sizes", [[1], [3, 3], [6, 2]])
def test_entries_stay_within_the_bound_at_every_layer(sizes):
    machine = lively(sizes, seed=2)
    model, at = theory.bipe(machine, longest=32, segments=32), Regions.of(machine.sizes, 32).with_constant()
    read = torch.cat([*[region.flatten() for region in at.inner], at.outer.flatten(), at.older])
    off = []

    def note(layer, given, x):
        entries = x[..., read]
        off.append(float((entries - entries.round()).abs().max()))

    for layer in model.depth.layers:
        layer.register_forward_hook(note)
    tokens = word(machine, [7, 1, 32, 12, 9])
    assert torch.equal(reached(machine, model, tokens), machine.run(tokens))
    inside = 2 * 5
    cut = [*off[1:inside:2], off[inside], *off[inside + 2 : -1 : 2]]
    assert max(cut) <= bounds(at).bit
    assert max(off) <= bounds(at).product <= 1 / 8


def test_attention_copies_one_token():
    machine = lively([2, 3], seed=1)
    model, at = theory.bipe(machine, longest=32, segments=32), Regions.of(machine.sizes, 32).with_constant()
    lengths = [5, 1, 32, 9, 1, 1, 20]
    tokens, copied = begun(machine, word(machine, lengths)), []
    for layer in model.depth.layers:
        layer.mixer.register_forward_hook(lambda m, given, y: copied.append((given[0], y[0])))
    with torch.no_grad():
        model(tokens)
    starts = np.cumsum([0, *lengths]) + 1
    segment = np.searchsorted(starts, np.arange(1, tokens.shape[1]), side="right")
    flat = torch.cat([region.flatten() for region in at.inner])
    for step in range(5):
        x, y = copied[2 * step]
        for t in range(1, tokens.shape[1]):
            before = t - 2**step
            source = before if before >= starts[segment[t - 1] - 1] else 0
            assert torch.equal(y[0, t, at.older[: len(flat)]], x[0, source, flat]), (step, t)
        x, y = copied[11 + 2 * step]
        for t in range(1, tokens.shape[1]):
            n = segment[t - 1] - 2**step
            source = starts[n] - 1 if n > 0 else 0
            assert torch.equal(y[0, t, at.older[:4]], x[0, source, at.outer.flatten()]), (step, t)


def test_the_width_grows_as_the_theorem_says():
    for k in (4, 8, 16, 32):
        width = theory.bipe_width([k] * k, longest=2048)
        assert 0 <= width - (2 * k**3 + k**2) < 50
        assert theory.bipe_width([k**2], longest=2048) > 2 * k**4
        assert 0 < theory.bipe_width([k] * k, longest=2**20) - width < 60
    assert theory.bipe_width([1] * 40, longest=1) == 3 + 2 * 40**2 + 40 + 2 + 1


@pytest.mark.parametrize("width", [38, 60, 164, 1108, 4000])
def test_rope_tells_all_distances_apart(width):
    assert offset_weight(width, 20_000) < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest": 0, "segments": 4}, "longest must be a whole number"),
        ({"longest": 4, "segments": 1.5}, "segments must be a whole number"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(Error, match=message):
        theory.bipe(lively([1]), **options)


def test_too_large_a_machine_is_refused(monkeypatch):
    monkeypatch.setattr(state_labels, "memory_free", lambda device: 2**20)
    with pytest.raises(Error, match="GiB of weights"):
        theory.bipe(lively([3, 3]), longest=8, segments=8)
