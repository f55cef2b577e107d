"""Table 2: the language models of several encodings on benchmarks of texts no longer than those of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from ....evaluate.benchmarks import BENCHMARKS, BenchmarkScore, check_found, score_benchmarks
from ....lab import Experiment, Run
from ....lab.loading import model_folder
from ....lab.measurements import run_at
from ....models import pretrained
from ....options import at_least
from ....report import Panel, Table
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid
from ...common.rules import described, differences_from_paper, table_of
from ...common.text_grid import SegmentOptions
from .figure_4 import RULES
from .figure_4 import recipe as recipe_4
from .figure_5 import recipe as recipe_5
from .table_1 import by_name

PUBLISHED: dict[str, list[float]] = table_of(__name__)["published"]
"""By column, the score of each benchmark in the order of `BENCHMARKS`, in percent."""
LIMITS: dict[Scale, int | None] = {"smoke": 2, "laptop": 100, "paper": None}


def recipe(
    scale: Scale,
    *,
    checkpoint: Annotated[
        Sequence[str], "NAME=PATH of a run or a checkpoint, such as bipe-rope=runs/…; repeat it for more."
    ] = (),
    benchmark: Annotated[Sequence[str], "A task of lm-eval; repeat it for more; none: the six of the table."] = (),
    copies: Annotated[str | None, "A folder with copies of the benchmarks' data, each named by its task."] = None,
    tasks: Annotated[str | None, "A folder of lm-eval's YAML, for tasks of your own."] = None,
    limit: Annotated[int | None, at_least(1), "Questions of each task at most; None: as the scale says."] = None,
    max_length: Annotated[int, at_least(2), "Tokens of a prompt with its answer at most."] = 1024,
    **source: SegmentOptions,
) -> Recipe:
    """RACE, WinoGrande, TruthfulQA, PIQA, HellaSwag and MMLU by lm-eval: --set checkpoint=rope=PATH.

    Without a checkpoint the models of Figures 4 and 5 are trained first.
    """
    checkpoints = by_name(checkpoint)
    names = list(benchmark) or list(BENCHMARKS)
    most = LIMITS[scale] if limit is None else limit
    figures = () if checkpoints else (recipe_4, recipe_5)
    first = {cell.key: cell for figure in figures for cell in figure(scale, **source).grid.cells}

    @cache
    def check() -> None:
        check_found(names, copies=copies, tasks=tasks)

    def planned(cell: Cell[str]) -> list[Experiment]:
        check()  # before hours of training
        return cell.experiments[:1]

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        folders = {name: _folder(path) for name, path in checkpoints.items()}
        folders |= {name: str(model_folder(runs[0])) for name, runs in finished.items()}
        scores = {
            name: score_benchmarks(
                folder, names, copies=copies, tasks=tasks, limit=most, max_length=max_length, device=device
            )
            for name, folder in folders.items()
        }
        same = "The optimiser, the layers and how the benchmarks are asked are as published."
        differing = [] if checkpoints else differences_from_paper(RULES, scale, ["*"], list(finished), same)
        return [compared(scores, names, most), *differing]

    return Recipe(
        title="BiPE, Table 2: benchmarks of usual length",
        description=described(__name__),
        grid=Grid(
            [Cell(name, lambda name=name: planned(first[name]), label=name) for name in PUBLISHED if name in first]
        ),
        report=report,
    )


def _folder(path: str) -> str:
    run = run_at(Path(path).expanduser())
    return str(pretrained.find(str(model_folder(run)) if run else path).folder)


def compared(scores: Mapping[str, Mapping[str, BenchmarkScore]], names: Sequence[str], most: int | None) -> Panel:
    """A row for each model with the published one below it."""
    rows, data = [], []
    for name, by_task in scores.items():
        published = dict(zip(BENCHMARKS, PUBLISHED.get(name, ()), strict=False))
        rows.append([name, *(_score_text(by_task[task]) for task in names)])
        rows.append(["  published", *(f"{published[task]:.2f}" if task in published else "–" for task in names)])
        data.append(
            {
                "model": name,
                "scores": {task: by_task[task]._asdict() for task in names},
                "published": {task: published.get(task) for task in names},
            }
        )
    caption = (
        "Accuracy in percent, of HellaSwag normalised by the length of the answers, ± its standard error; by lm-eval. "
        f"{f'At most {most:,} questions of each task.' if most else 'All questions.'}"
    )
    return Table("Benchmarks of usual length", caption, ["", *names], rows, data=data)


def _score_text(score: BenchmarkScore) -> str:
    error = "" if score.error is None or score.error != score.error else f" ± {100 * score.error:.1f}"
    return f"{100 * score.value:.2f}{error}"
