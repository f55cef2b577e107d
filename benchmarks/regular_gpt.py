"""RegularGPT as a whole: its short way to the last position, a million tokens, decoding, PARITY from nothing, GPT-2.

    every position: O(K C T log T)      the last alone: O(K C T)      a token decoded: O(K C log T)

Before anything is timed, the two things timed must agree.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from rich.table import Table
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import lab, tasks
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.cache import LengthwiseCache

THREADS, REPEATS, SEEDS = 2, 5, 5
PARITY = {
    "training.steps": 1000,
    "training.validate_every": 1000,
    "training.validation_samples": 64,
    "tests.samples": 16,
}
"""The settings of the race to 100% on PARITY; what is left out is the library's default."""


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ratio(slow: Callable[[], object], fast: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """(median seconds of `fast`, median of slow / fast), the two taken in turn after a first round unmeasured."""
    slow(), fast()
    pairs = [(seconds(slow), seconds(fast)) for _ in range(repeats)]
    return median(f for _, f in pairs), median(s / f for s, f in pairs)


def model(shared: bool = True, **options) -> LengthwiseForCausalLM:
    """`shared`: compute equal subtrees once, as the lab does; bits have many."""
    torch.manual_seed(0)
    net = LengthwiseForCausalLM(presets.regular_gpt(2, 2, **options))
    net.reuse_equal_tokens(shared)
    return net


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(0, 2, (batch, length), generator=torch.Generator().manual_seed(0))


def step(net: nn.Module, text: Tensor, keep: int) -> Callable[[], None]:
    def run() -> None:
        net.zero_grad()
        nn.functional.cross_entropy(net(text, logits_to_keep=keep).logits[:, -1], text[:, -1]).backward()

    return run


@torch.no_grad()
def answer(net: nn.Module, text: Tensor, keep: int) -> Tensor:
    return net(text, logits_to_keep=keep).logits[:, -1]


def last_position() -> Table:
    found = Table(title="RegularGPT: every position / the last alone, width 64, C=2, K=1")
    for column in ("what", "equal subtrees", "batch", "T", "ms, last alone", "ratio", "at least"):
        found.add_column(column)
    for what, batch, length, least, shared in [
        ("training step", 16, 512, 5, False),
        ("training step", 16, 512, 5, True),
        ("inference", 4, 4096, 8, False),
        ("inference", 4, 4096, 8, True),
    ]:
        net, text = model(shared), tokens(batch, length)
        torch.testing.assert_close(answer(net, text, 1), answer(net, text, 0), rtol=1e-4, atol=1e-4)
        if what == "inference":
            once, times = ratio(partial(answer, net, text, 0), partial(answer, net, text, 1))
        else:
            once, times = ratio(step(net, text, 0), step(net, text, 1))
        found.add_row(
            what,
            "once" if shared else "each",
            str(batch),
            f"{length:,}",
            f"{1000 * once:.1f}",
            f"{times:.1f}",
            str(least),
        )
    return found


MILLION = """
import sys, time, torch
from benchmarks.regular_gpt import answer, model, tokens
torch.set_num_threads({threads})
net, text = model(sys.argv[2] == "once").eval(), tokens(1, int(sys.argv[1]))
answer(net, text, 1)
times = []
for _ in range(3):
    began = time.perf_counter()
    answer(net, text, 1)
    times.append(time.perf_counter() - began)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(min(times), int(peak.split()[1]) / 2**20)
"""


def million() -> Table:
    found = Table(title="RegularGPT: one answer about a long text, width 64, C=2, a process of its own each")
    for column in ("tokens", "equal subtrees", "seconds", "microseconds a token", "GiB resident", "at most"):
        found.add_column(column)
    for length, how in itertools.product((100_000, 300_000, 1_000_000), ("each", "once")):
        run = [sys.executable, "-c", MILLION.format(threads=THREADS), str(length), how]
        once, gib = map(float, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
        found.add_row(f"{length:,}", how, f"{once:.3f}", f"{1e6 * once / length:.3f}", f"{gib:.2f}", "4")
    return found


@torch.no_grad()
def decoding() -> Table:
    found = Table(title="RegularGPT: a token decoded with the cache, width 64, C=2, depth by position")
    for column in ("tokens before", "groups", "ms a token", "ms a token and group", "reading it all again / cache"):
        found.add_column(column)
    net = model(depth="position").eval()
    for length in (100, 1_000, 10_000, 100_000):
        cache, text = LengthwiseCache(), tokens(1, length)
        net(text, past_key_values=cache, logits_to_keep=1)
        one = tokens(1, 1)
        net(one, past_key_values=cache)  # the buffers grow here
        each = median(seconds(partial(net, one, past_key_values=cache)) for _ in range(50))
        again = median(seconds(partial(net, text, logits_to_keep=1)) for _ in range(3))
        found.add_row(
            f"{length:,}", str(cache.levels), f"{1000 * each:.2f}", f"{1000 * each / cache.levels:.3f}",
            f"{again / each:.1f}",
        )  # fmt: skip
    return found


def parity() -> Table:
    """From nothing to 100% at every length 41-500: the seconds are those of training."""
    found = Table(title=f"PARITY from scratch, lengths 1-40, tested at every length 41-500, {THREADS} threads")
    for column in ("seed", "seconds of training", "worst length, %", "at most"):
        found.add_column(column)
    times = []
    for experiment in lab.plan("parity", ["regular-gpt"], seeds=SEEDS, test_lengths="41:500", settings=PARITY):
        from lengthwise.evaluate import score_strings
        from lengthwise.lab.job import make_trainer

        trainer = make_trainer([experiment])
        times.append(seconds(trainer.run))
        (state,) = trainer.states
        lengths = tuple(n for n in experiment.tests.lengths if n > 40)
        samples = experiment.tests.samples
        task = tasks.get("parity")
        right = score_strings(state.model, task, lengths, samples, 0, device=state.device).correct
        found.add_row(str(experiment.seed), f"{times[-1]:.1f}", f"{100 * min(right.values()) / samples:.1f}", "")
    found.add_row("median", f"{median(times):.1f}", "", "15")
    return found


def throughput() -> Table:
    """Language modelling steps, the loss at every position, against GPT-2 of the same width and depth."""
    found = Table(title="Training, loss at every position: tokens a second, GPT-2 of the same width and depth beside")
    for column in ("T", "width", "groups = layers", "tokens/s", "GPT-2 tokens/s", "RegularGPT / GPT-2"):
        found.add_column(column)
    for length, width, batch in [(128, 64, 16), (512, 64, 8), (2048, 64, 2), (512, 256, 4)]:
        layers = (length - 1).bit_length()
        ours = LengthwiseForCausalLM(presets.regular_gpt(256, width=width, depth="position"))
        theirs = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=256, n_positions=length, n_embd=width, n_layer=layers, n_head=8,
                resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
            )
        )  # fmt: skip
        text = torch.randint(0, 256, (batch, length), generator=torch.Generator().manual_seed(0))

        def run(net: nn.Module, text: Tensor = text) -> None:
            net.zero_grad()
            net(text, labels=text).loss.backward()

        once, times = ratio(partial(run, theirs), partial(run, ours), 3)
        speed = batch * length / once
        found.add_row(
            f"{length:,}", str(width), str(layers), f"{speed:,.0f}", f"{speed / times:,.0f}", f"{times:.2f}"
        )  # fmt: skip
    return found


def tables() -> list[Table]:
    torch.set_num_threads(THREADS)
    return [last_position(), million(), decoding(), parity(), throughput()]
