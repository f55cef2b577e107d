"""What a language model finds in long prompts, as a panel: depth against length."""

from __future__ import annotations

from html import escape

from ..evaluate import FarScores
from .formatting import percent
from .panel import Panel
from .table_panels import heat_map

NAMES = {"needle": "a needle in a haystack", "variables": "variable tracking"}
ALL = "all depths"


def far_tokens_panel(scores: FarScores, model: str = "the model") -> Panel:
    """A row for each depth and one for all together, a column for each length."""
    rows = [*(f"{100 * depth:g}%" for depth in scores.depths), ALL if scores.depths else "anywhere"]
    means = list(scores.by_length.values())
    by_depth = [list(column) for column in zip(*scores.scores, strict=True)] if scores.depths else []
    columns = [f"{length:,}" for length in scores.lengths]
    title = f"{model}: {NAMES[scores.what]}"
    table = heat_map(title, "", rows, columns, [*by_depth, means], corner="depth", low=0, high=1, percent=True)
    finding = _finding(scores, means)
    return Panel(
        title=title,
        caption=_caption(scores),
        body=f'<p class="finding">{escape(finding)}</p>\n{table.body}',
        text=f"{finding}\n\n{table.text}",
        data={"model": model, **scores.to_json()},
    )


def _finding(scores: FarScores, means: list[float]) -> str:
    first, last = scores.lengths[0], scores.lengths[-1]
    said = f"{percent(means[0])}% of the answers are right in prompts of {first:,} tokens"
    return said + (f", {percent(means[-1])}% in prompts of {last:,}." if last != first else ".")


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
