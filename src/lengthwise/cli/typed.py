"""What several verbs take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from ..files import must_exist
from ..lab.launch import Loading
from ..options import Option, Word, at_least, schema, value_of
from .verb import Typed


def read_seeds(numbers: Any, label: str = "--seeds") -> int | list[int]:
    """Returns the number of runs, or the seeds in a list, as typed or as a file has them.

    >>> read_seeds("3"), read_seeds("1,5"), read_seeds("[7]"), read_seeds([7])
    (3, [1, 5], [7], [7])
    """
    value = Word(numbers) if isinstance(numbers, str) else numbers
    listed = value_of(str(numbers))
    kind, least = (list[int], 0) if listed and isinstance(listed, list) else (int, 1)
    return Option(label, kind, bounds=at_least(least)).read(value, label)


def read_place(model: str) -> str:
    """Raises for a path that is not there; a name on the hub has one slash, after no folder of that name here."""
    place = Path(model).expanduser()
    if model[:1] in "./~" or len(place.parts) > 2 or (len(place.parts) == 2 and place.parent.is_dir()):
        must_exist(place)
    return model


SET = Typed("NAME=VALUE", flag="--set", short="-s")
TaskName = Annotated[str, "A task by name (see `lengthwise list`), or regex:PATTERN.", Typed("TASK", argument=True)]
TaskSettings = Annotated[list[str] | None, "A setting of the task, as task.NAME=VALUE; repeat it.", SET]
Checkpoint = Annotated[Literal["last", "best"], schema(Loading)["which"].line, Typed("WHICH", flag="--checkpoint")]
Html = Annotated[Path | None, "Write a page here.", Typed("PATH")]
Settings = Annotated[
    list[str] | None,
    "One setting of task., model., MODEL., training. or tests.; for text also of text. or objective.; repeat it.",
    SET,
]
Seeds = Annotated[
    Any,
    "Runs of each model: how many, with seeds 0, 1, …, or which seeds, as in 1,5.",
    Typed("N|SEEDS", read=read_seeds),
]
