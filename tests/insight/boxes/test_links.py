"""The true graph of a story by its words, and heads held against it."""

from __future__ import annotations

import pytest
import torch

from lengthwise import insight, models, tasks
from lengthwise.errors import Error, ShapeError
from lengthwise.insight import links
from lengthwise.insight.attention import Attention
from lengthwise.insight.boxes import dependent_mentions
from lengthwise.tasks.boxes import Boxes, dependencies, read
from lengthwise.tasks.boxes.vocabulary import COMMA, STOP

ADVANCED = Boxes(form="advanced", boxes=4, objects=20)


def told(task, text):
    """Every mention as "letter@phrase: letters@phrases it depends on", phrases counted from 0."""
    tokens = torch.tensor(task.tokenize(text))
    words = [task.vocabulary[t] for t in tokens]
    phrase = [0]
    for word in words[:-1]:
        phrase.append(phrase[-1] + (word in ".,"))
    say = lambda t: f"{words[t]}{phrase[t]}"  # noqa: E731
    for m in dependent_mentions(task, tokens):
        assert phrase[m.start] == phrase[m.token]
        assert m.start == phrase.index(phrase[m.token])
        for s in m.sources:
            assert {phrase[s.start], phrase[s.end - 1]} == {phrase[s.token]}
            assert words[s.end - 1] in ".,"
    return [f"{say(m.token)}: {' '.join(say(s.token) for s in m.sources)}" for m in dependent_mentions(task, tokens)]


def test_advanced():
    """Boxes that nobody described depend on nothing; a box emptied by a move is fresh, and reads its last state."""
    text = (
        "The ball is in Box A, the bag is in Box C. Move the contents of Box A to Box B. Put the bell into Box B. "
        "Move the contents of Box B to Box A. Box A contains the ball and the bell, Box C contains the bag."
    )
    assert told(ADVANCED, text) == [
        "A2: A0", "B2: A0", "B3: B2", "B4: B3", "A4: A2 B3", "A5: A4", "C6: C1",
    ]  # fmt: skip


def test_default_and_original():
    text = "The ball is in Box A, there is nothing in Box B. Move the ball from Box A to Box B."
    default, original = Boxes(boxes=2, objects=7), Boxes(form="original", boxes=2, objects=7)
    after = ["A2: A0", "B2: B1"]
    assert told(default, text + " Box A is empty, Box B contains the ball.") == [*after, "A3: A2", "B4: B2"]
    assert told(original, text + " Box B contains the ball.") == [*after, "B3: B2"]


@pytest.mark.parametrize("form", ["default", "advanced", "original"])
def test_every_edge_of_the_graph_is_there(form):
    """Beside them there are only mentions of a box whose state is fresh and which read its last one."""
    task = Boxes(form=form, boxes=6, objects=40)
    for row in task.test_set(12, 20).tokens:
        row = row[row != task.padding]
        story = read(task.parts(row)[0], form)
        graph, described = dependencies(story), [box for box, _ in story.described]
        phrase = (
            torch.isin(row, torch.tensor([COMMA, STOP])).cumsum(0) - torch.isin(row, torch.tensor([COMMA, STOP])).int()
        )

        def said(token, row=row, phrase=phrase):
            return int(phrase[token]), task.vocabulary[row[token]]

        def of(state, described=described):
            if state.operation:
                return len(described) + state.operation - 1, state.box
            return (described.index(state.box), state.box) if state.box in described else None

        pairs = [(said(s.token), said(m.token)) for m in dependent_mentions(task, row) for s in m.sources]
        edges = [(of(graph.states[a]), of(graph.states[b])) for a, b in graph.edges]
        edges = [(a, b) for a, b in edges if a is not None]
        operations = [(a, b) for a, b in pairs if b[0] < len(described) + len(story.operations)]
        assert len(set(pairs)) == len(pairs)
        assert set(edges) <= set(operations)
        assert all(a[1] == b[1] for a, b in set(operations) - set(edges))


def weights(found, T, to):
    """A head that reads, at every mention, the token `to(mention)` most of the tokens before its phrase."""
    A = torch.eye(T, dtype=torch.double)
    for m in found:
        A[m.token, : m.start] = 0.1
        A[m.token, to(m)] = 0.2
    return A[None]


def test_shares_of_heads_that_are_known(monkeypatch):
    tokens = ADVANCED.test_set(6, 1).tokens
    found = dependent_mentions(ADVANCED, tokens[0])
    T = tokens.shape[1]
    right = weights(found, T, lambda m: m.sources[-1].end - 1)  # anywhere in the phrase will do
    wrong = weights(found, T, lambda m: next(t for t in range(T) if all(not s.start <= t < s.end for s in m.sources)))
    made = torch.cat([right, wrong])
    layers = (Attention("layer 0", "softmax", None, made, made),)
    monkeypatch.setattr(links, "read_attention", lambda classifier, row, hear: layers)
    classifier = models.build("transformer", vocab_size=ADVANCED.outputs, num_outputs=ADVANCED.outputs, width=8)
    seen = insight.find_links(classifier, ADVANCED, tokens)
    assert seen.truth is not None
    assert seen.truth.shares == ((1.0, 0.0),)
    assert seen.truth.best == (0, 0)
    assert seen.truth.counted == len(found)
    phrases = [{(s.start, s.end) for s in m.sources} for m in found]  # both states may be of one phrase
    wanted = [sum(end - start for start, end in spans) / m.start for m, spans in zip(found, phrases, strict=True)]
    assert seen.truth.chance == pytest.approx(sum(wanted) / len(wanted))


def test_no_graph_and_no_mention():
    task = tasks.get("parity")
    classifier = models.build("transformer", vocab_size=2, num_outputs=2, width=8)
    seen = insight.find_links(classifier, task, torch.tensor([[0, 1, 1]]))
    assert (seen.truth, seen.words, seen.strings) == (None, ("0", "1", "1"), 1)
    assert seen.to_json()["truth"] is None
    with pytest.raises(ShapeError, match=r"\(B,T\)"):
        insight.find_links(classifier, task, torch.tensor([0, 1, 1]))
    boxes = models.build("transformer", vocab_size=ADVANCED.outputs, num_outputs=ADVANCED.outputs, width=8)
    with pytest.raises(Error, match="no mention of a box"):
        insight.find_links(
            boxes, ADVANCED, torch.tensor([ADVANCED.tokenize("The bag is in Box A, the ball is in Box B.")])
        )
