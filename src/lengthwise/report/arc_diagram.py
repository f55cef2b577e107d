"""Arcs between the words of a sentence, as inline SVG.

The words stand below one another, so that one drawing serves the telephone and the wide page, however many there are.
An arc goes from a word to an earlier one; its opacity is the link's weight.
"""

from __future__ import annotations

from html import escape

from .formatting import percent
from .panel import Arcs, Link
from .svg import at_most, head, name_of

STEP, TOP = 17, 26
"""Height of a word; of the heading."""
LEFT, WORDS, RIGHT = 8, 92, 152
"""Widths of the margin, the words, and the links."""
SHOWN = 0.08
"""Links of less weight are not drawn."""


def arcs_in_html(arcs: Arcs) -> str:
    """The drawing: the words, and on their right the links."""
    words, name = arcs.words, name_of("a", arcs.title, arcs.lead, list(arcs.words))
    width, height = LEFT + WORDS + RIGHT, TOP + STEP * len(words) + 8
    visible = sorted(((w, at) for at, w in arcs.links.items() if w >= SHOWN and at[0] != at[1]), key=lambda s: s[0])
    parts = [
        head(name, arcs.title, arcs.lead, f"0 0 {width} {height}", at_most(1.25 * width)),
        f'<text x="{LEFT + WORDS + 6}" y="14" font-size="12" fill="var(--muted)">reads</text>',
        *(_arc(*link, len(words), weight) for weight, link in visible),
    ]
    for i, word in enumerate(words):
        parts.append(
            f'<text x="{LEFT + WORDS / 2:g}" y="{_y(i) + 4:g}" text-anchor="middle" font-size="12" '
            f'fill="var(--ink)">{escape(word)}</text>'
        )
    drawing = "\n".join([*parts, "</svg>"])
    return f'<figure><div class="arcs">{drawing}</div></figure>'


def link_rows(arcs: Arcs) -> list[list[str]]:
    """The same for the terminal: every word's strongest link to an earlier one.

    >>> for row in link_rows(Arcs("", "", ["a", "b", "a"], {(1, 0): 0.7, (2, 0): 0.6, (2, 1): 0.4})):
    ...     print(row)
    ['word', 'reads', 'weight']
    ['1 b', '0 a', '70.0%']
    ['2 a', '0 a', '60.0%']
    """
    names = [f"{i} {word}" for i, word in enumerate(arcs.words)]
    strongest: dict[int, Link] = {}
    for (i, early), weight in arcs.links.items():
        if early < i and (i not in strongest or weight > arcs.links[strongest[i]]):
            strongest[i] = (i, early)
    rows = [[names[i], names[link[1]], f"{percent(arcs.links[link])}%"] for i, link in sorted(strongest.items())]
    return [["word", "reads", "weight"], *rows]


def _y(i: int) -> float:
    return TOP + STEP * (i + 0.5)


def _arc(late: int, early: int, words: int, weight: float) -> str:
    """A curve that swings out the farther, the farther its ends are apart."""
    x = LEFT + WORDS + 4
    out = x + (RIGHT - 12) * (0.15 + 0.85 * ((late - early) / max(1, words - 1)) ** 0.6) * 4 / 3
    a, b = _y(late), _y(early)
    return (
        f'<path d="M{x} {a:g}C{out:.1f} {a:g} {out:.1f} {b:g} {x} {b:g}" fill="none" stroke="var(--s0)" '
        f'stroke-width="2.2" stroke-linecap="round" opacity="{min(1.0, weight):.2f}"/>'
    )
