"""Task × model: which trained networks are proved right at every length, and which are refuted.

A tree or a recurrence is certified as training left it; where it is not proved so, a copy is taught its machine's
algebra and certified. Beside RegularGPT of discrete nodes stands the network that was compiled, without a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

from ... import tasks, verify
from ...errors import Error
from ...lab import Experiment, Run, plan
from ...report import Panel, text_table
from ...report.formatting import in_columns, percent
from ...verify.algebra import MachineAlgebra
from ..base import Recipe, Scale
from ..common.grid import Cell, Grid
from ..common.rules import settings_of
from .networks import Network, Question, networks
from .scales import ASKED, BUDGETS, GIVEN, MODELS, RULES, TASKS

Key = tuple[str, str]
"""A cell's task and model."""
DESCRIPTION = (
    "A model that is right on all strings of 500 tokens may still fail on longer ones. Here each is held against the "
    "machine of its task: proved right at every length, with a certificate that an independent checker accepts, or "
    "refuted by a word, or unknown. A network is learned (from strings alone), consolidated (learned, then taught its "
    "machine's algebra, where it was not proved before) or compiled (from random weights: it saw no string)."
)
CAPTION = (
    "raw: the network as it is; snapped: with every node replaced by the nearest of finitely many centres (– where a "
    "network has no such nodes). parts: how many elements, sets or states the proof goes through. s: seconds to make "
    "the network, after training, and to decide about it. wrong at: the length of the shortest word found that it gets "
    "wrong. Then accuracy in %: over lengths up to {near:,}, and at {far} tokens, on {strings} words whose answer is "
    "open until the end. – : not tested, since the network is wrong before, or takes a step of its own for each of so "
    "many tokens. Each has {seconds:g} s of search and reasoning: what is unknown may be proved in more."
)


def recipe(scale: Scale) -> Recipe:
    """Trained models proved right at every length, or refuted: seven tasks, six models, learned and taught."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        found: dict[str, dict[str, list[Network]]] = {}
        for (task, model), runs in finished.items():
            question = Question(BUDGETS[scale], ASKED[scale], consolidate=True, compile=model == "discrete")
            for run in runs:
                each = networks(run, question, device)
                # What is compiled knows no seed of the training: it is made beside the first.
                kept = each if run is runs[0] else [n for n in each if n.made != "compiled"]
                found.setdefault(task, {}).setdefault(model, []).extend(kept)
        return [_panel(scale, task, models) for task, models in found.items()]

    return Recipe(
        title="Proved at every length, or refuted",
        description=DESCRIPTION,
        grid=Grid([Cell((t, m), partial(planned, scale, t, m), label=t) for t in TASKS[scale] for m in MODELS]),
        report=report,
    )


def task_of(row: str, supervision: str) -> tasks.Task:
    name, params = GIVEN.get(row, (row, {}))
    return tasks.get(name, **params, supervision=supervision)


def planned(scale: Scale, row: str, model: str) -> list[Experiment]:
    settings = settings_of(RULES[scale], row, model)
    task, seeds = task_of(row, settings.pop("supervision")), settings.pop("seeds")
    return plan(
        task,
        [MODELS[model].preset],
        seeds=seeds,
        test_lengths=task.lengths(ASKED[scale].near - 1, ASKED[scale].near)[-1:],
        settings={**settings, **MODELS[model].settings},
    )


def _panel(scale: Scale, row: str, models: Mapping[str, list[Network]]) -> Panel:
    asked = ASKED[scale]
    far = [f"{n:,}" for n in asked.far]
    decided = ["model", "made", "parts", "raw", "snapped", "s"]
    tested = ["wrong at", str(asked.near), *far]
    each = [(name, network) for name, made in models.items() for network in made]
    first, second = [], []
    for name, n in each:
        parts = "–" if n.parts is None else f"{n.parts:,}"
        first.append([name, n.made, parts, n.raw, n.snapped or "–", f"{n.seconds:.0f}"])
        second.append(["–" if n.wrong is None else f"{n.wrong:,}", _percent(n.near)])
        second[-1] += [_percent(n.far.get(str(length))) for length in asked.far]
    short = ["model", "made", "wrong", *tested[1:]]
    beneath = [[*a[:2], *b] for a, b in zip(first, second, strict=True)]
    strings = " and ".join(f"{count:,}" for count in asked.far.values())
    caption = CAPTION.format(near=asked.near, far=" and ".join(far), strings=strings, seconds=BUDGETS[scale].certify)
    table = text_table(
        f"{row}: {_elements(row)}",
        caption,
        decided + tested,
        [a + b for a, b in zip(first, second, strict=True)],
        {name: [asdict(n) for n in made] for name, made in models.items()},
    )
    # Narrow terminals have two tables of 60 columns, one beneath the other.
    text = in_columns(decided, first, "<<><<>") + "\n\n" + in_columns(short, beneath, "<<" + ">" * len(tested))
    return replace(table, text=text, finding=_finding(row, each))


def _elements(row: str) -> str:
    """How many elements the algebra of trees of two has."""
    try:
        return f"{len(MachineAlgebra(verify.claim_of(task_of(row, 'last')), 2)):,} elements"
    except Error:
        return "more elements than are counted"


def _finding(row: str, each: list[tuple[str, Network]]) -> str:
    proved = [f"{name} ({n.made}{'' if n.raw == 'proved' else ', snapped'})" for name, n in each if _proved(n)]
    return f"{row}: proved at every length: {', '.join(proved) or 'none'}."


def _proved(network: Network) -> bool:
    return "proved" in (network.raw, network.snapped)


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share)
