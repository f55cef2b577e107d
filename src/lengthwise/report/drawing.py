"""Every panel as HTML for a page and as text for a terminal: the one place where findings are drawn."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from .arc_diagram import arcs_in_html, link_rows
from .formatting import in_columns, table_number, wrap
from .machine_diagram import machine_diagram
from .panel import Arcs, Chart, Facts, Machine, Panel, Table, TableCell
from .svg import Style, line_key

SHOWN = 16
"""Lines in the terminal are a table of at most so many rows."""
DEEPEST = 50
"""Percent of colour in a cell of full shade: with more, the number in it no longer stands out."""


def in_html(panel: Panel) -> str:
    """Everything but the title, and the caption of what is no chart."""
    lines = escape(panel.lead).splitlines()
    if len(lines) > 1 and type(panel) is Panel and not panel.below:
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
    lead = [f'<p class="finding">{"<br>".join(lines)}</p>'] if lines else []
    return "\n".join([*lead, *_html_parts(panel)])


def _html_parts(panel: Panel) -> Iterator[str]:
    if isinstance(panel, Table):
        yield _html_table(panel)
    elif isinstance(panel, Chart):
        from .charts import chart_in_html  # only what draws a chart loads matplotlib

        yield chart_in_html(panel)
    elif isinstance(panel, Facts):
        rows = (f"<dt>{escape(k)}</dt><dd>{'<br>'.join(map(escape, v))}</dd>" for k, v in panel.facts.items())
        yield f"<dl>{''.join(rows)}</dl>"
    elif isinstance(panel, Arcs):
        yield arcs_in_html(panel)
    elif isinstance(panel, Machine):
        yield machine_diagram(panel.title, dict(panel.claim))
    for part in panel.below:
        if drawing := in_html(part):
            heading = f"<h3>{escape(part.title)}</h3>" if part.title not in ("", panel.title) else ""
            drawing += caption_in_html(part)
            yield folded(part.title, drawing) if part.folded else heading + drawing


def folded(title: str, content: str) -> str:
    """What opens when its title is pressed."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def caption_in_html(panel: Panel) -> str:
    """The caption below what is drawn; a chart has it in its figure."""
    return "" if isinstance(panel, Chart) or not panel.caption else f'<p class="note">{escape(panel.caption)}</p>'


def style() -> str:
    """The style sheet of every page."""
    return files("lengthwise.report").joinpath("page.css").read_text(encoding="utf-8")


def in_notebook(panel: Panel) -> str:
    """The panel in the page's colours, which are its own there."""
    css = style()
    colours = css[: css.index("* {")].replace(":root", ".lengthwise")
    return (
        f"<style>{colours}.lengthwise .narrow {{ display: none; }} .lengthwise svg {{ max-width: 860px; }}</style>"
        f'<div class="lengthwise"><h4>{escape(panel.title)}</h4>{panel.html}{caption_in_html(panel)}</div>'
    )


def in_text(panel: Panel, width: int | None = None) -> str:
    """Everything but the title and the caption, for a terminal of so many columns; lines of prose are not broken."""
    return "\n\n".join([*([panel.lead] if panel.lead else []), *_text_parts(panel, width)])


def _text_parts(panel: Panel, width: int | None) -> Iterator[str]:
    if isinstance(panel, Table):
        lines = [in_columns([panel.columns, *_text_rows(panel, width)], panel.labels, width)]
        heads = [row[0] for row in panel.rows if panel.keys and isinstance(row[0], TableCell)]
        yield "\n".join([*lines, *(f"{head.text}: {', '.join(text for _, text in head.notes)}" for head in heads)])
    elif isinstance(panel, Facts):
        yield "\n".join(f"{name}: {'; '.join(values)}" for name, values in panel.facts.items())
    elif isinstance(panel, Arcs):
        yield in_columns(link_rows(panel), width=width)
    elif isinstance(panel, Chart) and not any(isinstance(part, Table) for part in panel.below):
        table = in_columns(_dots(panel) if panel.dots else _points(panel), width=width)
        marks = [f"{name}: {panel.x_label} {table_number(x)}" for name, x in panel.marks.items()]
        yield "\n".join([table, *marks])
    for part in panel.below:
        if text := in_text(part, width):
            yield (f"{part.title}\n" if part.title not in ("", panel.title) else "") + text


