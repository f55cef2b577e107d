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


def clusters_panel(clusters: Clusters) -> Panel:
    """The outputs in the plane of their first two principal axes, and how many of each depth stand in each cluster."""
    names = _names(clusters)
    dots: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for point, member in zip(clusters.points, clusters.members, strict=True):
        dots[names[member]].append(point)
    first, second = (f"{which} principal axis" for which in ("first", "second"))
    chart = scatter_plot(f"{_who(clusters)}: clusters", "", first, second, dots)
    rows = {"all depths": clusters.sizes}
    rows |= {
        d.name + (f", {min(d.reach, clusters.length)} tokens" if d.reach else ""): d.sizes for d in clusters.depths
    }
    shares = [[size / sum(sizes) for size in sizes] for sizes in rows.values()]
    table = heat_map(
        "Outputs of each depth by cluster", "", list(rows), names, shares, corner="share in %", low=0, percent=True
    )
    finding = _finding(clusters)
    noun = "cluster" if clusters.count == 1 else "clusters"
    return Panel(
        title=f"{_who(clusters)}: {clusters.count} {noun}",
        caption=_caption(clusters),
        body=f'<p class="finding">{escape(finding)}</p>\n{chart.body}\n{table.body}',
        text=f"{finding}\n\n{table.text}",
        data=clusters.to_json(),
    )


def receptive_field_panel(field: ReceptiveField | Mapping[str, ReceptiveField]) -> Panel:
    """The cumulative gradient, newest token first, of one model or of several by name."""
    fields = {field.model: field} if isinstance(field, ReceptiveField) else dict(field)
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


def _who(clusters: Clusters) -> str:
    return clusters.model + (f" on {clusters.task}" if clusters.task else "")


def _names(clusters: Clusters) -> list[str]:
    """What to call each cluster: by its truth where there is one, and by its number where others have the same."""
    if clusters.truth is None or clusters.count == 1:
        return [f"cluster {i + 1}" for i in range(clusters.count)]
    acts = "as " if clusters.truth.about == "transition" else ""
    names = [f"{acts}{name}" for name in clusters.truth.names]
    return names if len(set(names)) == len(names) else [f"{i + 1}: {name}" for i, name in enumerate(names)]


def _finding(clusters: Clusters) -> str:
    text = f"{clusters.count} cluster{'s' * (clusters.count > 1)} among {sum(clusters.sizes):,} outputs"
    text += f" of {len(clusters.depths)} depths" if len(clusters.depths) > 1 else ""
    if clusters.distance is not None:
        apart = clusters.distance / clusters.radius if clusters.radius else math.inf
        text += f"; the closest two centres are {apart:.1f} times the widest's radius apart"
    text += "." if clusters.count < clusters.most else f"; more than {clusters.most} were not looked for."
    if clusters.truth is None:
        return text
    about = "true transition of the tokens they see" if clusters.truth.about == "transition" else "true state"
    return (
        f"{text} {percent(clusters.truth.agreement)}% of the outputs agree with the {about} "
        f"({clusters.truth.kinds} kinds; "
        f"one cluster would have {percent(clusters.truth.chance)}%)."
    )


def _caption(clusters: Clusters) -> str:
    strings = f"{clusters.strings} string{'s' * (clusters.strings > 1)} of {clusters.length:,} tokens"
    shown = f" ({len(clusters.points):,} of them drawn)" if len(clusters.points) < sum(clusters.sizes) else ""
    text = f"A dot for each output of a block at each position of {strings}, over all depths{shown}, along the two "
    text += f"principal axes, which hold {percent(sum(clusters.explained))}% of the variance. "
    text += "Colour: the cluster, found without looking at the task."
    if clusters.truth is not None and clusters.count > 1:
        text += " Name: what most of its outputs stand for" + (
            ", as a shortest word that acts so." if clusters.truth.about == "transition" else "."
        )
    return text


def _reach(name: str, field: ReceptiveField) -> str:
    return (
        f"{name}: the newest {field.newest():,} of {field.length:,} tokens hold 90% of the gradient; the curve is at "
        f"most {100 * field.bend:.0f} percentage points off the line on which all tokens matter alike."
    )
