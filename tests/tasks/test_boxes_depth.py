"""How deep stories are: the paper's Figure 1 first, then depths by hand, and paths of the whole graph, one by one."""

import itertools
import math

import pytest
import torch

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.tasks.boxes import dependency_depth, layers_needed, read

FIGURE_1 = (
    "The apple is in Box A, there is nothing in Box B. Move the contents of Box A to Box B. Put the book into Box A. "
    "Move the contents of Box B to Box A. Box A contains"
)
START = "The apple and the bag are in Box A, the ball is in Box B, there is nothing in Box C. "
MOVE = "Move the contents of Box {} to Box {}. "


def graph_of(story):
    """The oracle: (edges, last), where states are numbered as they arise and `last` has the number of each box's."""
    edges, last, numbers = [], {}, itertools.count()

    def add(box, *sources):
        state = next(numbers)
        edges.extend((last[source], state) for source in sources)
        last[box] = state

    for box in story.contents:
        add(box)
    for operation in story.operations:
        if operation.target is None:
            add(operation.box, operation.box)
        elif operation.items is None:
            add(operation.target, operation.box, operation.target)
            add(operation.box)
        else:
            add(operation.target, operation.target)
            add(operation.box, operation.box)
    return edges, last


def test_figure_1():
    edges, last = graph_of(read(FIGURE_1))
    # x0, x1 the first states of A and B; x2 B and x3 A after the move; x4 A with the book; x5 A; and B, left empty.
    assert edges == [(0, 2), (1, 2), (3, 4), (2, 5), (4, 5)]
    assert last == {"A": 5, "B": 6}
    assert dependency_depth(FIGURE_1) == layers_needed(2) == 2


@pytest.mark.parametrize(
    ("operations", "depth"),
    [
        ("", 0),
        ("Put the bell into Box C. ", 1),
        (MOVE.format("A", "B"), 1),
        (MOVE.format("A", "C") + MOVE.format("C", "A") + MOVE.format("A", "C"), 3),
        # Named objects come from nowhere: each box goes its own way.
        ("Move the bag from Box A to Box B. Move the bag from Box B to Box C. ", 2),
        ("Move the bag from Box A to Box B. Move the apple from Box A to Box C. ", 2),
        # A box that was emptied begins anew.
        ("Put the bell into Box A. Put the cake into Box A. " + MOVE.format("A", "B"), 3),
        ("Put the bell into Box A. " + MOVE.format("A", "B") + "Put the cake into Box A. ", 2),
    ],
)
def test_depths_by_hand(operations, depth):
    assert dependency_depth(START + operations) == depth


def test_only_the_box_in_question_counts():
    story = START + "Put the bell into Box A. Put the cake into Box A. Put the bowl into Box B. Box {} contains"
    assert [dependency_depth(story.format(box)) for box in "ABC"] == [2, 1, 0]


def longest(edges, node):
    return max((1 + longest(edges, after) for before, after in edges if before == node), default=0)


@pytest.mark.parametrize("form", ["default", "advanced", "original"])
def test_the_depth_is_the_longest_path(form):
    task = tasks.get("boxes", form=form, boxes=4, objects=20)
    for row in task.sample(7, 60, torch.Generator().manual_seed(2)).tokens:
        story = read(task.parts(row)[0], form)
        edges, last = graph_of(story)
        backwards = [(after, before) for before, after in edges]
        asked = [node for box, node in last.items() if story.query in (None, box)]
        assert dependency_depth(story) == max(longest(backwards, node) for node in asked)


def test_a_chain_of_moves_is_as_deep_as_it_is_long():
    prompt = "The tea is in Box A."
    for depth in range(20):
        assert dependency_depth(prompt) == depth
        prompt = prompt.strip() + " " + MOVE.format(*("AB" if depth % 2 == 0 else "BA")).strip()


def test_layers():
    assert [layers_needed(n) for n in range(40)] == [math.ceil(math.log2(n + 1)) for n in range(40)]
    with pytest.raises(Error, match="at least 0, got -1"):
        layers_needed(-1)
