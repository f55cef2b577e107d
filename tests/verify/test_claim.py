"""What a model is held against says of every word what its task says."""

import numpy as np
import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.automata import Semiautomaton
from lengthwise.verify.claim import Claim, claim_of

NAMES = [
    "parity",
    "even-pairs",
    "cycle-navigation",
    "modular-sum",
    "modular-arithmetic",
    "word-problem",
    "d-2",
    "tomita-3",
    "tomita-5",
]


@pytest.mark.parametrize("supervision", ["last", "prefix"])
@pytest.mark.parametrize("name", NAMES)
def test_says_of_every_word_what_the_task_says(name, supervision):
    task = tasks.get(name, supervision=supervision)
    claim = claim_of(task)
    lengths = [n for n in range(1, 16) if task.problem(n) is None][-3:]
    assert len(lengths) == 3
    for length in lengths:
        tokens = task.sample(length, 20, generator=torch.Generator().manual_seed(length)).tokens
        answers, asked = task.answer(tokens), task.asked(tokens)
        for row, answer, question in zip(tokens.tolist(), answers, asked, strict=True):
            right = claim.right(row)
            if question[-1]:
                wanted = answer[-1]
                assert right == (tuple(wanted.nonzero()[:, 0].tolist()) if claim.several else int(wanted))


def test_a_word_that_is_no_expression_has_no_answer():
    claim = claim_of(tasks.get("modular-arithmetic"))
    assert claim.right("1+2*4") == 4
    assert claim.right("1+") is None
    assert claim.right("12") is None


def test_of_a_machine_it_is_acceptance_or_the_state():
    even = Semiautomaton([[0, 1], [1, 0]], accepting={0})
    assert claim_of(even).right("11") == 1
    assert claim_of(Semiautomaton([[0, 1], [1, 0]])).right("1") == 1
    assert claim_of(even).right("") is None


def test_refuses_what_has_no_machine_or_too_few_answers():
    with pytest.raises(Error, match="only a task with a machine"):
        claim_of(tasks.get("selective-copy"))
    machine = Semiautomaton([[0, 1], [1, 0]])
    with pytest.raises(Error, match="needs an answer and a question"):
        Claim(machine, np.zeros(3, dtype=int), np.ones(2, dtype=bool))


def test_next_symbols_are_asked_of_words_that_can_still_be_accepted():
    claim = claim_of(tasks.get("tomita-1", protocol="next"))
    assert claim.right("11") == (1,)
    assert claim.right("10") is None
