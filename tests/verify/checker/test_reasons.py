"""What is rejected is told why: by the field, the weight or the file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lengthwise import Error
from lengthwise.verify.checker import Rejected, check, seal

from .conftest import resealed


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("format", 2, "format must be 1"),
        ("kind", "tree", "not known"),
        ("made", "trained", "not known"),
        ("margin", -1.0, "above 0"),
        ("margin", 0, "above 0"),
        ("arithmetic", "bfloat16", "must be float32 or float64"),
        ("proof", {}, "proof must be"),
        ("claim", {}, "claim must be"),
    ],
)
def test_fields_say_what_is_wrong(made, field, value, said):
    it = made("tree-parity")
    given = {**it.certificate, field: value}
    given["digest"] = seal(given)
    with pytest.raises(Rejected, match=said):
        check(given, it.weights)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "recurrence-boxes"}, "depth has options"),
        ({"kind": "tree-codes"}, "those of this model are continuous"),
        ({"kind": "cascade"}, "depth has options"),
        ({"inference": "snapped"}, "must be an object of centres, elements, radius"),
    ],
)
def test_a_proof_of_another_kind_is_refused(made, change, said):
    it = made("tree-parity")
    with pytest.raises(Rejected, match=said):
        check(resealed({**it.certificate, **change}), it.weights)


def test_words_must_be_those_of_the_claim(made):
    it = made("rnn")
    given = {**it.certificate, "words": "The model is right."}
    with pytest.raises(Rejected, match="the claim in words must be"):
        check({**given, "digest": seal(given)}, it.weights)


def test_a_model_of_other_weights_or_another_config_is_named(made, tmp_path):
    it = made("rnn")
    with pytest.raises(Rejected, match="other weights than the certificate names"):
        check(it.certificate, made("gru").weights | {"more": np.zeros(1, dtype=np.float32)})
    with pytest.raises(Rejected, match=r"weight .* is not the one"):
        check(it.certificate, {name: x * 2 for name, x in it.weights.items()})
    it.model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "embedding_scale": 2.0}))
    with pytest.raises(Rejected, match="embedding_scale differ"):
        check(it.certificate, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    with pytest.raises(Rejected, match="loads as bfloat16"):
        check(it.certificate, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"task": "a run's record"}))
    assert check(it.certificate, tmp_path).conditions


def test_a_damaged_file_of_weights_is_refused(made, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for content in (b"", whole[:7], whole[:40], whole[:-4], whole + b"1234", b"\xff" * 8 + whole[8:]):
        file.write_bytes(content)
        with pytest.raises(Rejected, match=r"safetensors|belong to no weight|not where"):
            check(it.certificate, tmp_path)
    file.unlink()
    with pytest.raises(Error, match="no such file"):
        check(it.certificate, tmp_path)
