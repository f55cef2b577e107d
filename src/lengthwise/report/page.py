"""One self-contained HTML page: it opens offline, on a telephone, in the dark, and a hundred years from now.

No script runs, nothing is fetched. The figures are inline SVG in the page's own colours, and the records the page was
made from are in it, as JSON, for whoever wants to compute something else.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..lab.statistics import Range, in_parts, summary
from .drawing import line_key
from .facts import how_it_was_run, how_to_read
from .figures import accuracy_figure, learning_figure, points
from .groups import Group, Section, sections
from .panel import Panel
from .record import panel_data
from .rows import write
from .svg import Style
from .words import count, duration, interval, overflows_of, percent, spread

if TYPE_CHECKING:
    from ..lab import Run


def write_html(
    runs: Iterable[Run],
    path: str | Path,
    *,
    title: str | None = None,
    description: str | None = None,
    panels: Sequence[Panel] = (),
) -> Path:
    """Write the page to `path` and return it. `title` and `description` say what was asked, as a recipe does; `panels`
    are shown first. There need be no runs where there are panels."""
    return write(path, page(list(runs), title=title, description=description, panels=panels))


def page(
    runs: Sequence[Run], *, title: str | None = None, description: str | None = None, panels: Sequence[Panel] = ()
) -> str:
    """The page as text."""
    parts = sections(runs) if runs or not panels else []
    shown = [run for part in parts for group in part.groups for run in group.runs]
    title = title or _title(parts, panels)
    lead = description or "How well each model does at lengths it was never trained on."
    css = files("lengthwise.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(_section(part, f"task{i}") for i, part in enumerate(parts))
    made_from = f"{len(shown)} run records" if shown else "measurements"
    ids = " and ".join(f"<code>id=&quot;{name}&quot;</code>" for name in ("records", *["panels"] * bool(panels)))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{css}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
</header>
{"".join(_panel(panel, i) for i, panel in enumerate(panels))}
{_overview(parts) if len(parts) > 1 else ""}
{body}
{how_to_read(max(part.seeds for part in parts), any(map(in_parts, shown))) if parts else ""}
{how_it_was_run(shown) if parts else ""}
<footer><p>Made from {made_from} by Lengthwise. All numbers are inside this page, as JSON: look for
{ids} in its source.</p></footer>
</main>
{_embedded("records", [_record(run) for run in shown])}
{_embedded("panels", [panel_data(panel) for panel in panels]) if panels else ""}
</body>
</html>
"""


def _title(parts: Sequence[Section], panels: Sequence[Panel]) -> str:
    names = dict.fromkeys(part.title for part in parts)
    return f"{', '.join(names)}: trained short, tested long" if names else "; ".join(p.title for p in panels)


def _panel(panel: Panel, i: int) -> str:
    return (
        f'<section id="panel{i}" class="panel"><h2>{escape(panel.title)}</h2>'
        f'{panel.body}<p class="note">{escape(panel.caption)}</p></section>'
    )


def _record(run: Run) -> dict[str, Any]:
    return {"experiment": run.experiment.to_json(), "result": run.result, "run": run.path.name}


def _embedded(name: str, data: Any) -> str:
    """Data as JSON which no text inside it can end early (`</script>`) or turn into markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _section(part: Section, name: str) -> str:
    models = "".join(f"<li>{line_key(Style.of(i))}{escape(group.label)}</li>" for i, group in enumerate(part.groups))
    legend = models + '<li><svg class="key" width="34" height="10" aria-hidden="true"><path d="M1 5h32" '
    legend += 'stroke="var(--muted)" stroke-width="1.6" stroke-dasharray="4 4"/></svg>majority answer</li>'
    several = len(points(part)) < len(part.lengths)
    together = " Where points stand close, each is the mean of neighbouring lengths." if several else ""
    said = overflows_of({group.label: group.runs for group in part.groups})
    note = f'\n<p class="note">{escape(said)}</p>' if said else ""
    shown = "least to greatest of the seeds" if part.seeds > 1 else "95% Wilson interval"
    return f"""<section id="{name}">
