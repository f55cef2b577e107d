"""Charts as one SVG that stretches with the page, its numbers and names as text around it: no library draws them.

A line's name stands at its end, and in a list below where there is little room. A point says its value when it is
pointed at. Places on the plane are counted in thousandths of its width and height, from the upper left corner.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .formatting import table_number
from .panel import Chart
from .svg import BASE, Style, dot_key, head, line_key, name_of

SIZE = 1000
HEIGHT, HALF, LINE = 320, 220, 20
"""Pixels of a plane, of one that is half as wide, and of a line of text beside it."""
POINTED = 120
"""A chart of so many points says the values of all when they are pointed at, one of more those of some."""
MARKED = 40
"""A line has a dot at each of up to so many points."""
LONGEST = 34
"""Names of up to so many letters stand beside the plane."""
X_TICKS, Y_TICKS = 7, 6


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float | None], log: bool, margin: float = 0.04) -> Axis:
        """An axis on which all values lie that it can have."""
        there = [v for v in values if v is not None and (v > 0 or not log)] or [1.0]
        low, high = min(there), max(there)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        if log:
            room = (high / low) ** margin
            return cls(low / room, high * room, True)
        room = margin * (high - low)
        return cls(low - room, high + room)

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        place = math.log if self.log else float
        return (place(value) - place(self.low)) / (place(self.high) - place(self.low))

    def ticks(self, most: int) -> list[float]:
        """Round numbers, at most so many."""
        if not self.log:
            exponent = math.floor(math.log10((self.high - self.low) / most))
            step = next(s for s in (1, 2, 2.5, 5, 10, 20) if (self.high - self.low) / (s * 10.0**exponent) <= most)
            step *= 10.0**exponent
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [round(n * step, 12) for n in range(first, last + 1)]
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        each = [s * 10.0**e for e in exponents for s in ((1,) if self.high > 50 * self.low else (1, 2, 5))]
        inside = [v for v in each if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]
        return inside[:: -(-len(inside) // most)] if inside else [self.low, self.high]


@dataclass(frozen=True)
class Plane:
    """Where the values of a chart lie."""

    x: Axis
    y: Axis

    @classmethod
    def of(cls, chart: Chart) -> Plane:
        xs = [x for line, _ in chart.series.values() for x in line]
        ys = [y for _, line in chart.series.values() for y in line]
        ys += [y for band in chart.bands.values() for side in band for y in side]
        x = Axis.of([*xs, *chart.marks.values()], chart.log_x, 0 if chart.shaded else 0.03)
        if chart.dots:
            return cls(*_of_one_scale(x, Axis.of(ys, False, 0.08)))
        if chart.percent:
            least = min((y for y in ys if y is not None), default=0.0)
            return cls(x, Axis(max(0.0, min(0.9, int((least - 0.02) * 10) / 10)), 1.0))
        return cls(x, Axis.of(ys, chart.log_y))

    def at(self, x: float, y: float | None) -> tuple[float, float] | None:
        """The place of a point; None where it has none."""
        if y is None or (self.y.log and y <= 0) or (self.x.log and x <= 0):
            return None
        return round(SIZE * self.x.share(x)), round(SIZE * (1 - self.y.share(y)))

    def points(self, xs: Sequence[float], ys: Sequence[float | None]) -> list[tuple[float, float] | None]:
        return [self.at(x, y) for x, y in zip(xs, ys, strict=True)]


def _of_one_scale(x: Axis, y: Axis) -> tuple[Axis, Axis]:
    """Both axes on a plane that is 1.6 times as wide as high, where a distance is the same along both."""
    height = max(y.high - y.low, (x.high - x.low) / 1.6)
    return tuple(  # pyright: ignore[reportReturnType]
        Axis((a.low + a.high - size) / 2, (a.low + a.high + size) / 2) for a, size in ((x, 1.6 * height), (y, height))
    )


def chart_in_html(chart: Chart) -> str:
    """Returns the chart as a figure."""
    plane, own = Plane.of(chart), chart.styles
    styles = {n: BASE if n == chart.base else Style.of(own.get(n, i)) for i, n in enumerate(chart.series)}
    content = "".join(_dots(chart, plane, styles) if chart.dots else _lines(chart, plane, styles))
    name, about = name_of("d", chart.title, chart.series, chart.marks, chart.hints), _about(chart)
    box = head(name, chart.title, about, f"0 0 {SIZE} {SIZE}", ' preserveAspectRatio="none"')
    kind = "chart" + " half" * chart.half + " dots" * chart.dots
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    return (
        f'<figure class="{kind}"><p class="axis">{escape(chart.y_label)}</p>\n'
        f'<div class="plot"{_beside(chart)}>{_numbers(plane.y, "ys", chart.percent, Y_TICKS)}\n'
        f'<div class="plane">{box}{content}</svg>{_places(chart, plane)}</div>{_legend(chart, plane, styles)}\n'
        f"{_numbers(plane.x, 'xs', False, X_TICKS, _ends(chart, plane))}"
        f'<p class="axis x">{escape(chart.x_label)}</p></div>{caption}</figure>'
    )


def _path(points: Iterable[tuple[float, float] | None]) -> str:
    """The points joined by lines; a gap where one is None."""
    text, joined = [], False
    for point in points:
        if point is not None:
            text.append(f"{'L' if joined else 'M'}{point[0]:g} {point[1]:g}")
        joined = point is not None
    return "".join(text)


def _dotted(points: Iterable[tuple[float, float] | None]) -> str:
    """Lines without length, whose round ends are dots."""
    return "".join(f"M{point[0]:g} {point[1]:g}h0" for point in points if point is not None)


def _lines(chart: Chart, plane: Plane, styles: Mapping[str, Style]) -> Iterator[str]:
    if chart.shaded:
        low, high = (max(0.0, min(1.0, plane.x.share(x))) for x in chart.shaded)
        low, high = (low, high) if low < high else (low - 0.01, high + 0.01)
        yield f'<path class="ground" d="M{SIZE * low:g} 0H{SIZE * high:g}V{SIZE}H{SIZE * low:g}z"/>'
    yield _grid(plane)
    for name, (lows, highs) in chart.bands.items():
        xs = list(chart.series[name][0])
        around = [plane.at(x, y) for x, y in [*zip(xs, highs, strict=True), *zip(xs[::-1], lows[::-1], strict=True)]]
        yield f'<path class="band" fill="var(--{styles[name].role})" d="{_path(p for p in around if p)}z"/>'
    for x in chart.marks.values():
        yield f'<path class="mark" d="M{SIZE * plane.x.share(x):g} 0V{SIZE}"/>'
    for i, (name, (xs, ys)) in enumerate(chart.series.items()):
        points = plane.points(xs, ys)
        # Later lines are thinner, so that all of several lines that coincide can be seen.
        width = 1.6 if chart.half or name == chart.base else max(1.6, 3.6 - 0.5 * i)
        yield f'<path class="line" {styles[name].attributes} stroke-width="{width:g}" d="{_path(points)}"/>'
        if len(xs) <= MARKED and name != chart.base and not chart.half:
            yield f'<path class="dot" stroke="var(--{styles[name].role})" d="{_dotted(points)}"/>'
    if not chart.half:
        yield "".join(_pointed(chart, plane))


def _pointed(chart: Chart, plane: Plane) -> Iterator[str]:
    """What all lines have at an x, where it is pointed at; of many xs at some."""
    values: dict[float, list[str]] = {}
    for name, (xs, ys) in chart.series.items():
        for x, y, hint in zip(xs, ys, chart.hints.get(name, [""] * len(xs)), strict=True):
            if y is not None and plane.at(x, y):
                text = f"{name} {table_number(y, chart.percent)}{'%' * chart.percent}"
                values.setdefault(x, []).append(text + (f" ({hint})" if hint else ""))
    places = sorted(values)
    for x in places[:: -(-len(places) * len(chart.series) // POINTED)][::-1]:
        text = "\n".join([f"{chart.x_label}: {table_number(x)}", *values[x]])
        yield f'<path class="hit" d="M{SIZE * plane.x.share(x):.0f} 0V{SIZE}"><title>{escape(text)}</title></path>'


def _dots(chart: Chart, plane: Plane, styles: Mapping[str, Style]) -> Iterator[str]:
    yield _grid(plane)
    for name, (xs, ys) in chart.series.items():
        points = _dotted(plane.points(xs, ys))
        yield f'<path class="dot" stroke="var(--{styles[name].role})" d="{points}"><title>{escape(name)}</title></path>'


def _grid(plane: Plane) -> str:
    across = "".join(f"M0 {SIZE * (1 - plane.y.share(y)):.5g}H{SIZE}" for y in plane.y.ticks(Y_TICKS))
    up = "".join(f"M{SIZE * plane.x.share(x):.5g} 0V{SIZE}" for x in plane.x.ticks(X_TICKS))
    return f'<path class="grid" d="{across}{up}"/>'


def _ends(chart: Chart, plane: Plane) -> list[float]:
    """Where training ends and where the axis does: round numbers near them give way."""
    if not chart.shaded:
        return []
    trained, last = chart.shaded[1], plane.x.high
    return [trained, *([last] if plane.x.share(last) - plane.x.share(trained) > 0.08 else [])]


def _numbers(axis: Axis, kind: str, percent: bool, most: int, ends: Sequence[float] = ()) -> str:
    """The numbers along an axis, but those too near to one of the `ends`, which stand there too."""
    apart = lambda v: all(abs(axis.share(v) - axis.share(end)) > 0.08 for end in ends)  # noqa: E731
    items = []
    for value in [*filter(apart, axis.ticks(most)), *ends]:
        text = f"{round(100 * value, 4):g}%" if percent else tick(value)
        place = f"left:{100 * axis.share(value):.4g}%" if kind == "xs" else f"top:{100 * (1 - axis.share(value)):.4g}%"
        items.append(f'<li style="{place}">{text}</li>')
    return f'<ul class="{kind}" aria-hidden="true">{"".join(items)}</ul>'


def _places(chart: Chart, plane: Plane) -> str:
    """The names of marked places, each a line lower than the one before, so that none hides another."""
    items = ""
    for i, (name, x) in enumerate(chart.marks.items()):
        share = plane.x.share(x)
        side = f"right:{100 * (1 - share):.4g}%" if share > 0.5 else f"left:{100 * share:.4g}%"
        items += f'<li style="{side};top:{LINE * i}px">{escape(name)}</li>'
    return f'<ul class="marks">{items}</ul>' if items else ""


def last_values(chart: Chart) -> dict[str, float | None]:
    """Where each line ends, in the order of the ends from the top, the line that others are compared with last."""
    last = {name: next((y for y in reversed(ys) if y is not None), None) for name, (_, ys) in chart.series.items()}
    order = sorted(last, key=lambda name: (name == chart.base, -math.inf if last[name] is None else -(last[name] or 0)))
    return {name: last[name] for name in order}


def _beside(chart: Chart) -> str:
    """How wide the names beside the plane are; nothing where they stand below it."""
    longest = max(map(len, chart.series))
    fits = longest <= LONGEST and len(chart.series) * LINE <= HEIGHT
    return f' style="--names:{86 + 7.2 * longest:.0f}px"' if fits and not (chart.half or chart.dots) else ""


def _legend(chart: Chart, plane: Plane, styles: Mapping[str, Style]) -> str:
    """The names of the lines, each beside its end where that fits."""
    if chart.dots:
        keys = [f"{dot_key(styles[n])}{escape(n)} <small>({len(xs):,})</small>" for n, (xs, _) in chart.series.items()]
        return f'<ol class="legend">{"".join(f"<li>{key}</li>" for key in keys)}</ol>'
    last, beside = last_values(chart), bool(_beside(chart))
    tops = _apart({name: point[1] for name, y in last.items() if (point := plane.at(plane.x.high, y))})
    items = ""
    for name, y in last.items():
        place = f' style="top:{tops.get(name, SIZE) / SIZE * 100:.4g}%"' if beside else ""
        value = "" if chart.half else f" <b>{table_number(y, chart.percent)}</b>"
        items += f"<li{place}>{line_key(styles[name])}{escape(name)}{value}</li>"
    return f'<ol class="legend{" ends" * beside}">{items}</ol>'


def _apart(places: Mapping[str, float]) -> dict[str, float]:
    """The places, moved as little as gives each room for a line of text, within the plane."""
    order, room = sorted(places, key=lambda name: places[name]), SIZE * LINE / HEIGHT
    # Names that are too close stand around the middle of where they belong: groups of (that of the first, how many).
    groups: list[tuple[float, int]] = []
    for i, name in enumerate(order):
        groups.append((places[name] - i * room, 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (a, n), (b, m) = groups[-2:]
            groups[-2:] = [((a * n + b * m) / (n + m), n + m)]
    firsts = [first for first, count in groups for _ in range(count)]
    highest = SIZE - (len(order) - 1) * room
    return {
        name: max(0.0, min(highest, first)) + i * room
        for i, (name, first) in enumerate(zip(order, firsts, strict=True))
    }


def _about(chart: Chart) -> str:
    """What is read out loud: how the lines end, or where the dots lie."""
    if chart.dots:
        groups = (f"{name}: {len(xs):,} dots about {centre(xs, ys)}" for name, (xs, ys) in chart.series.items())
        return f"{'; '.join(groups)}."
    ends = (f"{name} ends at {table_number(y, chart.percent)}" for name, y in last_values(chart).items())
    return f"{chart.y_label} against {chart.x_label}: {'; '.join(ends)}."


def centre(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """The medians along both axes."""
    return f"({table_number(statistics.median(xs))}, {table_number(statistics.median(y for y in ys if y is not None))})"


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
