"""What the registries list, a row a name, as `cli/names.jsonl` has it. After a registry has changed,

    python tests/cli/listed_names.py

writes that file anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from lengthwise import lab, mixers, models, positions, recipes, tasks
from lengthwise.cli import registries
from lengthwise.cli.list import CALLS, example, example_value
from lengthwise.files import write_text

VALUES: dict[str, Any] = {
    "pattern": "(ab|ba)*",
    "delta": [[0, 1], [1, 0]],
    "checkpoint": "gpt2",
    "heads": 8,
    "rows": 512,
    "gamma": 0.9,
    "chunk": 2,
    "p": 1.2,
    "state": 64,
    "order": 2,
    "matrices": 8,
    "steps": 2,
    "values": 2,
    "step_min": 0.001,
    "step_max": 0.1,
    "r_min": 0.5,
    "r_max": 0.99,
    "phase": 6.28,
    "inside": {"name": "learned", "rows": 64},
    "between": {"name": "rope"},
    "ends": [13, 198],
    "back": [30],
    "levels": [{"name": "learned", "rows": 64}, {"name": "rope"}, {"name": "alibi"}],
    "level_ends": [[13], [198]],
    "of": {"name": "rope"},
    "longest": 2048,
}
"""What an example gives for options that must be given and are no choice between words."""
PYTHON = {
    "position": 'from lengthwise import positions; positions.get("{}", width=64, heads=8',
    "mixer": 'from lengthwise import mixers; mixers.get("{}", width=64',
}
"""The rooms whose things are made in Python alone."""
ELSEWHERE = {"recipe": "lengthwise reproduce {}", "settings": "lengthwise bench parity -m lstm"}


def rows() -> Iterator[dict[str, Any]]:
    """Yields what the file holds, from the registries themselves."""
    every: dict[str, tuple[dict[str, str], Any]] = {
        "tasks": (tasks.available(), tasks.options),
        "models": (models.available(), models.options),
        "recipes": (recipes.available(), lambda name: recipes.options(*name.split())),
        "positions": ({name: _about(kind) for name, kind in positions.POSITIONS.items()}, positions.options),
        "mixers": ({name: _about(kind) for name, kind in mixers.MIXERS.items()}, mixers.options),
        "settings": (registries.SETTINGS, lab.settings_of_part),
    }
    for table, (names, of) in every.items():
        room = table if table == "settings" else table.removesuffix("s")
        for name, line in names.items():
            known = json.loads(json.dumps([option.to_json() for option in of(name).values()]))
            about = {"table": table, "room": room, "name": name, "line": line, "options": known}
            yield {**about, "example": _example(room, name, known)}


def _example(room: str, name: str, options: list[dict[str, Any]]) -> str:
    of_value = [{**o, "default": VALUES[o["name"]]} if o["required"] and o["name"] in VALUES else o for o in options]
    if room not in PYTHON:
        prefix = {"recipe": "", "settings": f"{name}."}.get(room, f"{room}.")
        return example((CALLS | ELSEWHERE)[room].format(name), prefix, of_value)
    required = [option for option in of_value if option["required"]]
    return PYTHON[room].format(name) + "".join(f", {o['name']}={_in_python(o)}" for o in required) + ")"


def _in_python(option: dict[str, Any]) -> str:
    value = example_value(option)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _about(kind: Any) -> str:
    """The first sentence on a class; where its docstring is on options, that of its file."""
    kind = getattr(kind, "func", kind)
    own = kind.__doc__ or ""
    text = (sys.modules[kind.__module__].__doc__ or "") if own.strip()[:1] in ("", "`") else own
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    whole = re.match(r".*?[.?!](?=\s|$)", paragraph)
    # A sentence may run into a formula that is set apart.
    return whole[0] if whole else paragraph.split(":")[0] + "."


if __name__ == "__main__":
    write_text(registries.FILE, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()))
