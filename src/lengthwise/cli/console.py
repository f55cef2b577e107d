"""Where words go: results to stdout (tables for people, or JSON alone), everything else to stderr.

Names and errors come from files, and a file may hold the escape sequences that steer a terminal. They end here: what is
written goes through `clean`, and rich adds its own colours after it.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from .verb import Typed

Json = Annotated[bool, "JSON on stdout, nothing else.", Typed(flag="--json")]
"""The option every verb has."""

debug = False
"""Whether tracebacks are shown; set by `--debug`."""
command = "lengthwise"
"""The command line as it was called, for the records."""

quote = shlex.quote

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, C0 and C1, and lone surrogates, each of which stands for a byte that may be one; a tab and a new
line are none."""


def clean(text: str) -> str:
    r"""
    >>> clean("\x1b[31mred\x1b[0m")
    '[31mred[0m'
    """
    return CONTROL.sub("", text)


def open_outputs() -> None:
    """Makes stdout and stderr take every text: a question mark for what they have no code for, nowhere if closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and not _takes_all(stream):
            stream.reconfigure(errors="replace")


def _takes_all(stream: Any) -> bool:
    return codecs.lookup(stream.encoding or "ascii").name.startswith("utf")


class SafeConsole(Console):
    """A console on which only rich itself writes escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))


def out() -> Console:
    """Results. Made anew each time, so that it follows a redirected stdout."""
    return SafeConsole(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def columns(out: Console) -> int:
    """Returns how wide a table may be: as a terminal, or as COLUMNS says; what goes into a file has no such limit."""
    return out.width if out.is_terminal or os.environ.get("COLUMNS") else 10_000


def err() -> Console:
    """Progress and remarks."""
    return SafeConsole(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())


def remark(text: str) -> None:
    """Plain words on stderr, as they are."""
    print(clean(text), file=sys.stderr)


@contextlib.contextmanager
def stdout_kept(as_json: bool) -> Iterator[None]:
    """With `--json`, whatever is printed meanwhile (by a model from outside, here or in a worker) goes to stderr."""
    if not as_json:
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    copy = os.dup(1)
    # Workers, and what is not Python, know stdout by its number alone.
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()
        os.dup2(copy, 1)
        os.close(copy)


def emit(data: Any) -> None:
    """`--json`: the one document on stdout, with null for a number that is not finite, which JSON does not have."""
    from ..files import finite

    text = json.dumps(finite(data), indent=2, ensure_ascii=not _takes_all(sys.stdout))
    # JSON escapes C0 by itself, and may escape any character.
    sys.stdout.write(CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


def answer(as_json: bool, data: Any, text: str) -> None:
    """Prints what a call has to say: the data with `--json`, else the text."""
    emit(data) if as_json else out().print(text, markup=False)
