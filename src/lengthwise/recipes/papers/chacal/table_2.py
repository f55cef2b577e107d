"""Table 2 and Figure 4: who knows what is in every box at the end of a story?

The loss is on the answer only. A string is right when every token of its answer is, given those before it: just then
greedy decoding writes exactly the right answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from .... import tasks
from ....lab import Experiment, Run, load_task, plan
from ....lab.statistics import summary
from ....report import Panel, record_table
from ....report.formatting import count, duration, percent
from ....tasks.boxes import Boxes, dependencies, layers_needed
from ...base import Recipe, Scale
from ...common.curves import beside_published, curves, ended
from ...common.grid import Cell, Grid
from ...common.rules import rules_of, settings_of, table_of
from .chains import AttentionColumn, figures_of

Form = Literal["default", "advanced"]

RULES = rules_of(__name__)
PUBLISHED = {form: figures_of(rows) for form, rows in table_of(__name__)["published"].items()}
"""By the form of the stories."""
SIZES = ("boxes", "objects", "operations")


def plan_boxes(scale: Scale, attention: AttentionColumn, form: Form) -> list[Experiment]:
    """The runs of one model on a form of Boxes; of ChaCAL only the last layer has chain attention."""
    settings = settings_of(RULES[scale], form, attention.label)
    size = {name: settings.pop(name) for name in SIZES if name in settings}
    seeds, most = settings.pop("seeds"), size.pop("operations")
    return plan(
        tasks.get("boxes", form=form, **size),
        [attention.preset],
        seeds=seeds,
        test_lengths=[most],
        settings={
            "model.heads": 8,
            "training.lengths": (most, most) if form == "default" else (1, most),
            "training.curriculum": "uniform" if form == "default" else "log-uniform",
            "training.optimizer": "adamw",
            "training.betas": (0.9, 0.98),
            "training.weight_decay": 0.01,
            **attention.settings("last"),
            **settings,
        },
    )


FORMS: tuple[Form, ...] = ("advanced", "default")
TWO, THREE, CHAIN = AttentionColumn("standard", 2), AttentionColumn("standard", 3), AttentionColumn("chain", 2)
MODELS: dict[Scale, list[AttentionColumn]] = {
    "smoke": [TWO, CHAIN],
    "laptop": [TWO, THREE, CHAIN],
    "paper": [TWO, THREE, AttentionColumn("standard", 4), AttentionColumn("standard", 5), CHAIN],
}
STORIES = 64
"""So many test stories have their dependency graphs measured."""


Key = tuple[Form, AttentionColumn]


def recipe(scale: Scale) -> Recipe:
    """ChaCAL of two layers and standard attention of two to five on Boxes, beside the published numbers."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        drawn = [_table(scale, finished)]
        for form in dict.fromkeys(form for form, _ in finished):
            mine = {attention.label: runs for (other, attention), runs in finished.items() if other == form}
            caption = f"Exact match on validation stories, mean over seeds (Figure 4). {_beside(finished, form)}"
            drawn.append(curves(f"Learning the {form} form", caption, mine))
        return drawn

    keys: list[Key] = [(form, attention) for form in FORMS for attention in MODELS[scale]]
    return Recipe(
        title="ChaCAL, Table 2: Boxes",
        description=(
            "A story says what is in each box. Then objects are put into boxes, moved and removed. The answer says "
            "what every box holds in the end. In the advanced form whole boxes are moved and their contents are not "
            "named, so what a box holds depends on a chain of earlier operations. A score is the share of stories "
            "whose whole answer is right. ChaCAL 2 is a standard layer followed by a ChaCAL layer. No test story "
            "begins with the same contents of the boxes as a training story."
        ),
        grid=Grid([Cell(key, partial(plan_boxes, scale, key[1], key[0]), label=key[0]) for key in keys]),
        report=report,
    )


