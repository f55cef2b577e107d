"""The dependency graph of a story, and Theorem 1 of the ChaCAL paper: the attention layers that its depth needs.

Nodes are the states of boxes; an edge leads from a state to one that was made from it. "Move the contents of Box A to
Box B" makes B's new state from both and leaves A with a fresh one; an operation that names its objects makes a box's
new state from its last one alone. With depth(G) the length of the longest path, in edges,

    L_min(G) = ceil(log2(depth(G) + 1)).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Error
from .story import Story, read


@dataclass(frozen=True)
class BoxState:
    box: str
    operation: int
    """The number of the operation that made it, from 1; 0: the description."""
    parents: tuple[int, ...]
    """The numbers of the states it was made from."""
    depth: int
    """Edges of the longest path that ends here."""


@dataclass(frozen=True)
class Graph:
    states: tuple[BoxState, ...]
    last: dict[str, int]
    """The number of every box's last state."""
    query: str | None

    @property
    def edges(self) -> list[tuple[int, int]]:
        return [(parent, i) for i, state in enumerate(self.states) for parent in state.parents]

    @property
    def depth(self) -> int:
        """The length of the longest path to a state in question: the last state of every box, or of the queried one."""
        ends = self.last.values() if self.query is None else [self.last[self.query]]
        return max(self.states[i].depth for i in ends)

    @property
    def layers(self) -> int:
        return layers_needed(self.depth)


def layers_needed(depth: int) -> int:
    """ceil(log2(depth + 1)).

    >>> [layers_needed(n) for n in (0, 1, 2, 3, 4, 15, 16, 31)]
    [0, 1, 2, 2, 3, 4, 5, 5]
    """
    if depth < 0:
        raise Error(f"layers_needed: depth must be at least 0, got {depth}.")
    return depth.bit_length()


def dependencies(story: Story | str) -> Graph:
    """The graph of a story, or of a prompt as text. States are numbered as they arise.

    A move makes the target's state first, then the emptied box's.

    >>> graph = dependencies("The apple is in Box A, there is nothing in Box B. Move the contents of Box A to Box B. "
    ...                      "Put the book into Box A. Move the contents of Box B to Box A. Box A contains")
    >>> graph.edges, graph.depth, graph.layers
    ([(0, 2), (1, 2), (3, 4), (2, 5), (4, 5)], 2, 2)
    """
    story = read(story) if isinstance(story, str) else story
    states: list[BoxState] = []
    last: dict[str, int] = {}

    def add(box: str, operation: int, *sources: str) -> None:
        parents = tuple(last[source] for source in sources)
        states.append(BoxState(box, operation, parents, max((states[i].depth + 1 for i in parents), default=0)))
        last[box] = len(states) - 1

    for box in story.contents:
        add(box, 0)
    for number, operation in enumerate(story.operations, 1):
        if operation.target is None:
            add(operation.box, number, operation.box)
        elif operation.items is None:
            add(operation.target, number, operation.box, operation.target)
            add(operation.box, number)
        else:
            add(operation.target, number, operation.target)
            add(operation.box, number, operation.box)
    return Graph(tuple(states), last, story.query)
