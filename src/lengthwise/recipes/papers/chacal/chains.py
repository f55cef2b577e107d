"""The columns of the paper's tables, and chains of references, its toy task, at every scale: one length, all models
trained alike.

`blocks` of 8 tokens; the longest chain has blocks - 1 references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from .... import tasks
from ....lab import Experiment, plan
from ...base import Scale
from ...common.rules import rules_of, settings_of, table_of

SIZE = 8
PAPER_BLOCKS = 16

RULES = rules_of(__name__)


class AttentionColumn(NamedTuple):
    """A column of the paper's tables: so many layers of standard attention, or with chain attention in them.

    >>> AttentionColumn("chain", 2).label, AttentionColumn("standard", 5).label
    ('ChaCAL 2', 'Standard 5')
    """

    kind: Literal["standard", "chain"]
    layers: int
    besides: str = ""
    """What else its label says, of a column that the paper has not."""

    @property
    def label(self) -> str:
        return f"{'ChaCAL' if self.kind == 'chain' else 'Standard'} {self.layers}{self.besides}"

    @property
    def preset(self) -> str:
        return "chacal" if self.kind == "chain" else "transformer"

    def settings(self, chain_layers: Literal["all", "last"]) -> dict[str, Any]:
        """`chain_layers`: which layers have chain attention, where it is ChaCAL."""
        if self.kind == "chain":
            return {"model.layers": self.layers, "model.chain_layers": chain_layers}
        # What ChaCAL's preset has by itself.
        return {"model.layers": self.layers, "model.position": "learned", "model.initializer_range": 0.02}


class Figures(NamedTuple):
    loss: float
    accuracy: float
    """In %, the mean over runs."""
    std: float
    time: float | None = None
    """Training time relative to two standard layers."""

    def words(self, places: int) -> str:
        """The loss with so many decimal places, and the accuracy."""
        return f"{self.loss:.{places}f}, {self.accuracy:.1f} ± {self.std:.1f}"


def figures_of(rows: Mapping[str, Sequence[float]]) -> dict[AttentionColumn, Figures]:
    """By column, from the kind of attention and the number of layers."""
    columns = {name: cast(Any, name.split()) for name in rows}
    return {AttentionColumn(kind, int(layers)): Figures(*rows[name]) for name, (kind, layers) in columns.items()}


TOY = figures_of(table_of(__name__)["published"])
"""Table 1."""


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
