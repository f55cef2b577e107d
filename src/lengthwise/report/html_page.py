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
from ..lab.statistics import in_parts, overflowed, summary
from .chosen_settings import Swept, parts_of
from .drawing import caption_in_html, style
from .finding import findings
from .formatting import percent, spread
from .linked_pages import START, linked_pages, other_pages
from .panel import Panel, Table, TableCell
from .provenance import code_note, how_it_was_run
from .section_panel import section_panel
from .sections import Section
from .verdicts import verdict_data

if TYPE_CHECKING:
    from ..lab import Run


NAMED = 4
"""The title names up to so many tasks."""
CONTENTS_FROM = 5
"""A page of so many parts has a list of them."""


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
    links = other_pages(beside, Path(path))
    parts = {"title": title, "description": description, "panels": panels, "panels_of_text": panels_of_text}
    return write_text(path, page(runs, links=links, sweep=sweep, command=command, **parts))


def page(
    runs: Iterable[Run],
    *,
    title: str | None = None,
    description: str | None = None,
    panels: Sequence[Panel] = (),
    links: Mapping[str, str] | None = None,
    panels_of_text: bool = True,
    sweep: Swept = (),
    command: str = "",
) -> str:
    """The page as text; `links` are titles of other pages by their addresses."""
    sections, panels, runs = parts_of(runs, panels, sweep=sweep, panels_of_text=panels_of_text)
    on_strings = [run for section in sections for group in section.groups for run in group.runs]
    records = [*on_strings, *(run for run in runs if run.experiment.on_text)]
    code = code_note(sections)
    title = title or _title(sections, panels)
    lead = description or "How well each model does at lengths it was never trained on."
    body = "\n".join(_panel(section_panel(s, training=True), f"task{i}") for i, s in enumerate(sections))
    sentences = [*findings(sections), *(panel.finding for panel in panels if panel.finding)]
    help_ = _help(sections) if sections else ""
    made_from = f"{len(records)} run records" if records else "measurements"
    first = "".join(_panel(panel, f"panel{i}") for i, panel in enumerate(panels))
    ids = " and ".join(f"<code>id=&quot;{name}&quot;</code>" for name in ("records", *["panels"] * bool(panels)))
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
{contents(_parts(sections, panels))}
{help_}
</header>
{f'<p class="note">{escape(code)}</p>' if code else ""}{first}
{_overview(sections) if len(sections) > 1 else ""}
{body}
{how_it_was_run(records, command)}
{linked_pages(links or {})}
<footer><p>Made from {made_from} by Lengthwise. All numbers are inside this page, as JSON: look for
{ids} in its source.</p></footer>
</main>
{_embedded("records", [_record(run) for run in records])}
{_embedded("panels", [panel.to_json() for panel in panels]) if panels else ""}
</body>
</html>
"""


def _title(sections: Sequence[Section], panels: Sequence[Panel]) -> str:
    names = list(dict.fromkeys(section.title for section in sections))
    names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more tasks"] if len(names) > NAMED else names
    return f"{', '.join(names)}: trained short, tested long" if names else "; ".join(p.title for p in panels)


def _parts(sections: Sequence[Section], panels: Sequence[Panel]) -> list[tuple[str, str]]:
    """Every part of the page: its name and title."""
    parts = [(f"panel{i}", panel.title) for i, panel in enumerate(panels)]
    parts += [("glance", "At a glance")] * (len(sections) > 1)
    parts += [(f"task{i}", _called(section, sections)) for i, section in enumerate(sections)]
    return [*parts, ("run", "How it was run")]


def _help(sections: Sequence[Section]) -> str:
    runs = [run for section in sections for group in section.groups for run in group.runs]
    bad = any(overflowed([run], run.experiment.tests.lengths) for run in runs)
    units = " or ".join(dict.fromkeys(section.unit for section in sections))
    return how_to_read(max(section.seeds for section in sections), any(map(in_parts, runs)), bad, units)


def _called(section: Section, sections: Sequence[Section]) -> str:
    """The title of a section, and what it was trained on where others have the same."""
    alike = sum(other.title == section.title for other in sections) > 1
    return f"{section.title}, trained on {section.trained}" if alike else section.title


def _panel(panel: Panel, name: str) -> str:
    return (
        f'<section id="{name}" class="panel"><h2>{escape(panel.title)}</h2>'
        f"{panel.html}{caption_in_html(panel)}</section>"
    )


def _record(run: Run) -> dict[str, Any]:
    verdict = verdict_data(run)
    record = {"experiment": run.experiment.to_json(), "result": run.result, "run": run.path.name}
    return record if verdict is None else {**record, "verdict": verdict}


def _embedded(name: str, data: Any) -> str:
    """Data as JSON which no text inside it can end early (`</script>`) or turn into markup."""
    text = json.dumps(finite(data), ensure_ascii=True, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _overview(sections: Sequence[Section]) -> str:
    """Several tasks at a glance: each model's mean over the first lengths beyond its training range."""
    labels = list(dict.fromkeys(group.label for section in sections for group in section.groups))
    rows = []
    for i, section in enumerate(sections):
        r = next((r for r in section.ranges if r.beyond), section.ranges[-1])
        scores = {group.label: spread(summary(group.runs, r.lengths)) for group in section.groups}
        base = percent(statistics.fmean(section.baseline[n] for n in r.lengths))
        name = TableCell(_called(section, sections), link=f"#task{i}")
        rows.append([name, r.label, *(scores.get(label, "") for label in labels), base])
    caption = (
        "Accuracy in %, last checkpoint, at the first lengths beyond training or, where none was tested, at the "
        "longest."
    )
    return _panel(Table("At a glance", caption, ["task", "lengths", *labels, "majority"], rows), "glance")


