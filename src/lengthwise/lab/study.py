"""A whole bench in a file: what `bench --config` reads and `bench --save-config` writes.

    task = "modular-sum"
    models = ["lstm", "regular-gpt"]
    seeds = 3
    train_length = 40
    test_lengths = "41:500:20,1000"

    [settings]
    task.modulus = 3
    training.steps = 2000
    training.clip = "none"
    regular-gpt.chunk = 3

`train` has files of its own keys, with `corpus` in the place of `task`.
Numbers and lists may be written as TOML's own; a text is read as `--set` reads it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from ..errors import Error
from ..files import read_bytes, write_text
from ..options import Option, Schema, Word, at_least, option_of, schema, take
from ..own_code import in_full
from .launch import Launch


def _keys(**hints: Any) -> dict[str, Option]:
    """Keys that a file may leave to the command line."""
    return {name: option_of(name, hint, None) for name, hint in hints.items()}


_COMMON = {
    **_keys(models=list[str], seeds=Any, test_lengths=str | None, settings=dict | None, out=str, html=str | None),
    **schema(Launch),
}
KEYS: Schema = {
    **_keys(task=str | list[str], train_length=Annotated[int, at_least(1)], compare=str | None, sweep=dict | None),
    **_keys(learning_rates=str | None),  # as files were written before a sweep had them
    **_COMMON,
}
"""Of a bench; its settings stay as they are until their options are known."""
TEXT_KEYS: Schema = {
    **_keys(corpus=list[str], train_length=Annotated[int, at_least(2)], vocabulary=Annotated[int, at_least(2)]),
    **_keys(way=Literal["windows", "last-token"], tokenizer=str | None),
    **_COMMON,
}
"""Of `train`."""

NUMBER = re.compile(r"true|false|-?(0|[1-9]\d*)(\.\d+)?")


def read_study(path: Path, keys: Schema = KEYS) -> dict[str, Any]:
    """The file's keys, checked, with `settings` flat: `{"training.steps": 500}`. Nothing is filled in."""
    try:
        content = tomllib.loads(read_bytes(path, "--save-config writes one").decode())
    except ValueError as error:
        raise Error(f"{path}: not a readable TOML file: {error}.") from error
    study = take(keys, content, str(path))
    if "seeds" in study:
        listed = isinstance(study["seeds"], list) and study["seeds"]
        seeds = Option("seeds", list[int], bounds=at_least(0)) if listed else Option("seeds", int, bounds=at_least(1))
        study["seeds"] = seeds.read(study["seeds"], f"{path}: seeds")
    if null := next((name for name, value in study.items() if isinstance(value, str) and "\0" in value), None):
        raise Error(f"{path}: {null} holds a null character, which no name and no path has. Remove it.")
    for tables in ("settings", "sweep"):
        if tables in study:
            study[tables] = dict(_flat(study[tables]))
    for name, values in study.get("sweep", {}).items():
        study["sweep"][name] = list(map(_word, values)) if isinstance(values, list) else values
    if rates := study.pop("learning_rates", None):
        several = list(dict.fromkeys(map(Word, rates.split(","))))
        study.setdefault("settings", {}).pop("training.lr", None)
        table, value = ("sweep", several) if len(several) > 1 else ("settings", several[0])
        study.setdefault(table, {})["training.lr"] = value
    return study


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted names; a text becomes a word yet to be read."""
    items = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            items += _flat(value, f"{prefix}{key}.")
        else:
            items.append((f"{prefix}{key}", _word(value)))
    return items


def _word(value: Any) -> Any:
    """A text or number as the word that --set would read; in a list only texts are words, yet to be read."""
    if isinstance(value, list):
        return [_word(each) if isinstance(each, (list, str)) else each for each in value]
    return Word(value if isinstance(value, str) else json.dumps(value, default=str))


def write_study(path: Path, study: Mapping[str, Any]) -> None:
    """Writes the file that `read_study` reads back as this study."""
    from .language_models import apart

    tasks = study.get("task", [])
    names = [*([tasks] if isinstance(tasks, str) else tasks), *(apart(word)[0] for word in study["models"])]
    plain = {name: value for name, value in study.items() if name not in ("settings", "sweep")}
    lines = [f"{name} = {_toml(value)}" for name, value in plain.items() if value not in (None, [])]
    for tables in ("sweep", "settings"):
        parts: dict[str, list[str]] = {}
        for key, value in study.get(tables, {}).items():
            part, _, name = in_full(key, names).rpartition(".")
            parts.setdefault(part, []).append(f"{_key(name)} = {_toml(value)}")
        for part, rows in parts.items():
            lines += ["", f"[{tables}.{_key(part)}]", *rows]
    write_text(path, "\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, Word) and NUMBER.fullmatch(value) and json.dumps(json.loads(value)) == value:
        return str(value)  # read as the same word again
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)
