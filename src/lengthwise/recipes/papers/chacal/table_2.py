"""Table 2 and Figure 4: who knows what is in every box at the end of a story?

The loss is on the answer only. A string is right when every token of its answer is, given those before it: just then
greedy decoding writes exactly the right answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from .... import tasks
from ....lab import Experiment, Run, load_task, plan
from ....lab.statistics import summary
from ....models.token_classifier import evaluating
from ....report import Panel, record_table
from ....report.formatting import count, duration, percent
from ....tasks.boxes import Boxes, dependency_depth, layers_needed
from ....tasks.boxes.vocabulary import COMMA
from ...base import Recipe, Scale
from ...common.curves import beside_published, curves, ended
from ...common.grid import Cell, Grid, loaded
from ...common.rules import differences_from_paper, rules_of, settings_of, table_of
from .chains import AttentionColumn, Figures, figures_of

Form = Literal["default", "advanced"]

RULES = rules_of(__name__)
PUBLISHED = {form: figures_of(rows) for form, rows in table_of(__name__)["published"].items()}
"""By the form of the stories."""
SIZES = ("boxes", "objects", "operations")
SAME = "The operations, and the way in which their number is drawn, are the published ones."


def plan_boxes(scale: Scale, form: Form, attention: AttentionColumn) -> list[Experiment]:
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
SUM = AttentionColumn("chain", 2, ", sum of paths")
PUBLISHED_MODELS = [TWO, THREE, AttentionColumn("standard", 4), AttentionColumn("standard", 5), CHAIN]
MODELS: dict[Scale, list[AttentionColumn]] = {
    "smoke": [TWO, CHAIN],
    "laptop": [TWO, THREE, CHAIN],
    "overnight": [*PUBLISHED_MODELS, SUM],
    "paper": PUBLISHED_MODELS,
}
STORIES = 64
"""So many test stories of a length have their dependency graphs measured, and their boxes scored."""

Key = tuple[Form, AttentionColumn]


def recipe(scale: Scale) -> Recipe:
    """ChaCAL of two layers and standard attention of two to five on Boxes, beside the published numbers."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        scored = {
            key: [drawn_as_trained(run, model) for run, model in zip(runs, loaded(runs, device), strict=True)]
            for key, runs in finished.items()
        }
        forms = list(dict.fromkeys(form for form, _ in finished))
        drawn = [_table(finished, scored)]
        for form in forms:
            mine = {attention.label: runs for (other, attention), runs in finished.items() if other == form}
            caption = f"Exact match on validation stories, mean over seeds (Figure 4). {_beside(scored, form)}"
            drawn.append(curves(f"Learning the {form} form", caption, mine))
        models = [attention.label for _, attention in finished]
        return [*drawn, *differences_from_paper(RULES, scale, forms, models, SAME)]

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
        grid=Grid([Cell(key, partial(plan_boxes, scale, *key), label=f"{key[0]}, {key[1].label}") for key in keys]),
        report=report,
    )


class Shares(NamedTuple):
    """How much is right, of test stories whose number of operations is drawn as in training."""

    stories: float
    boxes: float
    """Of the boxes that an answer names. One is right where each token about it is, given the right ones before."""
    touched: float
    """Of those boxes that an operation names, too."""


@torch.no_grad()
def drawn_as_trained(run: Run, model: nn.Module) -> Shares:
    """Of `STORIES` stories of each number n of operations, weighted by 1/n: so often log-uniform training draws n."""
    task = load_task(run)
    assert isinstance(task, Boxes)
    device = next(model.parameters()).device
    stories, boxes, touched = [], [], []
    low, high = run.experiment.training.curriculum.lengths
    for n in range(low, high + 1):
        batch = task.test_set(n, STORIES)
        with evaluating(model):
            wrong = batch.mask & (model(batch.tokens.to(device)).argmax(-1).cpu() != batch.targets)
        commas = batch.mask & (batch.targets == COMMA)
        clause = commas.cumsum(1) - commas.long()
        counts = torch.zeros(len(wrong), task.boxes + 1).scatter_add_(1, clause, wrong.float())
        for story, by_clause in zip(task.stories(batch.tokens), counts.tolist(), strict=True):
            named = [box for box, items in sorted(story.contents.items()) if items or not task.form.half]
            moved = {box for operation in story.operations for box in operation.boxes}
            right = dict(zip(named, (not count for count in by_clause), strict=False))
            stories.append((1 / n, all(right.values())))
            boxes += [(1 / n, right[box]) for box in named]
            touched += [(1 / n, right[box]) for box in named if box in moved]
    return Shares(*(sum(n * right for n, right in of) / sum(n for n, _ in of) for of in (stories, boxes, touched)))


