"""A finite machine as inline SVG: its states on a circle, an arrow for every step, a colour for every answer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import cos, hypot, pi, sin
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
    size = 2 * (around + 74)
    places = [(size / 2 + around * sin(2 * pi * q / Q), size / 2 - around * cos(2 * pi * q / Q)) for q in range(Q)]
    name = name_of("m", title, delta, symbols)
    steps: dict[tuple[int, int], list[str]] = {}
    for q, row in enumerate(delta):
        for s, target in enumerate(row):
            steps.setdefault((q, target), []).append(str(symbols[s]))
    answers = [_answer(claim, q) for q in range(Q)]
    colours = {answer: i % 8 for i, answer in enumerate(dict.fromkeys(a for a in answers if a))}
    about = f"{Q} states; " + "; ".join(f"{q} by {', '.join(by)} to {t}" for (q, t), by in steps.items())
    parts = [
        head(name, title, about, f"0 0 {size:g} {size:g}", at_most(size)),
        f'<marker id="{name}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0.5L8 4L0 7.5z" fill="var(--muted)"/></marker>',
    ]
    middle = (size / 2, size / 2)
    for (q, target), by in steps.items():
        label = ", ".join(by) if len(by) <= 4 else f"{', '.join(by[:3])}, …"
        parts.append(_step(places[q], places[target], middle, label, f"{name}-tip"))
    parts.append(_start(places[claim["start"]], middle, f"{name}-tip"))
    for (x, y), answer in zip(places, answers, strict=True):
        colour = f"var(--s{colours[answer]})" if answer else "var(--muted)"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{STATE}" fill="var(--card)" stroke="{colour}" stroke-width="3"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="12" fill="var(--ink)">'
            f"{escape(answer)}</text>"
        )
    return "\n".join([*parts, "</svg>"])


def _answer(claim: dict[str, Any], q: int) -> str:
    """What is right in a state, as it stands in the drawing: nothing where nothing is asked."""
    answer = claim["answers"][q]
    if not claim["asked"][q]:
        return ""
    return (
        ",".join(str(i) for i, named in enumerate(answer) if named) or "–" if isinstance(answer, list) else str(answer)
    )


def _outwards(place: Sequence[float], middle: Sequence[float]) -> tuple[float, float]:
    dx, dy = place[0] - middle[0], place[1] - middle[1]
    far = hypot(dx, dy)
    return (0.0, -1.0) if far < 1e-9 else (dx / far, dy / far)


def _step(start: tuple[float, float], end: tuple[float, float], middle: tuple[float, float], by: str, tip: str) -> str:
    """An arrow that bends to its left, so that there and back are two; a loop swings outwards."""
    if start == end:
        ox, oy = _outwards(start, middle)
        (ax, ay), (bx, by_) = _turned(ox, oy, -0.5), _turned(ox, oy, 0.5)
        x, y = start
        path = f"M{x + STATE * ax:.1f} {y + STATE * ay:.1f}"
        path += f"C{x + 62 * ax:.1f} {y + 62 * ay:.1f} {x + 62 * bx:.1f} {y + 62 * by_:.1f} "
        path += f"{x + (STATE + 3) * bx:.1f} {y + (STATE + 3) * by_:.1f}"
        at = (x + 60 * ox, y + 60 * oy)
    else:
        dx, dy = end[0] - start[0], end[1] - start[1]
        far = hypot(dx, dy)
        ux, uy = dx / far, dy / far
        bend = 0.16 * far
        cx, cy = (start[0] + end[0]) / 2 + bend * uy, (start[1] + end[1]) / 2 - bend * ux
        (sx, sy), (ex, ey) = _towards(start, (cx, cy), STATE), _towards(end, (cx, cy), STATE + 3)
        path = f"M{sx:.1f} {sy:.1f}Q{cx:.1f} {cy:.1f} {ex:.1f} {ey:.1f}"
        at = ((sx + ex) / 4 + cx / 2 + 9 * uy, (sy + ey) / 4 + cy / 2 - 9 * ux)
    return (
        f'<path d="{path}" fill="none" stroke="var(--muted)" stroke-width="1.5" marker-end="url(#{tip})"/>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" text-anchor="middle" font-size="12" fill="var(--ink)">'
        f"{escape(by)}</text>"
    )


def _start(place: tuple[float, float], middle: tuple[float, float], tip: str) -> str:
    """An arrow from nowhere, beside where a loop would be."""
    ox, oy = _turned(*_outwards(place, middle), 1.25)
    x, y = place
    return (
        f'<path d="M{x + 50 * ox:.1f} {y + 50 * oy:.1f}L{x + (STATE + 3) * ox:.1f} {y + (STATE + 3) * oy:.1f}" '
        f'stroke="var(--ink)" stroke-width="1.5" marker-end="url(#{tip})"/>'
    )


def _turned(x: float, y: float, by: float) -> tuple[float, float]:
    return x * cos(by) - y * sin(by), x * sin(by) + y * cos(by)


def _towards(place: tuple[float, float], aim: tuple[float, float], by: float) -> tuple[float, float]:
    dx, dy = aim[0] - place[0], aim[1] - place[1]
    far = hypot(dx, dy)
    return place[0] + by * dx / far, place[1] + by * dy / far
