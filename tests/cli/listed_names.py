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
from lengthwise.files import write_text


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
        for name, line in names.items():
            known = [option.to_json() for option in of(name).values()]
            yield json.loads(json.dumps({"table": table, "name": name, "line": line, "options": known}))


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
