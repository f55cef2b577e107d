"""How numbers are written, the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..lab.statistics import Checkpoint, Summary, overflowed

if TYPE_CHECKING:
    from ..lab import Run


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


def overflow(found: Mapping[int, tuple[int, int]]) -> str:
    """Where logits overflowed, by length from how many strings of how many; nothing where none did.

    >>> overflow({40: (0, 768), 500: (512, 768)})
    'at 500, 512 of 768 strings'
    >>> overflow({40: (0, 768), 500: (512, 768), 1_000: (700, 768), 2_000: (768, 768)})
    'at 3 lengths from 500 to 2,000, 1,980 of 2,304 strings'
    """
    bad = {n: strings for n, strings in found.items() if strings[0]}
    if not bad:
        return ""
    some, all_ = map(sum, zip(*bad.values(), strict=True))
    at = f"{min(bad):,}" if len(bad) == 1 else f"{len(bad)} lengths from {min(bad):,} to {max(bad):,}"
    return f"at {at}, {some:,} of {all_:,} strings"


def overflow_of(runs: Sequence[Run], checkpoint: Checkpoint = "last") -> str:
    """The same, of runs that differ in their seed only."""
    strings = sum(run.result["samples"] for run in runs)
    lengths = runs[0].experiment.evaluation.lengths
    return overflow({n: (overflowed(runs, [n], checkpoint), strings) for n in lengths})


def overflows(where: Mapping[str, str]) -> str:
    """What to say below a table, from `overflow` by model; nothing where none overflowed.

    >>> overflows({"lstm": "", "block-lrnn": "at 500, 512 of 768 strings"})
    'Logits that overflow count as wrong: block-lrnn at 500, 512 of 768 strings.'
    """
    said = "; ".join(f"{label} {at}" for label, at in where.items() if at)
    return f"Logits that overflow count as wrong: {said}." if said else ""


def overflows_of(groups: Mapping[str, Sequence[Run]]) -> str:
    """What to say below a table of both checkpoints."""
    last = {label: overflow_of(runs) for label, runs in groups.items()}
    best = {label: overflow_of(runs, "best") for label, runs in groups.items()}
    return overflows(last | {f"{label} (best valid.)": at for label, at in best.items() if at != last[label]})


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
