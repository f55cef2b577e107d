"""Arcs between the words of a sentence, as inline SVG: what is linked on one side, what truly depends on the other.

The words stand below one another, so that one drawing serves the telephone and the wide page, however many there are.
An arc goes from a word to an earlier one; its opacity is the link's weight.
"""

from __future__ import annotations

from html import escape

from .formatting import percent
from .panel import Arcs, Link
from .svg import Style, at_most, head, line_key, name_of

STEP, TOP = 17, 26
"""Height of a word; of the headings."""
LEFT, WORDS, RIGHT = 96, 92, 152
"""Widths of the true arcs, the words, and the links."""
SHOWN = 0.08
"""Links of less weight are not drawn."""
LEGEND = {"s0": "true link", "s1": "other link of a box", "muted": "another word's link"}
"""What the colours mean where some words have a truth."""


def arcs_in_html(arcs: Arcs) -> str:
    """The drawing with its legend: true arcs on the left, links on the right, the bold words those with a truth."""
    words, name = arcs.words, name_of("a", arcs.title, arcs.lead, list(arcs.words))
    x = LEFT if arcs.truth else 8
    width, height = x + WORDS + RIGHT, TOP + STEP * len(words) + 8
    visible = sorted(((w, at) for at, w in arcs.links.items() if w >= SHOWN and at[0] != at[1]), key=lambda s: s[0])
    parts = [
        head(name, arcs.title, arcs.lead, f"0 0 {width} {height}", at_most(1.25 * width)),
        *([_heading(x - 6, "depends on", "end")] if arcs.truth else []),
        _heading(x + WORDS + 6, "reads", "start"),
    ]
    for late, early in sorted(arcs.truth):
        parts.append(_arc(x - 4, late, early, -(LEFT - 12), len(words), "muted", 1.4, 0.9))
    for weight, link in visible:
        role = "s0" if link in arcs.right else "s1" if link[0] in arcs.starts else "muted"
        thickness, opacity = (1.2, weight / 2) if role == "muted" else (2.2, weight)
        parts.append(_arc(x + WORDS + 4, *link, RIGHT - 12, len(words), role, thickness, opacity))
    for i, word in enumerate(words):
        bold = ' font-weight="700"' if i in arcs.starts else ""
        parts.append(
            f'<text x="{x + WORDS / 2:g}" y="{_y(i) + 4:g}" text-anchor="middle" font-size="12" '
            f'fill="var(--ink)"{bold}>{escape(word)}</text>'
        )
    legend = LEGEND if arcs.starts else {"muted": "link"}
    keys = "".join(f"<li>{line_key(Style(role))}{escape(text)}</li>" for role, text in legend.items())
    drawing = "\n".join([*parts, "</svg>"])
    return f'<figure><ul class="legend">{keys}</ul>\n<div class="arcs">{drawing}</div></figure>'


def link_rows(arcs: Arcs) -> list[list[str]]:
    """The same for the terminal: every word's strongest link; where some have a truth, theirs to before their phrase.

    >>> links = {(1, 0): 0.7, (2, 0): 0.6, (2, 1): 0.4}
    >>> for row in link_rows(Arcs("", "", ["a", "b", "a"], links, {(2, 0)}, right={(2, 0)}, starts={2: 1})):
    ...     print(row)
    ['word', 'reads', 'weight', 'true', 'depends on']
    ['2 a', '0 a', '60.0%', 'yes', '0 a']
    """
    truth, links = arcs.truth, arcs.links
    rows = [["word", "reads", "weight", *["true", "depends on"] * bool(truth)]]
    names = [f"{i} {word}" for i, word in enumerate(arcs.words)]
    starts, strongest = arcs.starts or {i: i for i in range(len(names))}, dict[int, Link]()
    for (i, early), weight in links.items():
        if early < starts.get(i, 0) and (i not in strongest or weight > links[strongest[i]]):
            strongest[i] = (i, early)
    for i in filter(strongest.get, starts):
        best = strongest[i]
        rows.append([names[i], names[best[1]], f"{percent(links[best])}%"])
        if truth:
            rows[-1] += ["yes" if best in arcs.right else "no", ", ".join(names[j] for k, j in sorted(truth) if k == i)]
    return rows


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
