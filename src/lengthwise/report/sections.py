"""Which runs belong together: a section is one question (task, training lengths, test), a group the seeds of one model.

Two runs are of one group when their experiments are equal but for the seed. A group's label is its model's name and,
where a section has several groups of that name, the settings in which they differ: `lstm width=64`. Where more than two
settings differ, one at the value that most groups have is left out. Of a path the label shows the end, as much of it as
tells the models of all sections apart.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from ..errors import Error, in_words
from ..lab.experiment import Experiment, TaskSpec
from ..lab.records import Run
from ..lab.statistics import Range, ranges, summary
from ..lab.tested_lengths import lengths_of
from ..tasks import options, own
from ..tasks.registry import find
from .formatting import length_range, short_names

TOKENS = "tokens"
DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
LISTED = 8
"""A label writes a list of up to so many values out."""


@dataclass(frozen=True)
class SeedGroup:
    """The runs of one model, which differ in their seed alone."""

    label: str
    runs: tuple[Run, ...]
    note: str = ""
    """What else is said of it: how its setting was chosen."""
    style: int = 0
    """How its lines are drawn wherever they stand on a page."""

    @property
    def experiment(self) -> Experiment:
        """What all its runs share (their seed aside)."""
        return self.first.experiment

    @property
    def first(self) -> Run:
        return self.runs[0]


@dataclass(frozen=True)
class Section:
    """Everything measured on one question."""

    title: str
    groups: tuple[SeedGroup, ...]
    name: str = ""
    """The title, and what was trained on where other sections have the same."""

    @property
    def runs(self) -> list[tuple[str, Run]]:
        """Each with the label of its group."""
        return [(group.label, run) for group in self.groups for run in group.runs]

    @property
    def experiment(self) -> Experiment:
        return self.groups[0].experiment

    @property
    def train(self) -> tuple[int, int]:
        return self.experiment.training.curriculum.lengths

    @property
    def subtitle(self) -> str:
        e = self.experiment.tests
        to = f"{max(e.lengths):,}" + (f" {self.unit}" if self.unit != TOKENS else "")
        which = lengths_of(self.groups[0].first)
        trained = f"trained on {self.span(*self.train)}, tested to {to}, {e.samples} strings each"
        return trained + f", {which}" * bool(which)

    def span(self, low: int, high: int) -> str:
        """`lengths 1–40`, or `1–16 operations`."""
        if self.unit == TOKENS:
            return length_range((low, high))
        return f"{f'{low:,}–' * (low < high)}{high:,} {self.unit}"

    @cached_property
    def unit(self) -> str:
        """What a length counts."""
        return unit_of(self.experiment.task)

    @property
    def lengths(self) -> list[int]:
        return sorted(set(self.experiment.tests.lengths))

    @cached_property
    def ranges(self) -> list[Range]:
        return ranges(self.train, self.lengths)

    @property
    def baseline(self) -> dict[int, float]:
        """The accuracy of the best constant answer, by length."""
        return {n: self.groups[0].first.result["baseline"][str(n)] for n in self.lengths}

    @property
    def seeds(self) -> int:
        return max(len(group.runs) for group in self.groups)


def list_of_runs(runs: Iterable[Run]) -> list[Run]:
    """What a report was given, which must be runs."""
    listed: list[Run] = list(runs) if isinstance(runs, Iterable) else [runs]
    if not all(hasattr(run, "experiment") for run in listed):
        raise Error(f"A report takes a list of runs, as lab.load and lab.bench give them, got {in_words(runs)}.")
    return listed


def group_runs(runs: Iterable[Run], notes: Mapping[str, str] | None = None) -> list[Section]:
    """Runs sorted into sections and groups; a run given twice counts once.

    Sections are in the order in which they first appear, those of one task together; the groups of one are in the order
    of their accuracy at its longest length. `notes` are said of groups, by the hash of their experiment with seed 0.
    """
    unique = {run.experiment.hash: run for run in runs}
    if not unique:
        raise Error("There is nothing to report: no finished run was given. Start one with `lengthwise bench`.")
    names = short_names(run.experiment.model.name for run in unique.values())
    questions: dict[str, list[Run]] = {}
    for run in unique.values():
        e = run.experiment
        question = key_of(asdict(e.task), e.training.curriculum.lengths, asdict(e.tests))
        questions.setdefault(question, []).append(run)
    sections = [
        Section(task_name(each[0].experiment.task), groups_of(each, names, notes or {})) for each in questions.values()
    ]
    titles = [section.title for section in sections]
    named = [
        replace(each, name=each.title + f", trained on {each.span(*each.train)}" * (titles.count(each.title) > 1))
        for each in sections
    ]
    return _ranked(sorted(named, key=lambda section: titles.index(section.title)))


def _ranked(sections: Sequence[Section]) -> list[Section]:
    """The groups best first, and each label drawn alike in all sections: the strongest colour is of the best.

    Of two that are right alike, one that is proved comes before one that is refuted.
    """
    ranks = [{group.label: _rank(section, group) for group in section.groups} for section in sections]
    by_label = {
        label: [each[label] for each in ranks if label in each] for label in {k: 0 for each in ranks for k in each}
    }
    order = sorted(by_label, key=lambda label: tuple(map(statistics.fmean, zip(*by_label[label], strict=True))))
    styled = [[replace(group, style=order.index(group.label)) for group in section.groups] for section in sections]
    return [
        replace(section, groups=tuple(sorted(groups, key=lambda group: rank[group.label])))
        for section, groups, rank in zip(sections, styled, ranks, strict=True)
    ]


def _rank(section: Section, group: SeedGroup) -> tuple[float, float]:
    """How a group is sorted: by its accuracy at the longest length, then by the verdicts on it."""
    from .verdicts import verdict_of

    marks = [verdict.mark if (verdict := verdict_of(run)) else "?" for run in group.runs]
    share = statistics.fmean({"✓": -1, "✗": 1}.get(mark, 0) for mark in marks)
    return -summary(group.runs, section.lengths[-1:]).mean, share


def task_name(task: TaskSpec) -> str:
    """`modular-sum (modulus=3)`: the name, and the parameters that are not the task's own defaults."""
    try:
        # Only its code would tell the defaults of a task of one's own, and a report runs none.
        usual = {} if own.is_own(task.name) else {o.name: o.default for o in options(task.name).values()}
    except Error:
        usual = {}
    params = ", ".join(f"{k}={_short(v)}" for k, v in task.params.items() if usual.get(k, ...) != v)
    name = task.name.split("/")[-1]
    return f"{name} ({params})" if params else name


