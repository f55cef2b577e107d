"""What the heads of a model link, as a panel: one head drawn over a sentence, all heads in a table."""

from __future__ import annotations

from html import escape

from torch import Tensor

from ..errors import Error
from ..insight import Links
from ..insight.attention import Attention
from .arc_diagram import SHOWN, Pair, arc_diagram, link_table, with_legend
from .formatting import percent
from .panel import Panel
from .table_panels import heat_map


def links_panel(links: Links, head: tuple[int, int] | None = None) -> Panel:
    """`head`: layer and head to draw, from 0; None: the one whose links are most often true, or most pointed."""
    layer, number = _chosen(links, head)
    seen = links.layers[layer]
    truth, right, asked = _true(links)
    weights = _drawn(seen.weights[number], asked or {t: t for t in range(len(links.words))})
    name = f"{seen.name}, head {number}"
    said = _finding(links, layer, number)
    drawing = arc_diagram(f"{links.model}: {name}", said, links.words, weights, truth, right=right, asked=asked)
    keys = [("s0", "true link"), ("s1", "other link of a box"), ("muted", "another word's link")]
    table = _table(links)
    text = link_table(links.words, weights, truth, right=right, asked=asked)
    return Panel(
        title=f"{links.model} on {links.task}: what {name} links",
        caption=_caption(links, seen, number),
        body=f'<p class="finding">{escape(said)}</p>\n'
        + with_legend(drawing, keys if links.truth else [("muted", "link")])
        + (f"\n{table.body}" if table else ""),
        text=f"{said}\n\n{text}" + (f"\n\n{table.title}\n{table.text}" if table else ""),
        data={**links.to_json(), "drawn": [layer, number]},
    )


def _chosen(links: Links, head: tuple[int, int] | None) -> tuple[int, int]:
    if head is None:
        return links.truth.best if links.truth else _pointed(links)
    layer, number = head
    if not (0 <= layer < len(links.layers) and 0 <= number < links.layers[layer].heads):
        counts = ", ".join(f"{seen.name} has {seen.heads}" for seen in links.layers)
        raise Error(f"attention: there is no head {number} in layer {layer}: {counts}, both counted from 0.")
    return layer, number


def _pointed(links: Links) -> tuple[int, int]:
    """Layer and head whose words read one other word the most, on average."""

    def most(at: tuple[int, int]) -> float:
        A = links.layers[at[0]].weights[at[1]]
        return float((A - A.diag().diag()).amax(-1).mean())

    return max(((i, j) for i, seen in enumerate(links.layers) for j in range(seen.heads)), key=most)


def _drawn(A: Tensor, starts: dict[int, int]) -> dict[Pair, float]:
    """The links of A (T, T) that are drawn or listed: strong ones, and each word's strongest to before its start."""
    kept = A >= SHOWN
    for word, start in starts.items():
        if start:
            kept[word, A[word, :start].argmax()] = True
    return {(t, j): w for (t, j), w in zip(kept.nonzero().tolist(), A[kept].tolist(), strict=True) if w > 0}


def _true(links: Links) -> tuple[set[Pair], set[Pair], dict[int, int]]:
    """Arcs of the true graph; all links that count as true; the words that have some, and where their phrases start."""
    mentions = links.truth.mentions if links.truth else ()
    truth = {(m.token, s.token) for m in mentions for s in m.sources}
    right = {(m.token, j) for m in mentions for s in m.sources for j in range(s.start, s.end)}
    return truth, right, {m.token: m.start for m in mentions}


def _finding(links: Links, layer: int, number: int) -> str:
    seen = links.layers[layer]
    what = f"chain attention, γ = {seen.gamma[number]:.2g}" if seen.gamma else "softmax attention"
    start = f"{seen.name.capitalize()}, head {number} ({what})"
    if links.truth is None:
        return f"{start}: each word and what it reads."
    share, chance = links.truth.shares[layer][number], links.truth.chance
    return (
        f"{start}: the strongest link of {percent(share)}% of the mentions of a box goes to a phrase on which the "
        f"mention depends; by chance {percent(chance)}% would."
    )


def _caption(links: Links, seen: Attention, number: int) -> str:
    text = f"Arcs lead from a word to the earlier words it reads, the stronger the more; below {100 * SHOWN:.0f}% "
    text += "none is drawn."
    if seen.gamma:
        text += " The layer sums over chains of these links, so a state may come from far without a link of its own."
    if links.truth is not None:
        text += (
            f" Counted: {links.truth.counted} mentions in {links.strings} "
            f"stor{'ies' if links.strings > 1 else 'y'}, of each the strongest link to an earlier phrase; true where "
            "that phrase made a state on which the mentioned box's depends. By chance: a link to any earlier word "
            "alike. Left: the true graph of this story."
        )
    return text


def _table(links: Links) -> Panel | None:
    """The shares of all heads."""
    if links.truth is None:
        return None
    most = max(map(len, links.truth.shares))
    rows = [f"{seen.name} ({seen.mixer})" for seen in links.layers]
    values = [[*heads, *[None] * (most - len(heads))] for heads in links.truth.shares]
    columns = [f"head {i}" for i in range(most)]
    return heat_map(
        "True links of every head", "", rows, columns, values, corner="share in %", low=0, high=1, percent=True
    )
