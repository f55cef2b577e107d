"""Models that are broken in a known way are refuted, by the shortest word that shows it; right ones never are."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from lengthwise import Error, automata, models, tasks, theory, verify
from lengthwise.verify.claim import claim_of
from lengthwise.verify.falsification.reading import Reader, carries_state, end_states, judge
from lengthwise.verify.falsification.search import search

from .broken import PARITY, Broken, contains, longest_run, parity_that_counts_runs, right_model

PLENTY = 40
"""Seconds that no search here needs: it ends when a wrong word is found and cannot be made shorter."""


def holds(found, task) -> bool:
    """Whether a refutation is one: the right answer is right, and the model says the other."""
    return found.right == claim_of(task).right(found.word) != found.said


def test_a_run_of_37_is_found_and_is_the_shortest_failing_word():
    found = verify.falsify(Broken(right_model(), lambda word: longest_run(word) >= 37), PARITY, seconds=PLENTY)
    assert isinstance(found, verify.Refuted)
    assert found.word in ((0,) * 37, (1,) * 37)
    assert holds(found, PARITY)


@pytest.mark.slow
def test_exactly_37_in_longer_runs_elsewhere():
    """Only a run of 37, neither a longer nor a shorter one."""

    def spoilt(word):
        breaks = [0, *(np.flatnonzero(np.diff(word)) + 1), len(word)]
        return 37 in np.diff(breaks)

    found = verify.falsify(Broken(right_model(), spoilt), PARITY, seconds=PLENTY)
    assert found.word in ((0,) * 37, (1,) * 37)


@pytest.mark.slow
def test_a_run_counter_in_the_weights_is_found():
    model = parity_that_counts_runs(37)
    found = verify.falsify(model, PARITY, seconds=PLENTY)
    assert found.word in ((0,) * 37, (1,) * 37)
    said = model(torch.tensor([found.word])).logits[0, -1].argmax().item()
    assert said == found.said != found.right


@pytest.mark.parametrize("part", [[1], [0, 1, 1, 0, 1, 0, 0, 1], [1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1]])
def test_a_planted_part_is_the_shortest_failing_word(part):
    found = verify.falsify(Broken(right_model(), contains(part)), PARITY, seconds=PLENTY)
    assert found.word == tuple(part)


def test_a_failure_by_length_alone_is_made_as_short_as_it_can_be():
    found = search(Broken(right_model(), lambda word: len(word) >= 300), claim_of(PARITY), PLENTY)
    assert found.seen >= 300
    assert len(found.refuted.word) == 300
    assert f"first seen at {found.seen:,} tokens" in str(found)


def test_hill_climbing_finds_what_the_margin_leads_to():
    hidden = np.random.default_rng(0).integers(2, size=40)

    class Closing(nn.Module):
        """Right, by a margin that is the distance to a hidden word, and wrong within 2 of it."""

        def forward(self, tokens):
            right = torch.nn.functional.one_hot(tokens.sum(1) % 2, 2)
            far = torch.full((len(tokens),), 20)
            if tokens.shape[1] == len(hidden):
                far = (tokens != torch.from_numpy(hidden)).sum(1) - 2
            return (right * far[:, None]).float()[:, None]

    found = search(Closing(), claim_of(PARITY), 20, longest=40)
    assert found.refuted is not None
    assert len(found.refuted.word) == 40
    assert (np.array(found.refuted.word) != hidden).sum() <= 2


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cycle-navigation", "even-pairs", "tomita-5")]


@pytest.mark.parametrize("name", ["parity", "modular-arithmetic", *SLOW])
def test_a_right_model_is_never_refuted(name):
    task = tasks.get(name)
    construction = theory.block_lrnn if name == "modular-arithmetic" else theory.regular_gpt
    found = verify.falsify(theory.exact_classifier(task, construction), task, seconds=2)
    assert isinstance(found, verify.Search)
    assert found.refuted is None
    assert found.exact >= 3
    assert found.strings > 100
    assert found.longest >= 8
    assert found.least > 0
    assert found.predicted is None
    assert f"no failure in {found.strings:,} strings, all of up to {found.exact:,} symbols" in str(found)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["strings"] == found.strings


def test_where_nothing_is_asked_the_model_may_say_what_it_likes():
    """Random words are hardly ever expressions, and none that is not is held against the model."""
    task = tasks.get("modular-arithmetic")
    claim = claim_of(task)
    asked: list[bool] = []

    class Noting(nn.Module):
        def forward(self, tokens):
            asked.extend(claim.asked[end_states(claim.machine, tokens.numpy())].tolist())
            return theirs(tokens, last=True)

    theirs = theory.exact_classifier(task, theory.block_lrnn)
    reader = Reader(Noting(), claim)
    with reader:
        from lengthwise.verify.falsification.hunt import Hunt

        Hunt(reader, 0.8, 200, lambda stage: None).run()
    assert len(asked) > 100
    assert all(asked)


def test_a_word_is_read_alone_before_it_is_answered():
    """Wrong only beside other words: no refutation."""

    class Confused(nn.Module):
        def forward(self, tokens):
            logits = right(tokens, last=True)
            return -logits if len(tokens) > 1 else logits

    right = right_model()
    assert isinstance(verify.falsify(Confused(), PARITY, seconds=0.5), verify.Search)


def test_several_answers_at_once():
    task = tasks.get("tomita-3", protocol="next")
    model = theory.exact_classifier(task)
    assert verify.falsify(model, task, seconds=0.5).refuted is None
    found = verify.falsify(Broken(model, contains([1, 0, 0])), task, seconds=PLENTY)
    assert found.word[-3:] == (1, 0, 0)
    assert len(found.word) <= 4
    assert holds(found, task)


def test_a_language_model_of_transformers():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_positions=32, n_embd=8, n_layer=1, n_head=1))
    found = verify.falsify(model, PARITY, seconds=PLENTY)
    assert len(found.word) <= 2
    assert holds(found, PARITY)


def test_the_longest_word_a_model_reads_is_said():
    class Short(nn.Module):
        def forward(self, tokens):
            if tokens.shape[1] > 20:
                raise Error("too long") if tokens.shape[1] < 0 else models.token_classifier.LengthError("20 at most")
            return right(tokens, last=True)

    right = right_model()
    found = verify.falsify(Short(), PARITY, seconds=3)
    assert found.stopped == "20 at most"
    assert found.longest <= 20


def test_a_model_that_fails_on_its_first_word_says_so():
    with pytest.raises(Error, match=r"Linear: failed on tokens \[1, 1\]"):
        verify.falsify(nn.Linear(2, 2), PARITY, seconds=1)
    with pytest.raises(Error, match="must return logits"):
        verify.falsify(nn.Flatten(), PARITY, seconds=1)
    narrow = models.build("lstm", vocab_size=3, num_outputs=2)
    with pytest.raises(Error, match="the claim has 5 outputs, and the model gives 2"):
        verify.falsify(narrow, tasks.get("cycle-navigation"), seconds=1)


def test_logits_that_are_not_finite_name_nothing():
    class Overflowing(nn.Module):
        def forward(self, tokens):
            logits = right(tokens, last=True)
            return logits / 0 if tokens.shape[1] > 4 else logits

    right = right_model()
    found = verify.falsify(Overflowing(), PARITY, seconds=PLENTY)
    assert found.said == ()
    assert len(found.word) == 5


def test_margins():
    logits = np.array([[1.0, 3.0], [2.0, -1.0], [np.nan, 0.0], [1.0, 1.0]])
    said = judge(logits, np.array([1, 1, 1, 0]))
    assert said.margins.tolist() == [2, -3, 0, 0]
    assert said.wrong.tolist() == [False, True, True, False]
    several = judge(np.array([[2.0, -1.0], [1.0, 1.0]]), np.array([[True, False], [True, False]]))
    assert several.margins.tolist() == [1, -1]
    assert several.wrong.tolist() == [False, True]


def test_a_recurrence_reads_long_words_in_pieces(monkeypatch):
    from lengthwise.verify.falsification import reading

    monkeypatch.setattr(reading, "PIECE", 7)
    machine = PARITY.machine
    words = np.random.default_rng(0).integers(2, size=(3, 31))
    for name, carries in (("gru", True), ("block-lrnn", True), ("transformer", False), ("regular-gpt", False)):
        model = models.build(name, vocab_size=2, num_outputs=2, width=8).eval()
        assert carries_state(model) == carries
        with torch.no_grad():
            whole = model(torch.from_numpy(words), last=True)[:, -1]
            assert torch.allclose(Reader(model, claim_of(machine)).logits(torch.from_numpy(words)), whole, atol=1e-5)


def test_long_words_end_in_the_state_that_the_machine_says():
    machine = tasks.get("word-problem", group="S3").machine
    words = np.random.default_rng(0).integers(machine.num_symbols, size=(2, 5003))
    assert end_states(machine, words).tolist() == machine.run(words)[:, -1].tolist()


def test_the_mode_of_the_model_is_kept():
    model = models.build("lstm", vocab_size=2, num_outputs=2, width=4)
    model.train()
    verify.falsify(model, PARITY, seconds=PLENTY)
    assert model.training


def test_what_is_right_is_said_by_a_machine_or_a_task():
    """What is neither is refused in the words of `certify`, as seconds are that are none (test_certification.py)."""
    model = right_model()
    with pytest.raises(Error, match="falsify: a model needs a machine or a task"):
        verify.falsify(model)
    with pytest.raises(Error, match="falsify: seconds must be a finite number"):
        verify.falsify(model, PARITY, 0)
    assert verify.falsify(model, claim_of(automata.Semiautomaton([[0, 1], [0, 1]])), seconds=PLENTY).word == (1, 1)
