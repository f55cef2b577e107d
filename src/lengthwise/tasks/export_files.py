"""Strings as files: one JSON-lines or parquet file a split, and a data card with which `datasets.load_dataset` reads
them.

The test strings are those of `task.test_set(length, samples, seed)`, the same that the bench tests on, with a split for
each length. Strings to train on and to validate with are drawn as training draws them, their lengths evenly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import Error, check_extra
from ..files import read_bytes, whole_folder
from ..limits import in_figures, need_memory
from ..seeds import generator
from .base import Batch, Task
from .own import name_of

NOT_ASKED = -100
"""The label of a place without a question: the losses of torch and of transformers leave it out."""


def export(
    task: Task,
    lengths: Iterable[int],
    samples: int,
    directory: str | Path,
    seed: int = 0,
    *,
    train: int = 0,
    validation: int = 0,
    train_lengths: tuple[int, int] = (1, 40),
    format: Literal["jsonl", "parquet"] = "jsonl",
) -> Path:
    """Writes `samples` test strings of every length to `directory`, which is returned: new, empty, or of the very same
    files, which stay as they are.

    `train` and `validation` are how many strings these splits have, of lengths in `train_lengths`; 0: no such split.
    Each line of `data/length_40.jsonl` is one string, without padding: `text`, `input_ids` and `labels` as models of
    transformers take them, `tokens`, `targets` (the answer after every prefix), `mask` (the positions that have a
    question), `answer` (the last target, or, where the answer is a text, all targets in the mask) and `length`.
    """
    lengths = sorted(set(lengths))
    directory = Path(directory)
    if not lengths or samples < 1:
        raise Error(f"export: needs at least one length and one sample, got {lengths} and {samples}.")
    if min(train, validation) < 0:
        raise Error(f"export: train and validation are numbers of strings, 0 for none, got {train} and {validation}.")
    longest = max(lengths[-1], train_lengths[1])
    for count, name in ((samples, "samples"), (train, "train"), (validation, "validation")):
        need_memory(count * (1000 + 64 * longest), f"export: {in_figures(count)} strings ({name})", "Ask for fewer.")
    if format not in ("jsonl", "parquet"):
        raise Error(f"export: format must be 'jsonl' or 'parquet', got {format!r}.")
    if format == "parquet":
        check_extra("pyarrow", "parquet", "Writing parquet")
    for length in lengths:
        task.check(length)
    drawn = {name: count for name, count in (("train", train), ("validation", validation)) if count}
    text = card(task, lengths, samples, seed, drawn, format)
    possible = task.lengths(*train_lengths) if drawn else []
    there = directory / "README.md"
    again = there.is_file() and read_bytes(there) == text.encode(errors="backslashreplace")
    if not again and directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Error(f"export: {directory} is not an empty directory. Name a new one.")
    with whole_folder(directory, keep_equal=again) as beside:
        (beside / "data").mkdir()
        for name, count in drawn.items():
            _write(beside / "data" / f"{name}.{format}", _mixed(task, name, count, possible, seed))
        for length in lengths:
            made = list(rows(task, task.test_set(length, samples, seed), length))
            _write(beside / "data" / f"{split_name(length)}.{format}", made)
        (beside / "README.md").write_bytes(text.encode(errors="backslashreplace"))
    return directory


def _mixed(task: Task, split: str, count: int, lengths: list[int], seed: int) -> list[dict[str, Any]]:
    """Strings of lengths drawn evenly, in an order of their own; a function of (task, split, count, lengths, seed)."""
    source = generator("export", split, task.name, task.params, seed)
    counts = torch.randint(len(lengths), (count,), generator=source).bincount(minlength=len(lengths)).tolist()
    made = [
        row
        for length, several in zip(lengths, counts, strict=True)
        if several
        for row in rows(task, task.sample(length, several, source), length)
    ]
    return [made[i] for i in torch.randperm(count, generator=source).tolist()]


def _write(path: Path, made: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(made), path)
        return
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), "utf-8", "backslashreplace")


def split_name(length: int) -> str:
    return f"length_{length}"


def in_full(task: Task) -> bool:
    """Returns whether a string's answer is all its targets, such as a text, rather than the last one."""
    return task.kind == "class" and task.scoring in ("every", "generated")


