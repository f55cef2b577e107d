"""`certify` checks its arguments, refutes what is wrong, claims nothing without a proof, and says why."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch

from lengthwise import automata, lab, models, tasks, theory, verify
from lengthwise.errors import Error, ShapeError
from lengthwise.lab.experiment import TaskSpec
from lengthwise.verify import Proved, certification, families
from lengthwise.verify.checker import check
from lengthwise.verify.claim import minimal
from lengthwise.verify.prove.boxes import prove_tree_boxes
from lengthwise.verify.subject import KeptShare

from .checker.conftest import recurrence

PARITY = tasks.get("parity").machine


def run_of(name, **params):
    """As much of a finished run as is looked at before its weights are."""
    return lab.Run(None, SimpleNamespace(task=TaskSpec(name, params), on_text=False), {}, [])


class ParityElsewhere(torch.nn.Module):
    """A right model that does not say how many tokens it reads."""

    def forward(self, tokens):
        return torch.nn.functional.one_hot(tokens.sum(1, keepdim=True) % 2, 2).float()


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (theory.regular_gpt(PARITY), "no failure"),
        (theory.exact_classifier("parity"), "no failure"),
        (ParityElsewhere(), "only this library's own trees and recurrences, as"),
    ],
)
def test_nothing_is_claimed_without_a_proof(subject, why, family):
    """Even of models that are right by construction: only a proof says so."""
    family()
    verdict = verify.certify(subject, PARITY, budget=0.5)
    assert isinstance(verdict, verify.Unknown)
    assert "unknown: no failure in " in str(verdict)
    assert "all of up to " in str(verdict)
    assert why in str(verdict)
    assert verdict.by_how_much is None
    assert verdict.shown["strings"] > 10
    assert verdict.exit_code == 1
    assert verify.verdict_from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_a_wrong_model_is_refuted():
    torch.manual_seed(0)
    model = models.build("lstm", vocab_size=2, num_outputs=2, width=4)
    verdict = verify.certify(model, tasks.get("parity"), budget=30)
    assert isinstance(verdict, verify.Refuted)
    assert verdict.right == sum(verdict.word) % 2 != verdict.said


def test_of_a_model_that_is_neither_it_says_what_can_be_done():
    model = models.build("transformer", vocab_size=2, num_outputs=2, width=8)
    subject = certification.subject_of("certify", model, PARITY)
    said = certification.decidable(subject)
    assert "neither a tree" in said
    assert "Train one of these" in said


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_of_weights_that_no_proof_is_about_it_says_so(dtype):
    model = theory.regular_gpt(PARITY).to(dtype)
    verdict = verify.certify(model, PARITY, budget=0.3)
    assert isinstance(verdict, verify.Unknown)
    assert f"weights are {str(dtype).removeprefix('torch.')}. Give model.float()" in verdict.why
    assert isinstance(verify.certify(model, automata.Semiautomaton([[0, 1], [0, 1]]), budget=5), verify.Refuted)


def test_what_is_neither_is_not_consolidated_and_says_so_once(tmp_path):
    model = models.build("transformer", vocab_size=2, num_outputs=2, width=8)
    with pytest.raises(
        Error, match=r"cannot be taught a machine: the model is neither a tree .* Train one of these"
    ) as said:
        certification.consolidated(certification.subject_of("certify", model, PARITY), 1.0, tmp_path / "made")
    assert "RegularGPT" not in str(said.value)
    assert not (tmp_path / "made").exists()


def test_what_no_family_takes_is_not_consolidated_and_says_why(tmp_path):
    snapped = verify.extract(theory.exact_classifier("parity"), PARITY).snap()
    with pytest.raises(Error, match="cannot be taught a machine: its nodes are snapped already"):
        certification.consolidated(certification.subject_of("certify", snapped, PARITY), 1.0, tmp_path / "made")
    plain = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=8).inner
    reasons = families.family_of(plain)
    assert "it is no RegularGPT" in reasons
    assert "not recurrences alone" in reasons


def test_a_copy_that_was_saved_is_taken_again_and_not_taught(tmp_path, family):
    taught = []

    def teach(model, claim, seconds):
        taught.append(seconds)
        return SimpleNamespace(model=deepcopy(model), own=2, all=3, of="codes")

    family(teach=teach)
    subject = certification.subject_of("certify", theory.exact_classifier("parity"), PARITY)
    first, again = (certification.consolidated(subject, 1.0, tmp_path / "made") for _ in range(2))
    assert len(taught) == 1
    assert (again.made, again.kept) == (first.made, first.kept) == ("consolidated", first.kept)
    torch.testing.assert_close(again.inner.state_dict(), first.inner.state_dict(), rtol=0, atol=0)
    scaled = theory.regular_gpt(PARITY)
    scaled.head.weight.data *= 2
    other = certification.subject_of("certify", scaled, PARITY)
    with pytest.raises(Error, match="Name a new folder"):
        certification.consolidated(other, 1.0, tmp_path / "made")
    with (tmp_path / "made" / "model.safetensors").open("ab") as weights:
        weights.write(b"x")
    with pytest.raises(Error, match="Name a new folder"):
        certification.consolidated(subject, 1.0, tmp_path / "made")


@pytest.mark.parametrize(
    ("before", "settle", "made", "own"),
    [
        ("learned", False, "consolidated", 2),
        ("learned", True, "settled", 2),
        ("settled", True, "settled", 1),
        ("settled", False, "consolidated", 1),
        ("consolidated", True, "consolidated", 1),
        ("compiled", True, "compiled", 0),
        ("built", False, "compiled", 0),
    ],
)
def test_a_copy_is_no_nearer_to_strings_than_what_it_is_a_copy_of(before, settle, made, own, tmp_path, family):
    family(teach=lambda model, claim, seconds: SimpleNamespace(model=deepcopy(model), own=2, all=3, of="codes"))
    kept = KeptShare(1, 3, "codes", 1.0) if before in ("settled", "consolidated") else None
    subject = certification.subject_of("certify", theory.exact_classifier("parity"), PARITY)
    copy = certification.consolidated(subject._replace(made=before, kept=kept), 30.0, tmp_path / "made", settle)
    assert (copy.made, copy.kept.own) == (made, own)
    assert (verify.made_of(tmp_path / "made"), verify.kept_of(tmp_path / "made")) == (made, copy.kept)


def test_a_method_that_meets_a_limit_says_how_it_is_raised(monkeypatch, family):
    monkeypatch.setenv("LENGTHWISE_MAX_CONDITIONS", "5")
    family(prove_tree_boxes)
    verdict = verify.certify(theory.regular_gpt(PARITY), PARITY, budget=0.5)
    assert isinstance(verdict, verify.Unknown)
    assert "at most 5 conditions of closure, got 6" in verdict.why
    assert verdict.why.endswith("or raise the limit: LENGTHWISE_MAX_CONDITIONS=…")


def test_what_is_not_said_by_config_and_weights_alone_is_never_given_to_a_method(monkeypatch):
    """A proof about the weights would prove nothing about these."""

    class Wrapped(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, tokens):
            return self.inner(tokens, last=True)

    class Subclass(models.LengthwiseForCausalLM):
        pass

    plain = theory.regular_gpt(PARITY)
    assert certification.subject_of("certify", plain, PARITY).inner is plain
    hooked = theory.regular_gpt(PARITY)
    hooked.head.register_forward_hook(lambda module, given, made: -made)
    patched = theory.regular_gpt(PARITY)
    patched.depth.forward = lambda *given, **options: None
    exchanged = theory.regular_gpt(PARITY)
    exchanged.norm = torch.nn.LayerNorm(exchanged.config.width)
    others = (Wrapped(theory.exact_classifier("parity")), Subclass(plain.config), hooked, patched, exchanged)
    for other in others:
        assert certification.subject_of("certify", other, PARITY).inner is None


def test_a_wrong_word_of_a_method_is_read_alone_first(family):
    def prove_wrong(model, claim, seconds):
        return verify.Refuted((1, 1), 1, 0)

    family(prove_wrong)
    verdict = verify.certify(theory.regular_gpt(PARITY), PARITY, budget=0.5)
    assert verdict.why.endswith("wrong: it met a word that it calls wrong, and read alone it is right")


def test_what_methods_say_is_passed_on(family):
    model = theory.regular_gpt(PARITY)
    asked = []

    def prove_nothing(model, claim, seconds):
        asked.append((type(model).__name__, claim.machine.num_states, model.training, 0 < seconds <= 1))
        return verify.Unknown("a box is too wide")

    def prove_less(model, claim, seconds):
        return verify.Unknown("a radius is too large", 0.25)

    family(prove_nothing, prove_less)
    model.train()
    verdict = verify.certify(model, PARITY, budget=1)
    assert asked == [("LengthwiseForCausalLM", 2, False, True)] * len(certification.ROUNDS)
    assert model.training
    assert verdict.why.endswith("; nothing: a box is too wide; less: a radius is too large")
    assert verdict.by_how_much == 0.25


def test_a_proof_that_is_found_at_once_waits_for_no_search(monkeypatch):
    searched = []

    def search(model, claim, seconds, **options):
        searched.append(seconds)
        return whole(model, claim, seconds, **options)

    whole = certification.search
    monkeypatch.setattr(certification, "search", search)
    assert isinstance(verify.certify(theory.regular_gpt(PARITY), PARITY, budget=5), verify.Proved)
    (seconds,) = searched
    assert seconds <= 0.25


def test_the_last_method_has_all_the_time(family):
    seconds = {}

    def prove_first(model, claim, left):
        seconds["first"] = left
        return "no"

    def prove_last(model, claim, left):
        seconds["last"] = left
        return "no"

    family(prove_first, prove_last)
    why = verify.certify(theory.exact_classifier("parity"), verify.claim_of(tasks.get("parity")), 2).why
    assert why.endswith("first: no; last: no")
    assert seconds["last"] > 1.5 * seconds["first"]


def test_a_proof_that_the_checker_rejects_proves_nothing(family):
    def prove_anything(model, claim, seconds):
        return {"kind": "boxes", "inference": "raw", "arithmetic": "float32", "margin": 1.0, "proof": {}}

    family(prove_anything)
    verdict = verify.certify(theory.regular_gpt(PARITY), PARITY, budget=1)
    assert isinstance(verdict, verify.Unknown)
    assert "check" in verdict.why


def test_those_who_watch_hear_how_far_it_is():
    heard = []
    verify.certify(theory.regular_gpt(PARITY), PARITY, budget=0.5, watch=heard.append)
    shares = [stage.share for stage in heard]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


@pytest.mark.parametrize("budget", [0, -1, math.inf, math.nan, True, "60"])
def test_a_budget_is_seconds(budget):
    with pytest.raises(Error, match="certify: budget must be a finite number of seconds above 0"):
        verify.certify(theory.regular_gpt(PARITY), PARITY, budget=budget)


def test_a_subject_that_is_none():
    with pytest.raises(Error, match=r"takes a model or a finished run, got str.*lab\.load"):
        verify.certify("runs/parity", PARITY)


def test_a_machine_is_needed():
    with pytest.raises(Error, match="needs a machine or a task to be held against"):
        verify.certify(theory.regular_gpt(PARITY))
    with pytest.raises(Error, match="boxes of this run has no machine"):
        verify.certify(run_of("boxes"))
    with pytest.raises(Error, match="said by a Semiautomaton or a task with a machine, got list"):
        verify.certify(theory.regular_gpt(PARITY), [[0, 1], [1, 0]])
    with pytest.raises(Error, match="only a task with a machine"):
        verify.certify(theory.regular_gpt(PARITY), tasks.get("selective-copy"))


def test_text_has_no_machine():
    run = lab.Run("runs/a", SimpleNamespace(on_text=True), {}, [])
    with pytest.raises(Error, match="was trained on text, where no machine says what is right"):
        verify.certify(run)


@pytest.mark.parametrize("subject", [theory.regular_gpt(PARITY), theory.exact_classifier("parity"), run_of("parity")])
def test_a_machine_with_symbols_that_the_model_cannot_read(subject):
    three = tasks.get("cycle-navigation").machine
    with pytest.raises(ShapeError, match="reads 2 tokens of 3 symbols"):
        verify.certify(subject, three)


def test_nothing_asked_is_nothing_to_be_right_about():
    claim = verify.claim_of(automata.Semiautomaton([[0, 0]]))
    nothing = verify.Claim(claim.machine, claim.answers, ~claim.asked)
    with pytest.raises(Error, match="nothing is asked after any word"):
        verify.certify(theory.regular_gpt(PARITY), nothing)


def test_a_run_is_held_against_its_own_task(quick, tmp_path):
    experiment = quick("gru", steps=2)[0]
    outcome = next(iter(lab.run([experiment], tmp_path, workers=1, device="cpu")))
    verdict = verify.certify(outcome.run, budget=30)
    assert isinstance(verdict, verify.Refuted)
    assert verdict.right == sum(verdict.word) % 2


def test_names_load_without_torch():
    import subprocess
    import sys

    code = "import sys; sys.modules['torch'] = None; from lengthwise.verify import Refuted; print(Refuted((1,), 0, 1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "refuted: after the word 1 the model says 0, and 1 is right\n", done.stderr


def test_a_network_is_settled_by_its_own_machine_and_no_label(tmp_path):
    """An RNN that is parity stays parity where it is held against another task, and is refuted there."""
    rnn = recurrence("rnn", 1, sharp=2.4).model
    other = certification.subject_of("certify", rnn, tasks.get("tomita-1"))
    own = minimal(certification.own_claim(other, 30.0))
    assert own.machine.num_states == 2
    words = torch.randint(2, (50, 9))
    assert (own.answers[own.machine.run(words)[:, -1]] == words.sum(1).numpy() % 2).all()
    with pytest.raises(Error, match="has not learned"):
        certification.consolidated(other, 10.0, tmp_path / "refused")
    outcome = certification.decide(other, 40.0, save=tmp_path / "settled", settle=True)
    assert (outcome.made, outcome.verdict.exit_code) == ("settled", 1)
    again = certification.subject_of("certify", rnn, PARITY)
    proved = certification.decide(again, 40.0, save=tmp_path / "again", settle=True)
    assert isinstance(proved.verdict, Proved), proved.verdict
    assert proved.verdict.certificate["made"] == "settled"
    check(proved.verdict.certificate, tmp_path / "again")
    with pytest.raises(Error, match="Name a new folder"):  # of the machine of its task it is no copy
        certification.consolidated(again, 10.0, tmp_path / "again")


def test_of_its_own_machine_a_network_is_asked_for_no_more_than_its_task_asks():
    """An expression that is none has no question, and what a network says after it is nothing that it has learned."""
    task = tasks.get("modular-arithmetic", modulus=2)
    exact = certification.subject_of("certify", theory.exact_classifier(task), task)
    own = certification.own_claim(exact, 60.0)
    words = task.draw(11, 40, torch.Generator().manual_seed(0))
    states = own.machine.run(words)
    assert (own.answers[states[:, -1]] == task.answer(words)[:, -1].numpy()).all()
    assert (own.asked[states] == task.complete(words).numpy()).all()
    assert own.machine.num_states == minimal(exact.claim).machine.num_states
    assert not own.asked[own.machine.run(torch.tensor([[0, 0], [2, 1]]))[:, -1]].any()
