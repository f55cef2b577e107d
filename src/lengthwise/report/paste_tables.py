"""Runs as tables to paste into a text: Markdown, or LaTeX with booktabs, each number with its interval.

A row is a model, a column a range of lengths. A cell is the accuracy in %: mean ± standard deviation over seeds, and in
brackets Wilson's 95% interval over all test strings. Panels, such as those of runs on text, follow as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from ..lab.records import Run
from ..lab.statistics import summary
from .chosen_settings import Swept
from .contents import Content
from .formatting import interval, spread
from .panel import Panel, Table, TableCell
from .section_panel import majority_row
from .sections import Section

Form = Literal["markdown", "latex"]
SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SIGNS |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"±": r"$\pm$", "–": "--", "✓": r"\checkmark{}", "∞": r"$\infty$"}


def paste(runs: Iterable[Run], form: Form, *, panels: Sequence[Panel] = (), sweep: Swept = ()) -> str:
    """Returns the tables of these runs as text to paste."""
    report = Content.of(runs, panels, sweep=sweep)
    tables = [*map(_of_section, report.sections), *(t for panel in report.panels for t in _tables(panel))]
    draw = {"markdown": _markdown, "latex": _latex}[form]
    return "\n".join(draw(table) for table in tables)


def _of_section(section: Section) -> Table:
    rows = []
    for group in section.groups:
        scores = [summary(group.runs, r.lengths) for r in section.ranges]
        rows.append([group.label, *(f"{spread(score)} [{interval(score)}]" for score in scores)])
    caption = (
        f"{section.name}: accuracy in % by length, {section.subtitle}. In brackets the 95% interval over test strings."
    )
    heads = [f"{r.label} (trained)" if r.trained else r.label for r in section.ranges]
    return Table(section.name, caption, ["model", *heads], [*rows, majority_row(section)])


def _tables(panel: Panel) -> Iterator[Table]:
    if isinstance(panel, Table):
        yield panel
    for part in panel.below:
        yield from _tables(part)


def _cells(row: Sequence[str | TableCell], escape: Callable[[str], str]) -> list[str]:
    """The words of each cell, its notes in brackets."""
    texts = []
    for cell in row:
        each = TableCell(cell) if isinstance(cell, str) else cell
        notes = "; ".join(f"{about} {text}".strip() for about, text in each.notes)
        texts.append(escape(" ".join(filter(None, [each.text, each.mark, f"({notes})" if notes else ""]))))
    return texts


def _markdown(table: Table) -> str:
    plain = lambda text: text.replace("|", "\\|").replace("\n", " ")  # noqa: E731
    rows = [_cells(row, plain) for row in [list(table.columns), *table.rows]]
    rule = ["---", *["---:"] * (len(table.columns) - 1)]
    lines = [f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]]]
    return "\n".join([f"**{plain(table.caption or table.title)}**", "", *lines, ""])


def _latex(table: Table) -> str:
    head, *rows = [" & ".join(_cells(row, _escaped)) + r" \\" for row in [list(table.columns), *table.rows]]
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"]
    lines += [r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, rf"\caption{{{_escaped(table.caption or table.title)}}}", r"\end{table}", ""])


def _escaped(text: str) -> str:
    """
    >>> print(_escaped("99.9 ± 0.1% of d_2"))
    99.9 $\\pm$ 0.1\\% of d\\_2
    """
    return "".join(SIGNS.get(sign, sign) for sign in text)
