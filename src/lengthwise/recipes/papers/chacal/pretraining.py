"""From scratch with chain attention: what costs perplexity, ChaCAL or its fine-tuning? The paper leaves it open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....files import finite
from ....lab import Run
from ....lab.statistics import perplexities
from ....report import Panel, Table, line_chart
from ....report.formatting import duration
from ...base import Recipe, Scale
from ...common.curves import curve
from ...common.grid import Model
from ...common.rules import rules_of
from ...common.text_grid import STANDARD_LIBRARY, STORE, Store, Text, Tokenizer, language_models

RULES = rules_of(__name__)
COLUMNS = {
    "standard": Model("transformer", {"position": "learned", "initializer_range": 0.02}),
    "ChaCAL last": Model("chacal", {}),
    "ChaCAL all": Model("chacal", {"chain_layers": "all"}),
    "ChaCAL all, learned gamma": Model("chacal", {"chain_layers": "all", "gamma": 0.1, "learn_gamma": True}),
}
"""A model without chains, one whose last layer follows them as in the paper, and two all of whose layers do."""


def recipe(
    scale: Scale,
    *,
    text: Text = (STANDARD_LIBRARY,),
    tokenizer: Tokenizer = None,
    store: Store = STORE,
) -> Recipe:
    """Language models trained from scratch with chain attention and without: --set text=…."""

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        return [_learning(finished), _ended(finished)]

    return Recipe(
        title="ChaCAL from scratch on natural text",
        description=(
            "The paper fine-tunes a GPT-2 that was trained with standard attention, which ends above the same GPT-2 "
            "without chains (Table 3: 21.46 against 20.15). Is this the price of chains, or of changing the attention "
            "late? Here all models are trained from scratch on the same text, with as many weights."
        ),
        grid=language_models(RULES[scale], scale, text, COLUMNS, tokenizer=tokenizer, store=store),
        report=report,
    )


def _learning(finished: Mapping[str, Sequence[Run]]) -> Panel:
    lines = {column: curve(runs, "loss") for column, runs in finished.items()}
    caption = "Loss of a token, in nats, on validation text; the mean of the seeds."
    return line_chart("Learning", caption, "training step", "loss", lines)


def _ended(finished: Mapping[str, Sequence[Run]]) -> Panel:
    rows, data = [], []
    standard = finished.get("standard")
    for column, runs in finished.items():
        e = runs[0].experiment
        at = [[perplexities(run)[n] for run in runs] for n in e.tests.lengths]
        means = [sum(each) / len(each) for each in at]
        seconds = sum(run.result["seconds"]["train"] for run in runs) / len(runs)
        base = sum(run.result["seconds"]["train"] for run in standard) / len(standard) if standard else None
        rows.append(
            [
                column,
                str(len(runs)),
                *(f"{mean:.4g}" for mean in means),
                duration(seconds),
                f"{seconds / base:.2f}" if base else "–",
            ]
        )
        data.append(
            {
                "model": column,
                "perplexities": {str(n): finite(each) for n, each in zip(e.tests.lengths, at, strict=True)},
                "seconds": seconds,
                "parameters": runs[0].result["parameters"],
            }
        )
    lengths = next(iter(finished.values()))[0].experiment.tests.lengths
    head = ["", "runs", *(f"at {n:,}" for n in lengths), "training", "over standard"]
    return Table("Perplexity and time", "On held-out text, at the last step.", head, rows, data=data)
