"""SCROLLS: long inputs, each with an answer to write, of seven tasks; from files of its schema or from the hub.

FOLDER           a copy on this machine: TASK/SPLIT.jsonl (.json, .parquet), or TASK.zip with TASK/SPLIT.jsonl in it
hf:tau/scrolls   the data set on the hub, whose files are downloaded once; any other of the schema too
hf:FOLDER        a folder that Hugging Face datasets can read, with the tasks as its configurations

A row has the columns id, pid, input and output. Where an input has several right answers, several rows have its id;
`grouped` makes one question of them. The outputs of the test split are held by the benchmark's site.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import Error, UnknownName, import_extra
from ..files import naming, open_file
from . import documents

HUB = "hf:tau/scrolls"
Metric = Literal["rouge", "f1", "exact match"]
Split = Literal["train", "validation", "test"]
COLUMNS = ("id", "input", "output")
SUFFIXES = (".jsonl", ".json", ".parquet")


class ScrollsTask(NamedTuple):
    metric: Metric
    budget: int
    """How many tokens an answer has at most unless another number is asked for; our choice, for none is published."""


TASKS = {
    "qasper": ScrollsTask("f1", 128),
    "contract_nli": ScrollsTask("exact match", 16),
    "qmsum": ScrollsTask("rouge", 256),
    "narrative_qa": ScrollsTask("f1", 64),
    "summ_screen_fd": ScrollsTask("rouge", 256),
    "gov_report": ScrollsTask("rouge", 1024),
    "quality": ScrollsTask("exact match", 128),
}
"""In the order of BiPE's Table 1, by the names that the data set has for them."""


class Row(NamedTuple):
    id: str
    input: str
    output: str | None
    """None: nobody but the site knows it."""


class Question(NamedTuple):
    id: str
    input: Any
    """The text, or what was made of it."""
    outputs: tuple[str, ...]
    """Every right answer; none where they are held by the site."""


def check(task: str) -> ScrollsTask:
    if task not in TASKS:
        raise UnknownName("task of SCROLLS", task, TASKS)
    return TASKS[task]


def rows(source: str | Path, task: str, split: Split) -> Iterator[Row]:
    """The rows of a split, one after the other; a whole split of long inputs may not fit the memory."""
    check(task)
    name = f"{source}: {task}, {split}"
    count = 0
    try:
        for row in (
            _hub(str(source)[3:], task, split) if str(source).startswith("hf:") else _folder(source, task, split)
        ):
            yield _row(row, f"{name}, row {count + 1}", split)
            count += 1
    except UnicodeDecodeError as error:
        raise Error(f"{name}: text must be UTF-8, got other bytes ({error}). Convert it.") from error
    if not count:
        raise Error(f"{name}: the split is empty. Give a copy of the data set that has rows in it.")


def grouped(rows: Iterable[tuple[str, Any, str | None]]) -> list[Question]:
    """One question for each id, with the outputs of all its rows.

    >>> grouped([Row("1", "Why?", "so"), Row("2", "Who?", "I"), Row("1", "Why?", "therefore")])[0].outputs
    ('so', 'therefore')
    """
    inputs: dict[str, Any] = {}
    outputs: dict[str, list[str]] = {}
    for id, text, output in rows:
        inputs.setdefault(id, text)
        outputs.setdefault(id, []).extend([] if output is None else [output])
    return [Question(id, text, tuple(outputs[id])) for id, text in inputs.items()]


def digest(rows: Iterable[Row]) -> str:
    """Returns the digest of all rows in their order."""
    whole = hashlib.sha256()
    for _ in digested(rows, whole):
        pass
    return whole.hexdigest()


def digested(rows: Iterable[Row], whole: Any) -> Iterator[Row]:
    """The rows, each added to the hash before it is given."""
    for row in rows:
        whole.update(json.dumps(row).encode() + b"\n")
        yield row


