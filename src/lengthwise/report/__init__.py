"""Results as a terminal table, CSV, plain data, and one self-contained HTML page: functions of run records alone.

runs = lab.load("runs")
rich.print(report.table(runs))
report.csv(runs, "results.csv")
report.html(runs, "index.html")
"""

from .attention import attention
from .drawings import heat_map, lines, scatter
from .insights import clusters, receptive_field
from .page import write_html as html
from .panel import Panel
from .record import as_data as data
from .rows import write_csv as csv
from .terminal import table
from .text_runs import perplexities

__all__ = [
    "Panel",
    "attention",
    "clusters",
    "csv",
    "data",
    "heat_map",
    "html",
    "lines",
    "perplexities",
    "receptive_field",
    "scatter",
    "table",
]
