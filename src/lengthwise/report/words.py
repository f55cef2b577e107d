"""How numbers are written, the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterable

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


def trained(lengths: tuple[int, int]) -> str:
    """
    >>> trained((1, 40)), trained((40, 40))
    ('lengths 1–40', 'length 40')
    """
    low, high = lengths
    return f"lengths {low:,}–{high:,}" if low != high else f"length {high:,}"


def short(names: Iterable[str]) -> dict[str, str]:
    """What to call each of these models: the end of its path, as much of it as no other model has.

    >>> list(short(["lstm", "a/toys.py:Net", "b/toys.py:Net", "x/own.py:Net"]).values())
    ['lstm', 'a/toys.py:Net', 'b/toys.py:Net', 'own.py:Net']
    """
    paths = {name: name.split("/") for name in names}
    found = {}
    for name, path in paths.items():
        others = [other for other in paths.values() if other != path]
        sizes = range(1, len(path))
        size = next((n for n in sizes if all(other[-n:] != path[-n:] for other in others)), len(path))
        found[name] = "/".join(path[-size:])
    return found
