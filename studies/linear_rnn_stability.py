"""Stability: what the bounds on the transitions do to states and gradients, and who still knows Sum(5) far beyond.

A rotation is never learned exactly, so a model that is right on all strings of 500 tokens turns a little too far at
every step, and its answers drift off by one, then by two. `DRIFT` is what might hold it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from hundred_thousand_tokens import LengthScore, to_json
from linear_rnn_ablation import STRINGS, TRAINED, plan_changed, scores_by_length, written
from torch import Tensor, nn

from lengthwise import tasks
from lengthwise.lab import Run, load_model, load_task, new_model
from lengthwise.mixers import BlockLRNN
from lengthwise.ops import block_scan
from lengthwise.recipes import Cell, Grid, Recipe, Scale
from lengthwise.report import Panel, Table, line_chart, percent
from lengthwise.seeds import generator

HOLDS = 0.95
"""A model holds at a length where at least this share of its strings is right."""
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
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 5, "paper": 5}
"""Of each variant: whether a model is still right at 500 tokens differs from seed to seed."""
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
        "How much the last state changes with the state n tokens before it; at 1 it neither fades nor grows.",
    ),
    "by_input": (
        "Gradient by the input",
        "tokens back",
        "‖∂x_T/∂u_(T-n)‖",
        "How much the last state changes with the vector of the token n places back, which also sets its transition.",
    ),
}


class StabilityKey(NamedTuple):
    study: Literal["bound", "drift"]
    name: str


def recipe(scale: Scale) -> Recipe:
    """The linear RNN's states, gradients and accuracy on Sum(5) to 10,000 tokens, by the bound on its transitions."""
    changes = {StabilityKey("bound", name): {"model.normalisation": name} for name in NORMALISATIONS}
    changes |= {StabilityKey("drift", name): {**change, "seeds": SEEDS[scale]} for name, change in DRIFT.items()}
    lengths, strings = LENGTHS[scale], STRINGS[scale]

    def report(finished: Mapping[StabilityKey, list[Run]], device: str) -> list[Panel]:
        scores = {
            key.name: scores_by_length(runs, lengths, strings, device)
            for key, runs in finished.items()
            if key.study == "drift"
        }
        drawn = [_accuracy(scores, strings), _table(scores)] if scores else []
        growths = {
            key.name: growths_of(runs[0], lengths[-1], device) for key, runs in finished.items() if key.study == "bound"
        }
        return drawn + [_growth(what, when, growths) for what in WHAT for when in ("trained", "untrained") if growths]

    return Recipe(
        title=f"Block-diagonal linear RNN: stability to {lengths[-1]:,} tokens",
        description=(
            f"The models learn Sum(5) at {TRAINED} tokens and are tested far beyond. A linear recurrence multiplies "
            "its state by one matrix a token. If these matrices stretch, states and gradients explode. If they shrink, "
            "what was read is forgotten. If they turn the state by not quite the right angle, answers drift off."
        ),
        grid=Grid([Cell(key, partial(plan_changed, scale, change)) for key, change in changes.items()]),
        report=report,
    )


def growths_of(run: Run, longest: int, device: str) -> dict[str, Growth]:
    """The growth in a run's model, trained and as it was before its first step."""
    task = load_task(run)
    return {
        "trained": growth(load_model(run), task, longest, device),
        "untrained": growth(new_model(run.experiment), task, longest, device),
    }


def _growth(what: str, when: str, growths: Mapping[str, Mapping[str, Growth]]) -> Panel:
    title, x, y, caption = WHAT[what]
    values: dict[str, Values] = {name: getattr(by_when[when], what) for name, by_when in growths.items()}
    at = next(iter(growths.values()))[when].lengths
    # A line without any value has no place on a logarithmic axis.
    series = {
        name: (at, [_plain(v) for v in line]) for name, line in values.items() if any(v is not None for v in line)
    }
    lost = [name for name in values if name not in series]
    lost_text = f" Not drawn, for it over- or underflows at every length: {', '.join(lost)}." if lost else ""
    return line_chart(
        f"{title}, {when}",
        f"{caption} Two strings, first seed, double precision. A line ends where it over- or underflows.{lost_text}",
        x,
        y,
        series,
        log_x=True,
        log_y=True,
    )


def _plain(value: float | None) -> float:
    return float("nan") if value is None else value


Scores = Mapping[str, Mapping[int, LengthScore]]


def _accuracy(scores: Scores, strings: int) -> Panel:
    series = {
        name: (list(by_length), [_plain(None if score.overflowed else score.mean) for score in by_length.values()])
        for name, by_length in scores.items()
    }
    last = max(n for by_length in scores.values() for n in by_length)
    at_last = {name: by_length[last] for name, by_length in scores.items()}
    hold = [name for name, score in at_last.items() if not score.overflowed and score.mean >= HOLDS]
    return line_chart(
        "Sum(5), far beyond training",
        f"Right on at least {100 * HOLDS:.0f}% at {last:,} tokens: {', '.join(hold) or 'none'}. Mean over seeds at the "
        f"last checkpoint, with {strings} strings each beyond {TRAINED} tokens. A constant answer is right on about "
        "20%. A line ends where the logits overflow.",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
    )


