"""What can go wrong, said so that the reader knows what to do.

Every message states the rule, the value received, and the remedy:
`ModularArithmetic: length must be odd (digits and operators alternate), got 40. Use 39 or 41.`
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

LONGEST = 1200
"""How many characters a message may have."""


class Error(Exception):
    """Any mistake Lengthwise can name. The command line prints it as one line and exits with `exit_code`."""

    exit_code = 2
    said_by_all = False
    """Whether each of several processes says what befell it, and not the first alone."""

    def __str__(self) -> str:
        """The message; of one that quotes something endless, its beginning and its end."""
        message = super().__str__()
        return message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} […] {message[-LONGEST // 3 :]}"


def in_words(value: object) -> str:
    """Its repr; Python gives none of a number with thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"


class UnknownName(Error):
    """A task, model, recipe or setting that does not exist; the message suggests the nearest that does."""

    def __init__(self, kind: str, name: str, known: Iterable[str], also: str = ""):
        """`also`: what else can be named, said where no name is near."""
        known = sorted(set(known))
        # Whoever says `lr` has left out the part before the dot.
        near = [each for each in known if each.endswith(f".{name}")] or get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
        super().__init__(f"Unknown {kind} {name!r}. {hint}{f' {also}' if also and not near else ''}")


class LengthError(Error):
    """A length the task or model cannot have."""


class ShapeError(Error):
    """A tensor, vocabulary or model output of the wrong size."""


class ForeignError(Error):
    """Code of the user's, or of another library, that failed while it ran: the call was fine."""

    exit_code = 1


class TooLarge(Error):
    """More of something than a limit allows; the message says how the limit is raised."""


class OutOfMemory(Error):
    """More memory would be needed than there is; nothing was taken."""


class RecordError(Error):
    """A run directory that is damaged, edited, unwritable or in use."""


class NonFiniteError(Error):
    """Training or evaluation produced NaN or infinity: the call was fine, the finding is bad."""

    exit_code = 1


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """A module that `pip install 'lengthwise[extra]'` brings, for `what` needs it; an error with that line without it.

    >>> import_extra("json", "json", "this").dumps([1])
    '[1]'
    """
    check_extra(module, extra, what)
    return import_module(module)


def check_extra(module: str, extra: str, what: str) -> None:
    """Raise unless the module is installed; it is not imported."""
    if find_spec(module) is None:
        raise Error(f"{what} needs {module}, which is not installed. pip install 'lengthwise[{extra}]'")
