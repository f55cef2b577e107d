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
    "machine's algebra, where it was not proved before) or compiled (nothing of it was learned from strings). Who is "
    "wrong on more than 5% of held-out strings of the training lengths is refused, and not consolidated."
)
CAPTION = (
    "kept: how many of the trained network's own codes (discrete), sets of nodes (RegularGPT), neurons (RNN, GRU, "
    "LSTM) or entries of the first state (automaton) a network that was taught has kept. raw: the network as it is; "
    "snapped: with every node replaced by the nearest of finitely many centres (– where a network has no such "
    "nodes). s: seconds to make the network, after training, and to decide about it. in: the arithmetic that the "
    "proof is about; parts: how many elements, sets or states it goes through; conditions: how many nodes, steps "
    "and answers the checker evaluated. wrong at: the length of the shortest word found that it gets wrong. Then "
    "accuracy in %: over every length from 1 to 40, odd ones too, each right answer as often as any other; over "
    "{lengths} lengths up to {near:,} at which the task has strings of more than one answer, {samples} strings "
    "each; and at {far} tokens, on {strings} words whose answer is open until the end. – : not tested, since the "
    "network is wrong before, or takes a step of its own for each of so many tokens. Each has {seconds:g} s of "
    "search and reasoning: what is unknown may be proved "
    "in more."
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
                kept = each if run is runs[0] else [n for n in each if n.made != "compiled" or n.kept]
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
    decided, proof = ["kept", "raw", "snapped"], ["in", "parts", "conditions", "s"]
    tested = ["wrong at", "1–40", str(asked.near), *far]
    each = [(name, network) for name, made in models.items() for network in made]
    names, first, second, third = [], [], [], []
    for name, n in each:
        names.append([name, n.made])
        kept = "–" if n.kept is None else f"{n.kept['own']}/{n.kept['all']}"
        first.append([kept, n.raw, n.snapped or "–"])
        second.append([n.arithmetic or "–", _whole(n.parts), _whole(n.conditions), f"{n.seconds:.0f}"])
        third.append([_whole(n.wrong), _percent(n.short), _percent(n.near)])
        third[-1] += [_percent(n.far.get(str(length))) for length in asked.far]
    caption = CAPTION.format(
        near=asked.near,
        far=" and ".join(far),
        strings=" and ".join(f"{count:,}" for count in asked.far.values()),
        seconds=BUDGETS[scale].certify,
        lengths=f"about {asked.lengths}",
        samples=asked.samples,
    )
    parts = ((decided, first), (proof, second), (tested, third))
    table = text_table(
        f"{row}: {_elements(row)}",
        caption,
        ["model", "made", *decided, *proof, *tested],
        [[cell for cells in line for cell in cells] for line in zip(names, first, second, third, strict=True)],
        {name: [asdict(n) for n in made] for name, made in models.items()},
    )
    # Narrow terminals have three tables of 60 columns, one beneath the other.
    text = "\n\n".join(
        in_columns(
            ["model", "made", *map(_narrow, head)],
            [[*name, *cells] for name, cells in zip(names, lines, strict=True)],
            "<<" + ">" * len(head),
        )
        for head, lines in parts
    )
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


def _narrow(head: str) -> str:
    """
    >>> [_narrow(head) for head in ("wrong at", "500", "100,000", "1,000,000")]
    ['wrong', '500', '100k', '1M']
    """
    return head.removesuffix(" at").replace(",000,000", "M").replace(",000", "k")


def _whole(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share)
