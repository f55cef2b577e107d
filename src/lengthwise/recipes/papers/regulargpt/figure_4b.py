"""Figure 4b: how far back RegularGPT looks on natural text, beside the encodings of Table 3."""

from __future__ import annotations

from collections.abc import Mapping

from ....insight import ReceptiveField, measure_receptive_field
from ....lab import Run, load_model, texts
from ....lab.experiment import TextSpec
from ....report import Panel, Table
from ....report import receptive_field as draw_receptive_field
from ...base import Recipe, Scale
from ...common.text_grid import TextOptions, TextSource, language_models
from .table_3 import RULES, SIZES, columns

CHUNKS: dict[Scale, tuple[int, int]] = {"smoke": (16, 2), "laptop": (512, 16), "paper": (2048, 64)}
"""How many tokens a chunk of text has, and how many chunks there are."""


def recipe(scale: Scale, **options: TextOptions) -> Recipe:
    """The receptive field on natural text, of the models of Table 3 that are level beyond the trained length."""
    source = TextSource(**options)
    length, count = CHUNKS[scale]
    (C, K) = SIZES[scale][-2]
    chosen = {name: model for name, model in columns(scale).items() if name in (f"{C}/{K}", "kerple", "alibi")}

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        fields = {column: _receptive_field(runs[0], length, count, device) for column, runs in finished.items()}
        rows = [[name, f"{field.newest():,}", f"{field.newest(0.99):,}"] for name, field in fields.items()]
        data = {name: {"newest_90": f.newest(), "newest_99": f.newest(0.99)} for name, f in fields.items()}
        caption = f"How many of the newest of {length:,} tokens hold 90% and 99% of the last answer's gradient."
        table = Table("How far back", caption, ["", "90%", "99%"], rows, data=data)
        return [draw_receptive_field(fields), table]

    return Recipe(
        title="RegularGPT, Figure 4b: the receptive field on natural text",
        description=(
            "On regular languages RegularGPT spreads its gradient over the whole string (Figure 4a). On text the paper "
            "finds a steep local window, like that of encodings made to be level beyond the trained length. The models "
            "are those of Table 3, whose runs are found again."
        ),
        grid=language_models(RULES[scale], scale, source, chosen, way="last-token"),
        report=report,
    )


def _receptive_field(run: Run, length: int, count: int, device: str) -> ReceptiveField:
    """On chunks of held-out text that stand apart from one another."""
    spec = run.experiment.data
    assert isinstance(spec, TextSpec)
    tokens = texts.read(spec, 1).test
    stride = max(1, (len(tokens) - length) // count)
    chunks = tokens.unfold(0, length, stride)[:count].long()
    model = load_model(run).to(device)
    return measure_receptive_field(model, chunks, task=spec.name)
