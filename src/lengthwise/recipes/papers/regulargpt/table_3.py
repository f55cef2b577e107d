"""Table 3: RegularGPT on text, beside three encodings made for longer texts than those trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....lab import Run
from ....report import Panel, Table
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
        differing = differences_from_paper(RULES, scale, ["*"], list(every), same)
        return [growth(finished), _published(finished), *differing]

    return Recipe(
        title="RegularGPT, Table 3: natural text beyond the trained length",
        description=described(__name__, trained=settings["train_length"], samples=settings["tests.samples"]),
        grid=language_models(RULES[scale], scale, source, every, way="last-token"),
        report=report,
    )


def _published(finished: Mapping[str, Sequence[Run]]) -> Panel:
    rows = [[column, *(f"{p:.2f}" for p in PUBLISHED[column])] for column in PUBLISHED]
    caption = "On OpenWebText2, trained at 512 tokens, the mean of three seeds."
    head = ["", *(f"{n:,}" for n in LENGTHS)]
    data = {column: dict(zip(map(str, LENGTHS), of, strict=True)) for column, of in PUBLISHED.items()}
    return Table("Published", caption, head, rows, data=data)
