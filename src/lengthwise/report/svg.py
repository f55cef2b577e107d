"""What drawings share: how a line is told from others, how an inline SVG begins, and small pictures for legends."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from ..seeds import derive

SERIES = 8
DASHES = ("", "12 4", "4 3", "12 4 3 4")
"""Lengths of strokes and gaps, in pixels."""


@dataclass(frozen=True)
class Style:
    """How the i-th line is drawn, told apart by colour and by dash."""

    role: str
    """A colour of the page, by its variable."""
    dash: str = ""

    @classmethod
    def of(cls, i: int) -> Style:
        # The second lap through the colours meets other dashes: 8 colours and 4 dashes make 32 lines.
        return cls(f"s{i % SERIES}", DASHES[(i + i // SERIES) % len(DASHES)])

    @property
    def attributes(self) -> str:
        return f'stroke="var(--{self.role})"' + (f' stroke-dasharray="{self.dash}"' if self.dash else "")


BASE = Style("muted", "5 5")
"""How the line is drawn that the others are compared with."""


def head(name: str, title: str, description: str, box: str, more: str = "") -> str:
    """Returns how every drawing begins, with what is read out loud of it; `more` attributes at the end."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc"{more}>\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-desc">{escape(description)}</desc>'
    )


def at_most(width: float) -> str:
    """The attribute of a drawing that grows with the page up to so many pixels."""
    return f' style="max-width:{width:.0f}px"'


def name_of(letter: str, *content: Any) -> str:
    """Returns a name made of what is drawn: any number of drawings share a page, and the same one is the same text."""
    return f"{letter}{derive(*content) % 16**10:010x}"


def line_key(style: Style) -> str:
    """A piece of the line, for a legend."""
    return swatch(30, f'<path d="M1 5h28" stroke-width="3" {style.attributes}/>')


def dot_key(style: Style) -> str:
    """The dot, for a legend."""
    return swatch(12, f'<circle cx="6" cy="5" r="4" fill="var(--{style.role})"/>')


def swatch(width: int, shape: str) -> str:
    """A small picture before a name in a legend."""
    return f'<svg class="key" width="{width}" height="10" aria-hidden="true">{shape}</svg>'
