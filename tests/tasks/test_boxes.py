"""Boxes as a task: sizes, tokens, questions, judgements and the best constant answer."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.tasks.boxes.story import solve
from lengthwise.tasks.boxes.story_sampler import pick
from lengthwise.tasks.boxes.task import count_answers

from ..seeded import seeded

FORMS = ("default", "advanced", "original")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objects": 101}, "objects must be a whole number in 1..100, got 101"),
        ({"boxes": 27}, "boxes must be a whole number in 2..26 or None, got 27"),
        ({"boxes": 1}, "boxes must be a whole number in 2..26 or None, got 1"),
        ({"boxes": 0}, "boxes must be"),
        ({"boxes": 2.5}, "whole number"),
        ({"objects": 21}, "at least 22 with 7 boxes .* got 21"),
        ({"form": "original", "boxes": 4, "objects": 12}, "at least 13"),
        ({"form": "advanced", "boxes": 7}, "even .* got 7. Use 6 or 8"),
        ({"form": "advanced", "objects": 4}, "at least 5 with 8 boxes .*one in half of the boxes"),
        ({"boxes": 26}, None),
        ({"form": "advanced", "boxes": 4, "objects": 3}, None),
    ],
)
def test_impossible_sizes_are_refused_with_advice(settings, message):
    if message is None:
        assert tasks.get("boxes", **settings).sample(3, 2, seeded(0)).mask.any()
    else:
        with pytest.raises(Error, match=message):
            tasks.get("boxes", **settings)


def test_other_refusals():
    with pytest.raises(Error, match=r"form must be .* got 'advancd'. Did you mean 'advanced'"):
        tasks.get("boxes", form="advancd")
    with pytest.raises(Error, match="in the vocabulary, got 'zebra'"):
        tasks.get("boxes", boxes=2, objects=7).tokenize("Put the zebra into Box A.")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 2, 17, 64])
def test_questions_are_the_answers_tokens(form, length):
    task = tasks.get("boxes", form=form, boxes=4, objects=20)
    tokens, targets, mask = task.sample(length, 40, seeded(length))
    assert tokens.shape == targets.shape == mask.shape
    assert tokens.dtype == targets.dtype == torch.int64
    assert not mask[:, -1].any()
    assert (tokens[:, -1] > 0).any()
    for row, target, asked in zip(tokens, targets, mask, strict=True):
        prompt, answer = task.parts(row)
        assert task.write(target[asked]) == answer
        assert len(solve(prompt, form).operations) == length
        assert (row > 0).int().diff().ne(0).sum() <= 1  # padding on the right alone
        assert asked.int().diff().clamp(min=0).sum() == 1  # one run of questions


def test_where_no_entry_is_true_the_first_is_picked():
    """In all columns or in some; the laws of boxes and the frozen strings say what is picked of several."""
    u = np.array([0.1, 0.5, 0.9])
    assert pick(np.zeros((4, 3), dtype=bool), u).tolist() == [0, 0, 0]
    assert pick(np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 1]], dtype=bool).T, u).tolist() == [0, 3, 3]


@pytest.mark.parametrize("sizes", [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (1, 1, 1), (2, 1, 0)])
def test_answers_of_the_same_sizes_are_counted(sizes):
    M = 5
    places = product(range(len(sizes) + 1), repeat=M)
    found = sum(sorted(where.count(box) for box in range(len(sizes))) == sorted(sizes) for where in places)
    assert count_answers(sizes, M) == found


@pytest.mark.parametrize(
    ("form", "boxes", "objects", "length"),
    [("original", 4, 20, 5), ("original", 7, 100, 12), ("default", 2, 7, 3), ("advanced", 2, 3, 4)],
)
def test_the_baseline_is_what_the_best_constant_answer_scores(form, boxes, objects, length):
    task = tasks.get("boxes", form=form, boxes=boxes, objects=objects)
    count = 12_000
    tokens = task.draw(length, count, seeded(9))
    best = Counter(task.parts(row)[1] for row in tokens).most_common(1)[0][1] / count
    # Both are counts; the most common of many answers lies a little above its expectation.
    assert best == pytest.approx(task.baseline(length), abs=5 * math.sqrt(best / count) + 0.003)


@pytest.mark.parametrize("form", ["default", "advanced"])
def test_no_constant_answer_gets_anywhere_at_the_published_sizes(form):
    for length in (1, 12, 32):
        assert 0 < tasks.get("boxes", form=form).baseline(length) < 1e-5
