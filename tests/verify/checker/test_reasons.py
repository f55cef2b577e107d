"""What is rejected is told why: by the field, the weight or the file."""

from __future__ import annotations

import copy
import json
import tracemalloc

import numpy as np
import pytest

from lengthwise import Error
from lengthwise.verify.checker import Rejected, check, seal
from lengthwise.verify.checker.claim import StatedClaim

from .conftest import resealed


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("format", 2, "format must be 1"),
        ("kind", "tree", "kind must be"),
        ("made", "trained", "made must be"),
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
        ({"kind": "recurrence-boxes"}, "depth must be"),
        ({"kind": "tree-codes"}, "those of this model are continuous"),
        ({"kind": "cascade"}, "depth must be"),
        ({"inference": "snapped"}, "raw where they are not"),
    ],
)
def test_a_proof_of_another_kind_is_refused(made, change, said):
    it = made("tree-parity")
    with pytest.raises(Rejected, match=said):
        check(resealed({**it.certificate, **change}), it.weights)


def test_what_nobody_can_check_is_told_as_what_the_certificate_says(made):
    it = made("tree-parity")
    told = str(check(resealed({**it.certificate, "made": "learned"}), it.weights))
    assert "(made: learned, says the certificate)" in told
    assert "was learned" not in told


def test_a_margin_that_is_not_confirmed_is_told(made):
    it = made("cascade-parity")
    for margin, told in ((check(it.certificate, it.weights).margin, False), (99.0, True)):
        report = check(resealed({**it.certificate, "margin": margin}), it.weights)
        assert ("states a margin of 99, which is not confirmed" in str(report)) is told
        assert report.margin < 99


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
    (tmp_path / "config.json").write_text(json.dumps({"schema": 1, "data": {}, "model": {}}))
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("format", True), ("format", 1.0), ("margin", True), ("margin", 10**400), ("versions", []), ("commit", 5)),
        *(("inference", "snapped"), ("versions", {"torch": 2}), ("words", None)),
    ],
)
def test_nonsense_is_rejected_even_if_sealed(made, field, value):
    it = made("tree-parity")
    given = {**it.certificate, field: value}
    with pytest.raises(Rejected):
        check({**given, "digest": seal(given)}, it.weights)


def test_numbers_of_another_type_are_rejected_even_if_sealed(made):
    it = made("tree-parity")
    for field, changes in {
        "claim": {"start": False, "asked": [True, True], "symbols": ["0", "0"], "delta": [[0, 1], [1, False]]},
        "proof": {"elements": [[0, True], [1, 0]], "boxes": [{**b, "element": True} for b in box_list(it)]},
    }.items():
        for name, value in changes.items():
            with pytest.raises(Rejected):
                check(resealed({**it.certificate, field: {**it.certificate[field], name: value}}), it.weights)


def box_list(it):
    return it.certificate["proof"]["boxes"]


def test_a_model_of_one_output_is_right_about_nothing(made):
    claim = made("rnn").claim.to_json()
    with pytest.raises(Rejected, match="vacuous"):
        StatedClaim({**claim, "answers": [0, 0]}).fits(2, 1)


def test_a_claim_that_no_word_can_test_is_vacuous(made):
    it = made("rnn")
    for claim in (
        {"asked": [0, 0]},
        {"delta": [[1, 1], [1, 1]], "asked": [1, 0]},  # the start state alone, to which no word leads
    ):
        with pytest.raises(Rejected, match="vacuous"):
            check(resealed({**it.certificate, "claim": {**it.certificate["claim"], **claim}}), it.weights)


@pytest.mark.parametrize("at", [("width",), ("vocab_size",), ("num_outputs",), ("depth", "layers"), ("mixer", "block")])
@pytest.mark.parametrize("name", ["rnn", "cascade-parity"])
def test_a_config_of_another_size_is_refused_before_anything_is_built(made, name, at):
    it = made(name)
    given = copy.deepcopy(it.certificate)
    inner = given["model"]["config"] if len(at) == 1 else given["model"]["config"][at[0]]
    inner[at[-1]] = 10**9
    tracemalloc.start()
    with pytest.raises(Rejected):
        check(resealed(given), it.weights)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_what_is_no_regular_file_is_not_read(made, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(Error, match="no regular file"):
        check(it.certificate, tmp_path)