def _row(row: Any, name: str, split: Split) -> Row:
    needed = COLUMNS[:2] if split == "test" else COLUMNS
    columns = list(row) if isinstance(row, dict) else []
    if missing := [column for column in needed if column not in columns]:
        got = ", ".join(columns) or type(row).__name__
        raise Error(
            f"{name}: a row must have the columns id, input and output, got {got}: {', '.join(missing)} is missing. "
            "Rename the columns in a copy on this machine."
        )
    id, text, output = (row.get(column) for column in COLUMNS)
    if split == "test" and not output:
        output = None
    elif not isinstance(output, str):
        text = None
    if not isinstance(id, str) or not isinstance(text, str):
        got = ", ".join(type(row.get(column)).__name__ for column in COLUMNS)
        raise Error(f"{name}: id, input and output must be texts, got {got}. Convert them in a copy on this machine.")
    return Row(id, text, output)


def _folder(source: str | Path, task: str, split: Split) -> Iterator[Any]:
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise Error(
            f"{source}: no such folder. Give the folder of a copy of SCROLLS, or {HUB}. {_how_to_copy('tau/scrolls')}"
        )
    for suffix in SUFFIXES:
        if (file := folder / task / f"{split}{suffix}").is_file():
            return _listed(file)
    if (archive := folder / f"{task}.zip").is_file():
        return _zipped(archive, task, split)
    raise Error(
        f"{source}: there is neither {task}/{split}.jsonl (.json, .parquet) nor {task}.zip in it. "
        f"{_how_to_copy('tau/scrolls')}"
    )


def _how_to_copy(name: str) -> str:
    return (
        f"With a connection, hf download {name} --repo-type dataset --local-dir FOLDER makes a copy; name its folder."
    )


def _listed(file: Path) -> Iterator[Any]:
    with naming(file):
        yield from (row for _, row in documents.items(file, "rows"))


def _zipped(archive: Path, task: str, split: Split) -> Iterator[Any]:
    """As the hub has them: TASK/SPLIT.jsonl in TASK.zip."""
    try:
        with (
            naming(archive),
            open_file(archive) as file,
            zipfile.ZipFile(file) as opened,
            opened.open(f"{task}/{split}.jsonl") as lines,
        ):
            texts = (line.decode() for line in lines)
            yield from (row for _, row in documents.json_lines(texts, f"{archive}/{split}.jsonl"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise Error(
            f"{archive}: there is no whole {task}/{split}.jsonl in it ({error}). {_how_to_copy('tau/scrolls')}"
        ) from error


def _hub(name: str, task: str, split: Split) -> Iterator[Any]:
    try:
        yield from (_configuration if Path(name).expanduser().exists() else _download)(name, task, split)
    except Error:
        raise
    except Exception as error:  # the hub, the network and the readers of files have no error in common
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Error(
            f"hf:{name}: {task}, {split} could not be read: {reason.rstrip('.')}. {_how_to_copy(name)}"
        ) from error


def _download(name: str, task: str, split: Split) -> Iterator[Any]:
    """The task's zip; of a data set without one its configuration."""
    from huggingface_hub import errors, hf_hub_download

    try:
        archive = Path(hf_hub_download(name, f"{task}.zip", repo_type="dataset"))
    except errors.LocalEntryNotFoundError:
        raise  # there is no connection
    except errors.EntryNotFoundError:
        return _configuration(name, task, split)
    return _zipped(archive, task, split)


def _configuration(name: str, task: str, split: Split) -> Iterator[Any]:
    datasets = import_extra("datasets", "datasets", f"hf:{name}")
    return iter(datasets.load_dataset(str(Path(name).expanduser()), task, split=split, streaming=True))


def named(tasks: Sequence[str]) -> list[str]:
    """Returns these tasks, each once and in the order of the table; all where none is named."""
    for task in tasks:
        check(task)
    return [task for task in TASKS if task in tasks] if tasks else list(TASKS)
