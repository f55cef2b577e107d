"""What predicts at which length a network fails: signs that are read off strings of training lengths alone.

With h(u) what the head reads after u, q(u) the state of the task's machine, and m(u) the margin, the right logit minus
the largest other:

    spread   95% quantile of |h(u) - mean of its state|, over the least distance between the means of two states
    fading   95% quantile of (|h(uw) - h(vw)| / |h(u) - h(v)|)^(1/|w|), q(u) = q(v): what a token leaves of an error
    margin   least m(u), over its median
    drift    where a line through the least margins of each length reaches 0

A proof needs all four to be good. Which of them orders networks by the first length found at which they are wrong?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from torch import nn

from lengthwise import lab, tasks, verify
from lengthwise.lab import Experiment, Run
from lengthwise.recipes import Cell, Grid, Recipe, Scale
from lengthwise.recipes.proof import networks, scales, steady
from lengthwise.report import Panel, Table, scatter_plot

Key = tuple[str, str, str]
"""A cell's task, model and way of training."""
TASKS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("parity",),
    "laptop": ("parity", "even-pairs", "cycle-navigation", "s3-words", "tomita-5", "tomita-6"),
    "paper": ("parity", "even-pairs", "cycle-navigation", "s3-words", "tomita-5", "tomita-6"),
}
WAYS: dict[Scale, tuple[tuple[str, str], ...]] = {
    "smoke": (("RNN", "steady"), ("GRU", "steady")),
    "laptop": tuple(product(("RNN", "GRU", "LSTM"), ("as usual", "steady"))),
    "paper": tuple(product(("RNN", "GRU", "LSTM"), ("as usual", "varied, noise", "steady"))),
}
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 2, "paper": 10}
SECONDS: dict[Scale, float] = {"smoke": 1.0, "laptop": 20.0, "paper": 60.0}
"""To decide about one network."""
STRINGS, SHORTEST = 1024, 8
"""How many strings are read; the first symbols of a string are left out."""
BETTER = {"spread": -1, "fading": -1, "margin": 1, "drift": 1}
"""Whether a network with more of the sign should fail later."""
CAPTION = (
    "In how many of 100 pairs of networks with different first failing lengths the sign is better in the one that "
    "fails later; 50 is a coin's. A network that is proved, or of which no wrong string was found, fails later than "
    "any other. all: every pair; failing: pairs of networks that both fail. Signs are read off {strings:,} strings of "
    "40 symbols, half of them with symbol probabilities of their own."
)


def recipe(scale: Scale) -> Recipe:
    """Four signs in strings of 40 symbols, and the length at which a network is first found wrong."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        question = networks.NetworkQuestion(scales.Budget(SECONDS[scale], 2 * SECONDS[scale]), None)
        rows = []
        for (task, model, way), runs in finished.items():
            for run in runs:
                network = networks.networks(run, question, device)[0]
                read = signs(lab.load_model(run).to(device), lab.load_task(run))
                row = {"task": task, "model": model, "way": way, "seed": run.experiment.seed, **read}
                rows.append({**row, "verdict": network.raw, "wrong": network.wrong})
        return panels(rows)

    return Recipe(
        title="What predicts failure",
        description=__doc__ or "",
        grid=Grid(
            [
                Cell((task, *way), partial(planned, scale, task, *way), label=task)
                for task, way in product(TASKS[scale], WAYS[scale])
            ]
        ),
        report=report,
    )


def planned(scale: Scale, row: str, model: str, way: str) -> list[Experiment]:
    """Returns runs of `proof steady`, as many as both have."""
    return steady.planned(scale, row, model, way)[: SEEDS[scale]]


@torch.no_grad()
def signs(model: nn.Module, task: tasks.Task) -> dict[str, float | None]:
    """Returns the four signs of a network; a drift of None: the margins do not fall."""
    claim, generator = verify.claim_of(task), torch.Generator().manual_seed(0)
    n = task.lengths(30, 40)[-1]
    draws = (task.sample(n, STRINGS // 2, generator), task.sample_varied(n, STRINGS // 2, generator))
    tokens = torch.cat([each.tokens for each in draws])
    states, asked = claim.machine.run(tokens), claim.asked[claim.machine.run(tokens)]
    h, logits = _read(model, tokens)
    right = torch.from_numpy(claim.answers)[states]
    rival = logits.scatter(-1, right[..., None], -math.inf).amax(-1)
    margins = (logits.gather(-1, right[..., None])[..., 0] - rival)[:, SHORTEST:].numpy()
    margins = np.where(asked[:, SHORTEST:], margins, np.inf)
    of_length = margins.min(0)
    seen, q = h[:, SHORTEST:].flatten(0, 1), states[:, SHORTEST:].flatten()
    means = torch.stack([seen[q == state].mean(0) for state in q.unique()])
    spread = torch.cat([(seen[q == state] - mean).norm(dim=-1) for state, mean in zip(q.unique(), means, strict=True)])
    lengths = np.arange(SHORTEST + 1, n + 1)[np.isfinite(of_length)]
    return {
        "spread": float(spread.quantile(0.95) / torch.pdist(means).min()),
        "fading": _fading(model, tokens, states, h),
        "margin": float(of_length.min() / np.median(margins[np.isfinite(margins)])),
        "drift": _zero(lengths, of_length[np.isfinite(of_length)]),
    }


def _read(model: nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what the head reads (B,T,D), before the last norm, and the logits (B,T,S), in float64."""
    out = getattr(model, "inner", model)(tokens, output_hidden_states=True)
    return out.hidden_states[-1].double(), out.logits.double()


