"""A whole call of `bench` or `train` in a file: what `--config` reads and `--save-config` writes.

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

The keys are the options of the verb. Numbers and lists may be written as TOML's own; a text is read as `--set`
reads it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Error
from ..files import read_bytes, write_text
from ..options import Option, Schema, Word, apart, take, word_of
from ..own_code import in_full
from .typed import read_seeds
from .verb import Typed, is_typed

TABLES = ("settings", "sweep")
UNFILED = ("as_json", "config", "more_tasks", "save_config")
"""Options that no file has."""
FILED: dict[str, Any] = {
    "task": str | list[str],
    "models": list[str],
    "corpus": list[str],
    "conversions": list[str],
    "log": str | list[str],
    "seeds": Any,
    "settings": dict,
    "sweep": dict,
}
"""What keys hold that are typed otherwise."""
NUMBER = re.compile(r"true|false|-?(0|[1-9]\d*)(\.\d+)?")


def keys_of(verb: Any) -> Schema:
    """Returns what a file may say of a verb."""
    keys = {}
    for name, option in verb.options.items():
        kind = str | None if Path in option.kinds else option.kind
        keys[name] = replace(option, kind=FILED.get(name, kind), default=None)
    # As files were written before a sweep had them.
    keys |= {"learning_rates": Option("learning_rates", str, None)} if "sweep" in keys else {}
    return {name: option for name, option in keys.items() if name not in UNFILED}


def read_study(path: Path, keys: Schema) -> dict[str, Any]:
    """Returns the file's keys, checked, with `settings` flat: `{"training.steps": 500}`. Nothing is filled in."""
    try:
        content = tomllib.loads(read_bytes(path, "--save-config writes one").decode())
    except ValueError as error:
        raise Error(f"{path}: not a readable TOML file: {error}.") from error
    study = take(keys, content, str(path))
    if "seeds" in study:
        study["seeds"] = read_seeds(study["seeds"], f"{path}: seeds")
    if null := next((name for name, value in study.items() if isinstance(value, str) and "\0" in value), None):
        raise Error(f"{path}: {null} holds a null character, which no name and no path has. Remove it.")
    for table in TABLES:
        study[table] = dict(_flat(study.get(table, {})))
    for name, values in study["sweep"].items():
        study["sweep"][name] = list(map(_word, values)) if isinstance(values, list) else values
    if rates := study.pop("learning_rates", None):
        several = list(dict.fromkeys(map(Word, rates.split(","))))
        study["settings"].pop("training.lr", None)
        table, value = ("sweep", several) if len(several) > 1 else ("settings", several[0])
        study[table]["training.lr"] = value
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


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Makes what the file says the default of every option."""
    if path:
        study = read_study(path, keys_of(context.command.callback))
        context.meta.update({table: study.pop(table) for table in TABLES})
        study = {
            name: [value] if name in ("log", "task") and isinstance(value, str) else value
            for name, value in study.items()
        }
        context.default_map = study
    return path


Config = Annotated[
    Path | None,
    "Read these options from a TOML file; those typed here win.",
    Typed("FILE", first=_read_config),
]
SaveConfig = Annotated[Path | None, "Write a TOML file that repeats this call.", Typed("FILE")]


def study_of(context: typer.Context) -> dict[str, Any]:
    """Returns every key of this call's file: as it was typed, filed or left at its default, settings together."""
    values, filed = context.params, context.default_map or {}
    study = {name: values[name] for name in keys_of(context.command.callback) if name in values}
    for argument in ("task", "corpus"):
        if argument in study:  # which some versions of click give no default from a file
            study[argument] = values[argument] or filed.get(argument) or []
    if is_typed(context, "more_tasks"):
        typed = values["task"] if is_typed(context, "task") else []
        study["task"] = [*(typed or []), *values["more_tasks"]]
    study["settings"] = context.meta.get("settings", {}) | settings_typed(values["settings"])
    study |= {"sweep": context.meta.get("sweep", {})} if "sweep" in study else {}
    return study


def settings_typed(settings: Sequence[str] | None) -> dict[str, Word]:
    return dict(word_of(each) for each in settings or ())


def need(verb: str, study: Mapping[str, Any], **remedies: str) -> None:
    """Raises for the first of these keys that neither the call nor its file says."""
    for name, remedy in remedies.items():
        if not study[name]:
            raise Error(f"{verb} needs {remedy}.")


def write_study(path: Path, study: Mapping[str, Any]) -> None:
    """Writes the file that `read_study` reads back as this study."""
    tasks = study.get("task") or []
    names = [
        *([tasks] if isinstance(tasks, str) else tasks),
        *(apart(word)[0] for word in study["models"] or ()),
    ]
    lines = [
        f"{name} = {_toml(value)}"
        for name, value in study.items()
        if name not in TABLES and value not in (None, [], ())
    ]
    for table in reversed(TABLES):
        parts: dict[str, list[str]] = {}
        for key, value in study.get(table, {}).items():
            part, _, name = in_full(key, names).rpartition(".")
            parts.setdefault(part, []).append(f"{_key(name)} = {_toml(value)}")
        for part, rows in parts.items():
            lines += ["", f"[{table}.{_key(part)}]", *rows]
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