def _table(finished: Mapping[Key, list[Run]], scored: Mapping[Key, list[Shares]]) -> Panel:
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
                "drawn_as_trained": [shares._asdict() for shares in scored[form, attention]],
                "published": PUBLISHED[form].get(attention),
            }
        )
    columns = {
        "form, model": lambda row: f"{row['form']}, {row['model']}",
        "size": lambda row: count(row["parameters"]),
        "runs": lambda row: str(row["seeds"]),
        "loss": lambda row: f"{row['loss']:.4f}",
        "exact match, max / mean ± std": lambda row: row["words"],
        "by operations": lambda row: ", ".join(f"{n}: {percent(share)}" for n, share in row["by_operations"].items()),
        "as in training: stories, boxes, touched": lambda row: ", ".join(
            percent(statistics.fmean(each[of] for each in row["drawn_as_trained"])) for of in Shares._fields
        ),
        "time": lambda row: "–" if row["time"] is None else f"×{row['time']:.2f}",
        "published loss, exact match, time": _published,
        "training": lambda row: duration(row["train_seconds"]),
    }
    sentence = " ".join(_beside(scored, form) for form in dict.fromkeys(form for form, _ in finished))
    return record_table("Measured beside published", _caption(finished), records, columns, finding=sentence)


def _published(row: Mapping[str, Any]) -> str:
    figures: Figures | None = row["published"]
    return f"{figures.words(4)}, ×{figures.time:.2f}" if figures else "–"


def _beside(scored: Mapping[Key, list[Shares]], form: str) -> str:
    """What was measured and published of this form, on stories drawn as those of training."""
    means = {a: statistics.fmean(each.stories for each in of) for (other, a), of in scored.items() if other == form}
    mine = {a.label: (mean, PUBLISHED[form][a].accuracy) for a, mean in means.items() if a in PUBLISHED[form]}
    return beside_published(f"Exact match of the {form} form", mine)


def _caption(finished: Mapping[Key, list[Run]]) -> str:
    of_form = {form: runs[0] for (form, _), runs in finished.items()}
    sizes = "; ".join(f"{form}: {depth(run)}" for form, run in of_form.items())
    tested = {form: [f"{n}" for n in run.experiment.tests.lengths] for form, run in of_form.items()}
    scored = "; ".join(f"{form}: {', '.join(lengths)} operations" for form, lengths in tested.items())
    return (
        "Loss on validation strings, and exact match in % on test stories, at the last checkpoint. Exact match is the "
        f"mean over stories of several lengths, each as heavy as the others ({scored}), and stands by length beside "
        "it. As in training: the number of operations is drawn as there and as in the published test, so that most "
        "stories of the advanced form are short. The shares of whole stories, of the boxes that answers name (given "
        "the right answer before them) and of those boxes that operations name, too; means over seeds. Published: the "
        f"mean of three runs (default) or four (advanced). Time: that of a training step, against {TWO.label}. How "
        f"deep the stories are. {sizes}."
    )


def depth(run: Run) -> str:
    """How deep the dependency graphs of the run's test stories are, and the layers that Theorem 1 asks for."""
    task, tests = load_task(run), run.experiment.tests
    assert isinstance(task, Boxes)
    stories = task.stories(task.test_set(tests.lengths[-1], STORIES, tests.seed).tokens)
    depths = sorted(map(dependency_depth, stories))
    middle, most = depths[len(depths) // 2], depths[-1]
    return (
        f"chains of {depths[0]} to {most} dependencies; the median story has {middle} and by Theorem 1 needs "
        f"{layers_needed(middle)} layers, the deepest needs {layers_needed(most)}"
    )
