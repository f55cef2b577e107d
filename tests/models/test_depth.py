"""Depth by length: integers, the last position's short way, and rows of different lengths in one batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM, depth, presets
from lengthwise.models.depth import groups

from ..mixers import made

BATCHED = {
    "regular-gpt": lambda: presets.regular_gpt(5, 4, width=16, heads=2),
    "regular-gpt post drop": lambda: presets.regular_gpt(5, 4, width=16, heads=2, norm="post", missing="drop"),
    "regular-gpt 3/2": lambda: presets.regular_gpt(5, 4, width=16, heads=2, chunk=3, thickness=2),
    "regular-gpt discrete": lambda: presets.regular_gpt(5, 4, width=16, heads=2, nodes="discrete", groups=6, codes=3),
    "transformer": lambda: presets.transformer(5, 4, width=16, heads=2, layers=2),
    "transformer none": lambda: presets.transformer(5, 4, width=16, heads=2, layers=2, position="none"),
    "transformer learned": lambda: presets.transformer(5, 4, width=16, heads=2, layers=2, position="learned"),
    "transformer-xl": lambda: presets.transformer_xl(5, 4, width=16, heads=2, layers=2),
    "rnn": lambda: presets.rnn(5, 4, width=16, layers=2),
    "lstm": lambda: presets.lstm(5, 4, width=16, layers=2),
    "gru": lambda: presets.gru(5, 4, width=16, layers=2),
}


def make(config):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(config).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return model


@given(st.integers(1, 10**6), st.integers(2, 9))
def test_groups_is_the_integer_logarithm(n, C):
    L = groups(n, C)
    assert n <= C**L
    assert L == 1 or n > C ** (L - 1)


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_last_position_equals_dense(C, K):
    model = make(presets.regular_gpt(5, 4, width=8, heads=2, chunk=C, thickness=K))
    lengths = list(range(1, 71)) if C == 2 and K == 1 else [*range(1, 12), 24, 25, 26, 27, 28, 31, 32, 33, 64, 70]
    with torch.no_grad():
        for T in lengths:
            tokens = torch.randint(0, 5, (2, T))
            dense, last = model(tokens).logits[:, -1:], model(tokens, logits_to_keep=1).logits
            torch.testing.assert_close(last, dense, rtol=1e-12, atol=1e-12)


def test_the_last_position_of_no_words_at_all():
    model = make(presets.regular_gpt(5, 4, width=8, heads=2))
    with torch.no_grad():
        assert model(torch.zeros(0, 9, dtype=torch.long), logits_to_keep=1).logits.shape == (0, 1, 4)


def test_a_config_whose_chunk_was_to_be_learned_is_refused():
    depth = {"name": "adaptive", "chunk": [2, 3]}
    with pytest.raises(Error, match=r"chunk is one whole number; .* several, \[2, 3\], are built no more"):
        make(made.config(vocab_size=5, width=8, mixer={"name": "sliding-dilated", "heads": 2, "chunk": 3}, depth=depth))


@pytest.mark.parametrize("mixer", [{"name": "softmax", "heads": 2}, {"name": "lstm"}, "both"])
def test_mixers_that_do_not_dilate_take_the_dense_way_to_the_last_position(mixer):
    dilated = {"name": "sliding-dilated", "heads": 2, "chunk": 2}
    mixers = [dilated, {"name": "softmax", "heads": 2}] if mixer == "both" else [mixer, mixer]
    depth = {"name": "adaptive", "chunk": 2, "thickness": 2}
    model = make(made.config(vocab_size=5, width=8, mixer=mixers, depth=depth))
    tokens, mask = torch.randint(0, 5, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[0, :4], mask[1, 6:] = 0, 0
    with torch.no_grad():
        torch.testing.assert_close(model(tokens, logits_to_keep=1).logits, model(tokens).logits[:, -1:])
        last = model(tokens, attention_mask=mask, logits_to_keep=1).logits[:, 0]
        for i, part in enumerate([slice(4, None), slice(6)]):
            torch.testing.assert_close(last[i], model(tokens[i : i + 1, part]).logits[0, -1])


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("C", [2, 3, 4, 5, 8])
def test_last_position_equals_dense_at_every_length(C, K, dtype, bound):
    model = make(presets.regular_gpt(5, 4, width=8, heads=2, chunk=C, thickness=K)).to(dtype)
    with torch.no_grad():
        for T in [*range(1, 71), 1000]:
            tokens = torch.randint(0, 5, (2, T))
            dense, last = model(tokens).logits[:, -1:], model(tokens, logits_to_keep=1).logits
            torch.testing.assert_close(last, dense, rtol=bound, atol=bound)


@pytest.mark.parametrize("missing", ["learned-pad", "drop"])
@pytest.mark.parametrize("C", [2, 3])
def test_a_long_text_climbs_in_pieces(C, missing, monkeypatch):
    model = make(presets.regular_gpt(5, 4, width=8, heads=2, chunk=C, missing=missing))
    model.depth.shares = False
    monkeypatch.setattr(depth, "PIECE", 32)
    with torch.no_grad():
        for T in (1, 31, 32, 33, 54, 64, 65, 100, 127, 128, 129, 200, 243, 257):
            tokens, sizes = torch.randint(0, 5, (1, T)), []
            climb = model.depth._climb
            model.depth._climb = lambda x, *told: (sizes.append(x.shape[1]), climb(x, *told))[1]  # noqa: B023
            found = model(tokens, logits_to_keep=1).logits
            del model.depth._climb
            torch.testing.assert_close(found, model(tokens).logits[:, -1:], rtol=1e-12, atol=1e-12)
            assert max(sizes) <= 64


@pytest.mark.parametrize(
    ("options", "T"),
    [({"chunk": 3, "thickness": 2}, 29), *(({"chunk": C, "nodes": "discrete"}, T) for C in (2, 3) for T in (1, 7, 12))],
    ids=str,
)
def test_last_position_has_the_dense_gradients(options, T):
    model = make(presets.regular_gpt(5, 4, width=16, heads=2, **options))
    tokens = torch.randint(0, 5, (3, T))
    found, wanted = (
        torch.autograd.grad(
            model(tokens, logits_to_keep=keep).logits[:, -1].square().sum(),
            list(model.parameters()),
            materialize_grads=True,
        )
        for keep in (1, 0)
    )
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_gives_every_row_its_unpadded_logits(name):
    model = make(BATCHED[name]())
    lengths = [1, 2, 3, 4, 5, 8, 9, 16, 17, 27, 28]
    rows = [torch.randint(0, 5, (n,)) for n in lengths]
    T = max(lengths) + 3
    with torch.no_grad():
        alone = [model(row[None]).logits[0] for row in rows]
        for left in (True, False):
            tokens, mask = torch.randint(0, 5, (2, len(rows), T))
            for i, row in enumerate(rows):
                part = slice(T - len(row), None) if left else slice(len(row))
                tokens[i, part], mask[i], mask[i, part] = row, 0, 1
            dense = model(tokens, attention_mask=mask).logits
            last = model(tokens, attention_mask=mask, logits_to_keep=1).logits
            for i, wanted in enumerate(alone):
                torch.testing.assert_close(dense[i, mask[i].bool()], wanted, rtol=1e-10, atol=1e-10)
                torch.testing.assert_close(last[i, 0], wanted[-1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", BATCHED)
def test_a_packed_row_gives_every_sequence_its_own_logits(name):
    model = make(BATCHED[name]())
    rows = [torch.randint(0, 5, (n,)) for n in (1, 9, 2, 17, 5)]
    ids = torch.cat([torch.full((len(row),), i) for i, row in enumerate(rows)])[None]
    with torch.no_grad():
        wanted = torch.cat([model(row[None]).logits[0] for row in rows])
        torch.testing.assert_close(model(torch.cat(rows)[None], sequence_ids=ids).logits[0], wanted)
        last = model(torch.cat(rows)[None], sequence_ids=ids, logits_to_keep=1).logits
        torch.testing.assert_close(last[0], wanted[-1:])


@pytest.mark.parametrize("name", BATCHED)
def test_padding_may_share_the_sequence_number_of_its_neighbour(name):
    model = make(BATCHED[name]())
    rows = [torch.randint(0, 5, (n,)) for n in (6, 9)]
    ids = torch.tensor([0] * 6 + [1] * 9)
    with torch.no_grad():
        wanted = torch.cat([model(row[None]).logits[0] for row in rows])
        for left, right in [(3, 0), (0, 3), (5, 2)]:
            noise = torch.randint(0, 5, (left + right,))
            tokens = torch.cat([noise[:left], *rows, noise[left:]])[None]
            sequences = torch.cat([ids[:1].expand(left), ids, ids[-1:].expand(right)])[None]
            mask = torch.tensor([[0] * left + [1] * 15 + [0] * right])
            dense = model(tokens, attention_mask=mask, sequence_ids=sequences).logits
            last = model(tokens, attention_mask=mask, sequence_ids=sequences, logits_to_keep=1).logits
            torch.testing.assert_close(dense[mask.bool()], wanted)
            torch.testing.assert_close(last[0], wanted[-1:])
