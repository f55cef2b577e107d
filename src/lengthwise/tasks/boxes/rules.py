"""The rules of the three forms, checked on any prompt and answer: an error names the rule that is broken."""

from __future__ import annotations

import re

from ...errors import Error
from .forms import AT_FIRST, FORMS, Form
from .story import ITEMS, Operation, Story, items_of, listed, read
from .vocabulary import LETTERS

CONTAINS = re.compile(rf"Box ([A-Z]) contains ({ITEMS})")
IS_EMPTY = re.compile(r"Box ([A-Z]) is empty")


def check(prompt: str, answer: str, form: str | None = None) -> Story:
    """The story after its last operation. An `Error` names the first rule that prompt or answer break.

    Without `form` the form is recognised by the text.

    >>> check("The tea is in Box A, there is nothing in Box B. Put the map into Box A.",
    ...       "Box A contains the map and the tea, Box B is empty.").form
    'default'
    """
    story = read(prompt, form)
    if form is None and story.form == "default" and not empties(story, answer):
        story = read(prompt, "advanced")  # Without moves and empty boxes both forms fit the prompt.
    rules = FORMS[story.form]
    check_description(story, rules)
    for number, operation in enumerate(story.operations, 1):
        try:
            check_rules(story, rules, operation)
            story.carry_out(operation)
        except Error as error:
            raise Error(f"{error} (operation {number})") from None
    check_answer(story, rules, answer)
    return story


def empties(story: Story, answer: str) -> bool:
    """Whether description or answer speak of empty boxes, or the boxes described are not half of all."""
    described = [box for box, _ in story.described]
    whole = sorted(described) == list(LETTERS[: len(described)])
    return whole or "is empty" in answer or any(not items for _, items in story.described)


def require(holds: bool, rule: str, got: str) -> None:
    if not holds:
        raise Error(f"boxes: {rule}, got {got}.")


def in_order(items: tuple[str, ...]) -> None:
    require(list(items) == sorted(set(items)), "objects are named once each and sorted", repr(listed_as(items)))


def listed_as(items: tuple[str, ...]) -> str:
    return " and ".join(f"the {item}" for item in items)


def check_description(story: Story, rules: Form) -> None:
    boxes = [box for box, _ in story.described]
    asks = "all boxes" if story.query is None else f"Box {story.query}"
    require((story.query is not None) == rules.query, "the original form asks for one box, the others for all", asks)
    require(len(set(boxes)) == len(boxes), "every box is described once", "Box " + ", Box ".join(boxes))
    for box, items in story.described:
        in_order(items)
        if rules.half:
            require(len(items) > 0, "the advanced form describes occupied boxes only", f"nothing in Box {box}")
        else:
            require(
                len(items) <= AT_FIRST, f"a box holds at most {AT_FIRST} objects at first", f"{len(items)} in {box}"
            )
    last = LETTERS[: 2 * len(boxes) if rules.half else len(boxes)][-1]
    require(all(box <= last for box in boxes), f"the boxes go from A to {last}", "Box " + ", Box ".join(boxes))


def check_rules(story: Story, rules: Form, operation: Operation) -> None:
    """What the form demands of an operation beyond its being possible."""
    items, here = operation.items, story.contents.get(operation.box, set())
    if items is not None:
        in_order(items)
    if operation.verb == "move" and rules.contents != "whole":
        says, word = items is None, rules.contents
        require(says == (word == "always"), f"the {rules.name} form {word} says 'the contents of'", repr(operation))
    elif operation.verb == "move" and items is not None:
        require(set(items) != here, "a move of all that a box holds says 'the contents of'", f"{listed(items)}")
    if rules.half:
        target = story.contents.get(operation.target or "", set())
        require(not target, "a move goes into an empty box", f"Box {operation.target} with {listed(target)}")
        if operation.verb == "put":
            require(bool(here), "objects are put into occupied boxes", f"the empty Box {operation.box}")
        if operation.verb == "remove":
            require(set(items or ()) != here, "a remove never empties a box", f"all of Box {operation.box}")


def check_answer(story: Story, rules: Form, answer: str) -> None:
    right = story.answer()
    if answer != right and not rules.query:
        require(answer.endswith("."), "the answer ends with a full stop", repr(answer[-20:]))
        named = []
        for part in answer[:-1].split(", "):
            box, items = box_and_items(part)
            require(box in story.contents, f"the answer names known boxes ({', '.join(story.contents)})", f"Box {box}")
            in_order(items)
            for item in items:
                where = story.holder(item)
                place = f"Box {where}" if where else "no box"
                require(where == box, f"the {item} is in {place} at the end", f"the {item} in Box {box}")
            for item in sorted(story.contents[box]):
                require(item in items, f"the {item} is in Box {box} at the end", repr(part))
            named.append(box)
        asked = [box for box, items in story.contents.items() if items or not rules.half]
        require(named == asked, f"the answer names Box {', Box '.join(asked)}, once each and sorted", ", ".join(named))
    require(answer == right, f"the answer must be {right!r}", repr(answer))


def box_and_items(part: str) -> tuple[str, tuple[str, ...]]:
    """The box that a part of an answer names, and the objects it gives that box."""
    if match := CONTAINS.fullmatch(part):
        return match[1], items_of(match[2])
    if match := IS_EMPTY.fullmatch(part):
        return match[1], ()
    raise Error(f"boxes: an answer says 'Box A contains the bell and the tea' or 'Box A is empty', got {part!r}.")
