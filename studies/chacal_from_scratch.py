"""From scratch with chain attention: what costs perplexity, ChaCAL or its fine-tuning? The paper leaves it open."""

from __future__ import annotations

from collections.abc import Mapping

from lengthwise.lab import Run
from lengthwise.recipes import Model, Recipe, Rule, Scale, curve, text_grid
from lengthwise.report import Panel, duration, line_chart, record_table

PAPER = {
    "train_length": 512,
    "test_lengths": [512, 1024],
    "vocabulary": 50_257,
    "seeds": 3,
    "model.width": 768,
    "model.heads": 12,
    "model.layers": 12,
    "model.max_length": 1024,
    "training.steps": 50_000,
    "training.batch": 64,
    "training.lr": 3e-4,
    "training.precision": "bf16",
    "training.checkpoint_every": 1000,
}
"""The size of Table 3's GPT-2; no such training is published."""
LAPTOP = {
    "train_length": 128,
    "test_lengths": [128, 256],
    "vocabulary": 2048,
    "seeds": 1,
    "model.width": 128,
    "model.heads": 4,
    "model.layers": 4,
    "model.max_length": 256,
    "training.steps": 500,
    "training.batch": 32,
    "training.lr": 1e-3,
    "training.precision": "fp32",
    "training.checkpoint_every": 100,
}
SMOKE = {
    "train_length": 8,
    "test_lengths": [8, 16],
    "vocabulary": 300,
    "seeds": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.layers": 1,
    "model.max_length": 16,
    "training.steps": 2,
    "training.batch": 2,
    "training.precision": "fp32",
    "training.validation_samples": 2,
    "training.validate_every": 1,
}
SETTINGS: dict[Scale, dict[str, object]] = {"paper": PAPER, "laptop": PAPER | LAPTOP, "smoke": PAPER | SMOKE}
COLUMNS = {
    "standard": Model("transformer", {"position": "learned", "initializer_range": 0.02}),
    "ChaCAL last": Model("chacal", {}),
    "ChaCAL all": Model("chacal", {"chain_layers": "all"}),
    "ChaCAL all, learned gamma": Model("chacal", {"chain_layers": "all", "gamma": 0.1, "learn_gamma": True}),
}
"""A model without chains, one whose last layer follows them as in the paper, and two all of whose layers do."""


def recipe(
    scale: Scale,
    **options: text_grid.TextOptions,
) -> Recipe:
    """Language models trained from scratch with chain attention and without: --set text=…."""
    rules = [Rule("*", "*", SETTINGS[scale])]

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        lines = {column: curve(runs, "loss") for column, runs in finished.items()}
        caption = "Loss of a token, in nats, on validation text; the mean of the seeds."
        return [line_chart("Learning", caption, "training step", "loss", lines), ended(finished)]

    return Recipe(
        title="ChaCAL from scratch on natural text",
        description=(
            "The paper fine-tunes a GPT-2 that was trained with standard attention, which ends above the same GPT-2 "
            "without chains (Table 3: 21.46 against 20.15). Is this the price of chains, or of changing the attention "
            "late? Here all models are trained from scratch on the same text, with as many weights."
        ),
        grid=text_grid.language_models(rules, scale, text_grid.TextSource(**options), COLUMNS),
        report=report,
    )


def ended(finished: Mapping[str, list[Run]]) -> Panel:
    records = [
        {
            "model": column,
            "perplexities": {str(n): perplexity for n, perplexity in text_grid.means(runs).items()},
            "seconds": sum(run.result["seconds"]["train"] for run in runs) / len(runs),
            "parameters": runs[0].result["parameters"],
        }
        for column, runs in finished.items()
    ]
    standard = next((row["seconds"] for row in records if row["model"] == "standard"), None)
    columns = {
        "": lambda row: row["model"],
        "runs": lambda row: str(len(finished[row["model"]])),
        **{f"at {int(n):,}": lambda row, n=n: f"{row['perplexities'][n]:.4g}" for n in records[0]["perplexities"]},
        "training": lambda row: duration(row["seconds"]),
        "over standard": lambda row: f"{row['seconds'] / standard:.2f}" if standard else "–",
    }
    return record_table("Perplexity and time", "On held-out text, at the last step.", records, columns)
