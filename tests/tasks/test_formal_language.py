"""What the laws do not say of languages: the nesting rule, odd lengths, settings that exclude each other."""

import numpy as np
import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.automata import Semiautomaton
from lengthwise.errors import LengthError
from lengthwise.tasks.depth_language import NestedWords


def depths(words):
    return (1 - 2 * words).cumsum(1)


def test_blocks_are_three_quarters_of_their_room():
    level = depths(NestedWords(3).draw(400, 2000, torch.Generator().manual_seed(1)))
    first = (level == 0).long().argmax(1) + 1
    assert abs(float(first.float().mean()) - 300) < 3
    assert abs(float(first.float().std()) - 30) < 3


def test_depth_twelve_to_length_sixty_reaches_depth_eight_or_so():
    level = depths(NestedWords(12).draw(60, 1000, torch.Generator().manual_seed(2)))
    assert 7 <= np.median(level.max(1).values) <= 9


def test_uniform_random_negatives_rarely_have_equal_counts_and_near_misses_often_do():
    shares = {}
    for kind in ("uniform", "near-miss"):
        batch = tasks.get("d-3", negatives=kind).sample(40, 2000, torch.Generator().manual_seed(3))
        negatives = batch.tokens[batch.targets[:, -1] == 0]
        shares[kind] = float((negatives.sum(1) * 2 == 40).float().mean())
    assert 0.06 < shares["uniform"] < 0.2
    # A deletion and an insertion end at an even length only from odd ones, where D_3 has no words.
    assert shares["near-miss"] == 0.0


def test_odd_lengths_are_all_rejected():
    task = tasks.get("d-4")
    assert task.baseline(41) == 1.0
    assert int(task.sample(41, 64, torch.Generator().manual_seed(4)).targets[:, -1].sum()) == 0
    with pytest.raises(LengthError, match="Use 40 or 42"):
        tasks.get("d-4", protocol="next").sample(41, 2, torch.Generator())


@pytest.mark.parametrize(
    ("name", "length", "message"),
    [
        ("tomita-5", 41, "tomita-5: no word of length 41 is in the language. Use 40 or 42."),
        ("tomita-4", 1, "tomita-4: no word of length 1 is outside the language. Use 3."),
        ("regex:abc", 9, "regex: no word of length 9 is in the language. Use 3."),
        ("regex:(a|b)*", 4, "regex: no word of length 4 is outside the language. No length near it will do either."),
        ("regex:a&b", 4, "regex: no word of length 4 is in the language. No length near it will do either."),
        ("regex:(ab)*", 0, "regex: length must be at least 1, got 0. Use 2."),
    ],
)
def test_lengths_with_an_empty_class_are_refused(name, length, message):
    with pytest.raises(LengthError) as caught:
        tasks.get(name).sample(length, 2, torch.Generator())
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"protocol": "next", "negatives": "uniform"}, "leave negatives out"),
        ({"end": True}, "leave it out"),
        ({"end": "no"}, "end must be True or False, got 'no'"),
        ({"protocol": "next", "end": "no"}, "end must be True or False, got 'no'"),
        ({"protocol": "guess"}, "protocol"),
        ({"negatives": "nearest"}, "negatives"),
        ({"positives": "nested"}, "positives"),
        ({"probabilities": [0.5, 0.6]}, "sum to 1"),
        ({"probabilities": [1.0]}, "2 numbers"),
        ({"probabilities": [0.3, 0.7]}, 'Set positives="uniform"'),
        ({"probabilities": [0.3, 0.7], "protocol": "next"}, 'Set positives="uniform"'),
    ],
)
def test_settings_that_make_no_sense(params, message):
    with pytest.raises(Error, match=message):
        tasks.get("d-2", **params)


def test_any_depth_and_no_other_tomita():
    assert tasks.get("d-7").machine.num_states == 9
    for name, message in [("d-0", r"1\.\.1000, got 0"), ("tomita-8", "1..7, got 8"), ("d-x", "Unknown task"),
                          ("partiy", "Did you mean 'parity'")]:  # fmt: skip
        with pytest.raises(Error, match=message):
            tasks.get(name)


def test_weights_shape_accepted_and_rejected_words():
    task = tasks.get("regex", pattern="(a|b)*b", alphabet="ab", probabilities=[0.9, 0.1])
    batch = task.sample(50, 400, torch.Generator().manual_seed(5))
    for label in (0, 1):
        rest = batch.tokens[batch.targets[:, -1] == label][:, :-1]
        assert abs(float(rest.float().mean()) - 0.1) < 0.02


def test_tasks_from_machines():
    counter = Semiautomaton([[0, 1], [1, 2], [2, 0]])
    assert tasks.from_machine(counter).outputs == 3
    language = tasks.from_machine(counter.with_accepting([0]), negatives="uniform")
    assert (language.name, language.outputs) == ("machine", 2)
    assert tasks.from_machine(counter.with_accepting([0]), protocol="states").outputs == 3
    with pytest.raises(Error, match="no accepting states"):
        tasks.from_machine(counter, protocol="next")
    with pytest.raises(Error, match=r"machine needs delta. Add delta=…"):
        tasks.get("machine")
    assert tasks.from_regex("a*", alphabet="ab").vocabulary == ("a", "b")
