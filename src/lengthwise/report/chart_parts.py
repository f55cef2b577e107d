"""What charts share: the figure with its legend, wide and narrow; the axes and their numbers; the keys of a legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ..seeds import derive
from .svg import COLOURS, Style, canvas, draw, render

WIDE, NARROW = 860, 350


def responsive_figure(
    title: str,
    description: str,
    data: Any,
    plot: Callable[[Axes, bool], None],
    labels: tuple[str, str],
    legend: Sequence[str],
    height: int = 380,
) -> str:
    """HTML: a legend above a chart, which `plot(axes, narrow)` draws wide and narrow; the page shows what fits."""
    # The name is a digest of what is shown: any number of panels share a page, and the same panel is the same text.
    name = f"d{derive(title, data) % 16**10:010x}"

    def svg(narrow: bool) -> str:
        chart = canvas(NARROW, 320) if narrow else canvas(WIDE, height)
        axes = chart.add_subplot()
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        plot(axes, narrow)
        return render(chart, name + "wn"[narrow], title, description)

    keys = "".join(f"<li>{key}</li>" for key in legend)
    return (
        f'<figure><ul class="legend">{keys}</ul>\n<div class="plot"><div class="wide">{draw(svg, False)}</div>\n'
        f'<div class="narrow">{draw(svg, True)}</div></div></figure>'
    )


def scale_axes(axes: Axes, log_x: bool, log_y: bool, percent: bool, narrow: bool) -> None:
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
        axis.set_major_formatter(FuncFormatter(_percent_label if shares else _label))
    if percent:
        axes.set_ylim(0, 1)


def mark_place(axes: Axes, name: str, x: float, row: int) -> None:
    """A dashed upright at `x` with its name on top; names of a later `row` stand higher, so that none hides another."""
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


def tick_label(v: float) -> str:
    """
    >>> tick_label(0.5), tick_label(4096), tick_label(100_000), tick_label(2e6), tick_label(1e135)
    ('0.5', '4,096', '100k', '2M', '1e+135')
    """
    if abs(v) >= 1e9:
        return f"{v:g}"
    if abs(v) >= 1e6:
        return f"{v / 1e6:g}M"
    return f"{v / 1e3:g}k" if abs(v) >= 1e4 else f"{v:,g}"


def _label(v: float, _: int | None) -> str:
    return tick_label(v)


def _percent_label(v: float, _: int | None) -> str:
    return f"{100 * v:.0f}%"


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
