"""Which words a ChaCAL head links: over one story of Boxes, the attention graph beside the true graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lengthwise import insight
from lengthwise.lab import Experiment, Run, load_model, load_task
from lengthwise.models import TokenClassifier
from lengthwise.recipes import Cell, Grid, Recipe, Scale
from lengthwise.recipes.papers.chacal import AttentionColumn, plan_boxes
from lengthwise.report import Panel
from lengthwise.report import attention as draw_attention

MODEL = AttentionColumn("chain", 2)
OPERATIONS: dict[Scale, int] = {"smoke": 2, "laptop": 6, "paper": 6}
STORIES: dict[Scale, int] = {"smoke": 2, "laptop": 64, "paper": 256}


def recipe(scale: Scale) -> Recipe:
    """Which words a head of ChaCAL links in a story of Boxes, beside the story's true graph."""

    def report(finished: Mapping[AttentionColumn, list[Run]], device: str) -> list[Panel]:
        (run,) = finished[MODEL]
        task = load_task(run)
        strings = insight.probe_strings(task, OPERATIONS[scale], STORIES[scale])
        links = insight.find_links(cast(TokenClassifier, load_model(run).to(device)), task, strings)
        assert links.truth is not None
        chain = len(links.layers) - 1
        best = max(range(links.layers[chain].heads), key=links.truth.shares[chain].__getitem__)
        return [draw_attention(links, (chain, best))]

    def first_seed() -> list[Experiment]:
        return plan_boxes(scale, MODEL, "advanced")[:1]

    return Recipe(
        title="ChaCAL: which words a head links",
        description=(
            "Chain attention reads its weights as a graph and sums over all paths in it. If it solves Boxes in the way "
            "it is meant to, this graph is the story's own: a mention of a box links to the words that last changed "
            "the box. The model is one of Table 2, a standard layer followed by a chain layer. The drawing shows the "
            "head of the chain layer whose links are most often true."
        ),
        grid=Grid([Cell(MODEL, first_seed)]),
        report=report,
    )
