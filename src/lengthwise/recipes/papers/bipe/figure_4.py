"""Figure 4: language models trained on short windows of text, and their perplexity at longer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from ....lab import Run
from ....report import Panel
from ...base import Recipe, Scale
from ...common.grid import Model
from ...common.rules import Rule, Rules, described, differences_from_paper, rules_of, settings_of
from ...common.text_grid import (
    STANDARD_LIBRARY,
    CutOptions,
    Text,
    TextSource,
    far_tokens,
    growth,
    language_models,
    learning,
    other_texts,
)

PUBLISHED = {"alibi": (8192, 28.59), "bipe-alibi": (8192, 25.24), "rope": (4096, 158.0), "bipe-rope": (4096, 19.67)}
"""Tokens and perplexity on PG19, as far as the paper's text names the numbers of its figure."""

RANDOMIZED = 4
"""From how many times the trained length places are drawn, and so the longest text they can encode."""


def reached(rules: Sequence[Rule]) -> Rule:
    """The test lengths that randomized positions can encode."""
    settings = settings_of(rules, "*", "*")
    lengths = [n for n in settings["test_lengths"] if n <= RANDOMIZED * settings["train_length"]]
    return Rule("*", "randomized*", {"test_lengths": lengths})


NEEDLE = ("needle", "needle_samples", "needle_depths")
"""At which lengths a needle is asked for, how often, and how deep it lies."""
RULES: Rules = {scale: [*rules, reached(rules)] for scale, rules in rules_of(__name__).items()}


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
    **options: CutOptions,
) -> Recipe:
    """Perplexity against length: BiPE beside five encodings, and those that came after it: --set text=…."""
    source = TextSource(text, **options)
    settings = settings_of(RULES[scale], "*", "*")
    trained = settings["train_length"]
    every = columns(source.rule, trained)
    published = ", ".join(f"{name} {p:g} at {n:,}" for name, (n, p) in PUBLISHED.items())

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        same = "Layers of LLaMA's kind, the optimiser and what is measured are as published."
        return [
            growth(finished),
            learning(finished),
            *far_tokens(finished, device, *(settings[name] for name in NEEDLE)),
            *other_texts(finished, device, test, source.store),
            *differences_from_paper(RULES, scale, ["*"], list(every), same),
        ]

    return Recipe(
        title="BiPE, Figure 4: perplexity beyond the trained length",
        description=described(__name__, trained=trained, published=published),
        grid=language_models(RULES[scale], scale, source, every),
        report=report,
    )
