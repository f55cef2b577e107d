"""Results as a terminal table, rows, plain data, and one self-contained HTML page: functions of run records alone.

runs = lab.load("runs")
rich.print(report.table(runs))
report.frame(runs)  # a pandas DataFrame: a row for each run and test length
report.csv(runs, "results.csv")  # the same rows
report.html(runs, "index.html")

A `Panel` is a finding beside the runs: a `Table`, a `Chart`, `Arcs` over a sentence, a `Machine`. It is plain data,
which the page, the terminal and a notebook draw alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .cliff_panel import cliff_panels as cliff
    from .extracted_panel import extracted_panel as extracted
    from .far_tokens_panel import compared_panel as far_tokens_compared
    from .far_tokens_panel import far_tokens_panel as far_tokens
    from .formatting import count, duration, percent, spread
    from .html_page import write_html as html
    from .insight_panels import clusters_panel as clusters
    from .insight_panels import links_panel as attention
    from .insight_panels import receptive_field_panel as receptive_field
    from .long_form import as_data as data
    from .long_form import frame, rows
    from .long_form import write_csv as csv
    from .overflow import overflow_note, overflow_of_runs, overflow_text
    from .page_data import inside, recorded
    from .paired_runs import compare, paired
    from .panel import Arcs, Chart, Machine, Panel, Table, TableCell, Verdict, Verdicts, heat_map, line_chart
    from .panel import record_table as record_table
    from .panel import scatter_plot as scatter_plot
    from .panel import sign_of as sign_of
    from .paste_tables import paste
    from .terminal_table import table
    from .text_runs import before_and_after as perplexities
    from .text_runs import measured_answers as answers
    from .text_runs import measured_perplexity as perplexity

__all__ = [
    "Arcs", "Chart", "Machine", "Panel", "Table", "TableCell", "Verdict", "Verdicts", "answers", "attention",
    "cliff", "clusters", "compare", "count", "csv", "data", "duration", "extracted", "far_tokens",
    "far_tokens_compared", "frame", "heat_map", "html", "inside", "line_chart", "overflow_note", "overflow_of_runs",
    "overflow_text", "paired", "paste", "percent", "perplexities", "perplexity", "receptive_field", "record_table",
    "recorded", "rows", "scatter_plot", "sign_of", "spread", "table",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
