"""Stability: what the bounds on the transitions do to states and gradients, and who still knows Sum(5) far beyond.

A rotation is never learned exactly, so a model that is right on all strings of 500 tokens turns a little too far at
every step, and its answers drift off by one, then by two. `DRIFT` is what might hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import tasks
from ...lab import Run, load_model
from ...report import Panel, line_chart, text_table
from ...report.formatting import percent
from ..base import Recipe, Scale
from ..regulargpt.far import HOLDS, Point
from .ablation import written
from .growth import Growth, Values, grown, untrained
from .sums import STRINGS, TRAINED, asked_on, changed, to_json

NORMALISATIONS = ("paper", "official", "orthogonal", "none")
DRIFT: dict[str, dict[str, Any]] = {
    "default": {},
    "p = 1": {"model.p": 1.0},
    "official": {"model.normalisation": "official"},
    "orthogonal": {"model.normalisation": "orthogonal"},
    "linear maps": {"model.transition": "linear", "model.inputs": "linear"},
    "orthogonal, no inputs": {"model.normalisation": "orthogonal", "model.inputs": "none"},
    "automaton": {"model.variant": "automaton", "model.normalisation": "one-hot"},
}
"""Settings of each variant, as `bench --set` takes them: of the model or of its training."""
LENGTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (50, 60),
    "laptop": (500, 1_000, 2_000, 5_000, 10_000),
    "paper": (500, 1_000, 2_000, 5_000, 10_000),
}
WHAT = {
    "states": ("State norm", "tokens", "‖x_t‖", "The norm of the state after so many tokens."),
    "by_state": (
        "Gradient by the state",
        "tokens back",
        "‖∂x_T/∂x_(T-n)‖ / √(hb)",
        "How the last state answers to a small change of the state n tokens before it; 1: neither faded nor grown.",
    ),
    "by_input": (
        "Gradient by the input",
        "tokens back",
        "‖∂x_T/∂u_(T-n)‖",
        "The same for the vector of the token n places before the last, which also moves the transition there.",
    ),
}


def stability(scale: Scale) -> Recipe:
    """State norm, gradient norm and accuracy on Sum(5) to 10,000 tokens, by the bound on the transitions."""
    bounds = {name: changed(scale, {"model.normalisation": name}) for name in NORMALISATIONS}
    options = {name: changed(scale, change) for name, change in DRIFT.items()}
    lengths, strings = LENGTHS[scale], STRINGS[scale]

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        bound, option = (
            {name: of for name, es in group.items() if (of := [found[e.hash] for e in es if e.hash in found])}
            for group in (bounds, options)
        )
        points = {name: asked_on(of, lengths, strings) for name, of in option.items()}
        drawn = [_accuracy(points, strings), _table(points)] if points else []
        growths = {name: measured(of[0], lengths[-1]) for name, of in bound.items()}
        return drawn + [_growth(what, when, growths) for what in WHAT for when in ("trained", "untrained") if growths]

    return Recipe(
        title=f"Block-diagonal linear RNN: stability to {lengths[-1]:,} tokens",
        description=(
            f"Sum(5) is learned at {TRAINED} tokens and asked far beyond. A linear recurrence multiplies one "
            "transition a token: if they stretch, states and gradients explode; if they shrink, what was read is "
            "forgotten; if they turn by not quite the right angle, every answer drifts off."
        ),
        experiments=list({e.hash: e for group in (bounds, options) for es in group.values() for e in es}.values()),
        panels=panels,
    )


def measured(run: Run, longest: int) -> dict[str, Growth]:
    """Of a run's model, trained and as it was before its first step."""
    spec = run.experiment.task
    task = tasks.get(spec.name, **spec.params)
    return {
        "trained": grown(load_model(run), task, longest),
        "untrained": grown(untrained(run.experiment), task, longest),
    }


def _growth(what: str, when: str, growths: Mapping[str, Mapping[str, Growth]]) -> Panel:
    title, x, y, caption = WHAT[what]
    values: dict[str, Values] = {name: getattr(of[when], what) for name, of in growths.items()}
    at = next(iter(growths.values()))[when].lengths
    # A line of nothing has no place on the axis.
    series = {name: (at, [_plain(v) for v in of]) for name, of in values.items() if any(v is not None for v in of)}
    lost = [name for name in values if name not in series]
    said = f" Not to be had anywhere: {', '.join(lost)}." if lost else ""
    return line_chart(
        f"{title}, {when}",
        f"{caption} Two strings, in double precision, the first seed; a line ends where it over- or underflows.{said}",
        x,
        y,
        series,
        log_x=True,
        log_y=True,
    )


def _plain(value: float | None) -> float:
    return float("nan") if value is None else value


Points = Mapping[str, Mapping[int, Point]]


def _accuracy(points: Points, strings: int) -> Panel:
    series = {
        name: (list(of), [_plain(None if p.overflowed else p.mean) for p in of.values()]) for name, of in points.items()
    }
    last = max(n for of in points.values() for n in of)
    hold = [name for name, of in points.items() if not of[last].overflowed and of[last].mean >= HOLDS]
    return line_chart(
        "Sum(5), far beyond training",
        f"Right on at least {100 * HOLDS:.0f}% at {last:,} tokens: {', '.join(hold) or 'none'}. Mean over seeds at the "
        f"last checkpoint, {strings} strings each beyond {TRAINED} tokens; always giving the commonest answer is right "
        "in 20%. A line ends where the logits overflow.",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
    )


def _table(points: Points) -> Panel:
    lengths = list(next(iter(points.values())))
    rows = [[name, *(_cell(of[n]) for n in lengths)] for name, of in points.items()]
    caption = (
        "Accuracy in %, the mean over seeds (the least and the greatest of them). Of settings not named a variant has "
        "the default's. Overflows: the logits of some strings are no longer finite."
    )
    data = [{"variant": name, "settings": DRIFT[name], "accuracy": to_json(of)} for name, of in points.items()]
    return text_table("What might hold the phase", caption, ["", *(f"{n:,}" for n in lengths)], rows, data)


def _cell(point: Point) -> str:
    if point.overflowed or len(point.right) == 1:
        return written(point)
    each: Sequence[float] = [right / point.strings for right in point.right]
    return f"{percent(point.mean)} ({percent(min(each))}–{percent(max(each))})"
