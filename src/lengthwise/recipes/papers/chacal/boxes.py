"""Boxes at every scale: stories of objects put, moved and removed, and at the end the contents of all boxes.

The loss is on the answer only. A string is right when every token of its answer is, given those before it: just then
greedy decoding writes exactly the right answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .... import tasks
from ....lab import Experiment, plan
from ...base import Scale
from ...common.rules import rules_of, settings_of
from .published import AttentionColumn

Form = Literal["default", "advanced"]

SIZES: dict[Scale, dict[Form, dict[str, Any]]] = {
    # The task's parameters, and the operations of a story: of all stories, or the most of log-uniformly many.
    "paper": {"default": {"operations": 32}, "advanced": {"operations": 31}},
    "laptop": {
        "default": {"boxes": 3, "objects": 10, "operations": 8},
        "advanced": {"boxes": 4, "objects": 4, "operations": 16},
    },
    "smoke": {
        "default": {"boxes": 3, "objects": 10, "operations": 3},
        "advanced": {"boxes": 4, "objects": 10, "operations": 3},
    },
}

RULES = rules_of(__name__)
ROWS: dict[Scale, int] = {"paper": 1024, "laptop": 512, "smoke": 256}
"""Rows in the table of positions: more than any story of these sizes has tokens."""
PATHS: dict[Scale, str] = {"paper": "mean", "laptop": "sum", "smoke": "mean"}
"""How ChaCAL adds up its paths; published: their mean. The sum learns sooner in so few steps."""


def plan_boxes(scale: Scale, attention: AttentionColumn, form: Form) -> list[Experiment]:
    """The runs of one model on a form of Boxes; of ChaCAL only the last layer has chain attention."""
    size = dict(SIZES[scale][form])
    operations = size.pop("operations")
    settings = {"model.heads": 8, "model.max_length": ROWS[scale], **settings_of(RULES[scale], form, attention.label)}
    if attention.kind == "chain" and PATHS[scale] != "mean":
        settings["model.paths"] = PATHS[scale]
    lengths = (operations, operations) if form == "default" else (1, operations)
    return plan_stories(attention, tasks.get("boxes", form=form, **size), lengths, [operations], settings)


def plan_stories(
    attention: AttentionColumn,
    task: tasks.Task,
    trained: tuple[int, int],
    tested: Sequence[int],
    settings: Mapping[str, Any],
) -> list[Experiment]:
    """As published but for these settings; the number of operations is log-uniform wherever there are several."""
    return plan(
        task,
        [attention.preset],
        seeds=settings["seeds"],
        test_lengths=tested,
        settings={
            "training.lengths": trained,
            "training.curriculum": "uniform" if trained[0] == trained[1] else "log-uniform",
            "training.optimizer": "adamw",
            "training.betas": (0.9, 0.98),
            "training.weight_decay": 0.01,
            **attention.settings("last"),
            **{name: value for name, value in settings.items() if name != "seeds"},
        },
    )
