"""Figure 4: the receptive field, the share of the last answer's gradient that lies within the newest n tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .... import insight
from ....insight import ReceptiveField
from ....lab import Run, load_model, load_task
from ....lab.choices import chosen_runs
from ....report import Panel, Table
from ....report import receptive_field as draw_receptive_field
from ...base import Recipe, Scale
from .table_1 import Key, cells

TASKS = ("parity", "cycle-navigation")
MODELS = ("regular-gpt C=2", "rnn", "transformer-xl")
STRINGS: dict[Scale, tuple[int, int]] = {"smoke": (60, 1), "laptop": (500, 8), "paper": (500, 64)}
"""The length of the strings, and how many."""


def recipe(scale: Scale) -> Recipe:
    """The receptive fields of RegularGPT, an RNN and a Transformer on regular languages."""
    length, count = STRINGS[scale]

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        fields: dict[str, dict[str, list[ReceptiveField]]] = {}
        for (task, model), runs in finished.items():
            mine = [receptive_field_of(run, length, count, device) for run in chosen_runs(runs, ["training.lr"])]
            fields.setdefault(task, {})[model] = mine
        return [_drawn(models) for models in fields.values()] + [_table(fields)]

    return Recipe(
        title="RegularGPT, Figure 4a: the receptive field on regular languages",
        description=(
            "On PARITY and Cycle Navigation every token matters to the answer, wherever it stands. A model that knows "
            "this spreads its gradient over the whole string, and the cumulative share is a straight slanted line, as "
            "in Figure 4a of the paper. The RNN and the Transformer of Table 1 stand beside it. Figure 4b, the steep "
            "local window on natural language, is a recipe of its own."
        ),
        grid=cells(scale, TASKS, MODELS),
        report=report,
    )


def receptive_field_of(run: Run, length: int, count: int, device: str) -> ReceptiveField:
    """The receptive field of one run, averaged over the first test strings of its task."""
    task = load_task(run)
    classifier = load_model(run).to(device)
    return insight.measure_receptive_field(classifier, insight.probe_strings(task, length, count), task=task.name)


def _drawn(models: dict[str, list[ReceptiveField]]) -> Panel:
    panel = draw_receptive_field({model: fields[0] for model, fields in models.items()})
    note = "One run of each model; all are in the table."
    return replace(panel, caption=f"{panel.caption} {note}")


def _table(all_fields: dict[str, dict[str, list[ReceptiveField]]]) -> Panel:
    """Every run: how far from straight, and how far back."""
    data = {
        task: {
            model: [{"bend": field.bend, "newest_90": field.newest(), "length": field.length} for field in fields]
            for model, fields in models.items()
        }
        for task, models in all_fields.items()
    }
    rows = [
        [
            f"{task}, {model}",
            ", ".join(f"{100 * field['bend']:.0f}" for field in fields),
            ", ".join(f"{field['newest_90']:,}" for field in fields),
        ]
        for task, models in data.items()
        for model, fields in models.items()
    ]
    return Table(
        "Every seed",
        "Off the straight line: the greatest distance, in percentage points, between the curve and the line on which "
        "all tokens matter alike. Newest tokens: how many of them hold 90% of the gradient. A number for each seed.",
        ["", "off the straight line", "newest tokens with 90%"],
        rows,
        data=data,
    )
