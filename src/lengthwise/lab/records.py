"""Records: one directory a run, named by its experiment's hash, whose config.json must hash to that name.

`train/directory.py` says which files it holds. The weights of a run on strings are `model.safetensors` (the last) and
`best.safetensors` (of the best validation); a run on text has a folder `model/` that transformers loads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Error, RecordError
from ..files import Tensors, read_json, read_tensors
from ..train.directory import Directory, read_result
from .experiment import Experiment

FORMAT = 1
"""What the fields of result.json mean."""


class RunDirectory(Directory):
    """The directory of one experiment under `root`; if only one named by `hash_as_given` is there, that one."""

    def __init__(self, root: Path, experiment: Experiment):
        path, earlier = Path(root) / experiment.directory, Path(root) / experiment.directory_as_given
        super().__init__(earlier if earlier.exists() and not path.exists() else path, experiment.to_json())
        self.experiment = experiment

    def check_config(self) -> None:
        read_config(self.path)


class Run(NamedTuple):
    """A finished run, read back and verified."""

    path: Path
    experiment: Experiment
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    def tensors(self, which: str = "model") -> Tensors:
        """The weights: `model` (the last) or `best` (best validation)."""
        return read_tensors(self.path / f"{which}.safetensors")[0]


def read_config(path: Path) -> Experiment:
    """The experiment of the run directory `path`, which must hash to the directory's name."""
    try:
        experiment = Experiment.from_json(read_json(path / "config.json"))
    except RecordError:
        raise
    except Error as error:
        raise RecordError(f"{path / 'config.json'}: {error}") from error
    path = path.resolve()
    if not path.name.endswith((experiment.hash, experiment.hash_as_given)):
        raise RecordError(
            f"{path / 'config.json'}: edited since it was written (it hashes to {experiment.hash}, the directory "
            f"says {path.name.rsplit('-', 1)[-1]}). Restore it, or delete {path} to run it again."
        )
    return experiment


def read_run(path: Path) -> Run:
    """A finished run, every file checked against its digest."""
    path = Path(path)
    content = read_result(path)
    if content.get("format") != FORMAT:
        raise RecordError(
            f"{path / 'result.json'}: written in format {content.get('format')}, and this Lengthwise reads {FORMAT}. "
            f"Delete {path} to run it again."
        )
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return Run(path, read_config(path), content, metrics)


def load(paths: list[Path] | list[str] | Path | str) -> list[Run]:
    """All finished runs at or below the given paths, in the order of their names."""
    if isinstance(paths, (str, Path)):
        paths = [Path(paths)]
    finished: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise RecordError(f"{path}: no such file or directory. Give a run directory, or one that holds some.")
        finished += [path] if (path / "result.json").exists() else sorted(p.parent for p in path.rglob("result.json"))
    if not finished:
        raise RecordError(
            f"{', '.join(map(str, paths))}: no finished run here. Unfinished ones go on when started again."
        )
    return [read_run(path) for path in dict.fromkeys(finished)]
