"""Charts as inline SVG: lines and dots, drawn wide and narrow as the page's own figures are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from html import escape

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .drawing import centre
from .formatting import table_number
from .panel import Chart
from .svg import BASE, COLOURS, Style, canvas, draw, draw_line, line_key, name_of, render, swatch

WIDE, NARROW = 860, 350
MARKED = 40
"""Every point of a line has its marker, up to so many points."""
NAMED = 12
"""Groups of dots have their name beside them, up to so many groups."""


def chart_in_html(chart: Chart) -> str:
    """A legend above the chart, wide and narrow; the page shows what fits."""
    name = name_of("d", chart.title, chart.series, chart.marks)
    keys, description = _about_dots(chart) if chart.dots else _about_lines(chart)

    def svg(narrow: bool) -> str:
        wide, high = (WIDE, 520 if chart.dots else 380) if not chart.half else (WIDE / 2, 300)
        figure = canvas(NARROW, 240 if chart.half else 320) if narrow else canvas(wide, high)
        axes = figure.add_subplot()
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        (_plot_dots if chart.dots else _plot_lines)(chart, axes, narrow)
        return render(figure, name + "wn"[narrow], chart.title, description)

    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    legend = "".join(f"<li>{key}</li>" for key in keys)
    return (
        f'<figure{" class=half" * chart.half}><ul class="legend">{legend}</ul>\n'
        f'<div class="plot"><div class="wide">{draw(svg, False)}</div>\n'
        f'<div class="narrow">{draw(svg, True)}</div></div>{caption}</figure>'
    )


def _about_lines(chart: Chart) -> tuple[list[str], str]:
    """The keys of the legend, in the order in which the lines end, from the top; and how they end, in a sentence."""
    ends = "; ".join(f"{name} ends at {table_number(ys[-1], chart.percent)}" for name, (_, ys) in chart.series.items())
    last = [next((y for y in reversed(ys) if y is not None), -math.inf) for _, ys in chart.series.values()]
    keys = [line_key(_style(chart, name, i)) + escape(name) for i, name in enumerate(chart.series)]
    order = sorted(range(len(keys)), key=lambda i: (list(chart.series)[i] == chart.base, -last[i]))
    return [keys[i] for i in order], f"{chart.y_label} against {chart.x_label}: {ends}."


def _about_dots(chart: Chart) -> tuple[list[str], str]:
    groups = {name: (f"{len(xs):,}", centre(xs, ys)) for name, (xs, ys) in chart.series.items()}
    keys = [
        f"{dot_key(Style.of(i))}{escape(name)} <small>({count} dots)</small>"
        for i, (name, (count, _)) in enumerate(groups.items())
    ]
    return keys, "; ".join(f"{name}: {count} dots about {middle}" for name, (count, middle) in groups.items()) + "."


def _plot_lines(chart: Chart, axes: Axes, narrow: bool) -> None:
    if chart.shaded:
        low, high = chart.shaded
        axes.axvspan(*((low, high) if low < high else (0.97 * low, 1.03 * high)), color=COLOURS["shade"], linewidth=0)
        axes.margins(x=0)
    for i, (name, (xs, ys)) in enumerate(chart.series.items()):
        style, gaps = _style(chart, name, i), [math.nan if y is None else y for y in ys]
        if name in chart.bands:
            axes.fill_between(xs, *chart.bands[name], color=style.colour, alpha=0.16, linewidth=0)
        # A marker at every point of a few, else at every tenth of the figure, elsewhere for each line.
        marked = None if len(xs) <= MARKED else (0.1 * i / len(chart.series), 0.1)
        # Later lines are thinner, so that all of several lines that coincide can be seen.
        draw_line(axes, style, i, xs, gaps, 1.6 if chart.half else 3.4 - 0.5 * i, marked)
    _scale_axes(chart, axes, narrow)
    for i, (name, x) in enumerate(chart.marks.items()):
        _mark_place(axes, name, x, i)


def _plot_dots(chart: Chart, axes: Axes, narrow: bool) -> None:
    for i, (xs, ys) in enumerate(chart.series.values()):
        axes.add_patch(_path_of_dots(xs, ys, Style.of(i).colour))
    axes.autoscale_view()
    # A distance is the same along both axes; whichever has room to spare shows more.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    _scale_axes(chart, axes, narrow)
    for i, (name, (xs, ys)) in enumerate(chart.series.items() if len(chart.series) <= NAMED else ()):
        box = {"boxstyle": "round,pad=0.25", "facecolor": COLOURS["surface"], "edgecolor": Style.of(i).colour}
        # A name stands above all but a few of its dots, since it hides those it stands on.
        top = sorted(y for y in ys if y is not None)[int(0.97 * (len(ys) - 1))]
        at = (statistics.median(xs), top)
        axes.annotate(name, at, (0, 8), textcoords="offset points", ha="center", va="bottom", bbox=box)


def _path_of_dots(xs: Sequence[float], ys: Sequence[float | None], colour: str) -> PathPatch:
    """All dots as one path of lines without length, whose round ends are the dots: a tenth of the page's size."""
    vertices = [(x, y or 0.0) for x, y in zip(xs, ys, strict=True) for _ in range(2)]
    path = Path(vertices, [Path.MOVETO, Path.LINETO] * len(xs))
    path.should_simplify = False  # which would leave out lines that have no length
    return PathPatch(path, fill=False, edgecolor=colour, linewidth=4.5, capstyle="round", alpha=0.75, zorder=2)


def _scale_axes(chart: Chart, axes: Axes, narrow: bool) -> None:
    """Round numbers along both axes, few where there is little room."""
    axes.set_xscale("log" if chart.log_x else "linear")
    axes.set_yscale("log" if chart.log_y else "linear")
    for axis, logarithmic, shares in ((axes.xaxis, chart.log_x, False), (axes.yaxis, chart.log_y, chart.percent)):
        if logarithmic:
            low, high = axis.get_view_interval()
            axis.set_major_locator(LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5), numticks=8))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda v, _, shares=shares: f"{100 * v:.0f}%" if shares else tick(v)))
    if chart.shaded:
        _name_ends(chart, axes, chart.shaded[1])
    if chart.percent:
        lines = [*(ys for _, ys in chart.series.values()), *(low for low, _ in chart.bands.values())]
        least = min((y for ys in lines for y in ys if y is not None), default=0.0)
        axes.set_ylim(max(0.0, min(0.9, int((least - 0.02) * 10) / 10)), 1.0)


def _name_ends(chart: Chart, axes: Axes, trained: float) -> None:
    """Puts ticks where training ends and where the axis does: round numbers give way to what a reader looks for."""
    low, high = axes.get_xlim()
    place = math.log if chart.log_x else float
    near = lambda a, b: abs(place(a) - place(b)) < 0.08 * (place(high) - place(low))  # noqa: E731
    ends = [trained, *([] if near(trained, high) else [high])]
    ticks = [x for x in axes.xaxis.get_major_locator().tick_values(low, high) if low <= x <= high]
    axes.xaxis.set_major_locator(FixedLocator([*(x for x in ticks if not any(near(x, end) for end in ends)), *ends]))


def _style(chart: Chart, name: str, i: int) -> Style:
    return BASE if name == chart.base else Style.of(i)


def _mark_place(axes: Axes, name: str, x: float, row: int) -> None:
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


def dot_key(style: Style) -> str:
    """The dot, for the legend."""
    return swatch(12, f'<circle cx="6" cy="5" r="4" fill="var(--{style.role})"/>')
