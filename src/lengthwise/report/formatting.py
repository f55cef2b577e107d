"""How numbers, times and names are written, the same in the terminal and on the page."""

from __future__ import annotations

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


def in_columns(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A table for the terminal; `align` has `<` for each column on the left and `>` for each on the right.

    >>> print(in_columns(["task", "clusters"], [["parity", "2"], ["cycle-navigation", "5"]], "<>"))
    task              clusters
    parity                   2
    cycle-navigation         5
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )


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
