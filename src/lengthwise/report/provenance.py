"""Where numbers come from: the command, the machine, the settings and the code behind every run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..lab.statistics import score
from .formatting import duration, length_range, percent
from .panel import Facts, Panel, Table, TableCell
from .sections import Section, differing_settings, flat_settings
from .verdicts import verdict_of

if TYPE_CHECKING:
    from ..lab import Run
    from .contents import Content

VERSIONS = ("lengthwise", "torch", "transformers", "python")
FIELDS = ("command", "commit", "date", "versions", "cpu", "threads", "seeds", "load")
"""What is said of every result, in its JSON and on its page; `load` is the number of processes that wanted a core."""
UNKNOWN = "not recorded"
NAMES = {"cpu": "CPU", "threads": "Threads a run"}


def code_of(run: Run) -> tuple[str | None, str | None, bool | None]:
    """Version and commit of the code that made a run, and whether nothing was changed; None where it is not said."""
    code = run.result.get("code") or {}
    version = code.get("version") or run.result["machine"].get("lengthwise")
    return version, code.get("commit"), code.get("clean")


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


def how_it_was_run(report: Content) -> Panel:
    """Returns where the numbers come from, how long it took, the settings, and a table of every run."""
    facts = provenance(report.runs, report.command)
    for name, part in (("training time", "train"), ("testing time", "evaluate")) if report.runs else ():
        facts[name] = [f"{duration(sum(run.result['seconds'][part] for run in report.runs))} in all"]
    below = (_settings(report), _runs(report)) if report.runs else ()
    return Facts("How it was run", "", {NAMES.get(k, k.capitalize()): v for k, v in facts.items()}, below=below)


def _settings(report: Content) -> Panel:
    """What all runs share, then what each model adds."""
    # Of one task there may be several sections, trained or tested at other lengths.
    groups = [
        (f"{section.title}, {length_range(section.train)}: {group.label}", group.experiment)
        for section in report.sections
        for group in section.groups
    ]
    groups += [(f"{run.experiment.data.name}: {run.path.name}", run.experiment) for run in report.on_text]
    own = differing_settings([experiment for _, experiment in groups])
    shared = {k: v for k, v in flat_settings(groups[0][1]).items() if not any(k in keys for keys in own)}
    blocks = [("All runs", shared), *((label, keys) for (label, _), keys in zip(groups, own, strict=True) if keys)]
    below = [Facts(label, "", {name: [_value(v)] for name, v in keys.items()}) for label, keys in blocks]
    return Panel("Settings", "", below=tuple(below), folded=True)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _runs(report: Content) -> Table:
    """A row for each run; the perplexities of those on text stand in a panel."""
    rows = [_row(f"{each.title}, {label}", run, each) for each in report.sections for label, run in each.runs]
    rows += [_row(f"{run.experiment.data.name}, {run.experiment.model.name}", run) for run in report.on_text]
    head = ["run", "seed", "at every length", "trained lengths", "longer", "last step", "best step", "training", "hash"]
    if not any(isinstance(row[2], TableCell) for row in rows):
        head, rows = head[:2] + head[3:], [row[:2] + row[3:] for row in rows]
    return Table("Every run", "Accuracy in % at the last checkpoint.", head, rows, folded=True)


def _row(name: str, run: Run, section: Section | None = None) -> list[str | TableCell]:
    ranges, checkpoints = section.ranges if section else (), run.result["checkpoints"]
    verdict = verdict_of(run) if section else None
    decided = TableCell("", mark=f"{verdict.mark} {verdict.summary}") if verdict else "–"
    inside, beyond = ([n for r in ranges if getattr(r, which) for n in r.lengths] for which in ("trained", "beyond"))
    scores = [percent(score(run, lengths)) if lengths else "–" for lengths in (inside, beyond)]
    best = f"{checkpoints['best']['step']:,}" if section else "–"
    last, seconds = f"{checkpoints['last']['step']:,}", duration(run.result["seconds"]["train"])
    return [name, str(run.experiment.seed), decided, *scores, last, best, seconds, run.experiment.hash]
