"""`lengthwise inspect`: look inside the model of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from ..errors import Error
from ..files import must_exist
from ..options import at_least
from . import console
from .typed import Checkpoint, Html
from .verb import Typed, verb
from .work import Trust, page_path, print_panels, watched

if TYPE_CHECKING:
    from .. import lab, verify
    from ..tasks import Task


@verb
def inspect(
    run: Annotated[Path, "A run directory.", Typed("RUN", argument=True)],
    view: Annotated[
        Literal["clusters", "receptive-field", "attention", "algebra"],
        "What to look at: clusters, receptive-field, attention or algebra.",
        Typed("VIEW", argument=True),
    ],
    length: Annotated[
        int | None,
        at_least(1),
        "The length of each string.",
        Typed(default="500, or the longest possible below; attention: 24, of Boxes 6 operations"),
    ] = None,
    strings: Annotated[
        int | None,
        at_least(1),
        "How many strings the model reads.",
        Typed(default="16; clusters, and attention but of Boxes: 1"),
    ] = None,
    checkpoint: Checkpoint = "last",
    head: Annotated[
        str | None,
        "Which head attention draws; both counted from 0.",
        Typed("LAYER.HEAD", default="the one whose links are most often true, or most pointed"),
    ] = None,
    snapped: Annotated[Path | None, "algebra: write the model with its nodes snapped to it here.", Typed("DIR")] = None,
    trust: Trust = False,
    html: Html = None,
    as_json: console.Json = False,
) -> None:
    """Look inside a trained model, whatever its kind.

    [bold]clusters[/bold]: the clusters its blocks' outputs form, and whether these are its task's transitions.

    [bold]receptive-field[/bold]: how far back the last answer depends on the text, measured by the gradient.

    [bold]attention[/bold]: which tokens each head of attention links and, for Boxes, how many links are true.

    [bold]algebra[/bold]: the finite algebra or machine that it is, and the first string where the task's differs.

    Example: [bold]lengthwise inspect runs/parity-regular-gpt-s0-1a2b clusters --html clusters.html[/bold]
    """
    must_exist(run)
    from .. import insight, lab, models, report, verify
    from ..verify.falsification.hunt import Stage

    runs = lab.load(run)
    if len(runs) > 1:
        raise Error(f"inspect looks at one run, and {run} holds {len(runs)}. Give one of them, such as {runs[0].path}.")
    if head is not None and view != "attention":
        raise Error(f"--head chooses what attention draws, got view {view}. Leave it out.")
    if view != "algebra" and snapped is not None:
        raise Error(f"--snapped writes what algebra finds, got view {view}. Leave it out.")
    if view == "algebra" and (length, strings) != (None, None):
        raise Error("--length and --strings are for the other views: algebra looks at all lengths. Leave them out.")
    layer_and_head = None if head is None else numbered(head)
    with console.stdout_kept(as_json):
        task = lab.load_task(runs[0], trust=trust)
        classifier = cast(models.TokenClassifier, lab.load_model(runs[0], checkpoint, trust=trust))
        if view == "attention" and length is None:
            length = insight.readable_length(task)
        tokens = None if view == "algebra" else insight.probe_strings(task, length, strings or _usual(view, task))
        if tokens is None:
            seen = verify.extract(classifier, task)
            panel = report.extracted(seen, f"{runs[0].experiment.model.name} on {task.name}")
            _keep(runs[0], seen, checkpoint)
            if snapped is not None:
                seen.snap().save_pretrained(snapped)
        elif view == "clusters":
            seen = insight.find_clusters(classifier, tokens, task=task)
            panel = report.clusters(seen)
        elif view == "attention":
            with watched("inspect") as watch:
                seen = insight.find_links(
                    classifier, task, tokens, lambda done, of: watch(Stage(f"layer {done} of {of}", done / of))
                )
            panel = report.attention(seen, layer_and_head)
        else:
            seen = insight.measure_receptive_field(classifier, tokens, task=task.name)
            panel = report.receptive_field(seen)
    title = f"Inside {runs[0].experiment.model.name} on {task.name}"
    lead = f"The {checkpoint} checkpoint of {runs[0].path.name}. Below: how it was trained and tested."
    page = report.html(runs, page_path(html), title=title, description=lead, panels=[panel]) if html else None
    if as_json:
        about = {"run": str(runs[0].path), "view": view, "checkpoint": checkpoint}
        console.emit({**about, **seen.to_json(), "page": str(page) if page else None})
        return
    print_panels([panel])
    if page:
        console.out().print(f"\nPage: {page}", markup=False)
    if snapped:
        console.out().print(f"\nSnapped model: {snapped}", markup=False)


def _keep(run: lab.Run, seen: verify.Extracted, checkpoint: str) -> None:
    """Beside the run, where its page finds it."""
    from ..verify.kept import keep_extracted

    try:
        keep_extracted(run, seen, checkpoint)
    except OSError as error:
        console.remark(f"What was extracted is not kept beside the run: {error.strerror or error}.")


def _usual(view: str, task: Task) -> int:
    """How many strings are looked at; of attention more than one is only read to judge it by a graph."""
    return 16 if view == "receptive-field" or (task.name == "boxes" and view == "attention") else 1


def numbered(head: str) -> tuple[int, int]:
    """
    >>> numbered("1.3")
    (1, 3)
    """
    layer, dot, number = head.partition(".")
    if not (dot and layer.isdecimal() and number.isdecimal()):
        raise Error(f"--head is LAYER.HEAD, two numbers counted from 0, got {head!r}. For example --head 1.0.")
    return int(layer), int(number)
