"""What a language model finds in long prompts, as panels: depth against length, and models side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..evaluate import FarScores
from ..files import finite
from .formatting import percent
from .panel import Chart, Table, heat_map, line_chart

NAMES = {"needle": "a needle in a haystack", "variables": "variable tracking"}
ALL = "all depths"


def far_tokens_panel(scores: FarScores, model: str = "the model") -> Table:
    """A row for each depth and one for all together, a column for each length."""
    rows = [*(f"{100 * depth:g}%" for depth in scores.depths), ALL if scores.depths else "anywhere"]
    means = list(scores.by_length.values())
    by_depth = [list(column) for column in zip(*scores.scores, strict=True)] if scores.depths else []
    columns = [f"{length:,}" for length in scores.lengths]
    title, values = f"{model}: {NAMES[scores.what]}", [*by_depth, means]
    table = heat_map(title, _caption(scores), rows, columns, values, corner="depth", low=0, high=1, percent=True)
    return replace(table, data={"model": model, **scores.to_json()}, lead=_finding(scores, means))


def compared_panel(
    scores: Mapping[str, FarScores],
    perplexities: Mapping[str, Mapping[int, float]] | None = None,
    trained: int | None = None,
) -> Chart:
    """Several models by length: what each finds and, where it is known, its perplexity at the same length.

    `trained`: the length that they were trained at.
    """
    first = next(iter(scores.values()))
    known = perplexities or {}
    lengths = sorted({n for each in scores.values() for n in each.lengths})
    curves = {name: (list(each.lengths), list(each.by_length.values())) for name, each in scores.items()}
    if first.baseline:
        curves["all answers alike"] = (lengths, [first.baseline] * len(lengths))
    title = f"By length: {NAMES[first.what]}"
    marks = {} if trained is None else {"trained": trained}
    rows = [
        [name, *(_cell(each.by_length.get(n), known.get(name, {}).get(n)) for n in lengths)]
        for name, each in scores.items()
    ]
    data = {
        name: {**each.to_json(), "perplexities": finite({str(n): p for n, p in known.get(name, {}).items()})}
        for name, each in scores.items()
    }
    caption = _caption(first) + (" In brackets: the perplexity of windows of that length." if known else "")
    table = Table(title, "", ["", *(f"{n:,}" for n in lengths)], rows, data=data)
    axes = ("tokens", "answers right, in %")
    return line_chart(title, caption, *axes, curves, log_x=True, percent=True, marks=marks, table=table)


def _cell(score: float | None, perplexity: float | None) -> str:
    share = "–" if score is None else f"{percent(score)}%"
    return share if perplexity is None else f"{share} ({perplexity:.4g})"


def _finding(scores: FarScores, means: list[float]) -> str:
    first, last = scores.lengths[0], scores.lengths[-1]
    text = f"{percent(means[0])}% of the answers are right in prompts of {first:,} tokens"
    return text + (f", {percent(means[-1])}% in prompts of {last:,}." if last != first else ".")


def _caption(scores: FarScores) -> str:
    settings = scores.settings
    text = f"The mean of {scores.samples} prompts for each cell, in %. A length counts the prompt and its answer. "
    if scores.depths:
        text += "Depth: where the fact lies, 0% at the beginning of the prompt, 100% just before the question. "
    if settings["scoring"] == "ranking":
        text += (
            f"Right: the answer is likelier than {settings['choices'] - 1} others of as many tokens; a model "
            f"that holds all alike scores {percent(scores.baseline)}%."
        )
    else:
        text += f"Right: it stands in the {settings['budget']} tokens that the model writes, the likeliest each time."
    return text
