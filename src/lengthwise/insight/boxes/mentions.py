"""Which earlier words of a story each mention of a box depends on: the true graph, token by token.

"Move the contents of Box A to Box B" makes B's new state of the last states of A and B. So the mention of B depends on
the two phrases that made those, and the mention of A on the one that made A's. A phrase is a clause of the description
or of the answer, or an operation; the edges are those of `tasks.boxes.dependencies`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ...tasks.boxes import Boxes, dependencies, read
from ...tasks.boxes.vocabulary import COMMA, GLUE, PAD, STOP


class Source(NamedTuple):
    token: int
    """The letter of the box whose state is read, in the phrase that made it."""
    start: int
    end: int
    """That phrase is the tokens start … end - 1."""


class Mention(NamedTuple):
    token: int
    """The letter of the box."""
    start: int
    """Where its own phrase starts."""
    sources: tuple[Source, ...]


def dependent_mentions(task: Boxes, tokens: Tensor) -> tuple[Mention, ...]:
    """All mentions of boxes that depend on an earlier phrase, in one string (T,) with its answer.

    >>> from lengthwise import tasks
    >>> task = tasks.get("boxes", boxes=2, objects=7)
    >>> story = "The bag is in Box A, there is nothing in Box B. Move the contents of Box A to Box B."
    >>> tokens = torch.tensor(task.tokenize(story + " Box A is empty, Box B contains the bag."))
    >>> words = [task.vocabulary[t] for t in tokens]
    >>> mentions = dependent_mentions(task, tokens)
    >>> [(words[m.token], m.token, [(words[s.token], s.token) for s in m.sources]) for m in mentions]
    [('A', 19, [('A', 5)]), ('B', 22, [('A', 5), ('B', 12)]), ('A', 25, [('A', 19)]), ('B', 30, [('B', 22)])]
    """
    tokens = tokens[tokens != PAD].cpu()
    story = read(task.parts(tokens)[0], task.form.name)
    graph = dependencies(story)
    described = [box for box, _ in story.described]
    letters, spans = _phrases(task, tokens)

    def source(number: int) -> Source | None:
        state = graph.states[number]
        if state.operation == 0 and state.box not in described:
            return None  # empty from the beginning, and nobody says so
        phrase = len(described) + state.operation - 1 if state.operation else described.index(state.box)
        return Source(letters[phrase][state.box], *spans[phrase])

    made = {(state.operation, state.box): i for i, state in enumerate(graph.states)}
    last = {box: i for (number, box), i in made.items() if number == 0}
    mentions = []
    for phrase in range(len(described), len(spans)):
        new = {box: made.get((phrase - len(described) + 1, box)) for box in letters[phrase]}
        for box, token in letters[phrase].items():
            state = new[box]
            parents = graph.states[state].parents if state is not None else ()
            sources = [source(i) for i in sorted({last[box], *parents})]
            if real := tuple(s for s in sources if s is not None):
                mentions.append(Mention(token, spans[phrase][0], real))
        last |= {box: state for box, state in new.items() if state is not None}
    return tuple(mentions)


def _phrases(task: Boxes, tokens: Tensor) -> tuple[list[dict[str, int]], list[tuple[int, int]]]:
    """Returns of every phrase the place of each box's letter, and where it starts and ends."""
    ends = torch.isin(tokens, torch.tensor([COMMA, STOP])).nonzero().flatten().add(1).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    letters = [
        {
            task.vocabulary[t]: start + i
            for i, t in enumerate(tokens[start:end].tolist())
            if 0 <= t - len(GLUE) < task.boxes
        }
        for start, end in spans
    ]
    return letters, spans
