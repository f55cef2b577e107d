"""How `lengthwise certify` says a verdict, writes it down, and reads it and what is typed back: words and settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Error
from ..files import parse_json, read_bytes, write_text
from . import console

if TYPE_CHECKING:
    from ..lab import Run
    from ..verify import Refuted, Verdict
    from ..verify.certification import Outcome
    from ..verify.subject import Subject

PICTURE, QUICK, PICTURE_SHARE = 10.0, 2.0, 1 / 6
"""Seconds to extract what a run computes, at most: of one that is proved, of any other, and a share of the budget."""
TYPED = 160
"""A word is typed in a command up to so many characters; a longer one is read from a file."""


def keep_picture(run: Run, subject: Subject, verdict: Verdict, budget: float, checkpoint: str) -> None:
    """What the run computes, beside it for its page: where it is proved, or where that is quickly seen."""
    from ..verify import Proved
    from ..verify.kept import keep_picture

    seconds = min(budget * PICTURE_SHARE, PICTURE if isinstance(verdict, Proved) else QUICK)
    if seconds >= 1:
        keep_picture(run, subject.model, subject.claim, seconds, checkpoint)


def read_file(path: Path) -> Any:
    remedy = "Name a JSON file that certify --out wrote"
    return parse_json(read_bytes(path, remedy), str(path), f"{remedy}.")


def write(path: Path, verdict: Verdict) -> None:
    data = verdict.to_json()
    write_text(path, json.dumps(data.get("certificate", data), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_word(text: str) -> tuple[int, ...]:
    """
    >>> read_word("0:3 1 0")
    (0, 0, 0, 1, 0)
    """
    if Path(text).is_file():
        content = read_file(Path(text))
        tokens = content.get("word") if isinstance(content, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(s, int) and s >= 0 for s in tokens):
            raise Error(f"{text}: holds no word. Give a file that certify --out wrote about a refuted model.")
        return tuple(tokens)
    from ..limits import LENGTH

    word: list[int] = []
    for part in text.split():
        token, _, times = part.partition(":")
        if not (token.isdecimal() and (times or "1").isdecimal() and len(part) < 20):
            raise Error(f"--word is tokens, or TOKEN:TIMES, as in '0:37 1', or a file, got {text!r:.80}.")
        LENGTH.check(len(word) + int(times or 1), "--word")
        word += [int(token)] * int(times or 1)
    return tuple(word)


def in_runs(word: Sequence[int]) -> str:
    """
    >>> in_runs([0, 0, 0, 1, 0])
    '0:3 1 0'
    """
    counted = ((s, sum(1 for _ in run)) for s, run in groupby(word))
    return " ".join(str(s) if k == 1 else f"{s}:{k}" for s, k in counted)


def command(again: list[str], verdict: Verdict, out: Path | None) -> str | None:
    """What shows a wrong word once more."""
    word = getattr(verdict, "word", None)
    if word is None:
        return None
    text = in_runs(word)
    if len(text) > TYPED:
        if not out:
            return None
        text = str(out)
    return " ".join(map(console.quote, [*again, "--word", text]))


def say(outcome: Outcome, subject: Subject, command: str | None) -> None:
    from ..verify import Proved, Refuted

    verdict, search, out = outcome.verdict, outcome.search, console.out()
    if isinstance(verdict, Proved):
        out.print("[bold green]PROVED[/] for every length.", end=" ")
        out.print(f"{verdict.certificate['words']}", markup=False)
    elif isinstance(verdict, Refuted):
        out.print(f"[bold red]REFUTED[/] at length {len(verdict.word):,}, the shortest failure found.")
        out.print(_shown(verdict, subject), markup=False)
        if search.seen and search.seen > len(verdict.word):
            out.print(f"It was first seen at {search.seen:,} tokens.", markup=False)
        if search.predicted:
            out.print(f"Margins at shorter lengths predicted it at about {search.predicted:,} tokens.", markup=False)
        again = command or "--out FILE keeps the word, which is too long to be typed."
        out.print(f"{'See it again: ' if command else ''}{again}", markup=False)
    else:
        out.print("[bold yellow]UNKNOWN[/]:", end=" ")
        out.print(f"{verdict.why}.", markup=False)
        if verdict.by_how_much is not None:
            out.print(f"What was nearest to a proof is short by {verdict.by_how_much:.3g}.", markup=False)
        if search.stopped:
            out.print(f"It reads no longer strings: {search.stopped}", markup=False)
    if outcome.kept and not isinstance(verdict, Proved):  # whose words say it
        out.print(f"This copy was {outcome.made}: it keeps {outcome.kept}.", markup=False)
    if outcome.cut_short and not isinstance(verdict, Proved):
        taught = f"The copy was taught for {outcome.cut_short:.0f} s, all that --budget gave it"
        out.print(f"{taught}: a larger one teaches it to the end.", markup=False)


def _shown(verdict: Refuted, subject: Subject) -> str:
    """The word in the machine's symbols, and both answers."""
    names = subject.claim.machine.symbols
    word = ("" if max(map(len, names)) == 1 else " ").join(names[s] for s in verdict.word)
    word = word if len(word) <= TYPED else f"{word[:TYPED]} …"
    said = "nothing" if verdict.said == () else verdict.said
    return f"word:  {word}\nsaid:  {said}\nright: {verdict.right if verdict.right != () else 'nothing'}"


def own_settings(run: Run) -> list[str]:
    """--set for each setting of the run's task that is not the default."""
    from .. import tasks

    task = run.experiment.task
    known = tasks.options(task.name) if task.name in tasks.available() else {}
    own = {name: value for name, value in task.params.items() if name in known and value != known[name].default}
    return [word for name, value in own.items() for word in ("--set", f"task.{name}={json.dumps(value)}")]
