"""Where words go: results to stdout (tables for people, or JSON alone), everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
"""The option every verb has."""

debug = False
"""Whether tracebacks are shown; set by `--debug`."""
command = "lengthwise"
"""The command line as it was called, for the records."""

quote = shlex.quote


def out() -> Console:
    """Results. Made anew each time, so that it follows a redirected stdout."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Progress and remarks."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())


@contextlib.contextmanager
def stdout_kept(as_json: bool) -> Iterator[None]:
    """With `--json`, whatever is printed meanwhile (by a model from outside, here or in a worker) goes to stderr."""
    if not as_json:
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    kept = os.dup(1)
    # Workers, and what is not Python, know stdout by its number alone.
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def emit(data: Any) -> None:
    """`--json`: the one document on stdout."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