def _text_rows(table: Table, width: int | None) -> Iterator[list[str]]:
    """The rows as words: the notes of their cells on lines of their own, and last their verdicts."""
    for row in table.rows:
        cells = [cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row]
        head, others = cells[0], cells[1:]
        notes = ", ".join(text for _, text in head.notes)
        marked = any(cell.mark for cell in others)
        name = head.text if marked or table.keys or not notes else f"{head.text} ({notes})"
        first, *more = (wrap(name, width // 2) if width else [name]) or [""]
        yield [first, *(cell.text for cell in others)]
        yield from ([line, *[""] * len(others)] for line in more)
        for key in dict.fromkeys(key for cell in others for key, _ in cell.notes):
            yield [f"  {key}", *(dict(cell.notes).get(key, "") for cell in others)]
        if marked:
            yield [f"  {notes}", *(cell.mark for cell in others)]


def _points(chart: Chart) -> list[list[str]]:
    """The xs and, under each name, the ys; where there are many xs, some of them, first and last included."""
    every = sorted({x for xs, _ in chart.series.values() for x in xs})
    if len(every) > SHOWN:
        every = [every[round(i * (len(every) - 1) / (SHOWN - 1))] for i in range(SHOWN)]
    columns = [dict(zip(xs, ys, strict=True)) for xs, ys in chart.series.values()]
    rows = [[table_number(x), *(table_number(ys.get(x), chart.percent) for ys in columns)] for x in every]
    return [[chart.x_label, *chart.series], *rows]


def _dots(chart: Chart) -> list[list[str]]:
    """How many dots each group has, and where its middle is."""
    return [
        ["", "dots", "centre"],
        *([name, f"{len(xs):,}", centre(xs, ys)] for name, (xs, ys) in chart.series.items()),
    ]


def centre(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """The medians along both axes."""
    return f"({table_number(statistics.median(xs))}, {table_number(statistics.median(y for y in ys if y is not None))})"


def _html_table(table: Table) -> str:
    """The table in a box that scrolls sideways on a narrow page; one with bars becomes a card for each row there."""
    cells = [cell for row in table.rows for cell in row if isinstance(cell, TableCell)]
    cards = any(cell.bar for cell in cells)
    kind = "stack" if cards else "small wrap" if any(row and _notes(row[0]) for row in table.rows) else "small"
    why = [table.shaded.get(name, "") for name in table.columns]
    head = "".join(
        f'<th scope="col"{_classed("shaded" * bool(reason))}>{escape(name)}{_small([reason])}</th>'
        for name, reason in zip(table.columns, why, strict=True)
    )
    # On a telephone a cell of a card stands without the head of its column.
    names = [f"{reason} {name}".strip() if cards else "" for name, reason in zip(table.columns, why, strict=True)]
    rows = ""
    for i, row in enumerate(table.rows):
        base = table.base and i == len(table.rows) - 1
        line = Style.of(i) if table.keys and not base else None
        others = (_html_cell(row[j], i if table.keys else j - 1, names[j], why[j]) for j in range(1, len(row)))
        rows += f"<tr{_classed('base' * base)}>{_row_head(row[0], cards, line)}{''.join(others)}</tr>"
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(table.title, quote=True)}">'
        f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _classed(name: str) -> str:
    return f' class="{name}"' if name else ""


def _small(lines: Sequence[str]) -> str:
    return f"<small>{'<br>'.join(map(escape, lines))}</small>" if any(lines) else ""


def _notes(cell: str | TableCell) -> tuple[tuple[str, str], ...]:
    return cell.notes if isinstance(cell, TableCell) else ()


def _row_head(cell: str | TableCell, cards: bool, line: Style | None) -> str:
    if isinstance(cell, str):
        cell = TableCell(cell)
    if not cell.notes:
        text = f'<a href="{escape(cell.link)}">{escape(cell.text)}</a>' if cell.link else escape(cell.text)
        return f'<th scope="row">{text}</th>'
    name = escape(cell.text) if cards else f"<code>{escape(cell.text)}</code>"
    notes = _small([text for _, text in cell.notes])
    return f'<th scope="row">{line_key(line) if line else ""}{name}{notes}</th>'


def _html_cell(cell: str | TableCell, i: int, column: str, why: str) -> str:
    label = _classed("shaded" * bool(why)) + (f' data-column="{escape(column, quote=True)}"' if column else "")
    if isinstance(cell, str):
        return f"<td{label}>{escape(cell)}</td>"
    if cell.shade is not None:
        colour = f"color-mix(in srgb, var(--s0) {DEEPEST * cell.shade:.0f}%, var(--card))"
        return f'<td style="background:{colour}">{escape(cell.text)}</td>'
    if cell.bar is None:
        return f"<td{label}>{escape(cell.text)}</td>"
    notes = "<br>".join(f"<span>{escape(f'{about} {text}'.strip())}</span>" for about, text in cell.notes)
    off = "" if cell.mark.startswith("✓") else " off"
    mark = f'<span class="verdict{off}">{escape(cell.mark)}</span>' if cell.mark else ""
    return f"<td{label}><b>{escape(cell.text)}</b>{bar(*cell.bar, i)}<small>{notes}</small>{mark}</td>"


def bar(share: float, guess: float, colour: int) -> str:
    """A share as a bar, with a tick where a guess would be."""
    return (
        f'<span class="bar" aria-hidden="true"><i style="width:{100 * share:.1f}%;background:var(--s{colour % 8})"></i>'
        f'<u style="left:{100 * guess:.1f}%"></u></span>'
    )