def _fading(model: nn.Module, tokens: torch.Tensor, states: torch.Tensor, h: torch.Tensor) -> float:
    """Returns how much of the distance between two strings of one state is left after a token, 95% of the time."""
    half = tokens.shape[1] // 2
    order = states[:, half - 1].argsort(stable=True)
    u, v = order[:-1], order[1:]
    same = states[u, half - 1] == states[v, half - 1]
    apart = (h[u, half - 1] - h[v, half - 1]).norm(dim=-1)
    same &= apart > 1e-6 * h.norm(dim=-1).mean()
    u, v, apart = u[same], v[same], apart[same]
    mixed, _ = _read(model, torch.cat([tokens[v, :half], tokens[u, half:]], 1))
    left = (mixed[:, -1] - h[u, -1]).norm(dim=-1) / apart
    return float((left ** (1 / (tokens.shape[1] - half))).quantile(0.95))


def _zero(lengths: np.ndarray, margins: np.ndarray) -> float | None:
    slope, at_0 = np.polyfit(lengths, margins, 1)
    return float(-at_0 / slope) if slope < 0 else None


def panels(rows: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Returns what each sign orders, a dot for every network, and the networks."""
    some = [row for row in rows if row["wrong"] is not None]
    shares = {name: [order(rows, name), order(some, name)] for name in BETTER}
    table = [
        [name, *("–" if share is None else f"{100 * share:.0f}" for share in each)] for name, each in shares.items()
    ]
    known = {name: each[0] for name, each in shares.items() if each[0] is not None}
    finding = ""
    if known:
        best = max(known, key=lambda name: known[name])
        finding = (
            f"Of {len(rows)} networks {len(some)} are found wrong on a string. Of the signs in strings of 40 symbols "
            f"{best} says best which of two fails first: in {100 * known[best]:.0f} of 100 pairs."
        )
    by_sign = Table(
        "Which sign says who fails first",
        CAPTION.format(strings=STRINGS),
        ["sign", "all", "failing"],
        table,
        data=shares,
        finding=finding,
    )
    fall = [row for row in some if row["drift"] is not None and row["drift"] > 0]
    dots = {
        model: [(math.log10(row["drift"]), math.log10(row["wrong"])) for row in fall if row["model"] == model]
        for model in dict.fromkeys(row["model"] for row in fall)
    }
    drawn = (
        [
            scatter_plot(
                "The length at which margins are predicted to be 0, and the shortest wrong string",
                "One dot for each network that is found wrong and whose margins fall. Others are not drawn.",
                "log10 of the predicted length",
                "log10 of the length of the shortest wrong string found",
                dots,
            )
        ]
        if dots
        else []
    )
    return [by_sign, *drawn, _networks(rows)]


def order(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Returns in which share of the pairs the sign is better in the network that fails later; ties count half.

    >>> order([{"spread": 0.1, "wrong": None}, {"spread": 0.2, "wrong": 50}, {"spread": 0.3, "wrong": 60}], "spread")
    0.6666666666666666
    """
    never = math.inf

    def length(row: Mapping[str, Any]) -> float:
        return never if row["wrong"] is None else row["wrong"]

    def value(row: Mapping[str, Any]) -> float:
        return BETTER[name] * (never if row[name] is None else row[name])

    scores = []
    for a, b in combinations(rows, 2):
        if length(a) != length(b):
            later, sooner = (a, b) if length(a) > length(b) else (b, a)
            scores.append(1.0 if value(later) > value(sooner) else 0.5 if value(later) == value(sooner) else 0.0)
    return sum(scores) / len(scores) if scores else None


def _networks(rows: Sequence[Mapping[str, Any]]) -> Table:
    lines = [
        [
            row["task"],
            row["model"],
            row["way"],
            str(row["seed"]),
            *("–" if row[name] is None else f"{row[name]:,.3g}" for name in BETTER),
            row["verdict"],
            "–" if row["wrong"] is None else f"{row['wrong']:,}",
        ]
        for row in rows
    ]
    head = ["task", "model", "training", "seed", *BETTER, "verdict", "wrong at"]
    caption = "drift: the length at which margins are predicted to be 0; –: they do not fall."
    return Table("Every network", caption, head, lines, data=list(rows), labels=4, folded=True)
