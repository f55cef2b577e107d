"""Chain attention against the paper's own method and against softmax attention, forward and backward.

- the paper's: the softmax matrix, then `torch.linalg.solve_triangular`, differentiated by torch;
- softmax: torch's fused causal attention, which does not follow chains at all and so is the bound to come near.
The op is first compared with its oracle. Then all are timed in turn, round by round; ratios are medians over rounds.
Memory is the most a process of its own ever held beyond what it held before.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from lengthwise import tasks
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.ops import chain_attention

from .sliding_dilated import in_turn

THREADS, HEADS, WIDTH, GAMMA = 2, 8, 64, 0.9
SETTINGS = [
    # T, B, times faster than the paper's, at most so many times softmax
    (32, 8, 1.0, None),
    (128, 8, 1.2, None),
    (512, 1, None, None),
    (1024, 1, None, 1.7),
    (2048, 1, 4.5, 1.7),
    (4096, 1, 6.0, 1.7),
]
LONG = 8192


def paper(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """B Y = (1-γ) A V, as the text of the paper has it."""
    T = q.shape[2]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    A = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(future, -torch.inf).softmax(-1)
    B = torch.eye(T) - GAMMA * A.tril(-1)
    return torch.linalg.solve_triangular(B, (1 - GAMMA) * (A @ v), upper=False)


def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return chain_attention(q, k, v, GAMMA)


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"ours": ours, "paper": paper, "softmax": softmax}


def inputs(T: int, B: int, heads: int = HEADS) -> tuple[list[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v, slope = (torch.randn(B, heads, T, WIDTH, generator=draw) for _ in range(4))
    return [x.requires_grad_() for x in (q, k, v)], slope


def gap(T: int) -> float:
    """The largest difference from the oracle, values and gradients, as a share of the largest."""
    qkv, slope = inputs(T, 1)
    found = []
    for backend in ("torch", "reference"):
        y = chain_attention(*qkv, GAMMA, backend=backend)
        found.append([y.detach(), *torch.autograd.grad(y, qkv, slope)])
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*found, strict=True))


def op() -> Table:
    table = Table(title=f"Chain attention, forward + backward, fp32, {HEADS} heads of {WIDTH}, {THREADS} threads")
    for name in ("T", "batch", "ms", "paper's / ours", "at least", "ours / softmax", "at most", "gap to the oracle"):
        table.add_column(name)
    for T, B, faster, slower in SETTINGS:
        qkv, slope = inputs(T, B)

        def run(way: Callable, qkv=qkv, slope=slope) -> Callable[[], object]:
            return lambda: torch.autograd.grad(way(*qkv), qkv, slope)

        rounds = in_turn([run(way) for way in WAYS.values()])
        mine, theirs, plain = zip(*rounds, strict=True)
        table.add_row(
            f"{T:,}",
            str(B),
            f"{1e3 * median(mine):.1f}",
            f"{median(b / a for a, b in zip(mine, theirs, strict=True)):.2f}",
            "–" if faster is None else f"{faster:g}",
            f"{median(a / c for a, c in zip(mine, plain, strict=True)):.2f}",
            "–" if slower is None else f"{slower:g}",
            f"{gap(min(T, 512)):.0e}",
        )
    return table


def model() -> Table:
    """Table 2's model against as many standard layers, a training step."""
    T, width, B = 512, 512, 8
    table = Table(title=f"Two layers, a training step, T={T}, width {width}, batch {B}, {THREADS} threads")
    for name in ("model", "ms", "against two standard layers", "at most"):
        table.add_column(name)
    tokens = torch.randint(0, 128, (B, T), generator=torch.Generator().manual_seed(0))
    made = []
    for config in (
        presets.transformer(128, width=width, layers=2, position="learned"),
        presets.chacal(128, width=width, layers=2),
    ):
        torch.manual_seed(0)
        made.append(LengthwiseForCausalLM(config))

    def run(m: LengthwiseForCausalLM) -> Callable[[], object]:
        def step() -> None:
            m(tokens, labels=tokens).loss.backward()
            m.zero_grad()

        return step

    standard, chacal = zip(*in_turn([run(m) for m in made]), strict=True)
    ratio = median(b / a for a, b in zip(standard, chacal, strict=True))
    table.add_row("standard, standard", f"{1e3 * median(standard):.0f}", "1", "")
    table.add_row("standard, ChaCAL", f"{1e3 * median(chacal):.0f}", f"{ratio:.2f}", "1.15 (the paper: 1.36)")
    return table


