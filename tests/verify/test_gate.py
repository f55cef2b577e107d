"""Only a network that learned its machine from strings is consolidated, whatever its kind, and says what it kept."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

from lengthwise import models, tasks, theory
from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.verify import certificate as certificates
from lengthwise.verify import certification, compile_machine, families, kept_of
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.check import in_words, seal
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate.gate import LEARNED, held_out_words, share_right
from lengthwise.verify.consolidate.teaching import TaughtCopy
from lengthwise.verify.prove.boxes import prove_tree_boxes
from lengthwise.verify.prove.codes import prove_codes
from lengthwise.verify.subject import subject_of

PARITY = tasks.get("parity")
KINDS = {
    "continuous": ("regular-gpt", {}),
    "discrete": ("regular-gpt", {"nodes": "discrete"}),
    "automaton": ("block-lrnn", {"variant": "automaton"}),
    "rnn": ("rnn", {}),
    "gru": ("gru", {}),
    "lstm": ("lstm", {}),
}


@pytest.mark.parametrize("task", ["parity", "d-2", "tomita-5", "cycle-navigation"])
def test_the_words_are_of_every_answer_alike(task):
    """So a network that always says the same is right on no more than that answer's share."""
    claim = claim_of(tasks.get(task))
    for words in held_out_words(claim, (1, 2, 7, 40)):
        answers = claim.answers[claim.machine.run(torch.from_numpy(words))[:, -1].numpy()]
        counts = np.bincount(answers)
        assert len(set(counts[counts > 0])) == 1
        assert len(words) >= 160


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_learned_nothing_is_refused(kind, tmp_path):
    name, options = KINDS[kind]
    torch.manual_seed(0)
    model = models.build(name, vocab_size=2, num_outputs=2, width=16, **options)
    subject = subject_of("certify", model, PARITY)
    assert families.family_of(model.inner).teach
    with pytest.raises(Error, match=r"it answers [0-9.]+% of held-out words of 1 to 40 symbols as that machine does"):
        certification.consolidated(subject, 1.0, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def always(answer: int):
    model = copy.deepcopy(theory.exact_classifier("d-2"))
    with torch.no_grad():
        model.inner.head.bias[answer] += 1e6
    return model


def test_a_constant_answer_does_not_pass_where_most_words_have_it():
    task = tasks.get("d-2")
    lengths = tuple(task.lengths(20, 40))
    assert share_right(theory.exact_classifier(task), claim_of(task), lengths) == 1
    assert max(share_right(always(a), claim_of(task), lengths) for a in (0, 1)) < LEARNED


def test_the_lengths_are_those_of_training():
    """Tomita 5 is asked at even lengths alone: a network is not refused for what it was never shown."""
    assert subject_of("certify", theory.exact_classifier("tomita-5"), tasks.get("tomita-5")).lengths == tuple(
        range(2, 41, 2)
    )


def copy_of(own, of_all=8):
    return TaughtCopy(theory.regular_gpt(PARITY.machine), own, of_all, "codes")


@pytest.mark.parametrize(("own", "made"), [(6, "consolidated"), (0, "compiled")])
def test_what_was_kept_stands_in_folder_and_certificate(own, made, tmp_path, family, capsys):
    family(prove_tree_boxes, teach=lambda *_: copy_of(own))
    subject = subject_of("certify", theory.regular_gpt(PARITY.machine), PARITY)
    subject = certification.consolidated(subject, 1.0, tmp_path / "made")
    assert subject.made == made
    content = json.loads((tmp_path / "made" / "made.json").read_text())
    assert (content["made"], content["kept"]) == (made, {"own": own, "all": 8, "of": "codes", "right": 1.0})
    assert kept_of(tmp_path / "made") == subject.kept
    call = ["certify", str(tmp_path / "made"), "--task", "parity", "--budget", "4", "--json"]
    said = main([*call, "--out", str(tmp_path / "c.json")])
    assert said == 0
    certificate = json.loads((tmp_path / "c.json").read_text())
    assert (certificate["made"], certificate["kept"]) == (made, content["kept"])
    assert f"keeping {own or 'none'} of its own 8 codes" in certificate["words"]
    check(certificate, tmp_path / "made")


def test_what_a_folder_says_it_kept_is_read_strictly(tmp_path):
    for said in ("all", {"own": 1}, {"own": 9, "all": 8, "of": "codes", "right": 1.0}):
        (tmp_path / "made.json").write_text(json.dumps({"made": "consolidated", "kept": said}))
        with pytest.raises(Error, match=r"made.json: .* Mend the file, or remove it"):
            kept_of(tmp_path)
    (tmp_path / "made.json").write_text('{"made": "consolidated"}')
    assert kept_of(tmp_path) is None


@pytest.fixture(scope="module")
def compiled():
    made = compile_machine(PARITY)
    proof = prove_codes(made.model.eval(), made.claim, 60)
    return made.model, made.claim, proof


def resealed(certificate, **given):
    changed = {**certificate, **given}
    changed["words"] = in_words(changed)
    return {**changed, "digest": seal(changed)}


def test_a_certificate_says_what_was_kept_and_nothing_that_contradicts_itself(compiled):
    model, claim, proof = compiled
    weights, kept = certificates.weights(model), {"own": 2, "all": 3, "of": "codes", "right": 0.97}
    old = certificates.make(model, claim, proof, "consolidated")
    assert "kept" not in old
    check(old, weights)  # as they were before anything was said
    check(certificates.make(model, claim, proof, "consolidated", kept), weights)
    check(resealed(old, made="compiled", kept={**kept, "own": 0}), weights)
    wrong = [{**kept, "own": 0}, {**kept, "own": 4}, {**kept, "own": True}, {**kept, "of": "all"}, {**kept, "right": 2}]
    for each in [*wrong, {"own": 2, "all": 3}]:
        with pytest.raises(Rejected):
            check({**(c := {**old, "kept": each}), "digest": seal(c)}, weights)
    with pytest.raises(Rejected, match=r"keeps 2 codes of its own is not learned"):
        check(resealed(old, made="learned", kept=kept), weights)
