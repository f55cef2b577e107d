"""The application: its verbs, and the one place where mistakes become a line on stderr and an exit code.

0: done, and the finding is good. 1: the call was fine, the finding is bad (a run diverged or is damaged, a machine that
cannot run). 2: the call is wrong. 130: stopped by Ctrl-C. A mistake is one line, `error: …`; `--debug`, before or after
the verb (or LENGTHWISE_DEBUG=1), shows where it happened.

Nothing here imports torch: `lengthwise --help` answers at once, and each verb imports what it needs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import Error
from . import console, registries
from .bench import bench
from .certify import certify
from .cliff import cliff
from .compile import compile_
from .doctor import doctor
from .eval import evaluate
from .export import export
from .inspect import inspect
from .list import list_names
from .report import report_runs
from .reproduce import reproduce
from .train import train
from .verb import Verb, Verbs
from .work import INTERRUPTED
from .zoo import push, zoo

HERE = Path(__file__).parents[1]
"""The folder of this package."""

app = typer.Typer(
    name="lengthwise",
    cls=Verbs,
    help="Train short, test long: sequence models that keep working past the length they were trained on.",
    epilog="Start with: lengthwise doctor, lengthwise list, lengthwise bench parity --model lstm. "
    "Exit codes: 0 fine, 1 a run failed or is damaged, nothing is proved, or a model is not usable up to --at-least, "
    "2 wrong input, 130 stopped by Ctrl-C.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for name, verb in {
    "list": list_names,
    "bench": bench,
    "train": train,
    "reproduce": reproduce,
    "report": report_runs,
    "inspect": inspect,
    "certify": certify,
    "cliff": cliff,
    "export": export,
    "compile": compile_,
    "zoo": zoo,
    "push": push,
    "doctor": doctor,
}.items():
    app.command(name, cls=Verb)(verb)
app.add_typer(evaluate, name="eval")

# Newer typer carries its own copy of click, so the base class of "the call is wrong" is found, not imported.
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(asked: bool) -> None:
    if asked:
        print(f"lengthwise {__version__}")
        raise typer.Exit


@app.callback()
def top(
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="LENGTHWISE_DEBUG", help="Show where an error happened; also after the verb."),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    console.debug = console.debug or debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    console.open_outputs()
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # torch's warnings of its own would come from every process. It reads this when it is imported.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    command = " ".join(["lengthwise", *map(console.quote, arguments)])
    # Bytes that are no UTF-8 cannot be written into a page.
    console.command = command.encode(errors="backslashreplace").decode()
    console.debug = "--debug" in arguments or os.environ.get("LENGTHWISE_DEBUG", "") not in ("", "0")
    arguments = [each for each in arguments if each != "--debug"]
    with _noting_ctrl_c() as pressed, _plain_warnings():
        code, message = _run(arguments)
    if pressed and message:
        # Whatever a Ctrl-C broke (an import reports a module that is not there), it is no mistake.
        code, message = INTERRUPTED, "stopped"
    if message:
        console.remark(f"error: {' '.join(message.split())}")
    return code


def _run(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what went wrong, if anything."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="lengthwise", standalone_mode=False) or 0
        return code, "stopped" if code == INTERRUPTED else ""
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left to flush has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0, ""
    except (Exception, KeyboardInterrupt) as error:
        if console.debug:
            console.remark(traceback.format_exc())
        code, message = _mistake(error)
        return code, message if speaks(error) else ""


def speaks(error: BaseException) -> bool:
    """True if this process says what went wrong: of torchrun's the first does, or who must in its place."""
    follows = "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"
    return not follows or getattr(error, "said_by_all", False)


def _mistake(error: BaseException) -> tuple[int, str]:
    """The exit code and the line of an error."""
    if isinstance(error, Error):
        return error.exit_code, str(error)
    if isinstance(error, _UsageError):
        return 2, _in_our_words(error)
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "stopped"
    if isinstance(error, OSError):
        return 2, f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return 2, "Could not determine home directory. Write a path that begins with ~ in full."
    return 1, f"{type(error).__name__}: {error} (unexpected; --debug shows where)"


def _in_our_words(error: Any) -> str:
    """Returns what typer says of a wrong call, as one sentence, the nearest name and where the others stand."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "lengthwise"
    message = error.format_message().removeprefix("Invalid value: ").replace("Value error, ", "").strip().rstrip(".")
    if option := getattr(error, "option_name", None) if "No such option" in message else None:
        known = [flag for each in context.command.get_params(context) for flag in each.opts] if context else []
        near = get_close_matches(option, known, n=1, cutoff=0.6)
        slip = get_close_matches(option, known, n=1, cutoff=0.9)
        takes_settings = path.rpartition(" ")[2] in ("bench", "train")
        whole = registries.setting(option.lstrip("-").replace("-", "_")) if takes_settings and not slip else None
        meant = f"--set {whole}=…" if whole else near[0] if near else None
        meant = "--sweep training.lr=1e-3,3e-4" if option == "--learning-rates" else meant
        message = f"{path} has no option {option}" + (f". Did you mean {meant}?" if meant else "")
    elif "unexpected extra argument" in message:
        message = f"{path} has no use for {message.partition('(')[2].partition('(')[2].rstrip(')')}"
    return f"{message}{'' if message.endswith('?') else '.'} See: {path} --help"


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Shows each warning of this package as one line, once, without the line of code that gave it."""
    show, messages = warnings.showwarning, set()

    def remark(message: Any, category: Any, filename: str, *where: Any, **more: Any) -> None:
        if not Path(filename).is_relative_to(HERE):
            show(message, category, filename, *where, **more)
        elif str(message) not in messages:
            messages.add(str(message))
            console.remark(f"warning: {message}")

    warnings.showwarning = remark
    try:
        yield
    finally:
        warnings.showwarning = show


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