def unit_of(task: TaskSpec) -> str:
    """What the length of this task's strings counts.

    >>> unit_of(TaskSpec("parity")), unit_of(TaskSpec("boxes"))
    ('tokens', 'operations')
    """
    try:
        return TOKENS if own.is_own(task.name) else getattr(find(task.name)[0], "unit", TOKENS)
    except Error:
        return TOKENS


def flat_settings(experiment: Experiment) -> dict[str, Any]:
    """All settings but the seed by their dotted names: `model.width`, `training.lr` …"""
    model = experiment.model
    data = experiment.data
    if isinstance(data, TaskSpec):
        flat = {f"task.{k}": v for k, v in data.params.items()}
    else:
        flat = {"text.digests": data.digests, "text.block": data.block, "text.test_blocks": data.test_blocks}
        flat |= {"text.tokenizer": data.tokenizer} if data.tokenizer else {}
        flat |= {"objective.tokens_at_once": experiment.objective.tokens_at_once}
    paths: list[tuple[str, Any]] = [("model", model.options)]
    for path, value in paths:
        if not isinstance(value, Mapping):
            flat[path] = value
            continue
        for key in value:
            paths.append((f"{path}.{key}", value[key]))
    flat |= {f"training.{k}": v for k, v in experiment.training.settings().items()}
    unsaid = ("lengths",) if experiment.on_text else ("lengths", "way")
    flat |= {f"tests.{k}": v for k, v in asdict(experiment.tests).items() if k not in unsaid}
    return flat | ({"model.source": model.source} if model.source else {})


def differing_settings(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """For each experiment, those of its settings that are not the same in all."""
    flats = [flat_settings(e) for e in experiments]
    keys = {k for flat in flats for k in flat}
    differing = [k for k in sorted(keys) if len({key_of(flat.get(k)) for flat in flats}) > 1]
    return [{k: flat[k] for k in differing if k in flat} for flat in flats]


def groups_of(
    runs: Sequence[Run], short: dict[str, str], notes: Mapping[str, str] | None = None
) -> tuple[SeedGroup, ...]:
    """Runs that differ in their seed alone, together; `short`: what to call the models."""
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(replace(run.experiment, seed=0).hash, []).append(run)
    seeds = [tuple(sorted(group, key=lambda run: run.experiment.seed)) for group in members.values()]
    labels = labelled([group[0].experiment for group in seeds], short)
    texts = [(notes or {}).get(key, "") for key in members]
    return tuple(SeedGroup(label, group, note) for label, group, note in zip(labels, seeds, texts, strict=True))


def labelled(experiments: Sequence[Experiment], short: dict[str, str]) -> list[str]:
    """What to call each of these, which differ in more than their seed; `short`: what to call the models."""
    names = [e.model.name for e in experiments]
    labels = {}
    for name in dict.fromkeys(names):
        same = [i for i, other in enumerate(names) if other == name]
        for i, differing in zip(same, _telling(differing_settings([experiments[i] for i in same])), strict=True):
            parts = [f"{k.split('.', 1)[1].rpartition('_options.')[2]}={_short(v)}" for k, v in differing.items()]
            labels[i] = " ".join([short[name], *parts])
    return [labels[i] for i in range(len(experiments))]


def _telling(differing: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that tell these apart: of more than two, without those at the value that most have.

    >>> _telling([{"p": 1, "lr": 1, "width": 8}, {"p": 2, "lr": 1, "width": 8}, {"p": 1, "lr": 3, "width": 4}])
    [{}, {'p': 2}, {'lr': 3, 'width': 4}]
    """
    keys = {k for settings in differing for k in settings}
    if len(keys) <= 2:
        return list(differing)
    usual = {}
    for k in keys:
        values = [key_of(settings[k]) if k in settings else None for settings in differing]
        most = max(values, key=values.count)
        # What some lack must be said of all that have it: nothing can be written in its place.
        if 2 * values.count(most) > len(values) and (most is None or None not in values):
            usual[k] = most
    return [{k: v for k, v in settings.items() if usual.get(k) != key_of(v)} for settings in differing]


def key_of(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True)


def _short(value: Any) -> str:
    """Of a digest the beginning.

    >>> _short([1, 40]), _short(list(range(100))), _short(64 * "a")
    ('1,40', '0,1,2,… (100)', 'aaaaaaaa')
    """
    if not isinstance(value, list | tuple):
        return DIGEST.sub(r"\1", str(value))
    return ",".join(map(str, value)) if len(value) <= LISTED else f"{','.join(map(str, value[:3]))},… ({len(value)})"
