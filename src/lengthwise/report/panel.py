"""A panel: one finding beside the runs, a chart or a table, ready for the page, the terminal and `--json` alike."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.resources import files
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

    def _repr_html_(self) -> str:
        """What a notebook shows: the panel in the page's colours, which are its own there."""
        css = files("lengthwise.report").joinpath("page.css").read_text(encoding="utf-8")
        colours = css[: css.index("* {")].replace(":root", ".lengthwise")
        return (
            f"<style>{colours}.lengthwise .narrow {{ display: none; }} .lengthwise svg {{ max-width: 860px; }}</style>"
            f'<div class="lengthwise"><h4>{escape(self.title)}</h4>{self.body}<p>{escape(self.caption)}</p></div>'
        )

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "caption": self.caption, "data": self.data}