def how_to_read(seeds: int, parts: bool = False, overflow: bool = False, unit: str = "tokens") -> str:
    """What the words mean, folded; `parts`: whether strings are scored in parts; `overflow`: whether logits did."""
    scored = (
        "In tasks that ask for several entries a string is right in part: its score is the share of its entries that "
        "are right, and the accuracy is the mean score. "
    )
    terms = {
        "Accuracy": f"The share of test strings of one length that are right. {scored if parts else ''}"
        "A column with several lengths is the "
        "unweighted mean of their accuracies. 100.0 is printed only where every string was right.",
        "Length": f"In {unit}. Every model is trained on short strings, the shaded lengths, and tested on longer ones.",
        "Majority answer": "Always giving the commonest answer at that length (the tick on each bar, the dashed line). "
        "Only what lies above it was learned.",
        "Last and best valid.": "Large figures are of the model as it was at the last training step (its last "
        "checkpoint). Best valid. is of the step that did best on validation strings of the training lengths; test "
        "strings choose nothing.",
    }
    if seeds > 1:
        terms["Mean ± and max"] = (
            "Every seed is one training run from scratch. ± is the sample standard deviation over seeds; max is the "
            "best seed. A max far above the mean says that the model can learn the task but does not do so reliably."
        )
    terms["95% interval"] = (
        "Wilson's interval over all test strings of all seeds. It says how well the test strings pin "
        "these trained models down; how the next seed would do, only more seeds can say."
    )
    if overflow:
        terms["Overflow"] = (
            "The model's output numbers (logits) grew beyond what floating point holds, so that no answer can be read "
            "from them. Such a string counts as wrong."
        )
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items())
    return f'<details id="reading"><summary>How to read this page</summary><dl class="terms">{rows}</dl></details>'


def contents(parts: Sequence[tuple[str, str]]) -> str:
    """A list of links, from (name of the part, its title); nothing on a short page."""
    if len(parts) < CONTENTS_FROM:
        return ""
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in parts)
    return f'<nav aria-label="Contents"><ol class="contents">{links}</ol></nav>'
