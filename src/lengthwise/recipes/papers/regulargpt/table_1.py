"""Table 1: twelve regular languages; who is right at lengths never trained on?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from .... import tasks
from ....lab import Experiment, Run
from ....options import at_least
from ....report import Panel
from ...base import Recipe, Scale
from ...common.comparison import ComparedCell, ComparedRow, comparison
from ...common.grid import Grid, Model, plan_cell, variant_note
from ...common.rules import Rule, differences_from_paper, rules_of, settings_of, table_of

MODELS = {
    "rnn": Model("rnn", {}),
    "transformer-xl": Model("transformer-xl", {}),
    "regular-gpt C=2": Model("regular-gpt", {"model.chunk": 2}),
    "regular-gpt C=3": Model("regular-gpt", {"model.chunk": 3}),
}
"""The columns. The paper's Transformer is a vanilla one with the relative positions of Transformer-XL."""
RULES, PROSE = rules_of(__name__), table_of(__name__)["prose"]
TABLE_1: dict[str, list[list[float]]] = table_of(__name__)["published"]
"""Max and mean of the accuracies in %, by task: a pair for each of `MODELS`."""
DYCK = ("d-2", "d-3", "d-4", "d-12")
SECTIONS = [
    # (training lengths, lengths beyond, tasks)
    ((1, 40), (41, 500), ("even-pairs", "modular-arithmetic", "parity", "cycle-navigation")),
    ((2, 50), (51, 100), (*DYCK, "tomita-3", "tomita-4", "tomita-5", "tomita-6")),
]
PARAMS: dict[str, dict[str, Any]] = {"modular-arithmetic": {"leading_plus": True}}
"""The released code puts a + first, so that operators and digits come in pairs."""
PUBLISHED_MAJORITY = {"tomita-5": 0.75}
"""Tomita 5 has no word of odd length, and our test has no such lengths; the published test has."""
OURS = ("regular-gpt", "RegularGPT")

Key = tuple[str, str]
"""A cell's task and model."""


def recipe(
    scale: Scale,
    *,
    width: Annotated[int | None, at_least(1), "Of all networks, tested at each length; None: the scale's."] = None,
) -> Recipe:
    """RegularGPT, an RNN and a Transformer on twelve regular languages, beside the published accuracies."""
    own = {} if width is None else {"model.width": width, "lengths": "every"}
    columns = {model: model if width is None else f"{model}, width {width}" for model in MODELS}

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        rows, rules = dict.fromkeys(task for task, _ in finished), [*RULES[scale], Rule("*", "*", own)]
        return [compared(finished, columns), *differences_from_paper(RULES, scale, rows, MODELS, PROSE["same"], rules)]

    return Recipe(
        title="RegularGPT, Table 1: regular languages beyond the training length",
        description=PROSE["description"],
        grid=cells(scale, TABLE_1, MODELS, own),
        report=report,
    )


def cells(scale: Scale, rows: Iterable[str], models: Iterable[str], own: Mapping[str, Any] = {}) -> Grid[Key]:
    """These rows and columns of the table: what the other recipes of RegularGPT train, they train once."""
    return Grid.table(rows, list(models), partial(planned, scale, own=own))


def planned(scale: Scale, task: str, model: str, own: Mapping[str, Any] = {}) -> list[Experiment]:
    """The experiments behind one cell: learning rates × seeds. `own`: settings of a call, above the scale's."""
    train, beyond = next((train, beyond) for train, beyond, names in SECTIONS if task in names)
    settings = {**settings_of(RULES[scale], task, model), **own}
    rates, count = settings.pop("learning_rates"), settings.pop("lengths")
    sweep = {"training.lr": rates} if len(rates) > 1 else {}
    settings |= {"training.lengths": train, **({} if sweep else {"training.lr": rates[0]})}
    made = tasks.get(task, **PARAMS.get(task, {}), supervision=settings.pop("supervision"))
    return plan_cell(made, MODELS[model], settings, thinned(made.lengths(*beyond), count), sweep=sweep)


def thinned(lengths: Sequence[int], count: int | Literal["every"]) -> list[int]:
    """About `count` of these lengths, evenly, the longest among them.

    The stride is odd, so that odd and even lengths are both there: half the difficulty of some languages is in one.

    >>> thinned(range(41, 501), 4)
    [155, 270, 385, 500]
    """
    stride = 1 if count == "every" else max(1, len(lengths) // count) | 1
    return list(lengths)[::-1][::stride][::-1]


def compared(finished: Mapping[Key, Sequence[Run]], columns: Mapping[str, str]) -> Panel:
    """Measured beside published, for all of the table that there are runs of. `columns`: the models' names there."""
    rows = []
    for task, published in TABLE_1.items():
        row = {
            columns[model]: ComparedCell.of(finished[task, model], {"max": most / 100, "mean": mean / 100})
            for model, (most, mean) in zip(MODELS, published, strict=True)
            if (task, model) in finished
        }
        if row:
            rows.append(ComparedRow(task, next(iter(row.values())).majority, row, PUBLISHED_MAJORITY.get(task)))
    notes = [PROSE["note"]] if any(row.label == "tomita-5" or row.label in DYCK for row in rows) else []
    notes.append(variant_note(finished, *OURS))
    return comparison("Measured beside published", rows, list(columns.values()), " ".join(filter(None, notes)))
