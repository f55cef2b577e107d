"""Every panel as HTML for a page and as text for a terminal: the one place where findings are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from .arc_diagram import arcs_in_html, link_rows
from .charts import centre, chart_in_html
from .formatting import in_columns, table_number, wrap
from .machine_diagram import machine_diagram
from .panel import Arcs, Chart, Facts, Machine, Panel, Table, TableCell, Verdicts
from .svg import Style, line_key

SHOWN = 16
"""Lines in the terminal are a table of at most so many rows."""
DEEPEST = 50
"""Percent of colour in a cell of full shade: with more, the number in it no longer stands out."""
CHIPS = 8
"""Up to so many verdicts have a chip each."""
PANELS_END = "/* The page around them. */"
"""What divides the style sheet: above it stands what a panel by itself needs, too."""


def in_html(panel: Panel) -> str:
    """Everything but the title, and the caption of what is no chart; what is said of a chart stands below it."""
    lines = escape(panel.lead).splitlines()
    if len(lines) > 1 and type(panel) is Panel and not panel.below:
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
    lead = [f'<p class="finding">{"<br>".join(lines)}</p>'] if lines else []
    drawing, below = _drawn_in_html(panel), _below_in_html(panel)
    if isinstance(panel, Chart | Table):
        verdicts = [part for part in below if part.startswith('<ul class="chips"')]
        return "\n".join([drawing, *verdicts, *lead, *(part for part in below if part not in verdicts)])
    return "\n".join([*lead, *([drawing] if drawing else []), *below])


def _drawn_in_html(panel: Panel) -> str:
    if isinstance(panel, Table):
        return _html_table(panel)
    if isinstance(panel, Chart):
        return chart_in_html(panel)
    if isinstance(panel, Verdicts):
        return _chips(panel)
    if isinstance(panel, Facts):
        return f"<dl>{''.join(map(_fact, panel.facts, panel.facts.values()))}</dl>"
    if isinstance(panel, Arcs):
        return arcs_in_html(panel)
    return machine_diagram(panel.title, dict(panel.claim)) if isinstance(panel, Machine) else ""


def _fact(name: str, values: Sequence[str]) -> str:
    """A name and its values; a command can be copied."""
    texts = list(map(escape, values))
    if name == "Command":
        # All of it is marked by one click, where a browser lets no button copy.
        press = "navigator.clipboard.writeText(this.previousSibling.textContent)"
        texts = [f'<span class="command"><code>{t}</code><button onclick="{press}">copy</button></span>' for t in texts]
    return f"<dt>{escape(name)}</dt><dd>{'<br>'.join(texts)}</dd>"


def _chips(panel: Verdicts) -> str:
    """A chip for each verdict, of many for each kind, and the rest of the sentences where they are pressed for."""
    texts = [(each.mark, f"<b>{escape(each.subject)}</b> {escape(each.summary)}") for each in panel.verdicts]
    if len(texts) > CHIPS:
        counts = Counter((each.mark, each.verdict) for each in panel.verdicts)
        texts = [(mark, f"<b>{count} of {len(texts)}</b> {word}") for (mark, word), count in counts.most_common()]
    chips = "".join(f'<li class="chip {_tone(mark)}">{mark} {text}</li>' for mark, text in texts)
    rest = "".join(f"<li>{escape(f'{e.subject}: {e.summary}{e.rest}.')}</li>" for e in panel.verdicts)
    return f'<ul class="chips">{chips}</ul>' + folded("What each verdict rests on", f"<ul>{rest}</ul>")


def _tone(mark: str) -> str:
    """The class of a sign: which colour it has."""
    return {"✓": "good", "✗": "bad", "≠": "bad"}.get(mark[:1], "open")


def _below_in_html(panel: Panel) -> list[str]:
    parts = []
    for part in panel.below:
        if drawing := in_html(part):
            bare = part.title in ("", panel.title) or isinstance(part, Verdicts)
            drawing += caption_in_html(part)
            heading = "" if bare else f"<h3>{escape(part.title)}</h3>"
            parts.append(folded(part.title, drawing) if part.folded else heading + drawing)
    return parts


def folded(title: str, content: str, name: str = "") -> str:
    """What opens when its title is pressed, or a link to its `name`."""
    address = f' id="{name}"' if name else ""
    return f"<details{address}><summary>{escape(title)}</summary>{content}</details>"


def caption_in_html(panel: Panel) -> str:
    """The caption below what is drawn, folded where it is long; a chart has it in its figure."""
    if isinstance(panel, Chart) or not panel.caption:
        return ""
    if len(panel.caption) > LONG:
        return folded("How to read this", f'<p class="note">{escape(panel.caption)}</p>')
    return f'<p class="note">{escape(panel.caption)}</p>'


LONG = 240
"""Letters of a caption that is shown without being pressed for."""


def style() -> str:
    """The style sheet of every page."""
    return files("lengthwise.report").joinpath("page.css").read_text(encoding="utf-8")


def in_notebook(panel: Panel) -> str:
    """The panel in the page's colours, which are its own there."""
    css = style().partition(PANELS_END)[0].replace(":root", "&")
    return (
        f"<style>.lengthwise {{ max-width: 900px;\n{css}}}</style>"
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
    elif isinstance(panel, Verdicts):
        yield "\n".join(f"{each.subject}: {each.summary}{each.rest}." for each in panel.verdicts)
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
        marked = any(cell.mark and cell.text for cell in others)
        name = head.text if marked or table.keys or not notes else f"{head.text} ({notes})"
        first, *more = (wrap(name, width // 2) if width else [name]) or [""]
        yield [first, *(cell.text or cell.mark for cell in others)]
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


def _html_table(table: Table) -> str:
    """The table in a box that scrolls sideways on a narrow page; one with bars becomes a card for each row there."""
    cells = [cell for row in table.rows for cell in row if isinstance(cell, TableCell)]
    cards = any(cell.bar for cell in cells)
    heads = [row[0] for row in table.rows if row and isinstance(row[0], TableCell)]
    kind = "stack" if cards else "small wrap" if any(cell.notes for cell in heads) else "small"
    why = [table.shaded.get(name, "") for name in table.columns]
    head = "".join(
        f'<th scope="col"{_classed("shaded" * bool(reason))}>{escape(name)}{_small([("", reason)])}</th>'
        for name, reason in zip(table.columns, why, strict=True)
    )
    # On a telephone a cell of a card stands without the head of its column.
    names = [f"{reason} {name}".strip() if cards else "" for name, reason in zip(table.columns, why, strict=True)]
    rows = ""
    for i, row in enumerate(table.rows):
        base = table.base and i == len(table.rows) - 1
        line = table.keys[i] if table.keys and not base else None
        others = (_html_cell(row[j], j - 1 if line is None else line, names[j], why[j]) for j in range(1, len(row)))
        rows += f"<tr{_classed('base' * base)}>{_row_head(row[0], cards, line)}{''.join(others)}</tr>"
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(table.title, quote=True)}">'
        f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _classed(name: str) -> str:
    return f' class="{name}"' if name else ""


def _small(notes: Sequence[tuple[str, str]]) -> str:
    lines = [f"<span>{escape(f'{about} {text}'.strip())}</span>" for about, text in notes if about or text]
    return f"<small>{'<br>'.join(lines)}</small>" if lines else ""


def _row_head(cell: str | TableCell, cards: bool, line: int | None) -> str:
    if isinstance(cell, str):
        cell = TableCell(cell)
    if not cell.notes:
        text = f'<a href="{escape(cell.link)}">{escape(cell.text)}</a>' if cell.link else escape(cell.text)
        return f'<th scope="row">{text}</th>'
    name = escape(cell.text) if cards else f"<code>{escape(cell.text)}</code>"
    key = "" if line is None else line_key(Style.of(line))
    return f'<th scope="row">{key}{name}{_small([("", text) for _, text in cell.notes])}</th>'


def _html_cell(cell: str | TableCell, i: int, column: str, why: str) -> str:
    label = _classed("shaded" * bool(why)) + (f' data-column="{escape(column, quote=True)}"' if column else "")
    if isinstance(cell, str):
        return f"<td{label}>{escape(cell)}</td>"
    chip = f'<span class="chip {_tone(cell.mark)}">{escape(cell.mark)}</span>' if cell.mark else ""
    if cell.bar is not None:
        return f"<td{label}><b>{escape(cell.text)}</b>{bar(*cell.bar, i)}{_small(cell.notes)}{chip}</td>"
    content = f"{escape(cell.text)}{_small(cell.notes)}"
    if cell.shade is not None:
        colour = f"color-mix(in srgb, var(--s0) {DEEPEST * cell.shade:.0f}%, var(--card))"
        return f'<td style="background:{colour}">{content}{chip}</td>'
    if cell.mark:
        # A cell of a matrix: its ground and its sign say the verdict, and so do its words.
        mark = escape(cell.mark)
        return f"<td{_classed(_tone(cell.mark))}><b>{mark}</b>{f' {content}' if cell.text else content}</td>"
    return f"<td{label}>{content}</td>"


def bar(share: float, guess: float, colour: int) -> str:
    """A share as a bar, with a tick where a guess would be."""
    return (
        f'<span class="bar" aria-hidden="true"><i style="width:{100 * share:.1f}%;background:var(--s{colour % 8})"></i>'
        f'<u style="left:{100 * guess:.1f}%"></u></span>'
    )
