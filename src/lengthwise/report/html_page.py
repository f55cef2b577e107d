"""One self-contained HTML page: it opens offline, on a telephone, in the dark, and a hundred years from now.

No script runs, nothing is fetched. The figures are inline SVG in the page's own colours, and the records the page was
made from are in it, as JSON, for whoever wants to compute something else.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import finite, write_text
from ..lab.statistics import summary
from .chosen_settings import Swept
from .contents import Report
from .drawing import caption_in_html, folded, style
from .finding import findings
from .formatting import percent, spread
from .linked_pages import START, linked_pages, other_pages
from .panel import Facts, Panel, Table, TableCell
from .provenance import how_it_was_run
from .section_panel import section_panel
from .sections import Section
from .verdicts import verdict_data

if TYPE_CHECKING:
    from ..lab import Run


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
    beside: Iterable[str | Path] = (),
    panels_of_text: bool = True,
    sweep: Swept = (),
    command: str = "",
) -> Path:
    """Write the page to `path` and return it.

    `title` and `description` say what the question was, as a recipe does. `panels` come first; with some, there may be
    no runs. Pages of this library in the directories `beside` are linked. Without `panels_of_text` the panels given say
    what runs on text are worth. Of the settings named in `sweep` validation strings choose: only the tests of the
    chosen ones are shown, and all settings in a panel. `command` is what measured panels that have no runs.
    """
    report = Report.of(runs, panels, sweep=sweep, own_text_panels=panels_of_text, command=command)
    links = other_pages(beside, Path(path))
    return write_text(path, page(report, title=title, description=description, links=links))


def page(
    report: Report, *, title: str | None = None, description: str | None = None, links: Mapping[str, str] | None = None
) -> str:
    """Returns the page as text; `links` are titles of other pages by their addresses."""
    parts = _parts(report, links or {})
    title = title or _title(report)
    lead = description or "How well each model does at lengths it was never trained on."
    body = "\n".join(_part(name, panel) for name, panel in parts.items())
    sentences = [*findings(report.sections), *(panel.finding for panel in report.panels if panel.finding)]
    made_from = f"{len(report.runs)} run records" if report.runs else "measurements"
    data = {"records": [_record(run) for run in report.runs]}
    data |= {"panels": [panel.to_json() for panel in report.panels]} if report.panels else {}
    terms = Facts("How to read this page", "", {term: [text] for term, text in TERMS.items()})
    reading = f'<div id="reading">{folded(terms.title, terms.html)}</div>'
    ids = " and ".join(f"<code>id=&quot;{name}&quot;</code>" for name in data)
    return f"""{START}{escape(title)}</title>
<style>
{style()}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
{"".join(f'<p class="found">{escape(sentence)}</p>' for sentence in sentences)}
<p class="lead">{escape(lead)}</p>
{contents(parts)}
{reading if report.sections else ""}
</header>
{f'<p class="note">{escape(report.code_note)}</p>' if report.code_note else ""}
{body}
<footer><p>Made from {made_from} by Lengthwise. All numbers are inside this page, as JSON: look for
{ids} in its source.</p></footer>
</main>
{"".join(_embedded(name, each) for name, each in data.items())}
</body>
</html>
"""


def _title(report: Report) -> str:
    names = list(dict.fromkeys(section.title for section in report.sections))
    names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more tasks"] if len(names) > NAMED else names
    return f"{', '.join(names)}: trained short, tested long" if names else "; ".join(p.title for p in report.panels)


def _parts(report: Report, links: Mapping[str, str]) -> dict[str, Panel]:
    """Every part of the page by its name."""
    parts = {f"panel{i}": panel for i, panel in enumerate(report.panels)}
    parts |= {"glance": _overview(report.sections)} if len(report.sections) > 1 else {}
    parts |= {f"task{i}": section_panel(section, training=True) for i, section in enumerate(report.sections)}
    return {**parts, "run": how_it_was_run(report), **({"pages": linked_pages(links)} if links else {})}


def _part(name: str, panel: Panel) -> str:
    heading = f"<h2>{escape(panel.title)}</h2>"
    return f'<section id="{name}" class="panel">{heading}{panel.html}{caption_in_html(panel)}</section>'


def _record(run: Run) -> dict[str, Any]:
    verdict = verdict_data(run)
    record = {"experiment": run.experiment.to_json(), "result": run.result, "run": run.path.name}
    return record if verdict is None else {**record, "verdict": verdict}


def _embedded(name: str, data: Any) -> str:
    """Data as JSON which no text inside it can end early (`</script>`) or turn into markup."""
    text = json.dumps(finite(data), ensure_ascii=True, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _overview(sections: Sequence[Section]) -> Table:
    """Several tasks at a glance: each model's mean over the first lengths beyond its training range."""
    labels = list(dict.fromkeys(group.label for section in sections for group in section.groups))
    rows = []
    for i, section in enumerate(sections):
        r = next((r for r in section.ranges if r.beyond), section.ranges[-1])
        scores = {group.label: spread(summary(group.runs, r.lengths)) for group in section.groups}
        base = percent(statistics.fmean(section.baseline[n] for n in r.lengths))
        name = TableCell(section.name, link=f"#task{i}")
        rows.append([name, r.label, *(scores.get(label, "") for label in labels), base])
    caption = (
        "Accuracy in %, last checkpoint, at the first lengths beyond training or, where none was tested, at the "
        "longest."
    )
    return Table("At a glance", caption, ["task", "lengths", *labels, "majority"], rows)


def contents(parts: Mapping[str, Panel]) -> str:
    """A list of links to the parts; nothing on a short page."""
    if len(parts) < CONTENTS_FROM:
        return ""
    links = "".join(f'<li><a href="#{name}">{escape(panel.title)}</a></li>' for name, panel in parts.items())
    return f'<nav aria-label="Contents"><ol class="contents">{links}</ol></nav>'
