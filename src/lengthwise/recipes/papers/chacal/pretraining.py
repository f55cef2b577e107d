"""From scratch with chain attention: what costs perplexity, ChaCAL or its fine-tuning? The paper leaves it open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....lab import Run
from ....report import Panel, line_chart, record_table
from ....report.formatting import duration
from ....report.text_runs import by_seed, digits, middle
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
    seconds = {
        column: sum(run.result["seconds"]["train"] for run in runs) / len(runs) for column, runs in finished.items()
    }
    records = [
        {
            "model": column,
            "perplexities": {str(n): values for n, values in by_seed(runs).items()},
            "seconds": seconds[column],
            "parameters": runs[0].result["parameters"],
        }
        for column, runs in finished.items()
    ]
    standard, lengths = seconds.get("standard"), records[0]["perplexities"]
    columns = {
        "": lambda row: row["model"],
        "runs": lambda row: str(len(finished[row["model"]])),
        **{f"at {int(n):,}": lambda row, n=n: digits(middle(row["perplexities"][n])) for n in lengths},
        "training": lambda row: duration(row["seconds"]),
        "over standard": lambda row: f"{row['seconds'] / standard:.2f}" if standard else "–",
    }
    return record_table("Perplexity and time", "On held-out text, at the last step.", records, columns)
