"""What a notebook shows of an object: small tables in plain HTML, every word escaped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

report_room: Callable[[], Any]
"""Returns the room that renders runs. The package sets it, since it knows all rooms and a room only earlier ones."""


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """
    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    top = f"<thead><tr>{top}</tr></thead>" if top else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>" + (f"<p>{escape(note)}</p>" if note else "")


def in_notebook() -> bool:
    """Whether this code runs in a kernel of Jupyter; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
