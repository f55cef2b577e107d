"""What all drawings share: the frame with legend, wide and narrow form; axes and their numbers; keys of the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ..seeds import derive
from .svg import COLOURS, Style, canvas, draw, render
from .words import percent as in_percent

WIDE, NARROW = 860, 350


def figure(
    title: str,
    description: str,
    data: Any,
    plot: Callable[[Axes, bool], None],
    labels: tuple[str, str],
    legend: Sequence[str],
    height: int = 380,
) -> str:
    """HTML: the legend's keys above the drawing, which `plot(axes, narrow)` makes once wide and once narrow."""
    # Named by what it shows, so that any number of panels share a page and the same panel is the same text.
    name = f"d{derive(title, data) % 16**10:010x}"

    def made(narrow: bool) -> str:
        drawn = canvas(NARROW, 320) if narrow else canvas(WIDE, height)
        axes = drawn.add_subplot()
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        plot(axes, narrow)
        return render(drawn, name + "wn"[narrow], title, description)

    keys = "".join(f"<li>{key}</li>" for key in legend)
    return (
        f'<figure><ul class="legend">{keys}</ul>\n<div class="plot"><div class="wide">{draw(made, False)}</div>\n'
        f'<div class="narrow">{draw(made, True)}</div></div></figure>'
    )


def scale(axes: Axes, log_x: bool, log_y: bool, percent: bool, narrow: bool) -> None:
    """Round numbers along both axes, few where there is little room."""
    axes.set_xscale("log" if log_x else "linear")
    axes.set_yscale("log" if log_y else "linear")
    for axis, logarithmic, shares in ((axes.xaxis, log_x, False), (axes.yaxis, log_y, percent)):
        if logarithmic:
            low, high = axis.get_view_interval()
            axis.set_major_locator(LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5), numticks=8))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter((lambda v, _: f"{100 * v:.0f}%") if shares else (lambda v, _: tick(v))))
    if percent:
        axes.set_ylim(0, 1)


def mark(axes: Axes, name: str, x: float, row: int) -> None:
    """A dashed upright at `x` with its name on top; the row-th of several stands out higher than those before it."""
    top = 1.01 + 0.065 * row
    axes.axvline(x, 0, top + 0.05, color=COLOURS["muted"], dashes=(4, 4), linewidth=1.2, zorder=1, clip_on=False)
    across = axes.transAxes.inverted().transform(axes.transData.transform((x, axes.get_ylim()[0])))[0]
    inward, side = ((5, 0), "left") if across < 0.5 else ((-5, 0), "right")
    axes.annotate(
        name,
        (x, top),
        inward,
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha=side,
        va="bottom",
        color=COLOURS["muted"],
    )


def tick(v: float) -> str:
    """
    >>> tick(0.5), tick(4096), tick(100_000), tick(2e6), tick(1e135)
    ('0.5', '4,096', '100k', '2M', '1e+135')
    """
    if abs(v) >= 1e9:
        return f"{v:g}"
    if abs(v) >= 1e6:
        return f"{v / 1e6:g}M"
    return f"{v / 1e3:g}k" if abs(v) >= 1e4 else f"{v:,g}"


def written(v: float | None, percent: bool = False) -> str:
    """A number in a table.

    >>> written(0.98765, percent=True), written(0.98765), written(4096), written(1234567), written(None)
    ('98.8', '0.9877', '4,096', '1,234,567', '–')
    """
    if v is None:
        return "–"
    if percent:
        return in_percent(v)
    return f"{v:,.0f}" if v == int(v) and abs(v) < 1e15 else f"{v:,.4g}"


def line_key(style: Style) -> str:
    """A piece of the line, for the legend."""
    _, dash = style.dash
    dashes = f' stroke-dasharray="{" ".join(f"{2 * d:g}" for d in dash)}"' if dash else ""
    return _key(34, f'<path d="M1 5h32" stroke="var(--{style.role})" stroke-width="3"{dashes}/>')


def dot_key(style: Style) -> str:
    """The dot, for the legend."""
    return _key(12, f'<circle cx="6" cy="5" r="4" fill="var(--{style.role})"/>')


def _key(width: int, shape: str) -> str:
    return f'<svg class="key" width="{width}" height="10" aria-hidden="true">{shape}</svg>'
