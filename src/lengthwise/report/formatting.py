"""How numbers, times and names are written, the same in the terminal and on the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..lab.statistics import Summary


def percent(a: float) -> str:
    """One decimal; 100.0 only where every string was right, and 0.0 only where none was.

    >>> percent(1.0), percent(0.99999), percent(0.5), percent(0.0001)
    ('100.0', '99.9', '50.0', '0.1')
    """
    if 0 < a < 1:
        return f"{min(max(100 * a, 0.1), 99.9):.1f}"
    return f"{100 * a:.1f}"


def spread(s: Summary) -> str:
    """Mean ± sample deviation over seeds, or the one score there is."""
    return percent(s.mean) if s.std is None else f"{percent(s.mean)} ± {100 * s.std:.1f}"


def interval(s: Summary) -> str:
    return f"{percent(s.low)}–{percent(s.high)}"


def count(n: float) -> str:
    """
    >>> count(950), count(53_120), count(4_260_000)
    ('950', '53.1k', '4.26M')
    """
    if n < 1000:
        return f"{n:.0f}"
    return f"{n / 1e3:.1f}k" if n < 1e6 else f"{n / 1e6:.2f}M"


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "length"), counted(2000, "string")
    ('1 length', '2,000 strings')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def some_of(names: Sequence[str], most: int) -> str:
    """
    >>> some_of(["a", "b"], 3), some_of(["a", "b", "c", "d"], 3)
    ('a, b', 'a, b, c, …')
    """
    return ", ".join([*names[:most], *["…"] * (len(names) > most)])


def duration(seconds: float) -> str:
    """
    >>> duration(4.21), duration(75), duration(7300)
    ('4.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, s = divmod(round(seconds), 60)
    if not minutes:
        return f"{s} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {s} s"


def length_range(lengths: tuple[int, int]) -> str:
    """
    >>> length_range((1, 40)), length_range((40, 40))
    ('lengths 1–40', 'length 40')
    """
    low, high = lengths
    return f"lengths {low:,}–{high:,}" if low != high else f"length {high:,}"


def table_number(v: float | None, in_percent: bool = False) -> str:
    """A number in a cell of a table; a dash where there is none.

    >>> table_number(0.98765, in_percent=True), table_number(0.98765), table_number(4096), table_number(None)
    ('98.8', '0.9877', '4,096', '–')
    """
    if v is None:
        return "–"
    if in_percent:
        return percent(v)
    return f"{v:,.0f}" if v == int(v) and abs(v) < 1e15 else f"{v:,.4g}"


def in_columns(rows: Sequence[Sequence[str]], labels: int = 1, width: int | None = None) -> str:
    """A table for the terminal, its heads the first of `rows`: numbers stand on the right, words on the left.

    One wider than `width` is cut between its columns, and each part begins with the first `labels` of them.

    >>> print(in_columns([["size", "left", "right"], ["8", "a", "2"], ["16", "b", "4"]], width=12))
    size  left
       8  a
      16  b
    <BLANKLINE>
    size  right
       8      2
      16      4
    """
    columns = [_padded(column, i < labels) for i, column in enumerate(zip(*rows, strict=True))]
    first, parts = columns[:labels], [columns[:labels]]
    for column in columns[labels:]:
        if width and len(parts[-1]) > labels and sum(len(each[0]) + 2 for each in parts[-1]) + len(column[0]) > width:
            parts.append(first)
        parts[-1] = [*parts[-1], column]
    return "\n\n".join("\n".join("  ".join(line).rstrip() for line in zip(*part, strict=True)) for part in parts)


def _padded(column: Sequence[str], label: bool) -> list[str]:
    """The cells of a column, its head the first, as wide as the widest."""
    number = r"[^a-zA-Z]*" if label else r"(–|∞|[-+−×(]?\d.*)?"
    side = ">" if all(re.fullmatch(number, cell) for cell in column[1:]) else "<"
    return [f"{cell:{side}{max(map(len, column))}}" for cell in column]


def wrap(label: str, width: int) -> list[str]:
    """A name in lines of at most `width`: broken at spaces, a longer word after its marks, and only then within.

    >>> wrap("block-lrnn normalisation=orthogonal p=1.2", 16)
    ['block-lrnn', 'normalisation=', 'orthogonal p=1.2']
    """
    width, lines = max(1, width), [""]
    for word in label.split():
        parts = [word] if len(word) <= width else re.findall(r"[^-=/:.,_]*[-=/:.,_]+|[^-=/:.,_]+", word)
        pieces = [part[i : i + width] for part in parts for i in range(0, len(part), width)]
        for i, piece in enumerate(pieces):
            gap = " " if lines[-1] and i == 0 else ""
            if len(lines[-1]) + len(gap) + len(piece) <= width:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
    return [line for line in lines if line]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """What to call each of these models: the end of its path, as much of it as no other model has.

    >>> list(short_names(["lstm", "a/toys.py:Net", "b/toys.py:Net", "x/own.py:Net"]).values())
    ['lstm', 'a/toys.py:Net', 'b/toys.py:Net', 'own.py:Net']
    """
    paths = {name: name.split("/") for name in names}
    shortened = {}
    for name, path in paths.items():
        others = [other for other in paths.values() if other != path]
        sizes = range(1, len(path))
        size = next((n for n in sizes if all(other[-n:] != path[-n:] for other in others)), len(path))
        shortened[name] = "/".join(path[-size:])
    return shortened
