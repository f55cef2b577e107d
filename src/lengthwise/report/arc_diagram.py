"""Arcs between the words of a sentence, as inline SVG: what is linked on one side, what truly depends on the other.

The words stand below one another, so that one drawing serves the telephone and the wide page, however many there are.
An arc goes from a word to an earlier one; its opacity is the link's weight.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

from ..seeds import derive
from .formatting import percent

STEP, TOP = 17, 26
"""Height of a word; of the headings."""
LEFT, WORDS, RIGHT = 96, 92, 152
"""Widths of the true arcs, the words, and the links."""
SHOWN = 0.08
"""Links of less weight are not drawn."""

Pair = tuple[int, int]
"""A word and an earlier one, counted from 0."""


def arc_diagram(
    title: str,
    description: str,
    words: Sequence[str],
    links: Mapping[Pair, float],
    truth: Collection[Pair] = (),
    *,
    right: Collection[Pair] = (),
    asked: Mapping[int, int] | None = None,
) -> str:
    """The drawing. `truth`: arcs on the left; `right`: the links that are true; `asked`: the words that have a truth
    (whose other links are false), each with the first word of its own phrase. Links of other words are neither."""
    asked = asked or {}
    name = f"a{derive(title, description, list(words)) % 16**10:010x}"
    x = LEFT if truth else 8
    width, height = x + WORDS + RIGHT, TOP + STEP * len(words) + 8
    shown = sorted(((w, pair) for pair, w in links.items() if w >= SHOWN and pair[0] != pair[1]), key=lambda s: s[0])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="max-width:{1.25 * width:.0f}px;margin:auto" aria-labelledby="{name}-title {name}-desc">',
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>',
        *([_heading(x - 6, "depends on", "end")] if truth else []),
        _heading(x + WORDS + 6, "reads", "start"),
    ]
    for late, early in sorted(truth):
        parts.append(_arc(x - 4, late, early, -(LEFT - 12), len(words), "muted", 1.4, 0.9))
    for weight, pair in shown:
        role = "s0" if pair in right else "s1" if pair[0] in asked else "muted"
        thickness, opacity = (1.2, weight / 2) if role == "muted" else (2.2, weight)
        parts.append(_arc(x + WORDS + 4, *pair, RIGHT - 12, len(words), role, thickness, opacity))
    for i, word in enumerate(words):
        bold = ' font-weight="700"' if i in asked else ""
        parts.append(
            f'<text x="{x + WORDS / 2:g}" y="{_y(i) + 4:g}" text-anchor="middle" font-size="12" '
            f'fill="var(--ink)"{bold}>{escape(word)}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def with_legend(drawing: str, keys: Sequence[tuple[str, str]]) -> str:
    """The drawing with its legend: (role of the colour, what it means)."""
    made = "".join(
        f'<li><svg class="key" width="34" height="10" aria-hidden="true"><path d="M1 5h32" stroke="var(--{role})" '
        f'stroke-width="3"/></svg>{escape(text)}</li>'
        for role, text in keys
    )
    return f'<figure><ul class="legend">{made}</ul>\n<div class="plot">{drawing}</div></figure>'


def link_table(
    words: Sequence[str],
    links: Mapping[Pair, float],
    truth: Collection[Pair] = (),
    *,
    right: Collection[Pair] = (),
    asked: Mapping[int, int] | None = None,
) -> str:
    """The same for the terminal: every word's strongest link; where some have a truth, theirs to before their phrase.

    >>> links = {(1, 0): 0.7, (2, 0): 0.6, (2, 1): 0.4}
    >>> print(link_table(["a", "b", "a"], links, {(2, 0)}, right={(2, 0)}, asked={2: 1}))
    word   reads  weight  true  depends on
    2 a    0 a    60.0%   yes   0 a
    """
    rows = [["word", "reads", "weight", *["true", "depends on"] * bool(truth)]]
    names = [f"{i} {word}" for i, word in enumerate(words)]
    starts, strongest = asked or {i: i for i in range(len(words))}, dict[int, Pair]()
    for (i, early), weight in links.items():
        if early < starts.get(i, 0) and (i not in strongest or weight > links[strongest[i]]):
            strongest[i] = (i, early)
    for i in filter(strongest.get, starts):
        best = strongest[i]
        rows.append([names[i], names[best[1]], f"{percent(links[best])}%"])
        if truth:
            rows[-1] += ["yes" if best in right else "no", ", ".join(names[j] for k, j in sorted(truth) if k == i)]
    widths = [max(5, *map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _y(i: int) -> float:
    return TOP + STEP * (i + 0.5)


def _heading(x: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="14" text-anchor="{anchor}" font-size="12" fill="var(--muted)">{text}</text>'


def _arc(x: float, late: int, early: int, room: float, words: int, role: str, width: float, opacity: float) -> str:
    """A curve that swings out the farther, the farther its ends are apart; `room` is signed."""
    out = x + room * (0.15 + 0.85 * ((late - early) / max(1, words - 1)) ** 0.6) * 4 / 3
    a, b = _y(late), _y(early)
    return (
        f'<path d="M{x:g} {a:g}C{out:.1f} {a:g} {out:.1f} {b:g} {x:g} {b:g}" fill="none" stroke="var(--{role})" '
        f'stroke-width="{width}" stroke-linecap="round" opacity="{min(1.0, opacity):.2f}"/>'
    )
