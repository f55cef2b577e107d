"""Randomized positions: what is drawn, when it is drawn anew, and that encodings stand at it."""

import pytest
import torch

from lengthwise import lab, models, positions
from lengthwise.errors import Error, LengthError
from lengthwise.positions import DistanceBias, Layout, Places

D, H = 8, 2


def drawing(of="rope", longest=40, **options):
    spec = {"name": of, **({"rows": longest} if of == "learned" else {}), **options}
    return positions.get("randomized", width=D, heads=H, of=spec, longest=longest)


def plain(T, B=2):
    return Layout.of(torch.zeros(B, T))


@pytest.mark.parametrize("T", [1, 2, 13, 40])
@pytest.mark.parametrize("training", [True, False])
def test_different_places_in_order(T, training):
    encoding = drawing().train(training)
    places, state = encoding.place(None, plain(T))
    ids = places["drawn"]
    assert ids.shape == (2, T)
    assert state is None
    assert torch.equal(ids[0], ids[1])
    assert int(ids.min()) >= 0
    assert int(ids.max()) < 40
    assert (ids.diff(dim=1) > 0).all()
    assert places["token"].tolist() == [list(range(T))] * 2


def test_training_follows_torch_and_evaluation_nothing():
    encoding, layout = drawing(), plain(9)
    draw = lambda: encoding.place(None, layout)[0]["drawn"]  # noqa: E731
    torch.manual_seed(1)
    first, second = draw(), draw()
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(draw(), first)
    encoding.eval()
    fixed, state = draw(), torch.get_rng_state()
    assert torch.equal(draw(), fixed)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(7)
    assert torch.equal(drawing().eval().place(None, layout)[0]["drawn"], fixed)


def test_every_place_is_as_likely():
    encoding, layout = drawing(longest=10), plain(3, 1)
    torch.manual_seed(0)
    count = torch.zeros(10)
    for _ in range(3000):
        count[encoding.place(None, layout)[0]["drawn"][0]] += 1
    assert count.min() > 780
    assert count.max() < 1020


def test_padded_and_packed_sequences_take_the_first_places():
    encoding = drawing().eval()
    r = encoding.place(None, plain(5))[0]["drawn"][0]
    padded = encoding.place(None, Layout.from_mask(torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])))[0]["drawn"]
    assert padded[0].tolist() == [-2, -1, *r[:3].tolist()]
    assert padded[1].tolist() == r.tolist()
    packed = encoding.place(None, Layout.packed(torch.tensor([0, 2, 5])))[0]["drawn"]
    assert packed[0].tolist() == [*r[:2].tolist(), *r[:3].tolist()]


