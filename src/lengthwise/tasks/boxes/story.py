"""Stories read from prompts as text and carried out exactly: the oracle, which shares no code with the sampler.

A prompt is a description, then operations, then perhaps a question ("Box C contains"), each as the paper writes it.

How deep it is: the states of boxes are nodes of a graph; an edge leads from a state to one that was made from it. "Move
the contents of Box A to Box B" makes B's new state from both and leaves A with a fresh one; an operation that names its
objects makes a box's new state from its last one alone. With depth(G) the length of the longest path, in edges,
Theorem 1 of the ChaCAL paper asks for L_min(G) = ceil(log2(depth(G) + 1)) layers of attention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...errors import Error, UnknownName
from .forms import FORMS
from .vocabulary import LETTERS

ITEMS = r"the [a-z]+(?: and the [a-z]+)*"
THERE = re.compile(r"there is nothing in Box ([A-Z])")
IS_IN = re.compile(rf"({ITEMS}) (is|are) in Box ([A-Z])")
OPERATIONS = {
    "move": re.compile(rf"Move (the contents of|{ITEMS} from) Box ([A-Z]) to Box ([A-Z])"),
    "remove": re.compile(rf"Remove ({ITEMS}) from Box ([A-Z])"),
    "put": re.compile(rf"Put ({ITEMS}) into Box ([A-Z])"),
}
QUESTION = re.compile(r" ?Box ([A-Z]) contains$")


@dataclass(frozen=True)
class Operation:
    verb: str
    """"move", "remove" or "put"."""
    box: str
    """Where objects are moved or removed from, or put into."""
    target: str | None = None
    """Where they are moved to."""
    items: tuple[str, ...] | None = None
    """The objects named; None: "the contents of" the box."""

    @property
    def boxes(self) -> tuple[str, ...]:
        return (self.box,) if self.target is None else (self.box, self.target)


@dataclass
class Story:
    """A prompt's parts, and what each box holds while the operations are carried out."""

    form: str
    described: list[tuple[str, tuple[str, ...]]]
    """Boxes and their objects, in the order of the description."""
    operations: list[Operation]
    query: str | None
    contents: dict[str, set[str]] = field(default_factory=dict)
    """What every box holds now."""

    def start(self) -> None:
        """Fill the boxes as the description says. In the advanced form the boxes it does not name are empty."""
        named = [box for box, _ in self.described]
        empty = LETTERS[: 2 * len(named)] if self.form == "advanced" else ""
        if twice := sorted({box for box in named if named.count(box) > 1}):
            raise Error(f"boxes: every box is described once, but Box {twice[0]} is twice.")
        self.contents = {box: set() for box in sorted({*named, *empty})}
        for box, items in self.described:
            for item in items:
                if other := self.holder(item):
                    raise Error(f"boxes: an object is in one box only, but the {item} is in Box {other} and Box {box}.")
                self.contents[box].add(item)

    def holder(self, item: str) -> str | None:
        return next((box for box, inside in self.contents.items() if item in inside), None)

    def carry_out(self, operation: Operation) -> None:
        """Change `contents`, or raise the reason why the operation is impossible."""
        for box in operation.boxes:
            if box not in self.contents:
                raise Error(f"boxes: an operation must name a known box ({', '.join(self.contents)}), got Box {box}.")
        if operation.box == operation.target:
            raise Error(f"boxes: a move goes to another box, got Box {operation.box} to Box {operation.target}.")
        here = self.contents[operation.box]
        if operation.verb == "put":
            for item in operation.items or ():
                if box := self.holder(item):
                    raise Error(f"boxes: only objects in no box can be put, but the {item} is in Box {box}.")
                here.add(item)
            return
        moved = set(here if operation.items is None else operation.items)
        if not moved:
            raise Error(
                f"boxes: the contents of a box can move only if there are any, but Box {operation.box} is empty."
            )
        if missing := sorted(moved - here):
            raise Error(
                f"boxes: only what is in a box can leave it, but the {missing[0]} is not in Box {operation.box}."
            )
        here -= moved
        if operation.target is not None:
            self.contents[operation.target] |= moved

    def answer(self) -> str:
        """The right answer, as text, from the present `contents`."""
        if self.query is not None:
            return listed(self.contents[self.query]) + "." if self.contents[self.query] else "nothing."
        return (
            ", ".join(
                f"Box {box} contains {listed(items)}" if items else f"Box {box} is empty"
                for box, items in sorted(self.contents.items())
                if items or self.form != "advanced"
            )
            + "."
        )


