"""Records: one directory a run, named by its experiment's hash, whose config.json must hash to that name.

A record is checked once, with types, when it is read; nobody checks later. A shape is an `Is`, an object of shapes (a
key with ? may be missing, others may stand beside), or `Each` of one shape.

`train/directory.py` says which files it holds. The weights of a run on strings are `model.safetensors` (the last) and
`best.safetensors` (of the best validation); a run on text has a folder `model/` that transformers loads. A model or
task from outside the library has its source in `model.py` or `task.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    import pandas

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
    """What of an experiment, its "model" or its "task", is code from outside the library."""
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
    names = (experiment.hash, experiment.hash_as_given)
    if content.get("hash") in names and not path.resolve().name.endswith(names):
        raise RecordError(
            f"{path}: renamed, and otherwise whole. Name it {experiment.directory} again, for by that name it is found."
        )
    read_config(path)
    if content.get("hash", experiment.hash) not in names:
        raise RecordError(
            f"{file}: of another experiment ({content['hash']}) than its config ({experiment.hash}). Restore both, or "
            f"delete {path} to run it again."
        )
    metrics = path / "metrics.jsonl"
    lines, again = enumerate(read_bytes(metrics).splitlines(), 1), f"Delete {path} to run it again."
    rows = [parse_json(line, f"{metrics}, line {number}", again) for number, line in lines]
    try:
        _check_result(content, experiment)
    except Error as error:
        raise _damaged(file, f"no record of this version of Lengthwise: {error}.") from error
    try:
        _check_metrics(rows)
    except Error as error:
        raise _damaged(metrics, f"no metrics of this version of Lengthwise: {error}.") from error
    return Run(path, experiment, content, rows)


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


MOST = 10**18


class Is(NamedTuple):
    words: str
    holds: Callable[[Any], bool]


class Each(NamedTuple):
    """An object with these keys and no others, or with any, whose values all have one shape."""

    shape: Any
    keys: frozenset[str] | None = None


def _number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < MOST)


TEXT = Is("a text", lambda value: isinstance(value, str))
FLAG = Is("true, false or null", lambda value: value is None or isinstance(value, bool))
MAYBE_TEXT = Is("a text or null", lambda value: value is None or isinstance(value, str))
WHOLE = Is("a whole number from 0", lambda value: type(value) is int and 0 <= value < MOST)
COUNT = Is("a whole number from 1", lambda value: type(value) is int and 1 <= value < MOST)
NUMBER = Is("a number", _number)
FINITE = Is("a finite number", lambda value: _number(value) and math.isfinite(value))
MAYBE_NUMBER = Is("a number or null", lambda value: value is None or _number(value))
SHARE = Is("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1)
SECONDS = Is("a number from 0", lambda value: _number(value) and 0 <= value < MOST)
PLAIN = Is("a text, a number or null", lambda value: value is None or isinstance(value, str) or _number(value))

CODE = {"version": TEXT, "commit": MAYBE_TEXT, "clean": FLAG}
RESULT = {
    "date": TEXT,
    "command": MAYBE_TEXT,
    "steps": WHOLE,
    "parameters": WHOLE,
    "seconds": {"train": SECONDS, "evaluate": SECONDS},
    "machine": Each(PLAIN),
    "code?": CODE,
    "folders?": Each(TEXT),
}
METRICS: dict[str, Any] = {
    "train": {"step": WHOLE, "loss": FINITE, "length?": WHOLE, "accuracy?": SHARE},
    "validation": {"step": WHOLE, "loss": NUMBER, "accuracy?": SHARE},
    "speed": {"step": WHOLE, "tokens_per_second": NUMBER},
    "sample": {"step": WHOLE, "text": TEXT},
}
"""A line of metrics.jsonl, by its `kind`."""


def _check_result(result: Mapping[str, Any], experiment: Experiment) -> None:
    """Raises unless the result is one of this experiment."""
    lengths = frozenset(map(str, experiment.tests.lengths))
    if experiment.on_text:

        def measured(value: Any) -> Any:
            by_length = isinstance(value, Mapping) and "losses" in value
            return {"step": WHOLE, **({"losses": Each(MAYBE_NUMBER, lengths)} if by_length else {"perplexity": NUMBER})}

        before = "before" if experiment.from_checkpoint else "before?"
        best = {"step": WHOLE, "validation": {"loss": NUMBER}}
        shape = {**RESULT, "checkpoints": {"last": measured, before: measured, "best?": best}}
        if isinstance(experiment.data, AnswersSpec):
            shape["answers"] = {"metric": TEXT, "score": NUMBER, "questions": WHOLE, "step": WHOLE}
    else:
        # The number of samples is checked before it is asked for.
        scores = Is("a number from 0 to samples", lambda value: _number(value) and 0 <= value <= result["samples"])
        tested = {"step": WHOLE, "correct": Each(scores, lengths), "overflowed?": Each(WHOLE)}
        best = {**tested, "validation?": {"accuracy": NUMBER, "loss": NUMBER}}
        shape = {**RESULT, "samples": COUNT, "baseline": Each(SHARE, lengths)}
        shape["checkpoints"] = {"last": tested, "best": best}
    _fit(result, shape, "")


def _check_metrics(lines: Iterable[Any]) -> None:
    """Raises unless these are lines of a run's metrics. Kinds that are not known are left as they are."""
    for number, line in enumerate(lines, 1):
        _fit(line, {"kind": TEXT, "step": WHOLE}, f"line {number}")
        _fit(line, METRICS.get(line["kind"], {}), f"line {number}")


def _fit(value: Any, shape: Any, where: str) -> None:
    shape = shape(value) if callable(shape) else shape
    if isinstance(shape, Is):
        if not shape.holds(value):
            raise Error(f"{where} must be {shape.words}, got {in_words(value):.40}")
        return
    if not isinstance(value, Mapping):
        raise Error(f"{where} must be an object, got {in_words(value):.40}")
    before = f"{where}." if where else ""
    if isinstance(shape, Each):
        if shape.keys is not None and (odd := value.keys() ^ shape.keys):
            raise Error(f"{where} {'has' if min(odd) in value else 'lacks'} {min(odd):.40}")
        for key, part in value.items():
            _fit(part, shape.shape, before + key)
        return
    for key, part in shape.items():
        name = key.removesuffix("?")
        if name in value:
            _fit(value[name], part, before + name)
        elif name == key:
            raise Error(f"{before}{name} is missing")


class Found(NamedTuple):
    """What stands at or below some paths."""

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

    def to_frame(self) -> pandas.DataFrame:
        """The runs as `report.frame` has them: a row for each run and test length."""
        return notebooks.report_room().frame(self)

    def html(self, path: Path | str) -> Path:
        """Writes the page of these runs and returns its path."""
        return notebooks.report_room().html(self, path)

    def _repr_html_(self) -> str:
        from .notebook_view import runs_table

        return runs_table(self)


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
            begun += sorted(p.parent for p in path.rglob("config.json") if _looks_like_a_run(p))
    if not finished:
        raise RecordError(
            f"{', '.join(map(str, places))}: no finished run here. Unfinished ones go on when started again."
        )
    ended = dict.fromkeys(finished)
    return list(ended), [path for path in dict.fromkeys(begun) if path not in ended]


def _looks_like_a_run(config: Path) -> bool:
    """Whether a config.json is that of a run, and not of a model in it."""
    return (config.parent / "state").is_dir() or (config.parent / "metrics.jsonl").exists()
