"""Figure 4: language models trained on short windows of text, and their perplexity at longer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from ....lab import Run
from ....report import Panel, Table
from ...base import Recipe, Scale
from ...common import text_grid
from ...common.grid import Model
from ...common.rules import Rule, Rules, differences_from_paper, settings_of
from ...common.text_grid import (
    STANDARD_LIBRARY,
    STORE,
    Ends,
    Store,
    Text,
    Tokenizer,
    far_tokens,
    growth,
    language_models,
    other_texts,
    usual_ends,
)

PUBLISHED = {
    "alibi": {8192: 28.59},
    "bipe-alibi": {8192: 25.24},
    "rope": {4096: 158.0},
    "bipe-rope": {4096: 19.67},
}
"""Perplexity on PG19, as far as the paper's text names the numbers of its figure."""

PAPER = Rule(
    "*",
    "*",
    {
        "train_length": 1024,
        "test_lengths": [1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192],
        "vocabulary": 32_000,
        "seeds": 1,
        "model.width": 768,
        "model.heads": 12,
        "model.layers": 12,
        "model.initializer_range": 0.02,
        "training.steps": 500_000,
        "training.batch": 256,
        "training.lr": 1e-4,
        "training.betas": (0.9, 0.999),
        "training.weight_decay": 0.01,
        "training.schedule": "constant",
        "training.precision": "bf16",
        "training.checkpoint_every": 1000,
        "text.test_tokens": None,
        "needle": [1024, 2048, 4096, 8192],
        "needle_samples": 20,
        "needle_depths": [0.0, 0.25, 0.5, 0.75, 1.0],
    },
)
LAPTOP = Rule(
    "*",
    "*",
    text_grid.LAPTOP
    | {
        "model.layers": 4,
        "training.lr": 2e-3,
        "training.betas": (0.9, 0.95),
        "training.weight_decay": 0.1,
        "training.schedule": "cosine",
        "text.test_tokens": 65_536,
        "needle": [128, 512, 2048],
        "needle_samples": 8,
        "needle_depths": [0.1, 0.5, 0.9],
    },
)
SMOKE = Rule(
    "*",
    "*",
    text_grid.SMOKE
    | {
        "test_lengths": [8, 16, 192],
        "model.layers": 1,
        "text.test_tokens": 256,
        "needle": [192],
        "needle_samples": 1,
        "needle_depths": [0.5],
    },
)
RANDOMIZED = 4
"""From how many times the trained length places are drawn, and so the longest text they can encode."""


def reached(rule: Rule) -> Rule:
    """The test lengths that randomized positions can encode."""
    longest = RANDOMIZED * rule.settings["train_length"]
    return Rule("*", "randomized*", {"test_lengths": [n for n in rule.settings["test_lengths"] if n <= longest]})


NEEDLE = ("needle", "needle_samples", "needle_depths")
"""At which lengths a needle is asked for, how often, and how deep it lies."""
RULES: Rules = {
    "paper": [PAPER, reached(PAPER)],
    "laptop": [PAPER, LAPTOP, reached(LAPTOP)],
    "smoke": [PAPER, SMOKE, reached(SMOKE)],
}


def columns(ends: str, trained: int) -> dict[str, Model]:
    """The seven encodings of the figure, and those that came after the paper, all in LLaMA's block."""
    plain = {"block": "llama"}
    official = {"variant": "official", "ends": ends, "max_length": trained}
    published = {
        "sinusoidal": Model("transformer", {**plain, "position": "sinusoidal"}),
        "randomized": Model("transformer", {**plain, "position": "randomized", "position_options": {
            "of": {"name": "rope"}, "longest": RANDOMIZED * trained}}),
        "rope": Model("transformer", {**plain, "position": "rope"}),
        "xpos": Model("transformer", {**plain, "position": "xpos"}),
        "alibi": Model("transformer", {**plain, "position": "alibi"}),
        "bipe-rope": Model("bipe", {**official, "position": "rope"}),
        "bipe-alibi": Model("bipe", {**official, "position": "alibi"}),
    }  # fmt: skip
    newer = {
        "fox": Model("fox", {}),
        "bipe-fox": Model("fox", {"ends": ends, "max_length": trained}),
        "rope-ssmax": Model("transformer", {**plain, "position": "rope", "log_scale": trained // 2}),
        "path": Model("path", {}),
        "stick-breaking": Model("stick-breaking", {}),
        "cope": Model("cope", {}),
    }
    return published | newer


def recipe(
    scale: Scale,
    *,
    text: Text = (STANDARD_LIBRARY,),
    test: Annotated[Sequence[str], "A further text to test on, as much of it as of the held-out text; repeat it."] = (),
    ends: Ends = None,
    tokenizer: Tokenizer = None,
    store: Store = STORE,
) -> Recipe:
    """Perplexity against length: BiPE beside five encodings, and those that came after it: --set text=…."""
    settings = settings_of(RULES[scale], "*", "*")
    trained = settings["train_length"]
    every = columns(ends or usual_ends(text), trained)

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        same = "Layers of LLaMA's kind, the optimiser and what is measured are as published."
        return [
            growth(finished),
            _published(finished),
            far_tokens(finished, device, *(settings[name] for name in NEEDLE)),
            *other_texts(finished, device, test, store),
            *differences_from_paper(RULES, scale, ["*"], list(every), same),
        ]

    return Recipe(
        title="BiPE, Figure 4: perplexity beyond the trained length",
        description=(
            f"Language models that differ in their encoding of positions alone are trained on windows of {trained:,} "
            "tokens and tested on longer ones. The paper finds that perplexity explodes with sinusoidal positions and "
            "RoPE, and stays or falls with BiPE. The columns from fox on came after the paper, and no published table "
            "holds BiPE against them; bipe-fox is ours. A model that reads only the last tokens has a level curve too, "
            "so a needle in a haystack is asked for beside it."
        ),
        grid=language_models(rules_of_runs(scale), scale, text, every, tokenizer=tokenizer, store=store),
        report=report,
    )


def rules_of_runs(scale: Scale) -> list[Rule]:
    """The rules without what is no setting of a run."""
    return [
        rule._replace(settings={name: value for name, value in rule.settings.items() if name not in NEEDLE})
        for rule in RULES[scale]
    ]


def _published(finished: Mapping[str, Sequence[Run]]) -> Panel:
    """The numbers that the paper's text names; measured on other text, they are no comparison."""
    rows = [
        [column, f"{n:,}", f"{perplexity:g}"]
        for column, by_length in PUBLISHED.items()
        if column in finished
        for n, perplexity in by_length.items()
    ]
    data = {column: {str(n): p for n, p in PUBLISHED[column].items()} for column in PUBLISHED if column in finished}
    caption = "On PG19, of models of 155 million weights trained on the Pile at 1,024 tokens."
    return Table("Published", caption, ["", "tokens", "perplexity"], rows, data=data)
