"""Which lengths are tested: written down as `41:500:20,1000`, or chosen to suit the training lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from .. import tasks
from ..errors import Error
from ..limits import LENGTHS
from ..options import Option, at_least
from ..tasks.formal_language import FormalLanguage

if TYPE_CHECKING:
    from .records import Run

NEAR = 10
"""A first possible length up to this is only told to who asked for shorter ones: 1 is no more than the default."""
LOOKED = 60
"""So many lengths show which of a range are possible."""


def lengths(text: str) -> tuple[int, ...]:
    """Lengths in increasing order, each once; `start:stop:step` includes its stop where hit.

    >>> lengths("41:101:20,1000,7")
    (7, 41, 61, 81, 101, 1000)
    """
    if not isinstance(text, str):
        raise Error(f"Lengths are written as a text such as '41:500:20,1000', got {text!r}.")
    return read_lengths(text)


def read_lengths(wanted: str | Sequence[int], name: str = "test_lengths", least: int = 1) -> tuple[int, ...]:
    """Lengths as they are written, or given as numbers of at least `least`: 5.5 is none."""
    if not isinstance(wanted, str):
        if isinstance(wanted, Sized) and not isinstance(wanted, Mapping):
            LENGTHS.check(len(wanted), name)
            wanted = list(wanted) if isinstance(wanted, Iterable) and not hasattr(wanted, "tolist") else wanted
        return Option(name, tuple[int, ...], bounds=at_least(least)).read(wanted, name)
    every: set[int] = set()
    for part in wanted.split(","):
        try:
            numbers = [int(number) for number in part.split(":")]
            if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
                raise ValueError
        except ValueError:
            raise Error(
                f"Lengths are numbers of at least 1 and ranges START:STOP:STEP joined by commas, got {part!r}. "
                "For example 41:500:20,1000."
            ) from None
        start, stop, step = numbers * 2 + [1] if len(numbers) == 1 else (*numbers, 1)[:3]
        if start > stop:
            raise Error(f"The range {part!r} is empty: its start is above its stop.")
        LENGTHS.check(len(every) + (stop - start) // step + 1, f"The range {part!r}")
        every.update(range(start, stop + 1, step))
    return tuple(sorted(every))


def tested_lengths(task: tasks.Task, trained: list[int], wanted: str | Sequence[int] | None) -> tuple[int, ...]:
    """The wanted lengths, by default about 24 up to 12.5 times the longest trained one, and four that were trained.

    Those four are there because a failure beyond training proves nothing without success inside.
    """
    longest = trained[-1]
    if wanted is None:
        possible = [n for n in range(longest + 1, int(longest * 12.5) + 1) if task.problem(n) is None]
        tested = possible[:: max(1, len(possible) // 24)]
    else:
        tested = read_lengths(wanted)
        for n in tested:
            task.check(n)
    if not tested or max(tested) < longest:
        raise Error(
            f"The longest training length ({longest}) is above every test length ({max(tested, default='none')}), "
            f"so nothing would be tested past training. Lower --train-length or raise --test-lengths."
        )
    inside = {trained[(len(trained) - 1) * quarter // 4] for quarter in range(1, 5)}
    return tuple(sorted({*tested, *inside}))


def which_lengths(task: tasks.Task, low: int, high: int) -> str:
    """Returns which of low..high are possible, in words; empty if all are. Of a wide range the first 60 are looked at.

    >>> which_lengths(tasks.get("tomita-5"), 1, 40), which_lengths(tasks.get("parity"), 1, 40)
    ('even lengths only', '')
    """
    looked = range(low, min(high, low + LOOKED - 1) + 1)
    possible = [n for n in looked if task.problem(n) is None]
    if not possible or len(possible) == len(looked):
        return ""
    first, period = possible[0], math.gcd(*(n - possible[0] for n in possible))
    if period == 2 and first <= low + 1:
        return f"{'odd' if first % 2 else 'even'} lengths only"
    gaps = [f"{n:,}" for n in looked if n > first and n not in possible]
    if not gaps:
        return f"from length {first:,} on" if low > 1 or first > NEAR else ""
    if period > 1:
        return f"lengths {', '.join(f'{n:,}' for n in possible[:3])}, … only"
    return f"no strings of length {', '.join(gaps[:3])}{', …' * (len(gaps) > 3)}"


def lengths_of(run: Run) -> str:
    """`even lengths only`: what the record says or, of an older one, what its task says if it has no parameters."""
    e = run.experiment
    if "which_lengths" in run.result or e.on_text or e.task.params or e.task.name not in tasks.available():
        return run.result.get("which_lengths", "")
    return which_lengths(tasks.get(e.task.name), e.training.curriculum.lengths[0], max(e.tests.lengths))


def lengths_note(task: tasks.Task, low: int, longest: int) -> str | None:
    """Returns which lengths strings are made of, where not of all, and how the others can count."""
    which = which_lengths(task, low, longest)
    remedy = " To train on prefixes of every length too: --set task.supervision=prefix"
    last = isinstance(task, FormalLanguage) and task.supervision == "last"
    return f"{task.name}: {which}.{remedy if last else ''}" if which else None
