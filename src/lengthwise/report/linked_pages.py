"""The other pages among the records, such as those of recipes, whose panels can be drawn by their recipe alone."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from ..errors import RecordError
from ..files import open_file
from .panel import Table, TableCell

START = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>"""
"""How every page of this library begins, up to its title."""
HEAD = 8192
"""So many bytes of a file are read to know it by."""


def other_pages(directories: Iterable[str | Path], page: Path) -> dict[str, str]:
    """From its address, relative to `page`, to the title of every other page in or below these directories."""
    titles: dict[str, str] = {}
    for directory in map(Path, directories):
        for path in sorted(_html_files(directory)):
            title = _title(path)
            if title is not None and path.resolve() != page.resolve():
                address = os.path.relpath(path.resolve(), page.resolve().parent)
                titles[quote(address.replace(os.sep, "/"))] = title
    return titles


def _html_files(directory: Path) -> Iterator[Path]:
    """Those below a directory, but for folders that are hidden or a logger's."""
    for folder, below, names in os.walk(directory):
        below[:] = [name for name in below if not name.startswith(".") and name != "wandb"]
        yield from (path for name in names if name.endswith(".html") and (path := Path(folder, name)).is_file())


def _title(path: Path) -> str | None:
    """The title of a page of this library; None of any other file, and of one that cannot be read."""
    try:
        with open_file(path) as file:
            head = file.read(HEAD).decode(errors="replace")
    except (OSError, RecordError):
        return None
    # A file may have the line ends of another system.
    title = re.match(f"{re.escape(START)}(.*?)</title>", head.replace("\r\n", "\n"), re.S)
    return html.unescape(title[1]) if title else None


def linked_pages(links: Mapping[str, str]) -> Table:
    """Returns a link to each of them."""
    caption = "Each shows the runs of the command that wrote it, and the tables and figures of its recipe."
    rows = [[TableCell(title, link=address)] for address, title in links.items()]
    return Table("Other pages among these records", caption, ["page"], rows)
