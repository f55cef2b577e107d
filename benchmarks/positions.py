"""What encodings of position cost: attention with a bias against none and against a matrix of biases, a layer with
places in segments against one without, and a token decoded with a cache.

Biases by key are computed by `ops.key_biased_attention`; those by distance (T5, KERPLE) by a matrix that is read off
their table with every call. The op is first compared with its oracle, and a model with a cache with itself without one.
Then all are timed in turn, round by round; ratios are medians over rounds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from lengthwise import mixers, positions
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.cache import LengthwiseCache
from lengthwise.ops import key_biased_attention
from lengthwise.positions import DistanceBias, Layout, Placed

from .chain import kibibytes
from .sliding_dilated import in_turn

THREADS, HEADS, WIDTH, SEGMENT = 2, 12, 64, 20
STEEPNESS = 96  # of BiPE-ALiBi
MATRIX_AT_LEAST, CAUSAL_AT_MOST, LAYER_AT_MOST, TOKEN_AT_MOST = 1.8, 1.25, 1.1, 1.05


class Inputs:
    """Queries, keys and values as a layer makes them, and the biases; each way gives y and its gradients."""

    def __init__(self, T: int, heads: int = HEADS):
        draw = torch.Generator().manual_seed(0)
        x = torch.randn(1, T, 3 * heads * WIDTH, generator=draw, requires_grad=True)
        self.qkv = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in x.chunk(3, -1)]
        self.slope = torch.randn(1, T, heads, WIDTH, generator=draw).transpose(1, 2)
        place = torch.arange(T)
        slopes = torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype=torch.float64)[:, None]
        self.alibi, self.bipe = slopes * place, (STEEPNESS * slopes * (place // SEGMENT))[None]
        gates = torch.rand(1, heads, T, generator=draw, dtype=torch.float64).log()
        self.gates = gates.requires_grad_()
        self.table = torch.randn(heads, T, generator=draw, requires_grad=True)

    def matrix(self) -> Tensor:
        """(1,H,T,T) ALiBi's bias of every pair, causal."""
        bias = (self.alibi[:, None, :] - self.alibi[:, :, None]).float()
        return bias.masked_fill_(torch.ones(bias.shape[1:], dtype=torch.bool).triu(1), -torch.inf)[None]

    def ways(self) -> dict[str, Callable[[], list[Tensor]]]:
        matrix: list[Tensor] = []

        def once() -> Tensor:
            return matrix[0] if matrix else matrix.append(self.matrix()) or matrix[0]

        return {
            "causal": lambda: self._done(F.scaled_dot_product_attention(*self.qkv, is_causal=True)),
            "alibi": lambda: self._done(key_biased_attention(*self.qkv, self.alibi)),
            "bipe-alibi": lambda: self._done(key_biased_attention(*self.qkv, self.bipe)),
            "gates": lambda: self._done(key_biased_attention(*self.qkv, -self.gates.cumsum(-1)), self.gates),
            "matrix": lambda: self._done(F.scaled_dot_product_attention(*self.qkv, attn_mask=once())),
            "matrix each time": lambda: self._done(F.scaled_dot_product_attention(*self.qkv, attn_mask=self.matrix())),
            "table": self._by_table,
        }

    def _by_table(self) -> list[Tensor]:
        ids = torch.arange(self.table.shape[1])[None]
        bias = DistanceBias(self.table, ids, ids).dense()
        bias = bias.masked_fill(ids.mT < ids, -torch.inf)
        return self._done(F.scaled_dot_product_attention(*self.qkv, attn_mask=bias), self.table)

    def _done(self, y: Tensor, *learned: Tensor) -> list[Tensor]:
        return [y.detach(), *torch.autograd.grad(y, [*self.qkv, *learned], self.slope)]

    def gap(self) -> float:
        """The largest difference of the op from its oracle, values and gradients, as a share of the largest."""
        found = []
        for backend in ("auto", "reference"):
            for bias in (self.alibi, self.bipe, -self.gates.cumsum(-1)):
                found.append(self._done(key_biased_attention(*self.qkv, bias, backend=backend)))
        pairs = zip(found[:3], found[3:], strict=True)
        return max(float((a - b).abs().max() / b.abs().max()) for x in pairs for a, b in zip(*x, strict=True))


def attention() -> Table:
    title = f"Attention with a bias, forward + backward, fp32, {HEADS} heads of {WIDTH}, {THREADS} threads"
    table = Table(title=f"{title}: times of causal attention without one, and of a matrix of biases")
    for name in ("T", "way", "ms", "this / causal", "at most", "matrix / this", "at least", "gap to the oracle"):
        table.add_column(name)
    for T in (512, 2048):
        off = Inputs(min(T, 512)).gap()
        if off > 1e-4:
            raise SystemExit(f"T = {T}: off by {off:.0e} of the largest value.")
        ways = Inputs(T).ways()
        rounds = in_turn(list(ways.values()))
        seconds = {name: [turn[i] for turn in rounds] for i, name in enumerate(ways)}
        for name, mine in seconds.items():
            promised = T == 2048 and "alibi" in name
            table.add_row(
                f"{T:,}",
                name,
                f"{1e3 * median(mine):.1f}",
                f"{median(a / b for a, b in zip(mine, seconds['causal'], strict=True)):.2f}",
                f"{CAUSAL_AT_MOST}" if promised else "",
                f"{median(b / a for a, b in zip(mine, seconds['matrix'], strict=True)):.2f}",
                f"{MATRIX_AT_LEAST}" if promised else "",
                f"{off:.0e}" if name in ("alibi", "bipe-alibi", "gates") else "",
            )
    return table