def rows(task: Task, batch: Batch, length: int) -> Iterator[dict[str, Any]]:
    """One row for each string."""
    targets = batch.targets.int() if batch.targets.dtype == torch.bool else batch.targets
    for tokens, target, mask in zip(batch.tokens.tolist(), targets.tolist(), batch.mask.tolist(), strict=True):
        end = sum(token != task.padding for token in tokens)
        tokens, target, mask = tokens[:end], target[:end], mask[:end]
        yield {
            "text": task.write(tokens),
            "input_ids": tokens,
            "labels": [_label(each, asked) for each, asked in zip(target, mask, strict=True)],
            "tokens": tokens,
            "targets": target,
            "mask": mask,
            "answer": list(compress(target, mask)) if in_full(task) else target[-1],
            "length": length,
        }


def _label(target: Any, asked: bool) -> Any:
    """The answer where there is a question; where a place has several, those that it does not have are not asked."""
    if isinstance(target, list):
        return [_label(each, asked) for each in target]
    return target if asked and target != -1 else NOT_ASKED


def card(
    task: Task, lengths: list[int], samples: int, seed: int, drawn: dict[str, int] | None = None, format: str = "jsonl"
) -> str:
    """The data card: YAML front matter that names the splits, then what the fields mean and how to rebuild the data."""
    drawn = drawn or {}
    splits = [*drawn, *map(split_name, lengths)]
    files = "".join(f"      - split: {name}\n        path: data/{name}.{format}\n" for name in splits)
    beside = "".join(f"`{name}` has {count} strings of the training lengths. " for name, count in drawn.items())
    params = "".join(f", {key}={value!r}" for key, value in task.params.items())
    symbols = "\n".join(f"| {token} | `{symbol}` |" for token, symbol in enumerate(task.vocabulary))
    baselines = "\n".join(f"| {split_name(n)} | {samples} | {task.baseline(n):.4f} |" for n in lengths)
    answers = (
        f"one of {task.outputs} classes, 0 to {task.outputs - 1}"
        if task.kind == "class"
        else f"a set of {task.outputs} bits; a string counts as right only if every position is"
    )
    if task.questions > 1:
        answers = (
            f"{task.questions} questions, each {answers}, or -1 where a place has fewer; a string scores their mean"
        )
    return f"""---
pretty_name: {json.dumps(f"Lengthwise {task.name}")}
tags:
  - synthetic
  - length-generalisation
configs:
  - config_name: default
    data_files:
{files}---

# {task.name}

{summary(task)}

One split for each length. {beside}A row holds

- `text`: the string as it is written
- `input_ids`, `tokens`: the same as numbers
- `labels`: the targets, and -100 where there is no question. The label of a place is the answer after the string up to
  and with this place, so it is not shifted: it is what a token classifier takes
- `targets`: the answer after every prefix: {answers}
- `mask`: true where there is a question (supervision: {task.supervision})
- `answer`: {"all targets in the mask" if in_full(task) else "the last target"}
- `length`: the length as the task counts it

Read it with `datasets.load_dataset("PATH OF THIS DIRECTORY")`. The test strings are rebuilt, string for string, by

```python
from lengthwise import tasks
task = tasks.get({(name_of(task) or task.name)!r}{params})
task.test_set(length, {samples}, seed={seed})
```

| token | symbol |
|---|---|
{symbols}

The baseline is the accuracy of the best constant answer:

| split | strings | baseline |
|---|---|---|
{baselines}
"""


def summary(task: Task) -> str:
    """The first line of the docstring of the task's class, or the task's name."""
    return next(iter((type(task).__doc__ or "").strip().splitlines()), task.name)
