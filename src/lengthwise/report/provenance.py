"""Where numbers come from: the command, the machine, the settings and the code behind every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ..lab.statistics import score
from .drawing import in_html
from .formatting import duration, length_range, percent
from .panel import Table
from .sections import Section, differing_settings, flat_settings, group_runs

if TYPE_CHECKING:
    from ..lab import Run

VERSIONS = ("lengthwise", "torch", "transformers", "python")
FIELDS = ("command", "commit", "date", "versions", "cpu", "threads", "seeds", "load")
"""What is said of every result, in its JSON and on its page; `load` is the number of processes that wanted a core."""
UNKNOWN = "not recorded"
NAMED = 2
"""Up to so many runs of one code are named in the note, of more only the number is given."""


class Code(NamedTuple):
    """The code that made a run; None where the record does not say."""

    version: str | None
    commit: str | None
    clean: bool | None
    """Whether the checkout had no changes of its own."""

    @classmethod
    def of(cls, run: Run) -> Code:
        code = run.result.get("code") or {}
        version = code.get("version") or run.result["machine"].get("lengthwise")
        return cls(version, code.get("commit"), code.get("clean"))

    def differs(self, other: Code) -> bool:
        """Whether the two are certainly not the same: what one record leaves open may be the same."""
        return any(None not in pair and pair[0] != pair[1] for pair in zip(self, other, strict=True))

    def __str__(self) -> str:
        """
        >>> print(Code("0.1.0", "8c1f0a9b3d", clean=False))
        lengthwise 0.1.0 at commit 8c1f0a9 with changes
        """
        commit = f" at commit {self.commit[:7]}" if self.commit else ""
        return f"lengthwise {self.version or '(version unknown)'}{commit}{' with changes' * (self.clean is False)}"


def code_note(sections: Sequence[Section]) -> str:
    """The line of a report whose runs different code made, the code of most runs first; empty where none differs."""
    names: dict[Code, list[str]] = {}
    for section in sections:
        for group in section.groups:
            for run in group.runs:
                task = f"{section.title}, " if len(sections) > 1 else ""
                names.setdefault(Code.of(run), []).append(f"{task}{group.label}, seed {run.experiment.seed}")
    if not any(one.differs(other) for one in names for other in names):
        return ""
    parts = [f"{_counted(runs)} by {code}" for code, runs in sorted(names.items(), key=lambda item: -len(item[1]))]
    return f"Not all of these runs were made by the same code: {'; '.join(parts)}."


def _counted(runs: Sequence[str]) -> str:
    """Few runs by name, many by their number."""
    few = f" ({'; '.join(runs)})" if len(runs) <= NAMED else ""
    return f"{len(runs)} run{'s' * (len(runs) > 1)}{few}"


def provenance(runs: Sequence[Run], command: str = "") -> dict[str, list[str]]:
    """Where the numbers come from: for each of `FIELDS` every value that the records have, or `UNKNOWN`.

    Without runs the numbers were measured just now, in this process, by `command`.
    """
    made: list[dict[str, Any]] = [{**run.result, "seed": run.experiment.seed} for run in runs]
    if not runs:
        from ..lab.provenance import code_version, machine

        today = datetime.now(UTC).isoformat()
        made = [{"code": code_version(), "machine": machine("cpu"), "date": today, "command": command, "seed": None}]
    machines = [one["machine"] for one in made]
    loads = sorted(load for m in machines if (load := m.get("load")) is not None)
    values: dict[str, list[str]] = {
        "command": [one["command"] for one in made],
        "commit": [commit for one in made for commit in _commits(one.get("code") or {})],
        "date": sorted(one["date"][:10] for one in made),
        "versions": [", ".join(f"{name} {m.get(name, '?')}" for name in VERSIONS) for m in machines],
        "cpu": list(map(_processor, machines)),
        "threads": [str(m.get("threads") or "") for m in machines],
        "seeds": [str(seed) for seed in sorted({one["seed"] for one in made} - {None})],
        "load": [f"{loads[0]:g}"] if len(set(loads)) == 1 else [f"{loads[0]:g} to {loads[-1]:g}"] if loads else [],
    }
    return {name: list(dict.fromkeys(each or UNKNOWN for each in values[name])) or [UNKNOWN] for name in FIELDS}


def _processor(machine: dict[str, Any]) -> str:
    where = [machine.get(name, "?") for name in ("cores", "platform", "device")]
    return "{}; cores {}, {}, on {}".format(machine.get("cpu") or UNKNOWN, *where)


def _commits(code: dict[str, Any]) -> list[str]:
    """The commits that a run had, the one that began it first."""
    earlier = _commits(code["begun_by"]) if code.get("begun_by") else []
    return [*earlier, f"{code.get('commit') or ''}{' with changes' * (code.get('clean') is False)}"]


def how_it_was_run(runs: Sequence[Run], command: str = "") -> str:
    """Where the numbers come from, how long it took, the settings, and a table of every run."""
    facts = provenance(runs, command)
    if runs:
        for name, part in (("training time", "train"), ("testing time", "evaluate")):
            facts[name] = [f"{duration(sum(run.result['seconds'][part] for run in runs))} in all"]
    more = f"{_settings(runs)}{_runs(runs)}" if runs else ""
    return f'<section id="run"><h2>How it was run</h2>{facts_list(facts)}{more}</section>'


def facts_list(facts: Mapping[str, Sequence[str]]) -> str:
    """The values by name, each on a line of its own."""
    names = {"cpu": "CPU", "threads": "Threads a run"}
    rows = (
        f"<dt>{names.get(name, name.capitalize())}</dt><dd>{'<br>'.join(map(escape, values))}</dd>"
        for name, values in facts.items()
    )
    return f"<dl>{''.join(rows)}</dl>"


def _settings(runs: Sequence[Run]) -> str:
    """What all runs share, then what each model adds."""
    on_strings, on_text = _kinds(runs)
    # Of one task there may be several sections, trained or tested at other lengths.
    groups = [
        (f"{section.title}, {length_range(section.train)}: {group.label}", group.experiment)
        for section in (group_runs(on_strings) if on_strings else [])
        for group in section.groups
    ]
    groups += [(f"{run.experiment.data.name}: {run.path.name}", run.experiment) for run in on_text]
    labels, experiments = [label for label, _ in groups], [experiment for _, experiment in groups]
    own = differing_settings(experiments)
    shared = {k: v for k, v in flat_settings(experiments[0]).items() if k not in {key for keys in own for key in keys}}
    blocks = [("All runs", shared), *((label, keys) for label, keys in zip(labels, own, strict=True) if keys)]
    tables = "".join(f"<h3>{escape(label)}</h3><dl>{_pairs(keys)}</dl>" for label, keys in blocks)
    return f"<details><summary>Settings</summary>{tables}</details>"


def _kinds(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Those on strings, and those on text."""
    return [r for r in runs if not r.experiment.on_text], [r for r in runs if r.experiment.on_text]


