"""Task × model: which trained networks are proved right at every length, and which are refuted.

A tree or a recurrence is certified as training left it. Where it is not proved so, a copy of a recurrence is taught the
machine that is extracted from it; where that is not proved either, a copy is taught its machine's algebra. Beside
RegularGPT of discrete nodes stands the network that was compiled, without a string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial

from ... import tasks, verify
from ...errors import Error
from ...lab import Experiment, Run
from ...report import Panel, Table, TableCell
from ...report.formatting import counted, table_number
from ...verify.algebra import MachineAlgebra
from ..base import Recipe, Scale
from ..common.grid import Grid, plan_cell
from ..common.rules import settings_of, table_of
from .networks import NetworkQuestion, ProofNetwork, networks, verdict_cell
from .scales import ASKED, BUDGETS, GIVEN, MODELS, RULES, TASKS

Key = tuple[str, str]
"""A cell's task and model."""
PROSE = table_of(__name__)["prose"]


def recipe(scale: Scale) -> Recipe:
    """Trained models proved right at every length, or refuted: seven tasks, six models, learned and taught."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        by_task: dict[str, dict[str, list[ProofNetwork]]] = {}
        for (task, model), runs in finished.items():
            settle = MODELS[model].preset != "regular-gpt"  # trees are snapped to what is extracted from them
            question = NetworkQuestion(BUDGETS[scale], ASKED[scale], settle, True, compile=model == "discrete")
            for run in runs:
                each = networks(run, question, device)
                # What is compiled knows no seed of the training: it is made beside the first.
                of_seed = each if run is runs[0] else [n for n in each if n.made != "compiled" or n.kept]
                by_task.setdefault(task, {}).setdefault(model, []).extend(of_seed)
        return panels(scale, by_task)

    return Recipe(
        title="Proved at every length, or refuted",
        description=PROSE["description"],
        grid=Grid.table(TASKS[scale], MODELS, partial(planned, scale)),
        report=report,
    )


def panels(scale: Scale, by_task: Mapping[str, Mapping[str, list[ProofNetwork]]]) -> list[Panel]:
    """Returns a cell for every task and model, and below it a table of each task with all that was found."""
    return [_matrix(by_task), *(_panel(scale, task, models) for task, models in by_task.items())]


def _matrix(by_task: Mapping[str, Mapping[str, list[ProofNetwork]]]) -> Panel:
    models = list(dict.fromkeys(model for each in by_task.values() for model in each))
    rows = [[task, *(_glance(each[name]) if name in each else "" for name in models)] for task, each in by_task.items()]
    cells = [made for each in by_task.values() for made in each.values()]
    learned = Counter(network.raw for made in cells for network in made if network.made == "learned")
    left = [made for made in cells if not any(n.raw == "proved" for n in made if n.made == "learned")]
    better = sum(any(map(_proved, made)) for made in left)
    finding = (
        f"As training left them, {learned['proved']} of {sum(learned.values())} networks are proved right at every "
        f"length and {learned['refuted']} are refuted by a string. Of the {len(left)} cells where none is proved so, "
        f"{better} have one that is once its nodes are snapped or a copy is taught its machine."
    )
    caption = (
        "In colour the verdict on the network as training left it; at: the length of the shortest string found that it "
        "gets wrong; then: how one is proved that was not so as it was learned."
    )
    return Table("Every task and model", caption, ["", *models], rows, finding=finding)


def _glance(made: Sequence[ProofNetwork]) -> TableCell:
    learned = [network for network in made if network.made == "learned"]
    at = [counted(network.wrong, "token") for network in learned if network.wrong is not None]
    ways = [n.made if n.raw == "proved" else f"{n.made}, snapped" for n in made if _proved(n)]
    # The first way that leaves the most of what was learned.
    then = [("then", f"✓ {ways[0]}")] if ways and not any(n.raw == "proved" for n in learned) else []
    return verdict_cell([network.raw for network in learned], [*([("at", ", ".join(at))] if at else []), *then])


@cache
def task_of(row: str, supervision: str) -> tasks.Task:
    name, params = GIVEN.get(row, (row, {}))
    return tasks.get(name, **params, supervision=supervision)


def planned(scale: Scale, row: str, model: str) -> list[Experiment]:
    settings = settings_of(RULES[scale], row, model)
    task = task_of(row, settings.pop("supervision"))
    return plan_cell(task, MODELS[model], settings, task.lengths(ASKED[scale].near - 1, ASKED[scale].near)[-1:])


def _panel(scale: Scale, row: str, models: Mapping[str, list[ProofNetwork]]) -> Panel:
    strings = ASKED[scale]
    far = [f"{n:,}" for n in strings.far]
    each = [(name, network) for name, made in models.items() for network in made]
    head = ["model", "made", "kept", "raw", "snapped", "in", "parts", "conditions", "s"]
    head += ["wrong at", "1–40", str(strings.near), *far]
    rows = [
        [
            name,
            n.made,
            "–" if n.kept is None else f"{n.kept['own']}/{n.kept['all']}",
            n.raw,
            n.snapped or "–",
            n.arithmetic or "–",
            table_number(n.parts),
            table_number(n.conditions),
            f"{n.seconds:.0f}",
            table_number(n.wrong),
            *(table_number(share, in_percent=True) for share in (n.short, n.near)),
            *(table_number(n.far.get(str(length)), in_percent=True) for length in strings.far),
        ]
        for name, n in each
    ]
    caption = PROSE["caption"].format(
        near=strings.near,
        far=" and ".join(far),
        strings=" and ".join(f"{count:,}" for count in strings.far.values()),
        seconds=BUDGETS[scale].certify,
        lengths=f"about {strings.lengths}",
        samples=strings.samples,
    )
    data = {name: [asdict(n) for n in made] for name, made in models.items()}
    about = {"data": data, "labels": 2, "folded": True, "lead": _finding(row, each)}
    return Table(f"{row}: {_elements(row)}", caption, head, rows, **about)


def _elements(row: str) -> str:
    """How many elements the algebra of trees of two has."""
    try:
        return f"{len(MachineAlgebra(verify.claim_of(task_of(row, 'last')), 2)):,} elements"
    except Error:
        return "more elements than are counted"


def _finding(row: str, each: list[tuple[str, ProofNetwork]]) -> str:
    proved = [f"{name} ({n.made}{'' if n.raw == 'proved' else ', snapped'})" for name, n in each if _proved(n)]
    return f"{row}: proved at every length: {', '.join(proved) or 'none'}."


def _proved(network: ProofNetwork) -> bool:
    return "proved" in (network.raw, network.snapped)