def held(way: str, T: int) -> None:
    """In a process of its own: print the MiB held at most beyond what the inputs and a first small call took."""
    torch.set_num_threads(THREADS)
    Inputs(128).ways()[way]()
    run = Inputs(T).ways()[way]
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = kibibytes("VmRSS")
    run()
    print((kibibytes("VmHWM") - before) / 1024)


def memory() -> Table:
    sizes = (1024, 2048, 4096)
    table = Table(title=f"Peak memory beyond the inputs, MiB, forward + backward, {HEADS} heads of {WIDTH}")
    for name in ("way", *(f"T = {T:,}" for T in sizes), "last two"):
        table.add_column(name)
    for way in ("causal", "alibi", "bipe-alibi", "gates", "matrix", "table"):
        found = []
        for T in sizes:
            code = f"from benchmarks import positions; positions.held({way!r}, {T})"
            found.append(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout))
        table.add_row(way, *(f"{size:,.0f}" for size in found), f"× {found[-1] / found[-2]:.1f}")
    return table


ENCODINGS: dict[str, dict[str, Any]] = {
    "rope": {"name": "rope"},
    "bipe-rope": {
        "name": "bilevel",
        "inside": {"name": "learned", "rows": 512},
        "between": {"name": "rope"},
        "ends": [0],
    },
    "alibi": {"name": "alibi"},
    "bipe-alibi": {
        "name": "bilevel",
        "inside": {"name": "learned", "rows": 512},
        "between": {"name": "alibi", "steepness": 96.0},
        "ends": [0],
    },
}


def layer(T: int = 2048) -> Table:
    """One attention layer and all that its encoding does: placing, embedding, turning, scoring."""
    table = Table(title=f"An attention layer, forward + backward, T={T:,}, {HEADS} heads of {WIDTH}, {THREADS} threads")
    for name in ("encoding", "ms", "times of rope", "at most"):
        table.add_column(name)
    width = HEADS * WIDTH
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, SEGMENT, (1, T), generator=draw)
    # As in any layer but the first, x has a gradient whether or not anything is added to it.
    x = torch.randn(1, T, width, generator=draw, requires_grad=True)
    slope = torch.randn(1, T, width, generator=draw)

    def run(options: dict[str, Any]) -> Callable[[], None]:
        torch.manual_seed(0)
        encoding = positions.get(**options, width=width, heads=HEADS)
        mixer = mixers.get("softmax", width=width, heads=HEADS)

        def step() -> None:
            layout = Layout.of(tokens)
            places, _ = encoding.place(tokens, layout)
            added = encoding.embed(places)
            y, _ = mixer(x if added is None else x + added, layout=layout, placed=Placed(encoding, places))
            y.backward(slope)

        return step

    rounds = in_turn([run(options) for options in ENCODINGS.values()])
    for i, name in enumerate(ENCODINGS):
        ratio = median(turn[i] / turn[0] for turn in rounds)
        bound = f"{LAYER_AT_MOST}" if name == "bipe-rope" else ""
        table.add_row(name, f"{1e3 * median(turn[i] for turn in rounds):.1f}", f"{ratio:.2f}", bound)
    return table


def decoding(tokens: int = 200, before: int = 200) -> Table:
    """Token by token, the models in turn, so that whatever else the machine does slows all alike."""
    table = Table(title=f"A token decoded with a cache after {before} others, {THREADS} threads")
    for name in ("width", "layers", "encoding", "ms", "times of rope", "at most"):
        table.add_column(name)
    for width, layers in ((64, 2), (HEADS * WIDTH, 6)):
        made = {}
        for name in ENCODINGS:
            options: dict[str, Any] = {"width": width, "heads": width // 64 if width > 64 else 4, "layers": layers}
            kind: Any = name.removeprefix("bipe-")
            torch.manual_seed(0)
            if name.startswith("bipe"):
                config = presets.bipe(256, position=kind, ends=[0], **options)
            else:
                config = presets.transformer(256, position=kind, **options)
            made[name] = LengthwiseForCausalLM(config).eval()
        text = torch.randint(0, SEGMENT, (1, before + tokens), generator=torch.Generator().manual_seed(0))
        caches = {name: LengthwiseCache() for name in made}
        seconds: dict[str, list[float]] = {name: [] for name in made}
        with torch.no_grad():
            last = {}
            for name, model in made.items():
                model(text[:, :before], past_key_values=caches[name])
            for t in range(before, before + tokens):
                for name, model in made.items():
                    begin = time.perf_counter()
                    last[name] = model(text[:, t : t + 1], past_key_values=caches[name]).logits
                    seconds[name].append(time.perf_counter() - begin)
            for name, model in made.items():
                torch.testing.assert_close(last[name], model(text).logits[:, -1:], rtol=1e-3, atol=1e-4)
        for name, mine in seconds.items():
            ratio = median(a / b for a, b in zip(mine, seconds["rope"], strict=True))
            bound = f"{TOKEN_AT_MOST}" if "bipe" in name and width > 64 else ""
            table.add_row(str(width), str(layers), name, f"{1e3 * median(mine):.2f}", f"{ratio:.3f}", bound)
    return table


def tables() -> Iterator[Table]:
    """One after another, each shown when it is there."""
    torch.set_num_threads(THREADS)
    for table in (attention, memory, layer, decoding):
        yield table()
