"""`lengthwise inspect`: look inside the model of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..errors import Error
from ..files import must_exist
from ..options import at_least
from . import console
from .typed import Checkpoint
from .verb import Typed, verb
from .work import Output, Trust, beside_run, one_run, watched

if TYPE_CHECKING:
    from ..lab import Run
    from ..report import Panel
    from ..tasks import Task


@dataclass(frozen=True)
class Looking:
    """Options of how a view looks."""

    length: Annotated[
        int | None,
        at_least(1),
        "The length of each string.",
        Typed(default="500, or the longest possible below; attention: 24, of Boxes 6 operations"),
    ] = None
    strings: Annotated[
        int | None,
        at_least(1),
        "How many strings the model reads.",
        Typed(default="16; clusters, and attention but of Boxes: 1"),
    ] = None
    checkpoint: Checkpoint = "last"
    head: Annotated[
        str | None,
        "Which head attention draws; both counted from 0.",
        Typed("LAYER.HEAD", default="the one whose links are most often true, or most pointed"),
    ] = None
    snapped: Annotated[Path | None, "algebra: write the model with its nodes snapped to it here.", Typed("DIR")] = None
    trust: Trust = False

    def check(self, view: str) -> None:
        """Raises for what a view does not take."""
        if self.head is not None and view != "attention":
            raise Error(f"--head chooses what attention draws, got view {view}. Leave it out.")
        if view != "algebra" and self.snapped is not None:
            raise Error(f"--snapped writes what algebra finds, got view {view}. Leave it out.")
        if view == "algebra" and (self.length, self.strings) != (None, None):
            raise Error("--length and --strings are for the other views: algebra looks at all lengths. Leave them out.")


@verb
def inspect(
    *,
    run: Annotated[Path, "A run directory.", Typed("RUN", argument=True)],
    view: Annotated[
        Literal["clusters", "receptive-field", "attention", "algebra"],
        "What to look at: clusters, receptive-field, attention or algebra.",
        Typed("VIEW", argument=True),
    ],
    looking: Looking,
    output: Output,
) -> None:
    """Look inside a trained model, whatever its kind.

    [bold]clusters[/bold]: the clusters its blocks' outputs form, and whether these are its task's transitions.

    [bold]receptive-field[/bold]: how far back the last answer depends on the text, measured by the gradient.

    [bold]attention[/bold]: which tokens each head of attention links and, for Boxes, how many links are true.

    [bold]algebra[/bold]: the finite algebra or machine that it is, and the first string where the task's differs.

    Example: [bold]lengthwise inspect runs/parity-regular-gpt-s0-1a2b clusters --html clusters.html[/bold]
    """
    must_exist(run)
    from .. import lab

    of, checkpoint = one_run("inspect", run), looking.checkpoint
    looking.check(view)
    with console.stdout_kept(output.as_json):
        task = lab.load_task(of, trust=looking.trust)
        insights, panel = _look(of, task, view, looking)
    output.show(
        [panel],
        {"run": str(of.path), "view": view, "checkpoint": checkpoint, **insights.to_json()},
        f"Snapped model: {looking.snapped}" if looking.snapped else "",
        runs=[of],
        title=f"Inside {of.experiment.model.name} on {task.name}",
        description=f"The {checkpoint} checkpoint of {of.path.name}. Below: how it was trained and tested.",
    )


def _look(of: Run, task: Task, view: str, looking: Looking) -> tuple[Any, Panel]:
    """Returns what was seen, and the panel that draws it."""
    from .. import insight, lab, report, verify
    from ..verify.falsification.hunt import Stage
    from ..verify.verdict_files import keep_extracted

    layer_and_head = None if looking.head is None else numbered(looking.head)
    classifier = lab.load_model(of, looking.checkpoint, trust=looking.trust)
    if view == "algebra":
        extraction = verify.extract(classifier, task)
        with beside_run("What was extracted"):
            keep_extracted(of, extraction, looking.checkpoint)
        if looking.snapped is not None:
            extraction.snap().save_pretrained(looking.snapped)
        return extraction, report.extracted(extraction, f"{of.experiment.model.name} on {task.name}")
    length = insight.readable_length(task) if view == "attention" and looking.length is None else looking.length
    tokens = insight.probe_strings(task, length, looking.strings or (16 if view == "receptive-field" else 1))
    if view == "clusters":
        clusters = insight.find_clusters(classifier, tokens, task=task)
        return clusters, report.clusters(clusters)
    if view == "attention":
        with watched("inspect") as watch:
            tell = lambda done, of: watch(Stage(f"layer {done} of {of}", done / of))  # noqa: E731
            links = insight.find_links(classifier, task, tokens, tell)
        return links, report.attention(links, layer_and_head)
    field = insight.measure_receptive_field(classifier, tokens, task=task.name)
    return field, report.receptive_field(field)


def numbered(head: str) -> tuple[int, int]:
    """
    >>> numbered("1.3")
    (1, 3)
    """
    layer, dot, number = head.partition(".")
    if not (dot and layer.isdecimal() and number.isdecimal()):
        raise Error(f"--head is LAYER.HEAD, two numbers counted from 0, got {head!r}. For example --head 1.0.")
    return int(layer), int(number)
