"""Table 2 and Figure 4: who knows what is in every box at the end of a story?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import tasks
from ...lab import Experiment, Run
from ...report import Panel, text_table
from ...report.formatting import count, duration
from ...tasks.boxes import Boxes, dependencies, layers_needed
from ..base import Recipe, Scale
from .boxes import SIZES, Form, boxes
from .learning import curves, ended
from .published import BOXES

FORMS: tuple[Form, ...] = ("advanced", "default")
MODELS: dict[Scale, list[str]] = {
    "smoke": ["Standard 2", "ChaCAL 2"],
    "laptop": ["Standard 2", "Standard 3", "ChaCAL 2"],
    "paper": ["Standard 2", "Standard 3", "Standard 4", "Standard 5", "ChaCAL 2"],
}
BASE = "Standard 2"
STORIES = 64
"""So many test stories have their dependency graphs measured."""


def table_2(scale: Scale) -> Recipe:
    """Standard attention of two to five layers and ChaCAL of two on Boxes, beside the published."""
    parts: dict[tuple[Form, str], list[Experiment]] = {
        (form, label): boxes(scale, label, form) for form in FORMS for label in MODELS[scale]
    }

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine: dict[tuple[Form, str], list[Run]] = {
            key: [found[e.hash] for e in of if e.hash in found] for key, of in parts.items()
        }
        mine = {key: of for key, of in mine.items() if of}
        if not mine:
            return []
        drawn = [_table(scale, mine)]
        for form in FORMS:
            of = {label: runs for (name, label), runs in mine.items() if name == form}
            if of:
                drawn.append(curves(f"Learning the {form} form", "Exact match, mean over seeds (Figure 4).", of))
        return drawn

    return Recipe(
        title="ChaCAL, Table 2: Boxes",
        description=(
            "A story says what is in each box, then puts, moves and removes objects; the answer says what is in every "
            "box in the end. In the advanced form whole boxes are moved, their contents never named: what a box holds "
            "hangs on a chain of earlier operations. A score is the share of stories whose whole answer is right. "
            "ChaCAL 2 is a standard layer and then a ChaCAL layer. Test stories begin with other contents of the boxes "
            "than any training story."
        ),
        experiments=[e for of in parts.values() for e in of],
        panels=panels,
    )


def _table(scale: Scale, mine: Mapping[tuple[Form, str], list[Run]]) -> Panel:
    rows, data = [], []
    for (form, label), runs in mine.items():
        numbers: dict[str, Any] = ended(runs)
        base = mine.get((form, BASE))
        time = numbers["seconds_a_step"] / ended(base)["seconds_a_step"] if base else None
        published = BOXES[form][label]
        data.append({"form": form, "model": label, "time": time, **numbers, "published": published})
        rows.append(
            [
                f"{form}, {label}",
                count(numbers["parameters"]),
                str(numbers["seeds"]),
                f"{numbers['loss']:.4f}",
                numbers["words"],
                "–" if time is None else f"×{time:.2f}",
                f"{published.loss:.4f}, {published.accuracy:.1f} ± {published.std:.1f}, ×{published.time:.2f}",
                duration(numbers["train_seconds"]),
            ]
        )
    sizes = "; ".join(f"{form}: {depth(runs[0])}" for (form, label), runs in mine.items() if label == BASE)
    caption = (
        "Loss on validation strings, exact match in % on test stories, at the last checkpoint; time of a training step "
        f"against {BASE}. {sizes}."
    )
    if scale != "paper":
        said = ", ".join(f"{form}: {_words(size)}" for form, size in SIZES[scale].items())
        caption += f" Shrunk here ({scale}): the stories ({said}), width, steps, batch and seeds."
        caption += " Positions are Transformer-XL's, and ChaCAL sums its paths." if scale == "laptop" else ""
    head = ["form, model", "size", "runs", "loss", "exact match, max / mean ± std", "time",
            "published loss, exact match, time", "training"]  # fmt: skip
    return text_table("Measured beside published", caption, head, rows, data)


def depth(run: Run) -> str:
    """How deep the dependency graphs of the run's test stories are, and the layers that Theorem 1 asks for."""
    spec = run.experiment
    made = tasks.get(spec.task.name, **spec.task.params)
    assert isinstance(made, Boxes)
    stories = made.stories(made.test_set(spec.evaluation.lengths[-1], STORIES, spec.evaluation.seed).tokens)
    found = sorted(dependencies(story).depth for story in stories)
    middle, most = found[len(found) // 2], found[-1]
    return (
        f"chains of {found[0]} to {most} dependencies, {middle} in the median story, which by Theorem 1 needs "
        f"{layers_needed(middle)} layers (the deepest {layers_needed(most)})"
    )


def _words(size: dict[str, Any]) -> str:
    return " ".join(f"{value} {name}" for name, value in size.items())