def held(way: str, T: int, heads: int) -> None:
    """In a process of its own: print the MiB held at most beyond what the inputs and a first small call took."""
    torch.set_num_threads(THREADS)
    small, slope = inputs(64, 1, heads)
    torch.autograd.grad(WAYS[way](*small), small, slope)
    qkv, slope = inputs(T, 1, heads)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = kibibytes("VmRSS")
    torch.autograd.grad(WAYS[way](*qkv), qkv, slope)
    print((kibibytes("VmHWM") - before) / 1024)


def kibibytes(name: str) -> int:
    """KiB of this process, by the kernel's own count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def memory() -> Table:
    table = Table(title=f"Peak memory beyond the inputs, forward + backward, T={LONG:,}, {HEADS} heads of {WIDTH}")
    for name in ("method", "MiB", "ours / this", "at most"):
        table.add_column(name)
    found = {}
    for way in WAYS:
        # Heads are independent; eight of the paper's would not fit beside other work.
        heads = 1 if way == "paper" else HEADS
        code = f"from benchmarks import chain; chain.held({way!r}, {LONG}, {heads})"
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        found[way] = float(out) * HEADS / heads
    for way, bound in (("ours", ""), ("softmax", "4"), ("paper", "0.1")):
        name = "paper's (8 × one head)" if way == "paper" else way
        table.add_row(name, f"{found[way]:,.0f}", f"{found['ours'] / found[way]:.3f}", bound)
    return table


def decoding() -> Table:
    """1,000 tokens, one at a time: with the cache, and reading everything again."""
    table = Table(title="Decoding 1,000 tokens, ChaCAL of 2 layers, greedy")
    for name in ("width", "cache, s", "reading again, s", "ratio", "at least"):
        table.add_column(name)
    for width in (64, 512):
        torch.manual_seed(0)
        m = LengthwiseForCausalLM(presets.chacal(32, width=width, layers=2, max_length=1024)).eval()
        start = torch.ones(1, 1, dtype=torch.long)  # 0 is padding
        said, seconds = [], []
        for cached in (True, False):
            begin = time.perf_counter()
            options = {"max_new_tokens": 1000, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
            said.append(m.generate(start, use_cache=cached, **options))
            seconds.append(time.perf_counter() - begin)
        assert torch.equal(*said), "the cache must not change what is said"
        table.add_row(str(width), f"{seconds[0]:.2f}", f"{seconds[1]:.1f}", f"{seconds[1] / seconds[0]:.0f}", "20")
    return table


def stories() -> Table:
    """Boxes a second, on one thread."""
    table = Table(title="Boxes: stories of 32 operations a second, one thread, batch 1,024")
    for name in ("form", "token ids, targets and mask", "at least", "as text", "at least"):
        table.add_column(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for form in ("default", "advanced"):
        task = tasks.get("boxes", form=form)
        rates = []
        for text in (False, True):
            times = []
            for seed in range(4):
                begin = time.perf_counter()
                batch = task.sample(32, 1024, torch.Generator().manual_seed(seed))
                if text:
                    for row in batch.tokens:
                        task.write(row)
                times.append(time.perf_counter() - begin)
            rates.append(1024 / min(times))
        table.add_row(form, f"{rates[0]:,.0f}", "20,000", f"{rates[1]:,.0f}", "5,000")
    torch.set_num_threads(threads)
    return table


def tables() -> list[Table]:
    torch.set_num_threads(THREADS)
    return [op(), model(), memory(), decoding(), stories()]