def _pairs(pairs: dict[str, Any]) -> str:
    return "".join(f"<dt><code>{escape(k)}</code></dt><dd>{escape(_value(v))}</dd>" for k, v in pairs.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _runs(runs: Sequence[Run]) -> str:
    on_strings, on_text = _kinds(runs)
    rows = [
        _run(section, group.label, run)
        for section in (group_runs(on_strings) if on_strings else [])
        for group in section.groups
        for run in group.runs
    ]
    rows += [_text_run(run) for run in on_text]
    head = ["run", "seed", "trained lengths", "longer", "last step", "best step", "training", "hash"]
    return (
        '<details><summary>Every run</summary><p class="note">Accuracy in % at the last checkpoint.</p>'
        f"{in_html(Table('Table of runs', '', head, rows))}</details>"
    )


def _run(section: Section, label: str, run: Run) -> list[str]:
    inside = [n for r in section.ranges if r.trained for n in r.lengths]
    beyond = [n for r in section.ranges if r.beyond for n in r.lengths]
    scores = [percent(score(run, lengths)) if lengths else "–" for lengths in (inside, beyond)]
    last, best = (f"{run.result['checkpoints'][name]['step']:,}" for name in ("last", "best"))
    return _cells(f"{section.title}, {label}", run, [*scores, last, best])


def _text_run(run: Run) -> list[str]:
    """Its perplexities stand in a panel."""
    name = f"{run.experiment.data.name}, {run.experiment.model.name}"
    return _cells(name, run, ["–", "–", f"{run.result['checkpoints']['last']['step']:,}", "–"])


def _cells(name: str, run: Run, scores: Sequence[str]) -> list[str]:
    e = run.experiment
    return [name, str(e.seed), *scores, duration(run.result["seconds"]["train"]), e.hash]
