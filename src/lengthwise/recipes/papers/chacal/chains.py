"""Chains of references, the paper's toy task, at every scale: one length, all models trained alike.

`blocks` of 8 tokens; the longest chain has blocks - 1 references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .... import tasks
from ....lab import Experiment, plan
from ...base import Scale
from ...common.rules import rules_of, settings_of
from .published import AttentionColumn

SIZE = 8
PAPER_BLOCKS = 16

RULES = rules_of(__name__)


def plan_chains(
    scale: Scale, attention: AttentionColumn, blocks: int, changed: Mapping[str, Any] | None = None
) -> list[Experiment]:
    """The runs of one model on this many blocks; `changed`: settings in place of the scale's own."""
    settings = {**settings_of(RULES[scale], "*", attention.label), **(changed or {})}
    seeds, length = settings.pop("seeds"), blocks * SIZE
    return plan(
        tasks.get("reference-chains", blocks=blocks, size=SIZE),
        [attention.preset],
        seeds=seeds,
        test_lengths=[length],
        settings={
            "training.lengths": (length, length),
            "training.betas": (0.9, 0.98),
            "model.heads": 8,
            "model.max_length": length,
            **attention.settings("all"),
            **settings,
        },
    )