@pytest.mark.parametrize("of", ["rope", "xpos", "learned", "sinusoidal"])
def test_encodings_stand_at_the_drawn_places(of):
    encoding = drawing(of).eval()
    places = encoding.place(None, plain(7))[0]
    there = Places(places["drawn"])
    x = torch.randn(2, H, 7, D // H)
    if encoding.at_input:
        torch.testing.assert_close(encoding.embed(places), encoding.of.embed(there))
    assert torch.equal(encoding.rotate(x, places), encoding.of.rotate(x, there))
    assert torch.equal(encoding.rotate_queries(x, places), encoding.of.rotate_queries(x, there))
    assert encoding.at_attention == (of in ("rope", "xpos"))


@pytest.mark.parametrize("of", ["alibi", "t5"])
def test_a_bias_by_distance_n_is_that_of_r_n(of):
    encoding = drawing(of, longest=200).eval()
    T, q = 11, torch.randn(2, H, 11, D // H)
    places = encoding.place(None, plain(T))[0]
    bias = encoding.score(q, places, places).bias
    assert isinstance(bias, DistanceBias)
    r = [0, *places["drawn"][0, 1:].tolist()]
    for t in range(T):
        for s in range(t + 1):
            n = r[t - s]
            for h in range(H):
                if of == "alibi":
                    wanted = -encoding.of.slopes[h] * n
                else:
                    wanted = encoding.of.table[encoding.of.bucket(torch.tensor(n)), h].item()
                assert bias.dense()[0, h, t, s].item() == pytest.approx(wanted, abs=1e-6)


def model_of(of="rope", longest=40, **options):
    torch.manual_seed(0)
    return models.build(
        "transformer",
        vocab_size=5,
        num_outputs=5,
        width=D,
        heads=H,
        layers=2,
        position="randomized",
        position_options={"of": {"name": of, **options}, "longest": longest},
    ).inner


@pytest.mark.parametrize("of", ["rope", "alibi"])
def test_in_a_model(of):
    """Each call in training draws, evaluation does not; a cache is refused, and generate() needs none."""
    model, tokens = model_of(of), torch.randint(5, (2, 9))
    assert not torch.equal(model(tokens).logits, model(tokens).logits)
    model(tokens, labels=tokens).loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    model.eval()
    assert torch.equal(model(tokens).logits, model(tokens).logits)
    with pytest.raises(Error, match="use_cache=False"):
        model(tokens, use_cache=True)
    with pytest.raises(Error, match="use_cache=False"):
        model.generate(tokens, max_new_tokens=2, use_cache=True)
    told = {"max_new_tokens": 3, "do_sample": False, "eos_token_id": 5, "pad_token_id": 0}
    told["attention_mask"] = torch.ones_like(tokens)
    longer = model.generate(tokens, **told)
    for T in range(9, 12):
        assert torch.equal(longer[:, T], model(longer[:, :T]).logits[:, -1].argmax(-1))


def test_bf16_is_finite_and_one_token_is_read():
    for of in ("rope", "alibi"):
        model = model_of(of).bfloat16().eval()
        assert model(torch.randint(5, (2, 30))).logits.isfinite().all()
        assert model(torch.randint(5, (2, 1))).logits.isfinite().all()


def test_what_is_longer_than_all_places_is_refused_before_training():
    with pytest.raises(LengthError, match=r"a text has 41 tokens, and longest is 40 places .* Train with a longest"):
        model_of()(torch.randint(5, (1, 41)))
    given = {"model.position": "randomized", "model.position_options": {"of": {"name": "rope"}, "longest": 40}}
    told = {"settings": given, "train_length": 10}
    assert lab.plan("parity", ["transformer"], test_lengths=[40], **told)
    with pytest.raises(LengthError, match=r"transformer: its positions reach 40 tokens, and .* with 41.* at least 41"):
        lab.plan("parity", ["transformer"], test_lengths=[20, 41], **told)


def test_refusals():
    for of in ("kerple-log", "transformer-xl", "pope"):
        with pytest.raises(Error, match=f"of cannot be '{of}', whose weights or ids are its own"):
            drawing(of)
    nested = {"name": "randomized", "of": {"name": "rope"}, "longest": 4}
    with pytest.raises(Error, match="of cannot be 'randomized'"):
        positions.get("randomized", width=D, heads=H, of=nested, longest=4)
    with pytest.raises(Error, match="of is 'none', which has no places"):
        drawing("none")
    with pytest.raises(Error, match=r'of is a dict with a "name"'):
        positions.get("randomized", width=D, heads=H, of={}, longest=4)
    with pytest.raises(Error, match=r"longest must be a whole number at least 1, got 0"):
        drawing(longest=0)


def test_places_between_whole_numbers():
    """Drawn from one range whatever the length; evaluation draws nothing, and a text may have more than `longest`."""
    encoding = positions.get("randomized", width=D, heads=H, of={"name": "rope"}, longest=10, continuous=True)
    assert encoding.at_most is None
    r = encoding.place(None, plain(500))[0]["drawn"]
    assert r.shape == (2, 500)
    assert (r.diff(dim=1) > 0).all()
    assert 0 <= r.min() < 0.2
    assert 9.8 < r.max() < 10
    assert not torch.equal(encoding.place(None, plain(500))[0]["drawn"], r)
    encoding.eval()
    fixed = encoding.place(None, plain(9))[0]["drawn"]
    assert torch.equal(encoding.place(None, plain(9))[0]["drawn"], fixed)
    x = torch.randn(2, H, 9, D // H, dtype=torch.float64)
    pairs = torch.complex(*x.chunk(2, -1)) * torch.polar(
        torch.ones(2, 1, 9, 2).double(), fixed[:, None, :, None] * 10_000.0 ** -torch.tensor([0.0, 0.5]).double()
    )
    torch.testing.assert_close(
        encoding.rotate(x, encoding.place(None, plain(9))[0]), torch.cat([pairs.real, pairs.imag], -1)
    )


@pytest.mark.parametrize("of", ["alibi", "sinusoidal", "rope"])
def test_a_model_with_places_between_whole_numbers_reads_any_length(of):
    torch.manual_seed(0)
    options = {"of": {"name": of}, "longest": 8, "continuous": True}
    sizes = {"vocab_size": 5, "num_outputs": 5, "width": D, "heads": H, "layers": 2}
    model = models.build("transformer", **sizes, position="randomized", position_options=options).inner
    tokens = torch.randint(5, (2, 30))
    model(tokens, labels=tokens).loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    model.eval()
    assert torch.equal(model(tokens).logits, model(tokens).logits)
    assert model(tokens).logits.isfinite().all()


@pytest.mark.parametrize("of", ["learned", "t5"])
def test_a_table_has_no_places_between_whole_numbers(of):
    spec = {"name": of, **({"rows": 8} if of == "learned" else {})}
    with pytest.raises(Error, match="takes whole places alone"):
        positions.get("randomized", width=D, heads=H, of=spec, longest=8, continuous=True)
