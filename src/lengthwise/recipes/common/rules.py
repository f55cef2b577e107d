"""Settings of a table's cells, as rules of which later ones win; and a panel of what differs from the published ones.

A rule is (tasks, models, settings): patterns over the names of rows and columns, and settings as `bench --set` takes
them. So a knob for one cell is one line: `Rule("modular-*", "regular-gpt C=2", {"training.steps": 20_000})`.
The rules of a table are in a TOML file beside it, and so may be the numbers that were published and the prose around
the table. Beside those settings there may be

    seeds            how many runs of each cell, with seeds 0, 1, …
    learning_rates   the rates to try, where there are several
    lengths          about how many lengths are tested, or "every"
    supervision      which positions training asks
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, NamedTuple, get_args

from ...report import Panel, TableCell, record_table
from ..base import Scale


class Rule(NamedTuple):
    tasks: str
    models: str
    settings: dict[str, Any]

    def holds(self, task: str, model: str) -> bool:
        return fnmatchcase(task, self.tasks) and fnmatchcase(model, self.models)


Rules = Mapping[Scale, Sequence[Rule]]
"""The rules of every scale; those of "paper" are the published settings."""

UNREPORTED = ("training.validate_every", "training.validation_samples", "training.checkpoint_every")
"""Settings that change neither the task nor the training: how often a run looks at itself."""
RELEASED = ("model.initialisation", "official")
"""As published, though the scale `paper`, which is older than this option, leaves it out."""


def rules_of(module: str) -> Rules:
    """The rules at every scale of a recipe's module, `rules_of(__name__)`: those of TABLE.toml beside TABLE.py.

    A `[[SCALE]]` is a rule, its settings beside `tasks` and `models`; "none" is None. `[after]` names the scale whose
    rules come before those of another.
    """
    content = table_of(module)
    after = content.get("after", {})
    own = {
        scale: [Rule(each.pop("tasks", "*"), each.pop("models", "*"), dict(_flat(each))) for each in content[scale]]
        for scale in get_args(Scale)
        if scale in content
    }

    def rules(scale: Scale) -> list[Rule]:
        return [*(rules(after[scale]) if scale in after else []), *own[scale]]

    return {scale: rules(scale) for scale in own}


def table_of(module: str) -> dict[str, Any]:
    """All that TABLE.toml holds."""
    package, _, name = module.rpartition(".")
    return tomllib.loads(files(package).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def described(module: str, **values: Any) -> str:
    """The description in TABLE.toml, with these values in their places."""
    return table_of(module)["prose"]["description"].format(**values)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, None if value == "none" else value


def settings_of(rules: Iterable[Rule], task: str, model: str) -> dict[str, Any]:
    """What these rules say about one cell.

    >>> rules = [Rule("*", "*", {"seeds": 3, "model.width": 64}), Rule("parity", "rnn*", {"seeds": 1})]
    >>> settings_of(rules, "parity", "rnn"), settings_of(rules, "d-2", "rnn")
    ({'seeds': 1, 'model.width': 64}, {'seeds': 3, 'model.width': 64})
    """
    settings: dict[str, Any] = {}
    for rule in rules:
        if rule.holds(task, model):
            settings |= rule.settings
    return settings


def differences_from_paper(
    rules: Rules,
    scale: Scale,
    tasks: Iterable[str],
    models: Iterable[str],
    same: str,
    ours: Sequence[Rule] | None = None,
) -> list[Panel]:
    """One panel, or none where every setting is the published one. `same` says what is as published all the same.

    `ours`: the scale's rules and behind them those of a call's own inputs, where it has some.
    """
    title, caption = f"What differs from the paper at {scale} scale", f"{same} A later line overrides an earlier one."
    return table_of_differences(title, caption, differences(rules["paper"], ours or rules[scale], tasks, models))


def table_of_differences(title: str, caption: str, rows: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Returns a table of settings as published and here, below each what it is `for` if that is said; or nothing."""
    columns = {
        "setting": lambda row: TableCell(row["setting"], (("for", row["for"]),)) if "for" in row else row["setting"],
        "published": lambda row: _word(row["published"]),
        "here": lambda row: _word(row["here"]),
    }
    return [record_table(title, caption, rows, columns)] if rows else []


def differences(
    paper: Sequence[Rule], ours: Sequence[Rule], tasks: Iterable[str], models: Iterable[str]
) -> list[dict[str, Any]]:
    """The settings that are not the published ones somewhere in these rows and columns, rule by rule.

    A setting is also named where an earlier rule changed it and this one sets it back to the published value.
    """
    grid = [(task, model) for task in tasks for model in models]
    own = [rule for rule in ours if rule not in paper]
    rows = []
    for i, rule in enumerate(own):
        cells = [cell for cell in grid if rule.holds(*cell)]
        for setting, here in rule.settings.items():
            if setting in UNREPORTED or (setting, here) == RELEASED:
                continue
            changed_before = [earlier for earlier in own[:i] if earlier.settings.get(setting, here) != here]
            # By their words, for a published value may be a list.
            published: dict[str, Any] = {}
            for cell in cells:
                if settings_of(ours, *cell)[setting] != here:
                    continue  # A later rule wins.
                value = settings_of(paper, *cell).get(setting, "–")
                if value != here or any(earlier.holds(*cell) for earlier in changed_before):
                    published[str(value)] = value
            about = ", ".join(filter(None, (pattern.rstrip("*") for pattern in (rule.tasks, rule.models)))) or "all"
            rows += [
                {"for": about, "setting": setting, "published": value, "here": here} for value in published.values()
            ]
    return rows


def _word(value: Any) -> str:
    """
    >>> _word(100_000), _word([1e-4, 3e-4]), _word(None), _word("every")
    ('100,000', '0.0001, 0.0003', 'none', 'every')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value))
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
