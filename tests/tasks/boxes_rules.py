"""The rules of the three forms, checked on any prompt and answer: an error names the rule that is broken."""

from lengthwise.errors import Error
from lengthwise.tasks.boxes.forms import AT_FIRST, FORMS, Form
from lengthwise.tasks.boxes.story import Operation, Story, listed, read
from lengthwise.tasks.boxes.vocabulary import LETTERS


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
    require(answer == story.answer(), f"the answer must be {story.answer()!r}", repr(answer))
    return story


def empties(story: Story, answer: str) -> bool:
    """Returns whether description or answer speak of empty boxes, or the boxes described are not half of all."""
    described = [box for box, _ in story.described]
    whole = sorted(described) == list(LETTERS[: len(described)])
    return whole or "is empty" in answer or any(not items for _, items in story.described)


def require(holds: bool, rule: str, got: str) -> None:
    if not holds:
        raise Error(f"boxes: {rule}, got {got}.")


def in_order(items: tuple[str, ...]) -> None:
    require(list(items) == sorted(set(items)), "objects are named once each and sorted", ", ".join(items))


def check_description(story: Story, rules: Form) -> None:
    boxes = [box for box, _ in story.described]
    asks = "all boxes" if story.query is None else f"Box {story.query}"
    require((story.query is not None) == rules.query, "the original form asks for one box, the others for all", asks)
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
    """Raises unless an operation keeps the rules of the form, beyond being possible."""
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
