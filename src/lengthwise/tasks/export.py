"""Test strings as files: one JSON-lines file a length, and a data card with which `datasets.load_dataset` reads them.

The strings are those of `task.test_set(length, samples, seed)`, the same that the bench tests on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path

import torch

from ..errors import Error
from ..limits import LENGTHS
from .base import Batch, Task


def export(task: Task, lengths: Iterable[int], samples: int, directory: str | Path, seed: int = 0) -> Path:
    """Write `samples` test strings of every length to `directory` (new or empty), which is returned.

    Each line of `data/length_40.jsonl` is one string, without padding: `text`, `tokens`, `targets` (the answer after
    every prefix), `mask` (the positions that have a question) and `answer` (the last target, or, where the answer is a
    text, all targets in the mask).
    """
    lengths = lengths if isinstance(lengths, Sequence) else list(lengths)
    LENGTHS.check(len(lengths), "export")
    lengths = sorted(set(lengths))
    directory = Path(directory)
    if not lengths or samples < 1:
        raise Error(f"export: needs at least one length and one sample, got {lengths} and {samples}.")
    for length in lengths:
        task.check(length)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Error(f"export: {directory} is not an empty directory. Name a new one.")
    try:
        (directory / "data").mkdir(parents=True)
        for length in lengths:
            with open(directory / "data" / f"{split_name(length)}.jsonl", "w", encoding="utf-8") as file:
                for part in task.test_parts(length, samples, seed):
                    file.writelines(rows(task, part))
        (directory / "README.md").write_text(card(task, lengths, samples, seed), encoding="utf-8")
    except OSError as error:
        raise Error(f"export: cannot write to {directory}: {error.strerror}. Name another directory.") from error
    return directory


def split_name(length: int) -> str:
    return f"length_{length}"


def in_full(task: Task) -> bool:
    """Whether a string's answer is all its targets, such as a text, rather than the last one."""
    return task.kind == "class" and task.scoring == "every"


def rows(task: Task, batch: Batch) -> Iterable[str]:
    """One JSON line for each string."""
    targets = batch.targets.int() if batch.targets.dtype == torch.bool else batch.targets
    for tokens, target, mask in zip(batch.tokens.tolist(), targets.tolist(), batch.mask.tolist(), strict=True):
        end = sum(token != task.padding for token in tokens)
        tokens, target, mask = tokens[:end], target[:end], mask[:end]
        answer = list(compress(target, mask)) if in_full(task) else target[-1]
        row = {"text": task.write(tokens), "tokens": tokens, "targets": target, "mask": mask, "answer": answer}
        yield json.dumps(row, ensure_ascii=False) + "\n"


def card(task: Task, lengths: list[int], samples: int, seed: int) -> str:
    """The data card: YAML front matter that names the splits, then what the fields mean and how to rebuild the data."""
    files = "".join(
        f"      - split: {split_name(length)}\n        path: data/{split_name(length)}.jsonl\n" for length in lengths
    )
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

One split for each length. A line holds

- `text`: the string as it is written
- `tokens`: the same as numbers
- `targets`: the answer after every prefix: {answers}
- `mask`: true where there is a question (supervision: {task.supervision})
- `answer`: {"all targets in the mask" if in_full(task) else "the last target"}

Read it with `datasets.load_dataset("PATH OF THIS DIRECTORY")`. It is rebuilt, string for string, by

```python
from lengthwise import tasks
task = tasks.get({task.name!r}{params})
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
    """The first line of the docstring of the task's class."""
    return (type(task).__doc__ or "").strip().splitlines()[0]
