"""Which words a ChaCAL head links: over one story of Boxes, the attention graph beside the true graph."""

from __future__ import annotations

from typing import cast

from ... import insight, tasks
from ...lab import Run, load_model
from ...models import TokenClassifier
from ...report import Panel
from ...report import attention as drawn
from ..base import Recipe, Scale
from .boxes import boxes

OPERATIONS: dict[Scale, int] = {"smoke": 2, "laptop": 6, "paper": 6}
STORIES: dict[Scale, int] = {"smoke": 2, "laptop": 64, "paper": 256}


def attention(scale: Scale) -> Recipe:
    """The words that the heads of ChaCAL link, over a story of Boxes beside its true graph."""
    planned = boxes(scale, "ChaCAL 2", "advanced")[:1]

    def panels(runs: list[Run]) -> list[Panel]:
        run = next((run for run in runs if run.experiment.hash == planned[0].hash), None)
        if run is None:
            return []
        spec = run.experiment.task
        task = tasks.get(spec.name, **spec.params)
        classifier = cast(TokenClassifier, load_model(run))
        found = insight.find_links(classifier, task, insight.probe_strings(task, OPERATIONS[scale], STORIES[scale]))
        assert found.truth is not None
        chain = len(found.layers) - 1
        best = max(range(found.layers[chain].heads), key=found.truth.shares[chain].__getitem__)
        return [drawn(found, (chain, best))]

    return Recipe(
        title="ChaCAL: which words a head links",
        description=(
            "Chain attention reads its weights as a graph and sums over all its paths. If it solves Boxes as it is "
            "meant to, that graph is the story's own: a mention of a box links to the words that last changed it. One "
            "model of Table 2 (a standard layer, then chain attention) is looked at; of its chain layer the head whose "
            "links are most often true is drawn over a test story."
        ),
        experiments=planned,
        panels=panels,
    )
