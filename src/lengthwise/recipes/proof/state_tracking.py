"""The table of state tracking that PD-SSM's paper has, with a verdict for each network beside its accuracy."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from ... import tasks
from ...lab import Experiment, Run
from ...lab.statistics import score
from ...report import Panel, Table, TableCell
from ...report.formatting import percent
from ..base import Recipe, Scale
from ..common.comparison import inside
from ..common.grid import Grid, Model, plan_cell
from ..common.rules import differences_from_paper, rules_of, settings_of, table_of
from ..papers.regulargpt.table_1 import thinned
from .networks import NetworkQuestion, ProofNetwork, networks, verdict_cell
from .scales import BUDGETS
from .scales import MODELS as PROVED

Key = tuple[str, str]
"""A cell's task and model."""
TASKS = ("cycle-navigation", "even-pairs", "modular-arithmetic", "parity")
MODELS: dict[str, Model] = {
    "PD-SSM": Model("pd-ssm", {}),
    "DeltaProduct": Model("delta-product", {}),
    "Mamba-2": Model("hf:mamba2", {}),
    **{name: PROVED[name] for name in ("automaton", "RNN", "GRU", "LSTM", "discrete")},
}
"""automaton: the block-diagonal linear RNN of functions on states; discrete: RegularGPT of discrete nodes."""
TRAINED, TESTED = 40, 256
PUBLISHED: dict[str, float] = {"PD-SSM": 0.988, "DeltaProduct": 0.795, "LSTM": 1.0}
"""Averages over the four tasks, of the best evaluation on test strings."""
OF_PD_SSM: dict[str, float] = dict(zip(TASKS, (0.995, 0.997, 0.962, 0.999), strict=True))
RULES, PROSE = rules_of(__name__), table_of(__name__)["prose"]
SAME = "Tasks and lengths are the published ones; of models other than PD-SSM the paper's settings are not known here."


def recipe(scale: Scale) -> Recipe:
    """PD-SSM, DeltaProduct, Mamba-2 and this library's models on four tasks, each network with a verdict."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        question = NetworkQuestion(BUDGETS[scale], None)
        decided = {key: [networks(run, question, device)[0] for run in runs] for key, runs in finished.items()}
        there = dict.fromkeys(task for task, _ in finished)
        return [_panel(scale, finished, decided), *differences_from_paper(RULES, scale, there, MODELS, SAME)]

    return Recipe(
        title="State tracking: from 40 tokens to 256, and to every length",
        description=PROSE["description"],
        grid=Grid.table(TASKS, MODELS, partial(planned, scale)),
        report=report,
    )


def planned(scale: Scale, row: str, model: str) -> list[Experiment]:
    settings = settings_of(RULES[scale], row, model)
    task = tasks.get(row, supervision=settings.pop("supervision"))
    lengths = thinned(task.lengths(TRAINED, TESTED), settings.pop("lengths"))
    if MODELS[model].preset.startswith("hf:"):
        settings["model.hidden_size"] = settings.pop("model.width")  # as transformers calls it
    return plan_cell(task, MODELS[model], settings, lengths)


def _panel(scale: Scale, finished: Mapping[Key, list[Run]], decided: Mapping[Key, list[ProofNetwork]]) -> Panel:
    there = [name for name in TASKS if any(task == name for task, _ in finished)]
    rows, data = [], []
    for model in MODELS:
        cells, means = [], []
        for task in there:
            runs = finished.get((task, model), [])
            if not runs:
                cells.append("–")
                continue
            shares = [score(run, [n for n in run.experiment.tests.lengths if n >= TRAINED]) for run in runs]
            means.append(statistics.fmean(shares))
            cells.append(
                _cell(shares, inside(runs), decided[task, model], OF_PD_SSM[task] if model == "PD-SSM" else None)
            )
            seeds = [{"seed": r.experiment.seed, "accuracy": s} for r, s in zip(runs, shares, strict=True)]
            verdicts = [asdict(network) for network in decided[task, model]]
            data.append({"task": task, "model": model, "seeds": seeds, "networks": verdicts})
        if means:
            average = percent(statistics.fmean(means)) if len(means) == len(TASKS) else "–"
            published = percent(PUBLISHED[model]) if model in PUBLISHED else "–"
            rows.append([model, *cells, average, published])
    lengths = settings_of(RULES[scale], TASKS[0], "PD-SSM")["lengths"]
    caption = PROSE["caption"].format(lengths=lengths, seconds=BUDGETS[scale].certify)
    head = ["model", *there, "average", "published"]
    return Table("State tracking", caption, head, rows, data=data, finding=_finding(data))


def _cell(shares: list[float], trained: float, verdicts: list[ProofNetwork], published: float | None) -> TableCell:
    spread = f" ± {100 * statistics.stdev(shares):.1f}" if len(shares) > 1 else ""
    wrong = [f"{network.wrong:,}" for network in verdicts if network.wrong is not None]
    notes = [
        ("least", percent(min(shares))),
        ("in training", percent(trained)),
        *([("wrong at", ", ".join(wrong))] if wrong else []),
        *([("published", percent(published))] if published is not None else []),
    ]
    verdict = verdict_cell([network.raw for network in verdicts])
    return TableCell(percent(statistics.fmean(shares)) + spread, (*notes, *verdict.notes), verdict.mark)


def _finding(data: list[dict[str, Any]]) -> str:
    each = [(c["model"], s["accuracy"], n["raw"]) for c in data for s, n in zip(c["seeds"], c["networks"], strict=True)]
    right = [verdict for _, accuracy, verdict in each if accuracy == 1]
    proved = Counter(model for model, _, verdict in each if verdict == "proved")
    named = ", ".join(f"{model} {count}" for model, count in proved.items()) or "none"
    return (
        f"Of {len(right)} networks that are right on all test strings {right.count('refuted')} are refuted. Of all "
        f"{len(each)}, proved at every length as training left them: {named}."
    )
