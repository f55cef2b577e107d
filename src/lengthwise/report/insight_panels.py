"""Insight as panels: the clusters of a model's outputs, and its receptive field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from ..insight import Clusters, ReceptiveField
from .charts import line_chart, scatter_plot
from .formatting import percent
from .panel import Panel
from .table_panels import heat_map

EVEN = "all tokens alike"


def clusters(found: Clusters) -> Panel:
    """The outputs in the plane of their first two principal axes, and how many of each depth stand in each cluster."""
    names = _names(found)
    dots: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for point, member in zip(found.points, found.members, strict=True):
        dots[names[member]].append(point)
    first, second = (f"{which} principal axis" for which in ("first", "second"))
    chart = scatter_plot(f"{_who(found)}: clusters", "", first, second, dots)
    rows = {"all depths": found.sizes}
    rows |= {d.name + (f", {min(d.reach, found.length)} tokens" if d.reach else ""): d.sizes for d in found.depths}
    shares = [[size / sum(sizes) for size in sizes] for sizes in rows.values()]
    table = heat_map(
        "Outputs of each depth by cluster", "", list(rows), names, shares, corner="share in %", low=0, percent=True
    )
    finding = _finding(found)
    noun = "cluster" if found.count == 1 else "clusters"
    return Panel(
        title=f"{_who(found)}: {found.count} {noun}",
        caption=_caption(found),
        body=f'<p class="finding">{escape(finding)}</p>\n{chart.body}\n{table.body}',
        text=f"{finding}\n\n{table.text}",
        data=found.to_json(),
    )


def receptive_field(found: ReceptiveField | Mapping[str, ReceptiveField]) -> Panel:
    """The cumulative gradient, newest token first, of one model or of several by name."""
    fields = {found.model: found} if isinstance(found, ReceptiveField) else dict(found)
    length = max(field.length for field in fields.values())
    curves = {name: (range(1, field.length + 1), field.cumulative) for name, field in fields.items()}
    chart = line_chart(
        "Receptive field",
        "",
        "newest tokens counted",
        "share of the gradient",
        {**curves, EVEN: (range(1, length + 1), [n / length for n in range(1, length + 1)])},
        percent=True,
    )
    finding = "\n".join(_reach(name, field) for name, field in fields.items())
    tasks = dict.fromkeys(field.task for field in fields.values() if field.task)
    strings = max(field.strings for field in fields.values())
    return Panel(
        title=f"Receptive field{': ' * bool(tasks)}{', '.join(tasks)}",
        caption=(
            "How much of the last answer's gradient, with respect to the embedded tokens, lies within the newest n "
            f"tokens; mean over {strings} string{'s' * (strings > 1)} of {length:,}. Straight: all tokens matter "
            "alike. Steep at first: the newest matter most. It is a matter of small changes: an answer can depend on a "
            "token with no gradient, where units are saturated."
        ),
        body=f'<p class="finding">{escape(finding).replace(chr(10), "<br>")}</p>\n{chart.body}',
        text=f"{finding}\n\n{chart.text}",
        data={name: field.to_json() for name, field in fields.items()},
    )


def _who(found: Clusters) -> str:
    return found.model + (f" on {found.task}" if found.task else "")


def _names(found: Clusters) -> list[str]:
    """What to call each cluster: by its truth where there is one, and by its number where others have the same."""
    if found.truth is None or found.count == 1:
        return [f"cluster {i + 1}" for i in range(found.count)]
    acts = "as " if found.truth.about == "transition" else ""
    names = [f"{acts}{name}" for name in found.truth.names]
    return names if len(set(names)) == len(names) else [f"{i + 1}: {name}" for i, name in enumerate(names)]


def _finding(found: Clusters) -> str:
    text = f"{found.count} cluster{'s' * (found.count > 1)} among {sum(found.sizes):,} outputs"
    text += f" of {len(found.depths)} depths" if len(found.depths) > 1 else ""
    if found.distance is not None:
        apart = found.distance / found.radius if found.radius else math.inf
        text += f"; the closest two centres are {apart:.1f} times the widest's radius apart"
    text += "." if found.count < found.most else f"; more than {found.most} were not looked for."
    if found.truth is None:
        return text
    about = "true transition of the tokens they see" if found.truth.about == "transition" else "true state"
    return (
        f"{text} {percent(found.truth.agreement)}% of the outputs agree with the {about} ({found.truth.kinds} kinds; "
        f"one cluster would have {percent(found.truth.chance)}%)."
    )


def _caption(found: Clusters) -> str:
    strings = f"{found.strings} string{'s' * (found.strings > 1)} of {found.length:,} tokens"
    shown = f" ({len(found.points):,} of them drawn)" if len(found.points) < sum(found.sizes) else ""
    text = f"A dot for each output of a block at each position of {strings}, over all depths{shown}, along the two "
    text += f"principal axes, which hold {percent(sum(found.explained))}% of the variance. "
    text += "Colour: the cluster, found without looking at the task."
    if found.truth is not None and found.count > 1:
        text += " Name: what most of its outputs stand for" + (
            ", as a shortest word that acts so." if found.truth.about == "transition" else "."
        )
    return text


def _reach(name: str, field: ReceptiveField) -> str:
    return (
        f"{name}: the newest {field.newest():,} of {field.length:,} tokens hold 90% of the gradient; the curve is at "
        f"most {100 * field.bend:.0f} percentage points off the line on which all tokens matter alike."
    )
