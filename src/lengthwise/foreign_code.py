"""Errors in code that is not this library's: a model of your own, or one of another library, called by name.

Whatever it raises becomes one line that names the model, what it was doing, and the file and line that raised; the
error itself stays its cause, whose traceback `--debug` and the record of a failed run show.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import Error

PYTHON = sysconfig.get_path("stdlib")
OURS = str(Path(__file__).parent)


@contextmanager
def blaming(name: str, doing: str, kind: type[Error] = Error) -> Iterator[None]:
    """A block that runs the code of the model `name`, to whose user `doing` is said ("could not be built").

    `kind` is the error it becomes: `Error` where the call was wrong, `ForeignError` where code failed while it ran.
    """
    try:
        yield
    except (Error, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        # Others wait for these: a batch that did not fit the memory is read in smaller parts.
        if type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
            raise
        message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raised = "sys.exit" if isinstance(error, SystemExit) else type(error).__name__
        raise kind(f"{name}: {doing}: {raised}{place(error)}{': ' if message else ''}{message}") from error


def place(error: BaseException) -> str:
    """Where the model's own code raised or made the call that did: " (model.py:12)"; "" where only others' code ran."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}:{error.lineno})"
    own = [frame for frame in frames if not _elsewhere(frame.filename)]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _elsewhere(file: str) -> bool:
    """Whether it is no file of the model's, nor of a package that it comes from."""
    # Not imported here, for the command line answers without it.
    torch = str(Path(sys.modules["torch"].__file__ or "").parent) if "torch" in sys.modules else "<"
    return file.startswith((OURS, torch, "<")) or (file.startswith(PYTHON) and "site-packages" not in file)