def listed(items: Iterable[str]) -> str:
    """ "the bell and the cake", sorted."""
    return " and ".join(f"the {item}" for item in sorted(items))


def items_of(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix("the ").split(" and the "))


def read(prompt: str, form: str | None = None) -> Story:
    """A prompt's parts. Without `form` the form is recognised by the prompt.

    A question at the end means "original", an operation on a box that was not described means "advanced".
    """
    if form is not None and form not in FORMS:
        raise UnknownName("form", form, FORMS)
    text = prompt.strip()
    query = None
    if question := QUESTION.search(text):
        query, text = question[1], text[: question.start()]
    if not text.endswith("."):
        raise Error(f"boxes: every sentence of a prompt must end with a full stop, got {text[-40:]!r}.")
    first, *rest = text[:-1].split(". ")
    described = [clause(part, i == 0) for i, part in enumerate(first.split(", "))]
    operations = [operation(i, sentence) for i, sentence in enumerate(rest, 1)]
    if form is None:
        named, empty = {box for box, _ in described}, any(not items for _, items in described)
        strange = any(box not in named for each in operations for box in each.boxes)
        form = "original" if query else "advanced" if strange and not empty else "default"
    story = Story(form, described, operations, query)
    story.start()
    if query is not None and query not in story.contents:
        raise Error(f"boxes: the question must name a known box ({', '.join(story.contents)}), got Box {query}.")
    return story


def clause(text: str, first: bool) -> tuple[str, tuple[str, ...]]:
    """One box of the description."""
    small = text[:1].lower() + text[1:]
    if (small == text) != first:
        if match := THERE.fullmatch(small):
            return match[1], ()
        if match := IS_IN.fullmatch(small):
            items = items_of(match[1])
            if (match[2] == "is") == (len(items) == 1):
                return match[3], items
    raise Error(
        "boxes: a description says 'the tea is in Box A', 'the bell and the tea are in Box A' or "
        f"'there is nothing in Box A', the first with a capital, got {text!r}."
    )


def operation(number: int, text: str) -> Operation:
    """One sentence after the description."""
    for verb, pattern in OPERATIONS.items():
        if match := pattern.fullmatch(text):
            what, box, *target = match.groups()
            items = None if what == "the contents of" else items_of(what.removesuffix(" from"))
            return Operation(verb, box, target[0] if target else None, items)
    raise Error(
        f"boxes: operation {number} must be 'Move the tea from Box A to Box B', 'Move the contents of Box A to Box B', "
        f"'Remove the tea from Box A' or 'Put the tea into Box A', got {text!r}."
    )


def solve(prompt: str, form: str | None = None) -> Story:
    """The story after all its operations.

    >>> solve("The tea is in Box A, there is nothing in Box B. Move the contents of Box A to Box B.").answer()
    'Box A is empty, Box B contains the tea.'
    """
    story = read(prompt, form)
    for each in story.operations:
        story.carry_out(each)
    return story


def layers_needed(depth: int) -> int:
    """ceil(log2(depth + 1)).

    >>> [layers_needed(n) for n in (0, 1, 2, 3, 4, 15, 16, 31)]
    [0, 1, 2, 2, 3, 4, 5, 5]
    """
    if depth < 0:
        raise Error(f"layers_needed: depth must be at least 0, got {depth}.")
    return depth.bit_length()


def dependency_depth(story: Story | str) -> int:
    """The length of the longest path to a state in question: the last state of every box, or of the queried one.

    >>> dependency_depth("The apple is in Box A, there is nothing in Box B. Move the contents of Box A to Box B. "
    ...                  "Put the book into Box A. Move the contents of Box B to Box A. Box A contains")
    2
    """
    story = read(story) if isinstance(story, str) else story
    depth = dict.fromkeys(story.contents, 0)
    for operation in story.operations:
        box, target = operation.box, operation.target
        if target is not None and operation.items is None:
            depth[target], depth[box] = 1 + max(depth[box], depth[target]), 0
        else:
            for each in operation.boxes:
                depth[each] += 1
    return max(depth.values()) if story.query is None else depth[story.query]
