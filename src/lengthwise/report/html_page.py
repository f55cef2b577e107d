"""One self-contained HTML page: it opens offline, on a telephone, in the dark, and a hundred years from now.

Nothing is fetched, and no script runs but to copy a command. The figures are inline SVG in the page's own colours. The
records that the page was made from are in it, compressed, for whoever wants to compute something else.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from ..files import write_text
from ..lab.records import Run
from ..lab.statistics import Range, summary
from .chosen_settings import Swept
from .contents import Content
from .drawing import caption_in_html, folded, style
from .finding import findings
from .formatting import percent, spread
from .page_data import embedded
from .panel import Arcs, Chart, Facts, Panel, Table, TableCell, Verdict
from .provenance import how_it_was_run
from .section_panel import POINTS, curve, section_panel
from .sections import Section, SeedGroup
from .verdicts import verdict_data, verdicts_of

CURVES = 1500
"""So many points all learning curves of a page have, about."""
OPEN, CURVED = 4, 6
"""Of more sections each opens when its title is pressed; of still more none has learning curves."""
ROWS = 24
"""Sections with more rows of models than that in all are no parts of the page, but rows at a glance."""
NAMED = 4
"""The title names up to so many tasks."""
CONTENTS_FROM = 5
"""A page of so many parts has a list of them."""
TERMS = {
    "Accuracy": "The share of test strings of one length that are right; where a task asks for several entries, the "
    "mean share of these. A column with several lengths is the unweighted mean of their accuracies. 100.0 is printed "
    "only where every string was right.",
    "Length": "Every model is trained on short strings, the shaded lengths, and tested on longer ones.",
    "Majority answer": "Always giving the commonest answer at that length (the tick on each bar, the dashed line). "
    "Only what lies above it was learned.",
    "Last and best valid.": "Large figures are of the model as it was at the last training step (its last checkpoint). "
    "Best valid. is of the step that did best on validation strings of the training lengths; test strings choose "
    "nothing.",
    "Mean ± and max": "Every seed is one training run from scratch. ± is the sample standard deviation over seeds; max "
    "is the best seed. A max far above the mean says that the model can learn the task but does not do so reliably.",
    "95% interval": "Wilson's interval over all test strings of all seeds. It says how well the test strings pin these "
    "trained models down; how the next seed would do, only more seeds can say.",
    "Overflow": "The model's output numbers (logits) grew beyond what floating point holds, so that no answer can be "
    "read from them. Such a string counts as wrong.",
}


def write_html(
    runs: Iterable[Run],
    path: str | Path,
    *,
    title: str | None = None,
    description: str | None = None,
    panels: Sequence[Panel] = (),
    panels_of_text: bool = True,
    sweep: Swept = (),
    command: str = "",
) -> Path:
    """Write the page to `path` and return it.

    `title` and `description` say what the question was, as a recipe does. `panels` come first; with some, there may be
    no runs. Without `panels_of_text` the panels given say what runs on text are worth. Of the settings named in `sweep`
    validation strings choose: only the tests of the chosen ones are shown, and all settings in a panel. `command` is
    what measured panels that have no runs.
    """
    report = Content.of(runs, panels, sweep=sweep, own_text_panels=panels_of_text, command=command)
    return write_text(path, page(report, title=title, description=description))


def page(report: Content, *, title: str | None = None, description: str | None = None) -> str:
    """Returns the page as text."""
    points = curve_points(report)
    sentences = findings(report.sections)
    parts = _parts(report, points, sentences)
    title = title or _title(report)
    # One finding stands on top: that of a panel goes before what is said of the runs in general.
    first = next((panel.finding for panel in report.panels if panel.finding), " ".join(sentences))
    body = "\n".join(_part(name, panel, first) for name, panel in parts.items())
    made_from = f"{len(report.runs)} run records" if report.runs else "measurements"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style()}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
{f'<p class="found">{escape(first)}</p>' if first else ""}
</header>
{body}
<footer>{_about(report, parts, description)}
<p>Made from {made_from} by Lengthwise. They are inside this page, compressed: <code>lengthwise.report.inside</code>
reads them.</p></footer>
</main>
{embedded(_data(report, title, description, points))}
</body>
</html>
"""


def _about(report: Content, parts: Mapping[str, Panel], description: str | None) -> str:
    """What the page is about, what its words mean and, of a long page, a list of its parts."""
    lead = description or "How well each model does at lengths it was never trained on."
    terms = Facts("How to read this page", "", {term: [text] for term, text in TERMS.items()})
    code = f'<p class="note">{escape(report.code_note)}</p>' if report.code_note else ""
    reading = f'<div id="reading">{folded(terms.title, terms.html)}</div>' if report.sections else ""
    return f'{code}<p class="lead">{escape(lead)}</p>{reading}{contents(parts)}'


