"""Figure 3: the outputs of all groups on one long string fall into one cluster for each transition, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .... import insight
from ....insight import Clusters
from ....lab import Run, load_model, load_task
from ....lab.statistics import score
from ....report import Panel, record_table
from ....report import clusters as draw_clusters
from ....report.formatting import percent, table_number
from ...base import Recipe, Scale
from .table_1 import Key, cells

MODEL = "regular-gpt C=2"
PUBLISHED = {"parity": 2, "cycle-navigation": 5}
"""The clusters that the paper's figure shows: as many as the task has transitions over many steps."""
LENGTH: dict[Scale, int] = {"smoke": 60, "laptop": 500, "paper": 500}


def recipe(scale: Scale) -> Recipe:
    """The clusters that RegularGPT's outputs form on PARITY (2 expected) and Cycle Navigation (5 expected)."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        runs = {task: mine for (task, _), mine in finished.items()}
        seen = {task: [clusters_of(run, LENGTH[scale], device) for run in mine] for task, mine in runs.items()}
        return [_drawn(task, clusters[0], runs[task][0]) for task, clusters in seen.items()] + [_table(seen, runs)]

    return Recipe(
        title="RegularGPT, Figure 3: clusters of states",
        description=(
            "If every group of RegularGPT composes transitions of the task's machine, its outputs take only as many "
            "values as there are transitions, the same at every depth: two for PARITY, five for Cycle Navigation. A "
            f"model trained on 1 to 40 tokens reads one string of {LENGTH[scale]} tokens. The number of clusters of "
            "its outputs is found without knowledge of the task."
        ),
        grid=cells(scale, PUBLISHED, [MODEL]),
        report=report,
    )


def clusters_of(run: Run, length: int, device: str) -> Clusters:
    """The clusters of one run's outputs on the task's first test string of this length."""
    task = load_task(run)
    classifier = load_model(run).to(device)
    return insight.find_clusters(classifier, insight.probe_strings(task, length), task=task)


def _drawn(task: str, clusters: Clusters, run: Run) -> Panel:
    panel = draw_clusters(clusters)
    verdict = f"{clusters.count} clusters found, {PUBLISHED[task]} expected"
    caption = f"{MODEL}, seed {run.experiment.seed}. The paper's figure shows {PUBLISHED[task]}. {panel.caption}"
    return replace(panel, title=f"{task}: {verdict}", caption=caption, finding=f"On {task}: {verdict}.")


def _table(seen: dict[str, list[Clusters]], runs: dict[str, list[Run]]) -> Panel:
    """Every run: the count, and whether the model was right to begin with."""
    pairs = [(run, clusters) for task, of in seen.items() for run, clusters in zip(runs[task], of, strict=True)]
    records = []
    for run, clusters in pairs:
        e, truth = run.experiment, clusters.truth
        beyond = score(run, [n for n in e.tests.lengths if n > e.training.curriculum.lengths[1]])
        agreement = truth.agreement if truth else None
        apart = clusters.distance / clusters.radius if clusters.distance and clusters.radius else None
        records.append(
            {
                "task": e.task.name,
                "seed": e.seed,
                "learning_rate": e.training.optimizer.lr,
                "clusters": clusters.count,
                "expected": PUBLISHED[e.task.name],
                "apart": apart,
                "agreement": agreement,
                "accuracy_beyond_training": beyond,
            }
        )
    as_expected = sum(row["clusters"] == row["expected"] for row in records)
    several_rates, most = len({row["learning_rate"] for row in records}) > 1, pairs[0][1].most
    return record_table(
        "Every seed",
        f"{as_expected} of {len(records)} runs have as many clusters as expected. Apart: the distance between the "
        "closest two centres over the radius of the widest cluster. Agree: the share of the outputs whose true "
        "transition is that of most of their cluster. Accuracy: beyond the training lengths, from the run's record; a "
        "model that is wrong there need have no clean clusters.",
        records,
        {
            "": lambda row: f"{row['task']}, seed {row['seed']}" + f", rate {row['learning_rate']:g}" * several_rates,
            "clusters": lambda row: f"{row['clusters']}" + " or more" * (row["clusters"] == most),
            "expected": lambda row: f"{row['expected']}",
            "apart": lambda row: "–" if row["apart"] is None else f"{row['apart']:.1f}",
            "agree, %": lambda row: table_number(row["agreement"], in_percent=True),
            "accuracy, %": lambda row: percent(row["accuracy_beyond_training"]),
        },
    )
