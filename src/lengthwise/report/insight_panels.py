"""Insight as panels: the clusters of a model's outputs, its receptive field, and what its heads link."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from ..errors import Error
from ..insight import Clusters, Links, ReceptiveField
from .arc_diagram import SHOWN
from .formatting import percent
from .panel import Arcs, Chart, Link, heat_map, line_chart, scatter_plot

EVEN = "all tokens alike"


def clusters_panel(clusters: Clusters) -> Chart:
    """The outputs in the plane of their first two principal axes, and how many of each depth stand in each cluster."""
    names = _names(clusters)
    dots: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for point, member in zip(clusters.points, clusters.members, strict=True):
        dots[names[member]].append(point)
    rows = {"all depths": clusters.sizes}
    rows |= {
        d.name + (f", {min(d.reach, clusters.length)} tokens" if d.reach else ""): d.sizes for d in clusters.depths
    }
    shares = [[size / sum(sizes) for size in sizes] for sizes in rows.values()]
    table = heat_map(
        "Outputs of each depth by cluster", "", list(rows), names, shares, corner="share in %", low=0, percent=True
    )
    noun = "cluster" if clusters.count == 1 else "clusters"
    task = f" on {clusters.task}" if clusters.task else ""
    title = f"{clusters.model}{task}: {clusters.count} {noun}"
    chart = scatter_plot(title, _caption(clusters), "first principal axis", "second principal axis", dots)
    return replace(chart, data=clusters.to_json(), lead=_finding(clusters), below=(table,))


def receptive_field_panel(field: ReceptiveField | Mapping[str, ReceptiveField]) -> Chart:
    """The cumulative gradient, newest token first, of one model or of several by name."""
    fields = {field.model: field} if isinstance(field, ReceptiveField) else dict(field)
    length = max(field.length for field in fields.values())
    tasks = dict.fromkeys(field.task for field in fields.values() if field.task)
    strings = max(field.strings for field in fields.values())
    chart = line_chart(
        f"Receptive field{': ' * bool(tasks)}{', '.join(tasks)}",
        "How much of the last answer's gradient, with respect to the embedded tokens, lies within the newest n "
        f"tokens; mean over {strings} string{'s' * (strings > 1)} of {length:,}. Straight: all tokens matter "
        "alike. Steep at first: the newest matter most. It is a matter of small changes: an answer can depend on a "
        "token with no gradient, where units are saturated.",
        "newest tokens counted",
        "share of the gradient",
        {
            **{name: (range(1, field.length + 1), field.cumulative) for name, field in fields.items()},
            EVEN: (range(1, length + 1), [n / length for n in range(1, length + 1)]),
        },
        percent=True,
    )
    lead = "\n".join(_reach(name, field) for name, field in fields.items())
    return replace(chart, data={name: field.to_json() for name, field in fields.items()}, lead=lead)


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
    sample = f" ({len(clusters.points):,} of them drawn)" if len(clusters.points) < sum(clusters.sizes) else ""
    text = f"A dot for each output of a block at each position of {strings}, over all depths{sample}, along the two "
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


def links_panel(links: Links, head: tuple[int, int] | None = None) -> Arcs:
    """One head drawn over a sentence.

    `head`: layer and head to draw, from 0; None: the one whose words read one other word the most, on average.
    """
    layer, number = _chosen(links, head)
    seen = links.layers[layer]
    caption = (
        f"Arcs lead from a word to the earlier words it reads, the stronger the more; below {100 * SHOWN:.0f}% none is "
        "drawn."
    )
    if seen.gamma:
        caption += " The layer sums over chains of these links, so a state may come from far without a link of its own."
    what = f"chain attention, γ = {seen.gamma[number]:.2g}" if seen.gamma else "softmax attention"
    return Arcs(
        f"{links.model} on {links.task}: what {seen.name}, head {number} links",
        caption,
        links.words,
        _drawn(seen.weights[number]),
        data={**links.to_json(), "drawn": [layer, number]},
        lead=f"{seen.name.capitalize()}, head {number} ({what}): each word and what it reads.",
    )


def _chosen(links: Links, head: tuple[int, int] | None) -> tuple[int, int]:
    """Layer and head to draw; by default those whose words read one other word the most, on average."""
    if head is not None:
        layer, number = head
        if not (0 <= layer < len(links.layers) and 0 <= number < links.layers[layer].heads):
            counts = ", ".join(f"{seen.name} has {seen.heads}" for seen in links.layers)
            raise Error(f"attention: there is no head {number} in layer {layer}: {counts}, both counted from 0.")
        return layer, number

    def most(at: tuple[int, int]) -> float:
        A = links.layers[at[0]].weights[at[1]]
        return float((A - A.diag().diag()).amax(-1).mean())

    return max(((i, j) for i, seen in enumerate(links.layers) for j in range(seen.heads)), key=most)


def _drawn(A: Tensor) -> dict[Link, float]:
    """The links of A (T, T) that are drawn or listed: strong ones, and each word's strongest to an earlier word."""
    strong = A >= SHOWN
    for word in range(1, len(A)):
        strong[word, A[word, :word].argmax()] = True
    return {(t, j): w for (t, j), w in zip(strong.nonzero().tolist(), A[strong].tolist(), strict=True) if w > 0}
