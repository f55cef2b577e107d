"""Records: one directory a run, named by its experiment's hash, whose config.json must hash to that name.

A record is checked once, when it is read: by its digests, and by reading what every table reads. Nobody checks later.

`train/directory.py` says which files it holds. The weights of a run on strings are `model.safetensors` (the last) and
`best.safetensors` (of the best validation); a run on text has a folder `model/` that transformers loads. A model or
task from outside the library has its source in `model.py` or `task.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from .. import notebooks, own_code, tasks
from ..errors import Error, RecordError, in_words
from ..files import (
    Tensors,
    canonical,
    digest,
    digest_of,
    must_exist,
    naming,
    parse_json,
    read_bytes,
    read_json,
    read_tensors,
    restore,
    write_atomically,
)
from ..models import pretrained
from ..train.directory import Directory, SavedState
from .experiment import AnswersSpec, Experiment, ModelSpec, TaskSpec
from .statistics import CHECKPOINTS, accuracy, perplexities

FORMAT = 1
"""What the fields of result.json mean."""


SOURCES = {"model": "model.py", "task": "task.py"}
"""Where a run keeps the source of a model or task from outside the library."""


class RunDirectory(Directory):
    """The directory of one experiment under `root`; if only one named by `hash_as_given` is there, that one."""

    def __init__(self, root: Path, experiment: Experiment):
        path = Path(root) / experiment.directory
        earlier = path.with_name(path.name.replace(experiment.hash, experiment.hash_as_given))
        super().__init__(earlier if earlier.exists() and not path.exists() else path, experiment.to_json())
        self.experiment = experiment

    def check_config(self) -> None:
        read_config(self.path)

    def start(self) -> SavedState | None:
        saved = super().start()
        for what, spec in own_parts(self.experiment).items():
            base = nn.Module if what == "model" else tasks.Task
            write_atomically(self.path / SOURCES[what], own_code.text(own_code.load(spec.name, base, spec.source)))
        return saved


def own_parts(experiment: Experiment) -> dict[str, ModelSpec | TaskSpec]:
    """Returns what of an experiment, its "model" or its "task", is code from outside the library."""
    own: dict[str, ModelSpec | TaskSpec] = {}
    if own_code.is_class(experiment.model.name):
        own["model"] = experiment.model
    if isinstance(experiment.data, TaskSpec) and tasks.own.is_own(experiment.data.name):
        own["task"] = experiment.data
    return own


class Run(NamedTuple):
    """A finished run, read back and verified."""

    path: Path
    experiment: Experiment
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    def tensors(self, which: str = "model") -> Tensors:
        """The weights: `model` (the last) or `best` (best validation)."""
        return read_tensors(self.path / f"{which}.safetensors")[0]

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


def _damaged(file: Path, why: str) -> RecordError:
    return RecordError(f"{file}: {why} Delete {file.parent} to run it again.")


def read_config(path: Path) -> Experiment:
    """The experiment of the run directory `path`, which must hash to the directory's name."""
    experiment = _experiment(path)
    path = path.resolve()
    if not path.name.endswith((experiment.hash, experiment.hash_as_given)):
        raise RecordError(
            f"{path / 'config.json'}: edited since it was written (it hashes to {experiment.hash}, the directory "
            f"says {path.name.rsplit('-', 1)[-1]}). Restore it, or delete {path} to run it again."
        )
    return experiment


def _experiment(path: Path) -> Experiment:
    try:
        return Experiment.from_json(read_json(path / "config.json"))
    except RecordError:
        raise
    except Error as error:
        raise RecordError(f"{path / 'config.json'}: {error}") from error


def read_run(path: Path) -> Run:
    """A finished run, every file checked against its digest."""
    path = Path(path)
    file = path / Directory.result
    content = read_json(file)
    sealed = content.pop("sha256", None) if isinstance(content, dict) else None
    files = content.get("files") if sealed == digest(canonical(content)) else None
    if not isinstance(files, dict) or not all(Path(name).name == name for name in files):
        raise _damaged(file, "edited since it was written.")
    for name, expected in files.items():
        if digest_of(path / name, restore(path / name)) != expected:
            raise _damaged(path / name, "truncated or edited since the run ended.")
    if content.get("format") != FORMAT:
        raise _damaged(file, f"written in format {content.get('format')}, and this Lengthwise reads {FORMAT}.")
    experiment = _experiment(path)
    if not path.resolve().name.endswith((experiment.hash, experiment.hash_as_given)):
        raise RecordError(
            f"{path}: renamed, and otherwise whole. Name it {experiment.directory} again, for by that name it is found."
        )
    metrics = path / "metrics.jsonl"
    lines, again = enumerate(read_bytes(metrics).splitlines(), 1), f"Delete {path} to run it again."
    rows = [parse_json(line, f"{metrics}, line {number}", again) for number, line in lines]
    run = Run(path, experiment, content, rows)
    try:
        _check_readable(run)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"no record of this version of Lengthwise ({type(error).__name__}: {error})."
        raise _damaged(file, why) from error
    return run


