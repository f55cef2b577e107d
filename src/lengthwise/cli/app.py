"""The application: its verbs, and the one place where mistakes become a line on stderr and an exit code.

0: done, and the finding is good. 1: the call was fine, the finding is bad (a run diverged, a machine that cannot run).
2: the call is wrong. A mistake is one line, `error: …`; `--debug` (or LENGTHWISE_DEBUG=1) shows where it happened.

Nothing here imports torch: `lengthwise --help` answers at once, and each verb imports what it needs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from .. import __version__
from ..errors import Error
from . import console
from .bench import bench
from .doctor import doctor
from .export import export
from .inspect import inspect
from .list import list_names
from .report import report_runs
from .reproduce import reproduce
from .work import INTERRUPTED

app = typer.Typer(
    name="lengthwise",
    help="Train short, test long: sequence models that keep working past the length they were trained on.",
    epilog="Start with: lengthwise doctor, lengthwise list, lengthwise bench parity --model lstm",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("list")(list_names)
app.command("bench")(bench)
app.command("reproduce")(reproduce)
app.command("report")(report_runs)
app.command("inspect")(inspect)
app.command("export")(export)
app.command("doctor")(doctor)

# Newer typer carries its own copy of click, so the base class of "the call is wrong" is found, not imported.
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

TYPER_INTERRUPTED = 130
"""What typer returns when a Ctrl-C ends a verb."""


def _version(asked: bool) -> None:
    if asked:
        print(f"lengthwise {__version__}")
        raise typer.Exit


@app.callback()
def top(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="LENGTHWISE_DEBUG", help="Show where an error happened.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    console.debug = debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    console.debug = os.environ.get("LENGTHWISE_DEBUG", "") not in ("", "0")
    console.command = " ".join(["lengthwise", *map(console.quote, arguments)])
    with _noting_ctrl_c() as pressed:
        code, message = _run(arguments)
    if pressed and message:
        # Whatever a Ctrl-C broke (an import reports a module that is not there), it is no mistake.
        code, message = INTERRUPTED, "stopped"
    if message:
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _run(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what went wrong, if anything."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="lengthwise", standalone_mode=False) or 0
        return (INTERRUPTED, "stopped") if code == TYPER_INTERRUPTED else (code, "")
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left to flush has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0, ""
    except (Exception, KeyboardInterrupt) as error:
        if console.debug:
            traceback.print_exc()
        return _mistake(error)


def _mistake(error: BaseException) -> tuple[int, str]:
    """The exit code and the line of an error."""
    if isinstance(error, Error):
        return error.exit_code, str(error)
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        hint = f" See: {context.command_path} --help" if context else ""
        return 2, getattr(error, "format_message", error.__str__)().replace("Value error, ", "") + hint
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "stopped"
    if isinstance(error, OSError):
        return 2, f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    return 1, f"{type(error).__name__}: {error} (unexpected; --debug shows where)"


@contextmanager
def _noting_ctrl_c() -> Iterator[list[int]]:
    """Remembers that Ctrl-C was pressed, for libraries that swallow it."""
    pressed: list[int] = []

    def note(signum: int, frame: object) -> None:
        pressed.append(signum)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
