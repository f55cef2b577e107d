"""RULER and BABILong from files on this machine, as tasks of lm-eval.

    write_ruler("tasks", {"niah_single_1_4096": "ruler/4096/niah_single_1/validation.jsonl"})
    lm_eval --include_path tasks --tasks ruler_niah_single_1_4096 …

The files are those that RULER's generator writes (`input`, `outputs`, and `answer_prefix` where it is apart), and
BABILong's (`input`, `question`, `target`). Nothing is downloaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Error
from ..files import naming, write_text
from ..text import documents
from . import benchmark_scores
from .benchmark_scores import LABELS

KINDS = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}
"""How many tokens RULER lets a model write, by how the names of its tasks begin."""
INPUT = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}
"""How datasets reads a file, by its suffix."""
QUOTED = {"file", "prompt", "target"}
"""What stands in a task as a string of JSON, which YAML reads as it is."""
SCORES = "benchmark_scores.py"
TASK = """\
task: {name}
dataset_path: {reader}
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: {prompt}
doc_to_target: {target}
process_results: !function {scores}
metric_list: [{{metric: {metric}, aggregation: mean, higher_is_better: true}}]
generation_kwargs: {{do_sample: false, max_gen_toks: {budget}, until: []}}
metadata: {{version: 1.0}}
"""


def write_ruler(folder: Path | str, files: Mapping[str, Path | str]) -> list[str]:
    """A task for each of RULER's files, which are named as its tasks are, such as niah_single_1 or vt_8192.

    Gives the names by which lm-eval knows the tasks. Their metric is `found`.
    """
    return _write(folder, {name: _ruler(name, Path(file)) for name, file in files.items()})


def write_babilong(folder: Path | str, files: Mapping[str, Path | str], instruction: str = "") -> list[str]:
    """A task for each of BABILong's files, which are named as its tasks are, such as qa1 or qa2_4k.

    Gives the names by which lm-eval knows the tasks. Their metric is `right`. `instruction` stands before every text:
    published numbers are of prompts that explain the task and show examples.
    """
    return _write(folder, {name: _babilong(name, Path(file), instruction) for name, file in files.items()})


def _ruler(name: str, file: Path) -> dict[str, Any]:
    kind = re.match(r"[a-z]+", name)
    if kind is None or kind[0] not in KINDS:
        raise Error(
            f"{name}: RULER's tasks begin with {', '.join(KINDS)}. Name the file by its task, as niah_single_1."
        )
    fields = _fields(file, {"input", "outputs"})
    prompt = "{{input}}{{answer_prefix}}" if "answer_prefix" in fields else "{{input}}"
    return {
        "name": f"ruler_{name}",
        "file": file,
        "prompt": prompt,
        "target": "{{outputs}}",
        "scores": "ruler_any" if kind[0] == "qa" else "ruler",
        "metric": "found",
        "budget": KINDS[kind[0]],
    }


def _babilong(name: str, file: Path, instruction: str) -> dict[str, Any]:
    task = name.partition("_")[0]
    if task not in LABELS:
        raise Error(
            f"{name}: of BABILong's tasks {', '.join(LABELS)} are scored. Name the file by its task, as qa1_4k."
        )
    _fields(file, {"input", "question", "target"})
    # A model's own instruction may hold what Jinja would read as its own.
    before = "{% raw %}" + instruction + "{% endraw %}" if instruction else ""
    return {
        "name": f"babilong_{name}",
        "file": file,
        "prompt": before + "{{input}}\n{{question}}\nAnswer:",
        "target": "{{target}}",
        "scores": f"babilong_{task}",
        "metric": "right",
        "budget": 16,
    }


def _fields(file: Path, needed: set[str]) -> set[str]:
    """The fields of the file's first row, which must have those needed."""
    if file.suffix not in INPUT:
        raise Error(f"{file}: data is read from {', '.join(INPUT)}, got {file.suffix or 'no suffix'!r}. Rename it.")
    with naming(file):
        _, row = next(documents.items(file, "rows"), (None, None))
    if row is None:
        raise Error(f"{file}: must hold rows of JSON, one a line or in one list. Is it the right file?")
    if not isinstance(row, dict):
        raise Error(f"{file}: a row is an object with named fields, got {type(row).__name__}.")
    if missing := needed - row.keys():
        raise Error(
            f"{file}: every row must have {', '.join(sorted(needed))}, and {', '.join(sorted(missing))} is missing."
        )
    return set(row)


def _write(folder: Path | str, tasks: Mapping[str, dict[str, Any]]) -> list[str]:
    if not tasks:
        raise Error("Name at least one file of the benchmark.")
    folder = Path(folder)
    write_text(folder / SCORES, Path(benchmark_scores.__file__).read_text(encoding="utf-8"))
    for each in tasks.values():
        file = each["file"].expanduser().resolve()
        quoted = {key: json.dumps(str(value)) for key, value in {**each, "file": file}.items() if key in QUOTED}
        scores = f"{SCORES.removesuffix('.py')}.{each['scores']}"
        text = TASK.format(**{**each, **quoted, "scores": scores, "reader": INPUT[file.suffix]})
        write_text(folder / f"{each['name']}.yaml", text)
    return [each["name"] for each in tasks.values()]