def model_folder(run: Run, which: str = "last") -> Path | None:
    """The folder, as transformers loads it, of a run on text; None where its model is of another kind.

    Where no step was better than the last, it is the best too.
    """
    folders = run.result.get("folders", {})
    name = "best" if which == "best" and "best" in folders else "model"
    folder = run.path / name
    if not folder.is_dir():
        return None
    if folders.get(name, pretrained.folder_digest(folder)) != pretrained.folder_digest(folder):
        raise _damaged(folder, "edited since the run ended.")
    return folder


def _check_readable(run: Run) -> None:
    """Reads once what tables and pages read, so that a record of another make is named here, and hides no other run."""
    result, e, checkpoints = run.result, run.experiment, run.result["checkpoints"]
    numbers = [result["steps"], result["parameters"], *result["seconds"].values()]
    numbers += [each["step"] for each in checkpoints.values()]
    numbers += [row[name] for row in run.metrics if row["kind"] for name in ("step", "loss", "accuracy") if name in row]
    if e.on_text:
        for which in ("last", "before") if e.from_checkpoint else ("last",):
            sum(perplexities(run, which)[n] for n in e.tests.lengths)  # which may be no number
        numbers += [result["answers"]["score"]] if isinstance(e.data, AnswersSpec) else []
    else:
        shares = [accuracy(run, n, which) for which in CHECKPOINTS for n in e.tests.lengths]
        numbers += [*shares, *(1 - share for share in shares), *(result["baseline"][str(n)] for n in e.tests.lengths)]
    if not all(math.isfinite(n) and n >= 0 for n in numbers):
        raise ValueError("a number is below 0 or has no end, or more is right than was asked")
    "".join([result["date"], result.get("command") or "", *result["machine"]])
    set(result["machine"].values()).union(result.get("folders", {}).keys(), (result.get("code") or {}).keys())


class Found(NamedTuple):
    """The runs that stand at or below some paths."""

    runs: list[Run]
    """The finished runs that are whole, in the order of their names."""
    left_out: list[Error]
    """Why each of the others cannot be read."""
    unfinished: list[Path]


def find(paths: Sequence[Path | str] | Path | str) -> Found:
    """All runs at or below the given paths, to be reported: a damaged one hides no other."""
    finished, unfinished = _below(paths)
    runs, left_out = [], []
    for path in finished:
        try:
            runs.append(read_run(path))
        except Error as error:
            left_out.append(error)
    return Found(runs, left_out, unfinished)


class Runs(list[Run]):
    """A list of runs, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return notebooks.report_room().table(self)._repr_mimebundle_((), ())["text/html"]


def load(paths: Sequence[Path | str] | Path | str) -> Runs:
    """All finished runs at or below the given paths, in the order of their names; one that is damaged is an error."""
    return Runs(read_run(path) for path in _below(paths)[0])


def _below(paths: Sequence[Path | str] | Path | str) -> tuple[list[Path], list[Path]]:
    """The directories of finished runs and of those that are not."""
    each: list[Any] = list(paths) if isinstance(paths, (list, tuple)) else [paths]
    if not all(isinstance(path, (str, Path)) for path in each):
        got = in_words(paths)
        raise RecordError(f"load takes the path of a run or of a directory of runs, or a list of them, got {got}.")
    places = list(map(Path, each))
    finished: list[Path] = []
    begun: list[Path] = []
    for path in places:
        must_exist(path)
        with naming(path):
            if (path / "result.json").exists():
                finished.append(path)
                continue
            finished += sorted(p.parent for p in path.rglob("result.json"))
            # A model in a run has a config.json too.
            folders = sorted(p.parent for p in path.rglob("config.json"))
            begun += [p for p in folders if (p / "state").is_dir() or (p / "metrics.jsonl").exists()]
    if not finished:
        raise RecordError(
            f"{', '.join(map(str, places))}: no finished run here. Unfinished ones go on when started again."
        )
    ended = dict.fromkeys(finished)
    return list(ended), [path for path in dict.fromkeys(begun) if path not in ended]