<h2>{escape(part.title)}</h2>
<p class="note">{escape(part.subtitle[:1].upper() + part.subtitle[1:])}.</p>
<p class="finding">{_finding(part)}</p>
<figure><ul class="legend">{legend}</ul>
<div class="plot"><div class="wide">{accuracy_figure(part, f"{name}-aw")}</div>
<div class="narrow">{accuracy_figure(part, f"{name}-an", narrow=True)}</div></div>
<figcaption>Line: mean. Band: {shown}. Shaded: the lengths trained on.{together}</figcaption></figure>
<div class="box" tabindex="0" role="region" aria-label="Table of accuracies">{_table(part)}</div>{note}
<figure><ul class="legend">{models}</ul>
<div class="plot"><div class="wide">{learning_figure(part, f"{name}-lw")}</div>
<div class="narrow">{learning_figure(part, f"{name}-ln", narrow=True)}</div></div>
<figcaption>One line a seed. Losses are averaged down to at most 80 points.</figcaption></figure>
</section>"""


def _finding(part: Section) -> str:
    """The section in a sentence: how far each model holds beyond its training lengths."""
    beyond = [r for r in part.ranges if r.beyond]
    if not beyond:
        return "No length beyond the training range was tested."
    # The first lengths beyond it and the farthest: to hold at the one proves nothing about the other.
    return "<br>".join(_at(part, r) for r in dict.fromkeys([beyond[0], beyond[-1]]))


def _at(part: Section, r: Range) -> str:
    scores = [summary(group.runs, r.lengths) for group in part.groups]
    order = sorted(range(len(scores)), key=lambda i: -scores[i].mean)
    named = ", ".join(f"{escape(part.groups[i].label)} <b>{percent(scores[i].mean)}%</b>" for i in order)
    at = f"At lengths {r.label}" if len(r.lengths) > 1 else f"At length {r.label}"
    return f"{at}: {named}. The majority answer would score {percent(scores[0].baseline)}%."


def _table(part: Section) -> str:
    head = "".join(
        f'<th scope="col"{_shade(r.trained)}>{r.label}{"<small>trained on</small>" if r.trained else ""}</th>'
        for r in part.ranges
    )
    rows = "".join(_row(group, part, i) for i, group in enumerate(part.groups))
    means = [statistics.fmean(part.baseline[n] for n in r.lengths) for r in part.ranges]
    base = "".join(f"<td{_attributes(r)}>{percent(m)}</td>" for r, m in zip(part.ranges, means, strict=True))
    return (
        f'<table class="stack"><thead><tr><th scope="col">accuracy in %, by length</th>{head}</tr></thead>'
        f'<tbody>{rows}<tr class="base"><th scope="row">majority answer</th>{base}</tr></tbody></table>'
    )


def _row(group: Group, part: Section, i: int) -> str:
    seconds = statistics.fmean(run.result["seconds"]["train"] for run in group.runs)
    seeds = f"{len(group.runs)} seeds" if len(group.runs) > 1 else "1 seed"
    about = f"{count(group.first.result['parameters'])} parameters · {seeds}<br>{duration(seconds)} of training"
    cells = []
    for r in part.ranges:
        s, best = summary(group.runs, r.lengths), summary(group.runs, r.lengths, "best")
        facts = [f"max {percent(s.max)}"] if s.std is not None else []
        facts += [f"95% {interval(s)}", f"best valid. {spread(best)}"]
        cells.append(
            f"<td{_attributes(r)}><b>{spread(s)}</b>"
            f'<span class="bar" aria-hidden="true"><i style="width:{100 * s.mean:.1f}%;background:var(--s{i % 8})"></i>'
            f'<u style="left:{100 * s.baseline:.1f}%"></u></span>'
            f"<small>{'<br>'.join(f'<span>{fact}</span>' for fact in facts)}</small></td>"
        )
    return (
        f'<tr><th scope="row">{line_key(Style.of(i))}{escape(group.label)}<small>{about}</small></th>'
        + "".join(cells)
        + "</tr>"
    )


def _shade(trained: bool) -> str:
    return ' class="trained"' if trained else ""


def _attributes(r: Range) -> str:
    """A cell knows its lengths, for on a telephone it stands without the head of its column."""
    return f'{_shade(r.trained)} data-column="{"trained on " if r.trained else ""}{r.label}"'


def _overview(parts: Sequence[Section]) -> str:
    """Several tasks at a glance: each model's mean over the first lengths beyond its training range."""
    labels = list(dict.fromkeys(group.label for part in parts for group in part.groups))
    rows = []
    for i, part in enumerate(parts):
        r = next((r for r in part.ranges if r.beyond), part.ranges[-1])
        found = {group.label: spread(summary(group.runs, r.lengths)) for group in part.groups}
        cells = "".join(f"<td>{found.get(label, '')}</td>" for label in labels)
        base = percent(statistics.fmean(part.baseline[n] for n in r.lengths))
        link = f'<a href="#task{i}">{escape(part.title)}</a>'
        rows.append(f'<tr><th scope="row">{link}</th><td>{r.label}</td>{cells}<td>{base}</td></tr>')
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    return (
        '<section><h2>At a glance</h2><p class="note">Accuracy in %, last checkpoint, at the first lengths beyond '
        "training or, where none was tested, at the longest.</p>"
        '<div class="box" tabindex="0" role="region" aria-label="Overview"><table class="small"><thead><tr>'
        f'<th scope="col">task</th><th scope="col">lengths</th>{head}<th scope="col">majority</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )
