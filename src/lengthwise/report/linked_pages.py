"""The other pages among the records, such as those of recipes, whose panels can be drawn by their recipe alone."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

MARK = '<script type="application/json" id="'
"""What every page of this library has: its numbers."""


def other_pages(directories: Iterable[str | Path], page: Path) -> dict[str, str]:
    """From its address, relative to `page`, to the title of every other page in or below these directories."""
    found: dict[str, str] = {}
    for directory in map(Path, directories):
        for path in sorted(directory.rglob("*.html")) if directory.is_dir() else ():
            text = path.read_text(encoding="utf-8", errors="replace")
            title = re.search(r"<title>(.*?)</title>", text, re.S)
            if title and MARK in text and path.resolve() != page.resolve():
                address = os.path.relpath(path.resolve(), page.resolve().parent)
                found[quote(address.replace(os.sep, "/"))] = html.unescape(title[1])
    return found


def linked_pages(links: Mapping[str, str]) -> str:
    """A section that lists them; empty where there are none."""
    if not links:
        return ""
    rows = "".join(
        f'<li><a href="{html.escape(address)}">{html.escape(title)}</a></li>' for address, title in links.items()
    )
    return (
        '<section id="pages"><h2>Other pages among these records</h2><p class="note">Each shows the runs of the '
        f"command that wrote it, and the tables and figures of its recipe.</p><ul>{rows}</ul></section>"
    )
