"""BiPE's positions in layers that are no softmax attention, and in stacks of several kinds of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lengthwise.lab import Run
from lengthwise.recipes import Model, Recipe, Rule, Scale, settings_of, text_grid
from lengthwise.recipes.papers.bipe import figure_4
from lengthwise.report import Panel, Table, count, duration

CHUNK = 4
"""Of the sliding-dilated layers, which read C tokens each, C^l apart in the l-th of them."""
OPTIONS = {
    "sliding-dilated": {"chunk": CHUNK},
    # About as many weights as an attention layer has.
    "block-lrnn": {"block": 4, "transition": "linear", "inputs": "linear"},
}
STACKS: dict[str, list[str]] = {
    "block-lrnn + softmax": ["block-lrnn", "softmax"],
    "chain": ["chain"],
    "three softmax + chain": ["softmax", "softmax", "softmax", "chain"],
    "sliding-dilated": ["sliding-dilated"],
    "sliding-dilated + softmax": ["sliding-dilated", "softmax"],
    "all four": ["sliding-dilated", "block-lrnn", "softmax", "chain"],
}
"""What layers mix tokens by, in turn: the linear RNN in between, ChaCAL, RegularGPT, and all of them."""

DEEPER: dict[Scale, list[Rule]] = {
    "smoke": [Rule("*", "*", {"model.layers": max(map(len, STACKS.values()))})],
    "laptop": [],
    "paper": [],
}
"""A stack needs a layer of each of its kinds."""


def columns(ends: str, trained: int) -> dict[str, Model]:
    """BiPE-RoPE as in Figure 4, and the stacks, which differ from it in how layers mix tokens alone."""
    return {"softmax": figure_4.columns(ends, trained)["bipe-rope"]} | {
        name: Model("hybrid", _options(mixers, ends, trained)) for name, mixers in STACKS.items()
    }


def _options(mixers: list[str], ends: str, trained: int) -> dict[str, object]:
    # No sliding-dilated layer compares queries with keys by their places: the segments' numbers are then added too.
    position = "sinusoidal" if mixers == ["sliding-dilated"] else "rope"
    own = {name: options for name, options in OPTIONS.items() if name in mixers}
    named = {"mixers": mixers, "ends": ends, "position": position, "max_length": trained}
    return {**named, **({"mixer_options": own} if own else {})}


def recipe(
    scale: Scale,
    **options: text_grid.SegmentOptions,
) -> Recipe:
    """BiPE with ChaCAL, RegularGPT and the linear RNN in one stack, on text: --set text=…."""
    source = text_grid.TextSource(**options)
    settings = settings_of(figure_4.RULES[scale], "*", "*")
    trained = settings["train_length"]

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        return [
            text_grid.growth(finished),
            *text_grid.far_tokens(finished, device, *(settings[name] for name in figure_4.NEEDLE)),
            sizes(finished),
        ]

    return Recipe(
        title="BiPE with ChaCAL, RegularGPT and the linear RNN in between",
        description=(
            "Models of one width and depth that know places inside segments and the numbers of segments, and differ in "
            "how their layers mix tokens. Chain and softmax attention turn by the segment's number; the linear RNN "
            "knows the order by itself and is given the places inside segments alone, as are sliding-dilated layers. "
            "RegularGPT's depth grows with the text, and a stack's does not: here its layers are stacked with the "
            f"dilations that its groups would have, powers of {CHUNK}, so that generation keeps a cache. A stack of "
            "these alone reads a window, and adds the segments' numbers to the embeddings too."
        ),
        grid=text_grid.language_models(
            [*figure_4.RULES[scale], *DEEPER[scale]],
            scale,
            source,
            columns(source.rule, trained),
        ),
        report=report,
    )


def sizes(finished: Mapping[str, Sequence[Run]]) -> Panel:
    """Weights and training time: equal width is not equal work."""
    data = [
        {
            "model": column,
            "parameters": runs[0].result["parameters"],
            "seconds": sum(run.result["seconds"]["train"] for run in runs) / len(runs),
        }
        for column, runs in finished.items()
    ]
    rows = [[row["model"], count(row["parameters"]), duration(row["seconds"])] for row in data]
    caption = "Models of one width, one depth and one feed-forward network. Training time is the mean of the seeds."
    return Table("Size and time", caption, ["", "parameters", "training"], rows, data=data)
