"""Benchmarks of lm-eval as BiPE's Table 2 asks them, for any saved model; on the hub's data or on copies of it here.

    score_benchmarks("runs/NAME/model", ["piqa", "hellaswag"], copies="copies")

A copy is a folder of the task's name with the files of its data set: hf download NAME --repo-type dataset. Tasks of
one's own are YAML files of lm-eval in the folder `tasks`; there they may also take the place of lm-eval's.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Error, check_extra
from ..files import write_text


class Benchmark(NamedTuple):
    data: str
    """The data set on the hub."""
    shots: int | None
    """How many solved examples stand before each question; None: as many as its file says."""
    metric: str = "acc"


BENCHMARKS = {
    "race": Benchmark("EleutherAI/race", 0),
    "winogrande": Benchmark("allenai/winogrande", 0),
    "truthfulqa_mc2": Benchmark("truthfulqa/truthful_qa", 0),
    "piqa": Benchmark("baber/piqa", 0),
    "hellaswag": Benchmark("Rowan/hellaswag", 10, "acc_norm"),
    "mmlu": Benchmark("cais/mmlu", 5),
}
"""By lm-eval's names."""
OWN = Benchmark("its data", None)
"""A task of the user's own is asked as its file says."""


class BenchmarkScore(NamedTuple):
    value: float
    """A share, from 0 to 1."""
    error: float | None
    """Its standard error."""


def check_found(names: Sequence[str], *, copies: Path | str | None = None, tasks: Path | str | None = None) -> None:
    """Raises unless lm-eval knows all of these and their data can be read."""
    with _found(names, copies, tasks):
        pass


def score_benchmarks(
    model: Path | str,
    names: Sequence[str] = tuple(BENCHMARKS),
    *,
    copies: Path | str | None = None,
    tasks: Path | str | None = None,
    limit: int | None = None,
    max_length: int = 1024,
    device: str = "cpu",
) -> dict[str, BenchmarkScore]:
    """The score of a saved folder on each of these.

    `limit`: at most so many questions of each task; None: all. Prompts are cut to their last `max_length` tokens. All
    data is found before the first question is asked.
    """
    with _found(names, copies, tasks) as manager:
        from lm_eval.evaluator import simple_evaluate  # pyright: ignore[reportMissingImports]

        from .harness import LengthwiseLM

        subject = LengthwiseLM(pretrained=str(model), device=device, batch_size=8, max_length=max_length)
        scores = {}
        for name in names:
            benchmark = BENCHMARKS.get(name, OWN)
            results: Any = simple_evaluate(
                model=subject,
                tasks=[name],
                num_fewshot=benchmark.shots,
                limit=limit,
                task_manager=manager,
                bootstrap_iters=1000,
                log_samples=False,
            )
            scores[name] = _score(results["results"], name, benchmark)
    return scores


@contextmanager
def _found(names: Sequence[str], copies: Path | str | None, tasks: Path | str | None) -> Iterator[Any]:
    """Yields lm-eval's finder of tasks; raises unless it knows these and can read their data."""
    check_extra("lm_eval", "harness", "A benchmark of lm-eval")
    with tempfile.TemporaryDirectory() as written:
        folders = [str(Path(folder).expanduser()) for folder in (tasks,) if folder is not None]
        if copies is not None:
            _use_copies(Path(copies).expanduser(), names, _manager(tuple(folders)), Path(written))
            folders.append(written)
        manager = _manager(tuple(folders))
        for name in names:
            _find(manager, name)
        yield manager


@lru_cache(maxsize=4)
def _manager(folders: tuple[str, ...]) -> Any:
    """Returns lm-eval's finder of its tasks and of those here. It reads thousands of files, so it is kept."""
    from lm_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]

    return TaskManager(include_path=list(folders))


def _find(manager: Any, name: str) -> None:
    """Raises unless lm-eval knows the task and its data can be read."""
    if name not in manager.task_index:
        raise Error(
            f"{name}: lm-eval has no such task. Name one of its own, such as {', '.join(BENCHMARKS)}, or give the "
            "folder of its YAML as tasks."
        )
    try:
        manager.load([name])
    except Exception as error:  # the hub, the network, readers of files and tasks have no error in common
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        data = BENCHMARKS.get(name, OWN).data
        remedy = (
            f"Without a connection, copy it here (hf download {data} --repo-type dataset --local-dir "
            f"FOLDER/{name}) and give copies=FOLDER."
            if name in BENCHMARKS
            else "See whether the files that its YAML names are there."
        )
        raise Error(f"{name}: {data} could not be read: {reason.rstrip('.')}. {remedy}") from error


def _use_copies(copies: Path, names: Sequence[str], manager: Any, written: Path) -> None:
    """Tasks that read copies in the place of the hub's data; those without a copy stay as they are."""
    if not copies.is_dir():
        raise Error(f"{copies}: no such folder. A folder of copies holds one of each task's name, such as piqa.")
    there = [name for name in names if (copies / name).is_dir()]
    if not there:
        raise Error(f"{copies}: there is a copy of none of {', '.join(names)} in it. Name each folder by its task.")
    for name in there:
        entry = manager.task_index.get(name)
        if entry is None:
            continue
        beside = entry.yaml_path.parent
        parts = [
            (each, known.yaml_path)
            for each, known in manager.task_index.items()
            if known.yaml_path is not None
            and known.yaml_path.parent == beside
            and known.kind.name == "TASK"
            and (each == name or entry.kind.name == "GROUP")
        ]
        for part, file in parts:
            lines = {"include": str(file), "task": part, "dataset_path": str((copies / name).resolve())}
            write_text(
                written / f"{part}.yaml", "".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items())
            )


def _score(results: dict[str, Any], name: str, benchmark: Benchmark) -> BenchmarkScore:
    scores = results[name]
    metric = next((key for key in scores if key.partition(",")[0] == benchmark.metric), None)
    if metric is None:
        # A task of one's own has a metric of its own.
        metric = next(key for key, value in scores.items() if "," in key and "_stderr" not in key)
    error = scores.get(metric.replace(",", "_stderr,", 1))
    return BenchmarkScore(float(scores[metric]), float(error) if isinstance(error, int | float) else None)
