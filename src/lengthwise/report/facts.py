"""The page's small print: what the numbers mean, and how the runs behind them were made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..lab.statistics import score
from .groups import Section, differences, sections, settings
from .words import duration, percent

if TYPE_CHECKING:
    from ..lab import Run

VERSIONS = ("lengthwise", "torch", "transformers", "python")


def how_to_read(seeds: int, parts: bool = False) -> str:
    """The words of the tables, defined; `parts`: whether strings are scored in parts."""
    scored = (
        "In tasks that ask for several entries a string is right in part: its score is the share of its entries that "
        "are right, and the accuracy is the mean score. "
    )
    terms = {
        "Accuracy": f"The share of test strings of one length that are right. {scored if parts else ''}"
        "A column with several lengths is the "
        "unweighted mean of their accuracies. 100.0 is printed only where every string was right.",
        "Last and best valid.": "Large figures are of the model as it was at the last training step. Best valid. is of "
        "the step that did best on validation strings of the training lengths; test strings choose nothing.",
    }
    if seeds > 1:
        terms["Mean ± and max"] = (
            "Every seed is one training run from scratch. ± is the sample standard deviation over seeds; max is the "
            "best seed. A max far above the mean says that the model can learn the task but does not do so reliably."
        )
    terms |= {
        "95% interval": "Wilson's interval over all test strings of all seeds. It says how well the test strings pin "
        "these trained models down; how the next seed would do, only more seeds can say.",
        "Majority answer": "Always giving the commonest answer at that length (the tick on each bar, the dashed line). "
        "Only what lies above it was learned.",
    }
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items())
    return f'<section id="reading"><h2>How to read it</h2><dl class="terms">{rows}</dl></section>'


def how_it_was_run(runs: Sequence[Run]) -> str:
    """Command, date, versions, machine, settings, and a table of every run."""
    machines = [run.result["machine"] for run in runs]
    facts = {
        "Date": _distinct(str(run.result["date"])[:10] for run in runs),
        "Versions": _distinct(", ".join(f"{name} {m.get(name, '?')}" for name in VERSIONS) for m in machines),
        "Machine": _distinct(
            f"{m.get('platform', '?')}, cores {m.get('cores', '?')}, threads a run {m.get('threads', '?')}, "
            f"on {m.get('device', '?')}"
            for m in machines
        ),
        "Training time": f"{duration(sum(run.result['seconds']['train'] for run in runs))} in all",
        "Testing time": f"{duration(sum(run.result['seconds']['evaluate'] for run in runs))} in all",
    }
    rows = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    commands = "\n".join(dict.fromkeys(run.result["command"] for run in runs if run.result["command"]))
    command = f"<pre><code>{escape(commands)}</code></pre>" if commands else ""
    return f'<section id="run"><h2>How it was run</h2>{command}<dl>{rows}</dl>{_settings(runs)}{_runs(runs)}</section>'


def _settings(runs: Sequence[Run]) -> str:
    """What all runs share, then what each model adds."""
    groups = {f"{part.title}: {group.label}": group for part in sections(runs) for group in part.groups}
    experiments = [group.experiment for group in groups.values()]
    own = differences(experiments)
    shared = {k: v for k, v in settings(experiments[0]).items() if k not in {key for keys in own for key in keys}}
    blocks = [("All runs", shared), *((label, keys) for label, keys in zip(groups, own, strict=True) if keys)]
    tables = "".join(f"<h3>{escape(label)}</h3><dl>{_pairs(keys)}</dl>" for label, keys in blocks)
    return f"<details><summary>Settings</summary>{tables}</details>"


def _pairs(pairs: dict[str, Any]) -> str:
    return "".join(f"<dt><code>{escape(k)}</code></dt><dd>{escape(_value(v))}</dd>" for k, v in pairs.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _runs(runs: Sequence[Run]) -> str:
    rows = [_run(part, group.label, run) for part in sections(runs) for group in part.groups for run in group.runs]
    names = ("run", "seed", "trained lengths", "longer", "last step", "best step", "training", "hash")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<details><summary>Every run</summary><p class="note">Accuracy in % at the last checkpoint.</p>'
        '<div class="box" tabindex="0" role="region" aria-label="Table of runs"><table class="small">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _run(part: Section, label: str, run: Run) -> str:
    inside = [n for r in part.ranges if r.trained for n in r.lengths]
    beyond = [n for r in part.ranges if r.beyond for n in r.lengths]
    scores = [percent(score(run, lengths)) if lengths else "–" for lengths in (inside, beyond)]
    last, best = (f"{run.result['checkpoints'][name]['step']:,}" for name in ("last", "best"))
    cells = [str(run.experiment.seed), *scores, last, best, duration(run.result["seconds"]["train"])]
    cells.append(f"<code>{run.experiment.hash}</code>")
    name = escape(f"{part.title}, {label}")
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _distinct(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(values))
