"""What a scale does otherwise than the paper, as a panel: read off the rules themselves, so that it cannot be stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...report import Panel
from ..base import Scale
from .scales import RULES, Rule, settings

BOOKKEEPING = ("training.validate_every", "training.validation_samples", "training.checkpoint_every")
"""How often a run looks at itself: no part of what is asked or trained."""
HEADS = ("for", "setting", "published", "here")
KEPT = (
    "Tasks, training lengths and the range of test lengths are the published ones. `lengths`: how many of the range "
    "are tested."
)
Rules = Mapping[Scale, list[Rule]]


def shrunk(
    scale: Scale, tasks: Sequence[str], models: Sequence[str], rules: Rules = RULES, kept: str = KEPT
) -> list[Panel]:
    """One panel, or none where nothing differs from the published setting; `kept`: what does not."""
    rows = differences(scale, tasks, models, rules)
    if not rows:
        return []
    lines = [(row["for"], row["setting"], said(row["published"]), said(row["here"])) for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(HEADS, *lines, strict=True)]
    text = "\n".join("".join(map(str.ljust, line, widths)).rstrip() for line in [HEADS, *lines])
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADS[1:])
    body = "".join(
        f'<tr><th scope="row"><code>{key}</code><small>{escape(who)}</small></th><td>{paper}</td><td>{here}</td></tr>'
        for who, key, paper, here in lines
    )
    table = f'<table class="small wrap"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return [
        Panel(
            title=f"What was shrunk at {scale} scale",
            caption=f"{kept} A later line overrides an earlier one.",
            body=f'<div class="box" tabindex="0" role="region" aria-label="What was shrunk">{table}</div>',
            text=text,
            data=rows,
        )
    ]


def differences(
    scale: Scale, tasks: Sequence[str], models: Sequence[str], rules: Rules = RULES
) -> list[dict[str, Any]]:
    """The settings of the rules that hold somewhere in this part of the table and are not the published ones, or are so
    again where an earlier rule had changed them."""
    rows = []
    own = [rule for rule in rules[scale] if rule not in rules["paper"]]
    for i, rule in enumerate(own):
        cells = [(task, model) for task in tasks for model in models if rule.holds(task, model)]
        for key, here in rule.settings.items():
            if key in BOOKKEEPING:
                continue
            changed = [r for r in own[:i] if r.settings.get(key, here) != here]
            published = {
                str(value): value
                for cell in cells
                if settings(rules[scale], *cell)[key] == here
                and (
                    (value := settings(rules["paper"], *cell).get(key, "–")) != here
                    or any(r.holds(*cell) for r in changed)
                )
            }
            who = ", ".join(filter(None, (part.rstrip("*") for part in (rule.tasks, rule.models)))) or "all"
            rows += [{"for": who, "setting": key, "published": value, "here": here} for value in published.values()]
    return rows


def said(value: Any) -> str:
    """
    >>> said(100_000), said([1e-4, 3e-4]), said(None), said("every")
    ('100,000', '0.0001, 0.0003', 'none', 'every')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(said, value))
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
