"""Table 1: models of several encodings trained on the seven tasks of SCROLLS, and what they answer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ....errors import Error
from ....evaluate.written_answers import write_submission
from ....lab import Experiment, Run, Training, measure_answers, plan_answers
from ....options import above, at_least
from ....report import Panel, Table
from ....text.scrolls import HUB, TASKS
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid
from ...common.rules import Rule, described, differences_from_paper, rules_of, settings_of, table_of
from ...common.text_grid import STANDARD_LIBRARY, CutOptions
from .figure_4 import RANDOMIZED
from .figure_4 import RULES as RULES_4
from .figure_4 import recipe as recipe_4
from .figure_5 import recipe as recipe_5

PUBLISHED: dict[str, list[float]] = table_of(__name__)["published"]
"""By column, the score of each task in the order of `TASKS`, and the average; of the test split."""
AVERAGE = "average"
SHARE = 4
"""An answer takes at most one in so many tokens of a window."""

RULES = rules_of(__name__)


class AnswersKey(NamedTuple):
    task: str
    column: str


def recipe(
    scale: Scale,
    *,
    data: Annotated[str, "A folder with a copy of SCROLLS, or hf:NAME."] = HUB,
    checkpoint: Annotated[
        Sequence[str], "NAME=PATH of a run or a checkpoint to train on, such as bipe-rope=runs/…; repeat it for more."
    ] = (),
    window: Annotated[int | None, at_least(8), "Tokens of a prompt with its answer; None: as the scale says."] = None,
    steps: Annotated[int | None, at_least(1), "How many steps are trained; None: as the scale says."] = None,
    batch: Annotated[int | None, at_least(1), "How many rows a step has; None: as the scale says."] = None,
    lr: Annotated[float | None, above(0), "The learning rate; None: as the scale says."] = None,
    tokens_at_once: Annotated[int, at_least(1), "How many tokens are in memory at a time."] = 8192,
    submission: Annotated[str | None, "A folder for answers to the test split, NAME.csv of each model."] = None,
    text: Annotated[
        Sequence[str], "Without checkpoints: what models are trained on first; stdlib, a path, or hf:NAME."
    ] = (STANDARD_LIBRARY,),
    **source: CutOptions,
) -> Recipe:
    """SCROLLS: what models answer after training on its tasks: --set data=FOLDER --set checkpoint=rope=PATH.

    Without a checkpoint the models of Figure 5 are trained first, and those of Figure 4 that the table has.
    """
    checkpoints = by_name(checkpoint)
    overrides = {"training.steps": steps, "training.batch": batch, "training.lr": lr, "window": window}
    own = {name: value for name, value in overrides.items() if value is not None}
    rules = [*RULES[scale], *([Rule("*", "*", own)] if own else [])]
    settings = settings_of(rules, "*", "*")
    first = None if checkpoints else language_models_first(scale, settings["window"], text=text, **source)
    models = list(checkpoints) if first is None else [cell.key for cell in first.cells]

    @cache
    def planned(task: str) -> list[Experiment]:
        of_training = {
            name.removeprefix("training."): value for name, value in settings.items() if name.startswith("training.")
        }
        return plan_answers(
            data,
            task,
            list(checkpoints.values()) if first is None else [cell.experiments[0] for cell in first.cells],
            window=settings["window"],
            budget=min(TASKS[task].budget, settings["window"] // SHARE),
            trained=settings["trained"],
            questions=settings["questions"],
            training=Training.of(**of_training),
            tokens_at_once=tokens_at_once,
        )

    def report(finished: Mapping[AnswersKey, list[Run]], device: str) -> list[Panel]:
        panels = [compared(finished)]
        if submission:
            panels.append(submitted(finished, data, Path(submission), device))
        same = "Published: 12 layers of width 768, trained on the Pile at 1,024 tokens; the test split, by the site."
        return [*panels, *differences_from_paper(RULES, scale, list(TASKS), models, same, rules)]

    cells = [
        Cell(AnswersKey(task, column), lambda task=task, i=i: [planned(task)[i]], label=task)
        for task in TASKS
        for i, column in enumerate(models)
    ]
    return Recipe(
        title="BiPE, Table 1: questions about long inputs (SCROLLS)",
        description=described(__name__),
        grid=Grid(cells),
        report=report,
    )


def by_name(checkpoints: Sequence[str]) -> dict[str, str]:
    """The paths of checkpoints, each by the name before it or by its own last one.

    >>> by_name(["rope=runs/a", "runs/a/model", "runs/a=b"])
    {'rope': 'runs/a', 'model': 'runs/a/model', 'a=b': 'runs/a=b'}
    """
    paths = {}
    for checkpoint in checkpoints:
        name, equals, path = checkpoint.partition("=")
        name, path = (name, path) if equals and "/" not in name else (Path(checkpoint).name, checkpoint)
        if paths.setdefault(name, path) is not path:
            raise Error(f"Two checkpoints have one name: {', '.join(checkpoints)}. Give each its own, as NAME=PATH.")
    return paths


def language_models_first(scale: Scale, window: int, **source: Any) -> Grid[str]:
    """The language models of Figures 4 and 5 that the table has; randomized places where they reach so far."""
    cells = {cell.key: cell for figure in (recipe_4, recipe_5) for cell in figure(scale, **source).grid.cells}
    reach = RANDOMIZED * settings_of(RULES_4[scale], "*", "*")["train_length"]
    return Grid([cells[name] for name in PUBLISHED if name != "randomized" or window <= reach])


def compared(finished: Mapping[AnswersKey, Sequence[Run]]) -> Panel:
    """A row for each task with the published one below it, and the averages; the mean of the seeds."""
    names = list(dict.fromkeys(key.column for key in finished))
    scores = {key: statistics.fmean(run.result["answers"]["score"] for run in runs) for key, runs in finished.items()}
    for name in names:
        mine = [scores[key] for key in finished if key.column == name]
        if len(mine) == len(TASKS):
            scores[AnswersKey(AVERAGE, name)] = statistics.fmean(mine)
    published = {
        AnswersKey(task, name): number
        for name in names
        for task, number in zip([*TASKS, AVERAGE], PUBLISHED.get(name, ()), strict=False)
    }
    rows, data = [], []
    for task in (*TASKS, AVERAGE):
        keys = [AnswersKey(task, name) for name in names]
        if not any(key in scores for key in keys):
            continue
        metric = TASKS[task].metric if task in TASKS else ""
        rows.append([task, metric, *(_score_text(scores.get(key)) for key in keys)])
        rows.append(["  published", "", *(_score_text(published.get(key)) for key in keys)])
        data.append(
            {
                "task": task,
                "metric": metric,
                "scores": {key.column: scores.get(key) for key in keys},
                "published": {key.column: published.get(key) for key in keys},
            }
        )
    questions = sorted({run.result["answers"]["questions"] for runs in finished.values() for run in runs})
    caption = (
        "Scores in percent, measured on the validation split by the weights of the best validation loss; published: on "
        "the test split, whose references the site keeps. rouge: the geometric mean of ROUGE-1, -2 and -L. Each score "
        f"is of {' to '.join(f'{n:,}' for n in dict.fromkeys([questions[0], questions[-1]]))} questions."
    )
    return Table("SCROLLS", caption, ["task", "metric", *names], rows, data=data)


def _score_text(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"


def submitted(finished: Mapping[AnswersKey, Sequence[Run]], data: str, folder: Path, device: str) -> Panel:
    """The answers of each column's first seed to the test split, in a file for the site."""
    rows, left = [], {}
    for name in dict.fromkeys(key.column for key in finished):
        file = folder / f"{name}.csv"
        for key, (run, *_) in finished.items():
            if key.column == name:
                answers = measure_answers(
                    run.path,
                    data,
                    split="test",
                    device=device,
                    precision="bf16" if run.experiment.training.precision == "bf16" else "fp32",
                    tokens_at_once=run.experiment.objective.tokens_at_once,
                )
                left[name] = write_submission(file, {key.task: answers.tasks[key.task].answers})
        rows.append([name, str(file), ", ".join(left[name]) or "nothing"])
    caption = "Answers to the test split. The site wants all seven tasks in one file."
    return Table("Submissions", caption, ["", "file", "lacks"], rows, data=left)
