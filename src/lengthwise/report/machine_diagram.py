"""A finite machine as inline SVG: its states on a circle, an arrow for every step, a colour for every answer.

A place is a complex number: y grows downwards, and the middle of the circle is 0.
"""

from __future__ import annotations

from cmath import rect
from html import escape
from math import pi
from typing import Any

from .svg import at_most, head, name_of

MOST = 14
"""Machines of more states are not drawn."""
STATE = 19
"""Radius of a state."""


def machine_diagram(title: str, claim: dict[str, Any]) -> str:
    """The drawing; empty where the machine is too large for one. `claim`: as in a certificate."""
    delta, symbols, Q = claim["delta"], claim["symbols"], len(claim["delta"])
    if Q > MOST:
        return ""
    around = 46 + 17 * Q if Q > 1 else 0
    half = around + 74
    places = [rect(around, 2 * pi * q / Q - pi / 2) for q in range(Q)]
    name = name_of("m", title, delta, symbols)
    steps: dict[tuple[int, int], list[str]] = {}
    for q, row in enumerate(delta):
        for s, target in enumerate(row):
            steps.setdefault((q, target), []).append(str(symbols[s]))
    answers = [_answer(claim, q) for q in range(Q)]
    colours = {answer: i % 8 for i, answer in enumerate(dict.fromkeys(a for a in answers if a))}
    about = f"{Q} states; " + "; ".join(f"{q} by {', '.join(by)} to {t}" for (q, t), by in steps.items())
    parts = [
        head(name, title, about, f"{-half:g} {-half:g} {2 * half:g} {2 * half:g}", at_most(2 * half)),
        f'<marker id="{name}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0.5L8 4L0 7.5z" fill="var(--muted)"/></marker>',
    ]
    for (q, target), by in steps.items():
        label = ", ".join(by) if len(by) <= 4 else f"{', '.join(by[:3])}, …"
        curve, at = _loop(places[q]) if q == target else _bend(places[q], places[target])
        parts += [_arrow(curve, "--muted", name), _text(at, label)]
    # The start is an arrow from nowhere, beside where a loop would be.
    start = places[claim["start"]]
    outwards = _outwards(start) * rect(1, 1.25)
    parts.append(_arrow(f"M{_at(start + 50 * outwards)}L{_at(start + (STATE + 3) * outwards)}", "--ink", name))
    for place, answer in zip(places, answers, strict=True):
        colour = f"var(--s{colours[answer]})" if answer else "var(--muted)"
        circle = f'<circle cx="{place.real:.1f}" cy="{place.imag:.1f}" r="{STATE}" fill="var(--card)" '
        parts += [f'{circle}stroke="{colour}" stroke-width="3"/>', _text(place, answer)]
    return "\n".join([*parts, "</svg>"])


def _answer(claim: dict[str, Any], q: int) -> str:
    """What is right in a state, as it stands in the drawing: nothing where nothing is asked."""
    answer = claim["answers"][q]
    if not claim["asked"][q]:
        return ""
    return (
        ",".join(str(i) for i, named in enumerate(answer) if named) or "–" if isinstance(answer, list) else str(answer)
    )


def _loop(place: complex) -> tuple[str, complex]:
    """A curve that swings outwards and comes back, and where its symbols stand."""
    outwards = _outwards(place)
    left, right = outwards * rect(1, -0.5), outwards * rect(1, 0.5)
    path = f"M{_at(place + STATE * left)}C{_at(place + 62 * left)} {_at(place + 62 * right)} "
    return path + _at(place + (STATE + 3) * right), place + 60 * outwards


def _bend(start: complex, end: complex) -> tuple[str, complex]:
    """A curve that bends to its left, so that there and back are two, and where its symbols stand."""
    left = (end - start) * -1j
    aim = (start + end) / 2 + 0.16 * left
    path = f"M{_at(start + STATE * _unit(aim - start))}Q{_at(aim)} {_at(end + (STATE + 3) * _unit(aim - end))}"
    return path, (start + end) / 4 + aim / 2 + 9 * _unit(left)


def _unit(way: complex) -> complex:
    return way / abs(way)


def _outwards(place: complex) -> complex:
    """The direction away from the middle; upwards in the middle itself."""
    return _unit(place) if abs(place) > 1e-9 else -1j


def _at(place: complex) -> str:
    return f"{place.real:.1f} {place.imag:.1f}"


def _arrow(path: str, colour: str, name: str) -> str:
    return f'<path d="{path}" fill="none" stroke="var({colour})" stroke-width="1.5" marker-end="url(#{name}-tip)"/>'


def _text(place: complex, text: str) -> str:
    return (
        f'<text x="{place.real:.1f}" y="{place.imag + 4:.1f}" text-anchor="middle" font-size="12" '
        f'fill="var(--ink)">{escape(text)}</text>'
    )
