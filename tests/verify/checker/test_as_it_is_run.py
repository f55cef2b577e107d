"""A certificate is of the model as it is loaded and run: what would make it another one is seen, or refused."""

from __future__ import annotations

import copy
import json
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lengthwise import models, tasks, theory
from lengthwise.models import presets
from lengthwise.models.pretrained import as_classifier
from lengthwise.verify import certificate
from lengthwise.verify.checker import Rejected, check, digest, in_words, read_json, seal
from lengthwise.verify.checker.intervals import Interval
from lengthwise.verify.checker.points import Point, PointOperations, enclosed
from lengthwise.verify.checker.rounding import ARITHMETICS, BOUNDED
from lengthwise.verify.subject import altered, own_model

build = partial(models.build, vocab_size=2, num_outputs=2, width=8)
CHANGES = {
    "activation": lambda tree, _: setattr(tree.depth.layers[0], "activation", torch.tanh),
    "epsilon": lambda tree, _: setattr(tree.depth.layers[0].feed_norm, "eps", 1.0),
    "embedding": lambda tree, _: setattr(tree.embedding, "max_norm", 0.1),
    "order of norms": lambda tree, _: setattr(tree.depth.layers[0], "post", not tree.depth.layers[0].post),
    "config of a block": lambda tree, _: tree.config.block.update(activation="relu"),
    "chunk": lambda tree, _: setattr(tree.depth, "chunk", 3),
    "method": lambda tree, _: setattr(tree.depth, "_last", lambda *given: None),
    "bound": lambda _, lrnn: setattr(lrnn.depth.layers[0].mixer, "bound", torch.tanh),
    "impossible config": lambda tree, _: tree.config.block.update(activation="sine"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_in_a_model_that_was_built_is_seen(change):
    """Weights and modules are as they were, so a certificate would speak of another function."""
    both = [build(name).inner for name in ("regular-gpt", "block-lrnn")]
    assert [altered(each) for each in both] == [False, False]
    CHANGES[change](*both)
    assert any(map(altered, both))


@pytest.mark.parametrize("name", sorted(presets.PRESETS))
def test_models_as_they_are_built_saved_and_copied_are_the_librarys_own(name, tmp_path):
    try:
        model = build(name).inner
    except Exception:  # a preset that needs more than these options
        pytest.skip("is built by other options")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    for each in (model, loaded, copy.deepcopy(model).double(), loaded.eval()):
        assert not altered(each)


def test_a_wrapper_that_changes_answers_is_seen():
    hooked = theory.exact_classifier("parity")
    assert own_model(hooked) is hooked.inner
    hooked.register_forward_hook(lambda module, given, made: -made)
    patched, cut = theory.exact_classifier("parity"), theory.exact_classifier("parity")
    patched.logits = lambda tokens, last: None
    cut.num_outputs = 1
    for each in (hooked, patched, cut):
        assert own_model(each) is None


def test_a_head_that_is_not_tied_is_counted():
    model = build("regular-gpt", tie_word_embeddings=True).inner
    assert "head.weight" not in certificate.weights(model)
    model.head.weight = torch.nn.Parameter(model.embedding.weight.detach() * -1)
    assert "head.weight" in certificate.weights(model)


def test_a_head_of_its_own_where_the_config_ties_it_is_refused(made):
    """Whether it is loaded, or the embeddings in its place, is up to the version of transformers."""
    it = made("rnn")
    certificate = copy.deepcopy(it.certificate)
    certificate["model"]["config"]["tie_word_embeddings"] = True
    certificate["digest"] = seal(certificate)
    with pytest.raises(Rejected, match="to which the config ties it"):
        check(certificate, {name: tensor.numpy() for name, tensor in it.model.state_dict().items()})


def test_a_saved_model_answers_with_all_its_outputs():
    task = tasks.get("cycle-navigation")
    model = theory.exact_classifier(task).inner
    assert model.config.outputs > model.config.vocab_size
    assert as_classifier(model, "saved")(torch.tensor([[1, 1]])).shape[-1] == model.config.outputs


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dtype": None, "torch_dtype": "float16"}, "loads as float16"),
        ({"dtype": "float32", "torch_dtype": "bfloat16"}, "loads as bfloat16"),
        ({"quantization_config": {"quant_method": "torchao"}}, "quantization_config"),
        ({"model_type": "other"}, "is not the config of a model of this library"),
        ({"model_type": ...}, "is not the config of a model of this library"),
    ],
)
def test_a_folder_that_loads_as_another_model_is_refused(made, fields, said, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    with pytest.raises(Rejected, match=said):
        check(it.certificate, tmp_path)


def test_an_adapter_in_the_folder_is_refused(made, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    assert not check(it.certificate, tmp_path).assumed
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(Rejected, match="holds an adapter"):
        check(it.certificate, tmp_path)


def test_where_no_config_is_beside_the_weights_it_says_so(made, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"schema": 1, "data": {}, "model": {}}')
    report = check(it.certificate, tmp_path)
    assert report.assumed
    assert str(report).endswith(" No config is beside the weights: that of the certificate is assumed.")


def test_what_is_no_text_is_refused_as_such(made):
    it = made("rnn")
    for name in ("kind", "inference", "made", "arithmetic"):
        given = {**it.certificate, name: ["float32"]}
        with pytest.raises(Rejected, match=f"{name} must be"):
            check({**given, "digest": seal(given)}, it.weights)


@pytest.mark.parametrize("text", ['{"claim": 1, "claim": 2}', '{"margin": NaN}', '{"margin": -Infinity}', "{]"])
def test_json_that_is_read_in_two_ways_is_refused(text):
    with pytest.raises(Rejected):
        read_json(text, "a file")


def test_a_number_that_is_too_large_is_refused(made):
    it = made("rnn")
    for number in ("1e400", "-1e400", "9" * 400):
        with pytest.raises(Rejected, match="finite size"):
            read_json(number, "a file")
    for margin in (float("inf"), 10**400, 10**31, float("nan")):
        with pytest.raises(Rejected, match="finite"):
            check({**it.certificate, "margin": margin}, it.weights)


def test_centres_closer_than_squares_can_tell_are_not_told_apart(made):
    """In float32 the distances of both from 0 are 0, and the first is taken, which is not the nearest."""
    it = made("snapped-parity")
    D, tiny = it.weights["embedding.weight"].shape[1], 2.0**-76
    norm = "depth.layers.0.feed_norm"
    post = it.certificate["model"]["config"]["block"]["norm"] == "post"
    weights = {name: x.copy() for name, x in it.weights.items()}
    for name in weights:  # every node is 0
        if name.endswith((".out.weight", ".out.bias", ".down.weight", ".down.bias", "embedding.weight")):
            weights[name] = np.zeros_like(weights[name])
        if post and name.startswith(norm):
            weights[name] = np.zeros_like(weights[name])
    far, near = np.zeros(D), np.zeros(D)
    far[0], near[1] = 2 * tiny, tiny
    claim = {"symbols": ["0", "1"], "delta": [[0, 0]], "start": 0, "answers": [1], "asked": [1]}
    weights["head.weight"] = np.zeros_like(weights["head.weight"])
    weights["head.weight"][:, 1] = [-(2.0**80), 2.0**80]
    weights["head.weight"][:, 0] = [2.0**80, -(2.0**80)]
    weights["head.bias"] = np.zeros_like(weights["head.bias"])
    config = {**it.certificate["model"]["config"], "final_norm": False}
    config["depth"] = {**config["depth"], "snapped": {"centres": 2, "radius": 1.0}}
    weights["depth.layers.0.centres"] = np.stack([far, near]).astype(np.float32)
    weights.pop("norm.weight", None)
    weights.pop("norm.bias", None)
    distance = torch.cdist(
        torch.zeros(1, D),
        torch.tensor(np.stack([far, near]), dtype=torch.float32),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    assert distance.argmin() == 0
    centres = [{"element": 0, "centre": far.tolist()}, {"element": 0, "centre": near.tolist()}]
    proof = {"elements": [[0]], "centres": centres, "radius": 1.0}
    given = {**it.certificate, "claim": claim, "proof": proof}
    given["model"] = {"config": config, "weights": {name: digest(x) for name, x in weights.items()}}
    given["words"] = in_words(given)
    given["digest"] = seal(given)
    with pytest.raises(Rejected, match="is not decided"):
        check(given, weights)


def test_what_the_sigmoid_of_two_taps_is_off_by_is_covered():
    """y = v_0 + w (v_1 - v_0) with a w that is off by all that is assumed, where w itself is small."""
    arithmetic = ARITHMETICS["float32"]
    q, k = (Point.at(np.zeros((1, 2))) for _ in range(2))
    values = [np.array([[1.0, -3.0]]), np.array([[-100.0, 50.0]])]
    r = np.array([[0.0, -12.0]])
    y = enclosed(PointOperations(arithmetic).attention(q, [k, k], [Point.at(v) for v in values], r))
    w = 1 / (1 + np.exp(12.0))
    for off in (-BOUNDED * arithmetic.u, BOUNDED * arithmetic.u):
        said = values[0] + (w + off) * (values[1] - values[0])
        assert Interval.of(said).inside(y).all()
    assert float(F.sigmoid(torch.tensor(-12.0))) == pytest.approx(w, rel=1e-5)
