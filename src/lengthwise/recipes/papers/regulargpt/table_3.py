"""Table 3: RegularGPT on text, beside three encodings made for longer texts than those trained on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from ....lab import Run
from ....lab.experiment import TextSpec
from ....lab.statistics import perplexities
from ....report import Panel, Table, record_table
from ...base import Recipe, Scale
from ...common.grid import Model
from ...common.rules import described, differences_from_paper, rules_of, settings_of, table_of
from ...common.text_grid import TextOptions, TextSource, growth, language_models

LENGTHS = (512, 1024, 2048, 4096, 8192)
PUBLISHED: dict[str, list[float]] = table_of(__name__)["published"]
"""Perplexity on OpenWebText2 at `LENGTHS`, the mean of three seeds; "32/6" is RegularGPT with C = 32 and K = 6."""
SIZES: dict[Scale, tuple[tuple[int, int], ...]] = {
    "paper": ((32, 6), (64, 6), (128, 6), (128, 12), (256, 6)),
    "laptop": ((8, 2), (16, 2), (32, 2), (32, 4), (64, 2)),
    "smoke": ((2, 1), (4, 1)),
}
"""C and K of RegularGPT. C is to the trained length at `laptop` what it is at `paper`."""

RULES = rules_of(__name__)


def columns(scale: Scale) -> dict[str, Model]:
    """Transformers with as many layers as RegularGPT has weights of, and RegularGPT with several C and K."""
    layers = SIZES[scale][0][1]
    encodings = {"kerple": "kerple-log", "t5": "t5", "alibi": "alibi"}
    others = {name: Model("transformer", {"position": p, "layers": layers}) for name, p in encodings.items()}
    regular = {f"{C}/{K}": Model("regular-gpt", {"chunk": C, "thickness": K}) for C, K in SIZES[scale]}
    return others | regular


def recipe(scale: Scale, **options: TextOptions) -> Recipe:
    """Perplexity of the last token against length: RegularGPT C/K, KERPLE, T5 and ALiBi: --set text=…."""
    source = TextSource(**options)
    settings, every = settings_of(RULES[scale], "*", "*"), columns(scale)

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        same = "What is measured, and the layers that share their weights, are as published."
        groups = [] if scale == "paper" else [_groups(finished, scale)]
        return [
            growth(finished),
            *groups,
            _published(finished),
            *differences_from_paper(RULES, scale, ["*"], list(every), same),
        ]

    return Recipe(
        title="RegularGPT, Table 3: natural text beyond the trained length",
        description=described(__name__, trained=settings["train_length"], samples=settings["tests.samples"]),
        grid=language_models(RULES[scale], scale, source, every, way="last-token"),
        report=report,
    )


def reach(chunk: int, trained: int) -> int:
    """C^g, the longest text for which RegularGPT runs no more groups than in training.

    >>> reach(32, 512), reach(64, 512), reach(128, 512)
    (1024, 4096, 16384)
    """
    longest = chunk
    while longest < trained:
        longest *= chunk
    return longest


def _groups(finished: Mapping[str, Sequence[Run]], scale: Scale) -> Panel:
    """What is expected of each C, and what came of it: the last length up to which perplexity does not jump."""
    records = []
    for chunk, thickness in SIZES[scale]:
        runs = finished.get(f"{chunk}/{thickness}")
        if not runs:
            continue
        spec = runs[0].experiment.data
        assert isinstance(spec, TextSpec)
        expected = reach(chunk, spec.block)
        by_length = {
            n: statistics.fmean(perplexities(run)[n] for run in runs) for n in runs[0].experiment.tests.lengths
        }
        inside = max((p for n, p in by_length.items() if spec.block <= n <= expected), key=_no_number_last)
        outside = min((p for n, p in by_length.items() if n > expected), key=_no_number_last, default=None)
        name = f"{chunk}/{thickness}"
        records.append({"model": name, "expected": expected, "inside": inside, "beyond": outside})
    columns = {
        "C/K": lambda row: row["model"],
        "expected": lambda row: f"{row['expected']:,}",
        "inside": lambda row: f"{row['inside']:.4g}",
        "beyond": lambda row: "–" if row["beyond"] is None else f"{row['beyond']:.4g}",
    }
    caption = (
        "Expected: up to so many tokens no group runs that training has not seen. Inside: the greatest perplexity at "
        "the trained length and up to there; beyond: the least at longer lengths."
    )
    return record_table("Where RegularGPT should break", caption, records, columns)


def _no_number_last(perplexity: float) -> tuple[bool, float]:
    """NaN is greater than every number."""
    return math.isnan(perplexity), perplexity


def _published(finished: Mapping[str, Sequence[Run]]) -> Panel:
    rows = [[column, *(f"{p:.2f}" for p in PUBLISHED[column])] for column in PUBLISHED]
    caption = "On OpenWebText2, trained at 512 tokens, the mean of three seeds."
    head = ["", *(f"{n:,}" for n in LENGTHS)]
    data = {column: dict(zip(map(str, LENGTHS), of, strict=True)) for column, of in PUBLISHED.items()}
    return Table("Published", caption, head, rows, data=data)