def _table(scores: Scores) -> Panel:
    lengths = list(next(iter(scores.values())))
    rows = [[name, *(_cell(by_length[n]) for n in lengths)] for name, by_length in scores.items()]
    caption = (
        "Accuracy in %: the mean over seeds, and in brackets the worst and the best of them. Each variant is the "
        "default model with one part changed. Overflows: the logits of some strings are no longer finite."
    )
    data = [
        {"variant": name, "settings": DRIFT[name], "accuracy": to_json(by_length)} for name, by_length in scores.items()
    ]
    return Table("What might stop the drift", caption, ["", *(f"{n:,}" for n in lengths)], rows, data=data)


def _cell(score: LengthScore) -> str:
    if score.overflowed or len(score.right) == 1:
        return written(score)
    each: Sequence[float] = [right / score.strings for right in score.right]
    return f"{percent(score.mean)} ({percent(min(each))}–{percent(max(each))})"


# How states and gradients grow with the length, in one layer of the block-diagonal linear RNN.
#
#     ‖x_t‖,    ‖∂x_T/∂x_(T-n)‖ / √(hb),    ‖∂x_T/∂u_(T-n)‖          Frobenius
#
# The first Jacobian is the product A_T … A_(T-n+1), which is 1 on this scale where every A is orthogonal; the second
# also has what u does to A. Both are estimated by projections r of signs, for E |rᵀJ|² = ‖J‖². In double precision;
# what over- or underflows there is None.
#
# Shapes: B strings, T tokens, D model width, h blocks, b width of a block.

PROBES, PROJECTIONS = 2, 8
"""Strings, and projections of each."""
POINTS = 8
"""To a tenfold length."""

Values = tuple[float | None, ...]


class Growth(NamedTuple):
    lengths: tuple[int, ...]
    """t of the states, and n of the gradients."""
    states: Values
    by_state: Values
    by_input: Values


def places(longest: int) -> tuple[int, ...]:
    """
    >>> places(30)
    (1, 2, 3, 4, 6, 7, 10, 13, 18, 24, 29)
    """
    last = longest - 1
    steps = range(math.ceil(POINTS * math.log10(last)))
    return tuple(sorted({round(10 ** (i / POINTS)) for i in steps} | {last}))


def growth(model: nn.Module, task: tasks.Task, longest: int, device: str = "cpu") -> Growth:
    """In the model's last layer, on test strings of this length."""
    model = model.to(device).double().eval()
    tokens = task.test_set(longest, PROBES).tokens.to(device)
    mixer, u = _last_mixer(model, tokens)
    with torch.no_grad():
        A, v = mixer.transitions(u)
        first = v.new_zeros(1, *mixer.shape) if mixer.initial is None else mixer.initial[None]
    states, final = block_scan(A, v.requires_grad_(), first)
    before = torch.cat([first.detach().expand(PROBES, 1, -1, -1), states.detach()[:, :-1]], 1)
    at = places(longest)
    back = [longest - 1 - n for n in at]
    # u moves its own step alone, so the networks need only the u at the places that are measured.
    few = u[:, back].requires_grad_()
    A_few, v_few = mixer.transitions(few)
    step = (A_few @ before[:, back].unsqueeze(-1)).squeeze(-1) + v_few
    draw = generator("growth", longest)
    by_state, by_input = (torch.zeros(PROBES, len(at), dtype=torch.float64, device=device) for _ in range(2))
    for _ in range(PROJECTIONS):
        r = torch.randint(2, final.shape, generator=draw).to(final) * 2 - 1
        (g,) = torch.autograd.grad(final, v, r, retain_graph=True)
        (gu,) = torch.autograd.grad(step, few, g[:, back], retain_graph=True)
        by_state += g[:, back].flatten(2).square().sum(-1) / (PROJECTIONS * final[0].numel())
        by_input += gu.square().sum(-1) / PROJECTIONS
    norms = states.detach()[:, [t - 1 for t in at]].flatten(2).norm(dim=-1)
    return Growth(at, _means(norms), _means(by_state.sqrt()), _means(by_input.sqrt()))


def _last_mixer(model: nn.Module, tokens: Tensor) -> tuple[BlockLRNN, Tensor]:
    """The last mixer, and the vectors (B,T,D) it is given for these tokens."""
    mixer = [m for m in model.modules() if isinstance(m, BlockLRNN)][-1]
    inputs: list[Tensor] = []

    def note(_: object, arguments: tuple[Tensor, ...], named: dict[str, Tensor | None]) -> None:
        index = named.get("index")
        inputs.append(arguments[0] if index is None else arguments[0][index])

    handle = mixer.register_forward_pre_hook(note, with_kwargs=True)
    try:
        with torch.no_grad():
            model(tokens)
    finally:
        handle.remove()
    return mixer, inputs[0]


def _means(x: Tensor) -> Values:
    """Over strings, the geometric mean: of numbers of very unlike size the greatest would be all that counts."""
    return tuple(y if 0 < y < math.inf else None for y in x.log().mean(0).exp().tolist())
