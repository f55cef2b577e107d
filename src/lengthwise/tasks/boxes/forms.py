"""The three forms of Boxes, and what makes a set of sizes possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...errors import Error

AT_FIRST = 3
"""The most objects a box holds at first, where counts are drawn."""


FormName = Literal["default", "advanced", "original"]


@dataclass(frozen=True)
class Form:
    name: FormName
    boxes: int
    """The published number of boxes."""
    contents: Literal["never", "whole", "always"]
    """When a move says "the contents of": "never", when the "whole" box moves, or "always" (no other moves exist)."""
    half: bool
    """Exactly half of the boxes are occupied at all times, each by one object at first, and only they are described."""
    query: bool
    """The prompt ends with a question about one box, and the answer is that box instead of all."""


FORMS = {
    form.name: form
    for form in (
        Form("default", 7, "whole", half=False, query=False),
        Form("advanced", 8, "always", half=True, query=False),
        Form("original", 7, "never", half=False, query=True),
    )
}


def checked_sizes(task: str, form: FormName, boxes: int | None, objects: int) -> tuple[Form, int, int]:
    """The form and its sizes, or an error: there must be a possible operation whatever happened before."""
    rules = FORMS[form]
    boxes = rules.boxes if boxes is None else boxes
    if rules.half and boxes % 2:
        raise Error(
            f"{task}: boxes must be even in form {form!r} (half of them are occupied), got {boxes}. "
            f"Use {boxes - 1} or {boxes + 1}."
        )
    least = (boxes // 2 if rules.half else AT_FIRST * boxes) + 1
    if objects < least:
        first = "one in half of the boxes" if rules.half else f"{AT_FIRST} in every box"
        raise Error(
            f"{task}: objects must be at least {least} with {boxes} boxes in form {form!r} "
            f"({first} at first, and one to put), got {objects}. Use {least} or more, or fewer boxes."
        )
    return rules, boxes, objects
