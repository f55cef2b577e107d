"""A matplotlib figure as SVG that belongs to the page: its colours are CSS variables, its text is text, it scales.

Figures are drawn in stand-in colours, one per role; here each becomes `var(--role)`, so that one drawing serves the
light and the dark page. It never touches pyplot: no global state, no display.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..seeds import derive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = 8
ROLES = ("ink", "muted", "grid", "shade", "surface", *(f"s{i}" for i in range(SERIES)))
COLOURS = {role: f"#fe00{i:02x}" for i, role in enumerate(ROLES)}
DASHES: tuple[tuple[int, tuple[float, ...] | None], ...] = ((0, None), (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Style:
    """How the i-th model is drawn, told apart by colour, by dash and by marker."""

    role: str
    dash: tuple[int, tuple[float, ...] | None]
    marker: str

    @property
    def colour(self) -> str:
        return COLOURS[self.role]

    @classmethod
    def of(cls, i: int) -> Style:
        # The second lap through the colours meets other dashes: 8 colours and 4 dashes make 32 lines.
        return cls(f"s{i % SERIES}", DASHES[(i + i // SERIES) % len(DASHES)], MARKERS[i % len(MARKERS)])


BASE = Style("muted", (0, (4, 4)), "")
"""How the line is drawn that the others are compared with."""
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lengthwise",
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.titlesize": 12,
    "axes.titlecolor": COLOURS["ink"],
    "axes.titlelocation": "left",
    "axes.titlepad": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8,
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "lines.solid_capstyle": "round",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}


def canvas(width: float, height: float) -> Figure:
    """An empty figure whose view box is `width` by `height` units; a unit is a CSS pixel where it is not scaled."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), layout="constrained")


def render(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an inline `<svg>` whose ids start with `name`; title and description are read out loud."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    for role, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{role})")
    svg = re.sub(r"\bid=\"([^\"]+)\"", rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r"xlink:href=\"#", f'href="#{name}-', svg)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"font-family:[^;\"]*;?\s*", "", svg)
    # Hundredths of a pixel are enough, and halve the page.
    svg = re.sub(r'\bd="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    box = re.search(r'viewBox="([^"]+)"', svg)
    return head(name, title, description, box[1] if box else "") + svg[svg.index(">") + 1 :].rstrip()


def head(name: str, title: str, description: str, box: str, widest: float | None = None) -> str:
    """Returns how every drawing begins, with what is read out loud of it."""
    style = "" if widest is None else f' style="max-width:{widest:.0f}px"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img"{style} '
        f'aria-labelledby="{name}-title {name}-desc">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-desc">{escape(description)}</desc>'
    )


def name_of(letter: str, *content: Any) -> str:
    """Returns a name made of what is drawn: any number of drawings share a page, and the same one is the same text."""
    return f"{letter}{derive(*content) % 16**10:010x}"


def draw(make, *arguments, **keywords) -> str:
    """Call a function that makes and renders a figure, under this file's settings."""
    import matplotlib  # only what draws a figure loads it

    with matplotlib.rc_context(SETTINGS):
        return make(*arguments, **keywords)


def draw_line(
    axes: Axes, style: Style, i: int, xs: Sequence[float], ys: Sequence[float], width: float, marked: Any
) -> None:
    """Draws the i-th line; `marked` says which points have a marker, as matplotlib's `markevery`."""
    axes.plot(
        xs,
        ys,
        color=style.colour,
        linestyle=style.dash,
        linewidth=max(1.6, width),
        markersize=6,
        markeredgecolor=COLOURS["surface"],
        markeredgewidth=0.8,
        clip_on=False,
        zorder=3 + i / 100,
        marker=style.marker,
        markevery=marked,
    )


def line_key(style: Style) -> str:
    """A piece of the line, for a legend."""
    _, dash = style.dash
    dashes = f' stroke-dasharray="{" ".join(f"{2 * d:g}" for d in dash)}"' if dash else ""
    return swatch(34, f'<path d="M1 5h32" stroke="var(--{style.role})" stroke-width="3"{dashes}/>')


def swatch(width: int, shape: str) -> str:
    """A small picture before a name in a legend."""
    return f'<svg class="key" width="{width}" height="10" aria-hidden="true">{shape}</svg>'
