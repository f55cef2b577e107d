"""A panel: one finding beside the runs, a chart or a table, ready for the page, the terminal and `--json` alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Panel:
    title: str
    caption: str
    """How to read it, in a sentence or two."""
    body: str
    """HTML for the page: inline SVG, a table."""
    text: str
    """The same in words, for the terminal."""
    data: Any
    """The same in numbers: JSON-like."""
    finding: str = ""
    """What was found, in a plain sentence for the top of the page; empty where the panel only illustrates."""

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "caption": self.caption, "data": self.data}