def curve_points(report: Content) -> int:
    """How many points a learning curve has, so that no page grows with the number of its runs."""
    return max(8, min(POINTS, CURVES // max(1, len(report.runs))))


def _data(report: Content, title: str, description: str | None, points: int) -> dict[str, Any]:
    """What the page was made from, in numbers."""
    about = {"title": title, "description": description, "command": report.command}
    data = {**about, "records": [_record(run, points) for run in report.runs]}
    return {**data, "panels": [panel.to_json() for panel in report.panels]} if report.panels else data


def _title(report: Content) -> str:
    names = list(dict.fromkeys(section.title for section in report.sections))
    names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more tasks"] if len(names) > NAMED else names
    return f"{', '.join(names)}: trained short, tested long" if names else "; ".join(p.title for p in report.panels)


def _parts(report: Content, points: int, sentences: Sequence[str]) -> dict[str, Panel]:
    """Every part of the page by its name: those with a picture first, panels before what is said of all runs.

    The `sentences` are the findings of the sections, one each or one about all.
    """
    panels = {f"panel{i}": panel for i, panel in enumerate(report.panels)}
    glance = {"glance": _overview(report.sections)} if len(report.sections) > 1 else {}
    visible = report.sections if has_room(report.sections) else []
    points = points if len(visible) <= CURVED else 0
    sections = {f"task{i}": section_panel(each, curve_points=points) for i, each in enumerate(visible)}
    if len(sentences) == len(sections) > 0:
        each = zip(sections.items(), sentences, strict=True)
        sections = {name: replace(panel, finding=sentence) for (name, panel), sentence in each}
    elif glance:
        glance = {"glance": replace(glance["glance"], finding=sentences[0])}
    if len(report.sections) > OPEN:
        sections = {**glance, **{name: replace(panel, folded=True) for name, panel in sections.items()}}
    parts = {**panels, **sections, **glance}
    parts = dict(sorted(parts.items(), key=lambda part: not has_picture(part[1]) or part[1].folded))
    return {**parts, "run": how_it_was_run(report)}


def has_room(sections: Sequence[Section]) -> bool:
    """Whether a page can show each of these sections."""
    return sum(len(section.groups) for section in sections) <= ROWS


def has_picture(panel: Panel) -> bool:
    """Whether a panel shows its finding before it is read: as a chart, or in the grounds and bars of a table."""
    if isinstance(panel, Table):
        cells = [cell for row in panel.rows for cell in row[1:] if isinstance(cell, TableCell)]
        return any(cell.mark or cell.bar or cell.shade is not None for cell in cells)
    return isinstance(panel, (Chart, Arcs)) or any(map(has_picture, panel.below))


def _part(name: str, panel: Panel, first: str) -> str:
    finding = f'<p class="found">{escape(panel.finding)}</p>' if panel.finding not in first else ""
    content = f"{finding}{panel.html}{caption_in_html(panel)}"
    if panel.folded:
        return f'<section class="panel folded">{folded(panel.title, content, name)}</section>'
    return f'<section id="{name}" class="panel"><h2>{escape(panel.title)}</h2>{content}</section>'


def _record(run: Run, points: int) -> dict[str, Any]:
    record = {"experiment": run.experiment.to_json(), "result": run.result, "run": run.path.name}
    lines = [("train", "loss"), ("validation", "accuracy")]
    record["metrics"] = [
        {"kind": kind, "step": step, value: number}
        for kind, value in lines
        for step, number in zip(*curve(run, kind, value, points), strict=True)
    ]
    return record | ({"verdict": verdict} if (verdict := verdict_data(run)) else {})


def _overview(sections: Sequence[Section]) -> Table:
    """Several tasks at a glance: each model's mean over the first lengths beyond training, and the verdict on it."""
    groups = {group.label: group for section in sections for group in section.groups}
    labels = sorted(groups, key=lambda label: groups[label].style)
    rows = []
    for i, section in enumerate(sections):
        r = next((r for r in section.ranges if r.beyond), section.ranges[-1])
        verdicts = verdicts_of(section)
        cells = {group.label: _glance(group, r, verdicts.get(group.label, [])) for group in section.groups}
        base = percent(statistics.fmean(section.baseline[n] for n in r.lengths))
        name = TableCell(section.name, link=f"#task{i}") if has_room(sections) else section.name
        rows.append([name, r.label, *(cells.get(label, "") for label in labels), base])
    caption = (
        "Accuracy in %, last checkpoint, at the first lengths beyond training or, where none was tested, at the "
        "longest: the deeper the ground, the farther above the majority answer. ✓ proved at every length, "
        "✗ refuted by a string, ? neither."
    )
    return Table("At a glance", caption, ["task", "lengths", *labels, "majority"], rows)


def _glance(group: SeedGroup, r: Range, verdicts: Sequence[Verdict]) -> TableCell:
    score = summary(group.runs, r.lengths)
    above = max(0.0, score.mean - score.baseline) / max(1 - score.baseline, 1e-9)
    counts = Counter(verdict.mark for verdict in verdicts)
    mark = " ".join(f"{sign} {count}" if len(verdicts) > 1 else sign for sign, count in sorted(counts.items()))
    return TableCell(spread(score), mark=mark, shade=above)


def contents(parts: Mapping[str, Panel]) -> str:
    """A list of links to the parts; nothing on a short page."""
    if len(parts) < CONTENTS_FROM:
        return ""
    links = "".join(f'<li><a href="#{name}">{escape(panel.title)}</a></li>' for name, panel in parts.items())
    return folded("Contents", f'<nav aria-label="Contents"><ol class="contents">{links}</ol></nav>')
