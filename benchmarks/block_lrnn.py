"""The block-diagonal linear RNN as a whole: a training step, Sum(5) from nothing, a token decoded.

Before anything is timed, the two things timed must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
from rich.table import Table
from torch import Tensor, nn

from lengthwise import lab, tasks
from lengthwise.evaluate import score_strings
from lengthwise.lab.job import make_trainer
from lengthwise.mixers import block_lrnn
from lengthwise.models import LengthwiseForCausalLM, TokenClassifier, build, presets
from lengthwise.models.cache import LengthwiseCache
from lengthwise.ops import block_scan
from lengthwise.train.scoring import logits, loss
from lengthwise.train.trainer import keep_freed_memory

from .block_scan import composing
from .regular_gpt import ratio, seconds

BATCH, LENGTH, SEEDS, STRINGS = 128, 40, 5, 256
SUM = tasks.get("modular-sum", modulus=5, supervision="prefix")
RACE = {
    "model.variant": "automaton",
    "training.lengths": (40, 40),
    "training.steps": 500,
    "training.validate_every": 500,
    "training.validation_samples": 64,
}
"""The settings of the race to 100% on Sum(5); what is left out is the library's default."""


def composed(
    A: Tensor, v: Tensor, initial: Tensor, *, begins: None, restart: None, index: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`block_scan` of whole rows by composing neighbours, differentiated by torch."""
    if index is not None:
        A, v = A[index], v[index]
    first = v[:, :1] + (A[:, :1] @ initial[:, None, ..., None]).squeeze(-1)
    x = composing(A, torch.cat([first, v[:, 1:]], 1).unsqueeze(-1)).squeeze(-1)
    return x, x[:, -1]


@contextmanager
def plainly(net: TokenClassifier, compose: bool) -> Iterator[None]:
    """Without the first layer's tables, and if so asked with the composing scan."""
    net.reuse_equal_tokens(False)
    try:
        with patch.object(block_lrnn, "block_scan", composed if compose else block_scan):
            yield
    finally:
        net.reuse_equal_tokens()


def steps(variant: str) -> Table:
    found = Table(title=f"A training step on Sum(5), {variant}, one layer of width 64, batch 128, T=40, 1 thread")
    for column in ("against", "ms, ours", "ratio", "at least", "ms at most"):
        found.add_column(column)
    keep_freed_memory()  # as a training does
    torch.manual_seed(0)
    net = build("block-lrnn", vocab_size=len(SUM.vocabulary), num_outputs=SUM.outputs, variant=variant)
    net.reuse_equal_tokens()  # as a training does
    batch = SUM.sample(LENGTH, BATCH, torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(net.parameters(), fused=True)  # as a training does

    def gradients() -> list[Tensor]:
        net.zero_grad()
        loss(logits(net, batch, last=False), batch, SUM).backward()
        return [p.grad.clone() for p in net.parameters() if p.grad is not None]

    def step() -> None:
        net.zero_grad()
        loss(logits(net, batch, last=False), batch, SUM).backward()
        optimiser.step()

    def other(compose: bool, call: Callable[[], object]) -> object:
        with plainly(net, compose):
            return call()

    for what, compose, least in [("no tables, composing scan", True, "8"), ("no tables", False, "")]:
        mine, theirs = gradients(), other(compose, gradients)
        assert isinstance(theirs, list)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
        once, times = ratio(partial(other, compose, step), step)
        found.add_row(what, f"{1e3 * once:.1f}", f"{times:.1f}", least, "15")
    return found


def race() -> Table:
    """From nothing to 100% at 500: the seconds are those of training, the weights the last."""
    found = Table(title="Sum(5) from scratch, trained at 40, the last checkpoint's % right, 2 threads")
    for column in ("seed", "seconds of training", "at 500", "at 10,000", "at most"):
        found.add_column(column)
    times = []
    for experiment in lab.plan(SUM, ["block-lrnn"], seeds=SEEDS, test_lengths=[500], settings=RACE):
        trainer = make_trainer([experiment])
        times.append(seconds(trainer.run))
        (state,) = trainer.states
        right = score_strings(state.model, SUM, (500, 10_000), STRINGS, 0, device=state.device).correct
        share = [f"{100 * n / STRINGS:.1f}" for n in right.values()]
        found.add_row(str(experiment.seed), f"{times[-1]:.1f}", *share, "")
    found.add_row("median", f"{median(times):.1f}", "", "", "60")
    return found


@torch.no_grad()
def decoding() -> Table:
    found = Table(title="A token decoded after so many, width 64, one layer")
    for column in ("tokens before", "ms a token", "numbers kept"):
        found.add_column(column)
    net: nn.Module = LengthwiseForCausalLM(presets.block_lrnn(5)).eval()
    for length in (100, 1_000, 10_000, 100_000):
        cache, text = LengthwiseCache(), torch.randint(0, 5, (1, length))
        net(text, past_key_values=cache, logits_to_keep=1)
        one = text[:, :1]
        net(one, past_key_values=cache)
        each = median(seconds(partial(net, one, past_key_values=cache)) for _ in range(200))
        kept = sum(state.x.numel() for state in cache.states.values())
        found.add_row(f"{length:,}", f"{1e3 * each:.2f}", f"{kept:,}")
    return found


def tables() -> list[Table]:
    torch.set_num_threads(1)
    found = [steps("lengthwise"), steps("automaton"), decoding()]
    torch.set_num_threads(2)
    return [*found, race()]