def _table(scale: Scale, finished: Mapping[Key, list[Run]]) -> Panel:
    records = []
    for (form, attention), runs in finished.items():
        numbers, base = ended(runs), finished.get((form, TWO))
        records.append(
            {
                "form": form,
                "model": attention.label,
                "time": numbers["seconds_a_step"] / ended(base)["seconds_a_step"] if base else None,
                **numbers,
                "by_operations": {str(n): summary(runs, [n]).mean for n in runs[0].experiment.tests.lengths},
                "published": PUBLISHED[form][attention],
            }
        )
    columns = {
        "form, model": lambda row: f"{row['form']}, {row['model']}",
        "size": lambda row: count(row["parameters"]),
        "runs": lambda row: str(row["seeds"]),
        "loss": lambda row: f"{row['loss']:.4f}",
        "exact match, max / mean ± std": lambda row: row["words"],
        "by operations": lambda row: ", ".join(f"{n}: {percent(share)}" for n, share in row["by_operations"].items()),
        "time": lambda row: "–" if row["time"] is None else f"×{row['time']:.2f}",
        "published loss, exact match, time": lambda row: f"{row['published'].words(4)}, ×{row['published'].time:.2f}",
        "training": lambda row: duration(row["train_seconds"]),
    }
    caption = " ".join([_caption(finished), *([_shrunk(scale)] if scale != "paper" else [])])
    sentence = " ".join(_beside(finished, form) for form in dict.fromkeys(form for form, _ in finished))
    return record_table("Measured beside published", caption, records, columns, finding=sentence)


def _beside(finished: Mapping[Key, list[Run]], form: str) -> str:
    """What was measured and published of this form; their test has stories of other lengths (see the caption)."""
    mine = {a.label: (runs, PUBLISHED[form][a].accuracy) for (other, a), runs in finished.items() if other == form}
    return beside_published(f"Exact match of the {form} form", mine, ", by another test")


def _caption(finished: Mapping[Key, list[Run]]) -> str:
    sizes = "; ".join(f"{form}: {depth(runs[0])}" for (form, attention), runs in finished.items() if attention == TWO)
    tested = {form: [f"{n}" for n in runs[0].experiment.tests.lengths] for (form, _), runs in finished.items()}
    scored = "; ".join(f"{form}: {', '.join(lengths)} operations" for form, lengths in tested.items())
    return (
        "Loss on validation strings, and exact match in % on test stories, at the last checkpoint. Exact match is the "
        f"mean over stories of several lengths, each as heavy as the others ({scored}), and stands by length beside "
        "it. The published test draws the number of operations as its training does: 32 (default), log-uniform from 1 "
        "to 31 and so mostly short (advanced). So compare the order of the models, not the numbers. Published: the "
        "mean of three runs (default) or four (advanced). Time: that of a training step, against "
        f"{TWO.label}. How deep the stories are. {sizes}."
    )


def _shrunk(scale: Scale) -> str:
    by_form = {form: settings_of(RULES[scale], form, TWO.label) for form in FORMS[::-1]}
    stories = ", ".join(f"{f}: {' '.join(f'{own[name]} {name}' for name in SIZES)}" for f, own in by_form.items())
    shrunk = (
        f"Shrunk at {scale} scale: the stories ({stories}), the width, the steps, the batch and the number of runs."
    )
    if scale == "laptop":
        shrunk += " Positions are those of Transformer-XL, and ChaCAL takes the sum of its paths, not their mean."
    return shrunk


def depth(run: Run) -> str:
    """How deep the dependency graphs of the run's test stories are, and the layers that Theorem 1 asks for."""
    task, tests = load_task(run), run.experiment.tests
    assert isinstance(task, Boxes)
    stories = task.stories(task.test_set(tests.lengths[-1], STORIES, tests.seed).tokens)
    depths = sorted(dependencies(story).depth for story in stories)
    middle, most = depths[len(depths) // 2], depths[-1]
    return (
        f"chains of {depths[0]} to {most} dependencies; the median story has {middle} and by Theorem 1 needs "
        f"{layers_needed(middle)} layers, the deepest needs {layers_needed(most)}"
    )
