"""What a pass costs (§3.4 of RegularGPT's paper): operations and seconds against the length, for four ways to attend.

D model width, C chunk, L = max(1, ceil(log_C T)) groups of one layer. Operations of one forward pass, multiply and add
counted apart, 24 D² a token for the maps of a layer:

    full attention      L (24 D² T + 2 T² D)          a causal Transformer of L layers
    dense masked        L (24 D² T + 4 T² D)          RegularGPT by the mask of eq. (1)
    every position      L (24 D² T + 4 C T D)
    last position       sum_l n_l (4 D² + (20 D² + 4 C D) / C),  n_l = T / C^l       the nodes the answer needs
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthwise.errors import Error
from lengthwise.mixers import FIRST, Layout, Level, Mixer, SlidingDilated, Softmax, Traits, merge_heads, split_heads
from lengthwise.models import Block, Layer, LengthwiseForCausalLM, groups, presets
from lengthwise.ops import sliding_dilated_attention
from lengthwise.recipes import Finished, Recipe, Scale
from lengthwise.report import Panel, Table, line_chart

FORMS = ("full attention", "dense masked", "every position", "last position")
FIT = 4
"""An exponent is fitted to so many of the longest lengths: short ones cost what a call costs."""


class CostSetting(NamedTuple):
    width: int
    lengths: tuple[int, ...]
    longest: dict[str, int]
    """By form, where it is not the longest of all."""
    repeats: int
    widths: tuple[tuple[int, int], ...]
    """Width and heads of the worked example."""

    def lengths_of(self, form: str) -> list[int]:
        """The lengths this form is timed at."""
        return [T for T in self.lengths if self.longest.get(form, T) >= T]


SETTINGS: dict[Scale, CostSetting] = {
    "smoke": CostSetting(16, (16, 32, 64), {"dense masked": 32}, 1, ((16, 2),)),
    "laptop": CostSetting(
        64,
        tuple(2**n for n in range(6, 15)),
        {"dense masked": 1024, "full attention": 2048},
        5,
        ((64, 8), (768, 12)),
    ),
    "paper": CostSetting(
        256,
        tuple(2**n for n in range(6, 17)),
        {"dense masked": 2048, "full attention": 16_384, "every position": 16_384},
        9,
        ((256, 8), (768, 12)),
    ),
}
CHUNK = 2


def recipe(scale: Scale) -> Recipe:
    """How RegularGPT's time grows with length: dense, sparse and for the last position, beside full attention's."""
    setting = SETTINGS[scale]

    def report(finished: Finished, device: str) -> list[Panel]:
        times = {what: seconds_of(setting, what == "forward", device) for what in ("forward", "forward + backward")}
        drawn = [_drawn(setting, what, by_form, device) for what, by_form in times.items()]
        return [*drawn, _table(setting, times), *break_even(setting.widths, setting.repeats, device)]

    return Recipe(
        title="RegularGPT, §3.4: what a pass costs",
        description=(
            "The paper counts O(T C K log T) for RegularGPT and O(T² L) for a Transformer of L layers, and concludes "
            "that at 512 tokens and C = 128 RegularGPT is faster as long as K < 3.11 L. Here both are measured. "
            "Nothing is trained."
        ),
        report=report,
    )


def operations(form: str, T: int, D: int, C: int = CHUNK) -> float:
    """Of one forward pass, as counted above.

    >>> round(operations("dense masked", 1024, 64) / operations("every position", 1024, 64), 2)
    3.65
    """
    L = groups(T, C)
    if form == "last position":
        return sum(T / C**l * (4 * D**2 + (20 * D**2 + 4 * C * D) / C) for l in range(L))
    pairs = {"full attention": 2 * T**2, "dense masked": 4 * T**2, "every position": 4 * C * T}[form]
    return L * (24 * D**2 * T + pairs * D)


def seconds_of(setting: CostSetting, forward: bool, device: str) -> dict[str, dict[int, float]]:
    """Median seconds by form and length, the forms of a length taken in turn."""
    times: dict[str, dict[int, float]] = {form: {} for form in FORMS}
    for T in setting.lengths:
        text = torch.randint(2, (1, T), generator=torch.Generator().manual_seed(T)).to(device)
        nets = networks(setting, T, device)
        agree(nets, text)
        calls = {form: _call(form, net, text, forward) for form, net in nets.items()}
        for form, seconds in in_turn(calls, setting.repeats, device).items():
            times[form][T] = seconds
    return times


def networks(setting: CostSetting, T: int, device: str) -> dict[str, nn.Module]:
    """The networks that are asked at this length; those of RegularGPT have the same weights."""
    torch.manual_seed(0)
    sparse = LengthwiseForCausalLM(presets.regular_gpt(2, width=setting.width, chunk=CHUNK, missing="drop"))
    # Every node is computed, as §3.4 counts them, though over bits many are the same: nobody calls reuse_equal_tokens.
    dense = deepcopy(sparse)
    for layer in dense.depth.layers:
        layer.mixer = DenselyMasked(layer.mixer)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
    layers = groups(T, CHUNK)
    full = LengthwiseForCausalLM(
        presets.transformer(2, width=setting.width, layers=layers, position="none", norm="post")
    )
    nets: dict[str, nn.Module] = dict(zip(FORMS, (full, dense, sparse, sparse), strict=True))
    return {form: net.to(device) for form, net in nets.items() if T in setting.lengths_of(form)}


@torch.no_grad()
def agree(nets: dict[str, nn.Module], text: Tensor) -> None:
    """Raise unless the forms of RegularGPT give the same logits: a wrong answer has no speed."""
    answers = {form: _logits(form, net, text) for form, net in nets.items() if form != "full attention"}
    last = answers["last position"][:, -1]
    for form, logits in answers.items():
        if not torch.allclose(logits[:, -1], last, rtol=1e-3, atol=1e-3):
            raise Error(
                f"attention cost: {form} and last position disagree at {text.shape[1]} tokens. Nothing is timed."
            )
    both = [answers[form] for form in ("dense masked", "every position") if form in answers]
    if not torch.allclose(both[0], both[-1], rtol=1e-3, atol=1e-3):
        raise Error(f"attention cost: dense and sparse disagree at {text.shape[1]} tokens. Nothing is timed.")


def _logits(form: str, net: nn.Module, text: Tensor) -> Tensor:
    return net(text, logits_to_keep=1 if form == "last position" else 0).logits


def _call(form: str, net: nn.Module, text: Tensor, forward: bool) -> Callable[[], None]:
    def ahead() -> None:
        with torch.no_grad():
            _logits(form, net, text)

    def both() -> None:
        net.zero_grad()
        logits = _logits(form, net, text)
        F.cross_entropy(logits[0], text[0, -logits.shape[1] :]).backward()

    return ahead if forward else both


def exponent(times: dict[int, float]) -> float:
    """The slope of log seconds over log length, at the longest lengths.

    >>> exponent({n: 3.0 * n**2 for n in (8, 16, 32)})
    2.0
    """
    longest = sorted(times)[-FIT:]
    slope = statistics.linear_regression([math.log(n) for n in longest], [math.log(times[n]) for n in longest]).slope
    return round(slope, 9)


def _counted(setting: CostSetting, form: str) -> dict[int, float]:
    return {T: operations(form, T, setting.width) for T in setting.lengths_of(form)}


def _drawn(setting: CostSetting, what: str, times: dict[str, dict[int, float]], device: str) -> Panel:
    predicted = ", ".join(f"{form} T^{exponent(_counted(setting, form)):.2f}" for form in FORMS)
    fitted = ", ".join(f"{form} T^{exponent(times[form]):.2f}" for form in FORMS)
    return line_chart(
        f"Seconds of one text, {what}",
        f"Predicted by counting operations: {predicted}. Measured: {fitted}, fitted to the {FIT} longest lengths of "
        f"each. C = {CHUNK}, K = 1, width {setting.width}, 8 heads, log_{CHUNK} T layers each; one text at a time, "
        f"on {machine(device)}, medians of {setting.repeats} taken in turn after the logits of the three forms of "
        "RegularGPT were found equal.",
        "tokens",
        "seconds",
        {form: (list(of), list(of.values())) for form, of in times.items()},
        log_x=True,
        log_y=True,
    )


def _table(setting: CostSetting, times: dict[str, dict[str, dict[int, float]]]) -> Panel:
    """Every form where it was asked last, beside every position there."""
    rows, data = [], {}
    for form in FORMS:
        T = max(times["forward"][form])
        share = operations(form, T, setting.width) / operations("every position", T, setting.width)
        ratios = {
            what: of[form][T] / of["every position"][T] for what, of in times.items() if T in of["every position"]
        }
        measured = [
            cell
            for what, of in times.items()
            for cell in (f"{of[form][T]:.3g}", f"{ratios[what]:.3g}" if what in ratios else "–")
        ]
        rows.append([form, f"{T:,}", f"{operations(form, T, setting.width) / 1e9:.3g}", f"{share:.3g}", *measured])
        data[form] = {
            "tokens": T,
            "operations": operations(form, T, setting.width),
            "relative_predicted": share,
            "relative_measured": ratios,
            "seconds": {what: of[form][T] for what, of in times.items()},
            "exponent_predicted": exponent(_counted(setting, form)),
            "exponent_measured": {what: exponent(of[form]) for what, of in times.items()},
        }
    return Table(
        "Predicted and measured cost, relative to every position",
        "At the longest length of each form. Counted: operations of a forward pass. Where the measured ratio is above "
        "the counted one, the form does less arithmetic a second (a mask is read and written, not multiplied); where "
        "it is below, more.",
        [
            "",
            "tokens",
            "10⁹ operations",
            "× counted",
            *(cell for what in times for cell in (f"s, {what}", f"× {what}")),
        ],
        rows,
        data=data,
    )


# The worked example of §3.4: at T = 512 and C = 128, how many layers K of RegularGPT cost what L of a Transformer do?
#
#     the paper:      T C K log_C T < T² L        K / L < T / (C log_C T) = 3.11
#     whole groups:   log_C T is rounded up       K / L < T / (C ceil(log_C T)) = 2
#     pairs:          of the keys that exist      K / L < P_full / (P_0 + P_1)
#     layers:         with 24 D² a token for the maps around every attention
#
# P_full = T (T+1) / 2, and P_l counts the taps at level l that fall inside the text.
# Measured: seconds of the one over seconds of the other, where the two groups are levels 0 and 1.

T, C = 512, 128
LEVELS = range(groups(T, C))


def pairs(length: int, chunk: int, level: int) -> int:
    """Query and key pairs of sliding-dilated attention that fall inside a text.

    >>> [pairs(512, 128, level) for level in (0, 1)], pairs(4, 4, 0)
    ([57408, 1280], 10)
    """
    return sum(min(chunk, m // chunk**level + 1) for m in range(length))


def counted(D: int) -> dict[str, float]:
    """K / L by each way of counting."""
    full, sparse = T * (T + 1) / 2, sum(pairs(T, C, level) for level in LEVELS)
    maps = 24 * D**2 * T
    return {
        "counted by the paper": T / (C * math.log(T, C)),
        "counted, whole groups": T / (C * len(LEVELS)),
        "counted, pairs that exist": full / sparse,
        "counted, whole layers": (maps + 4 * D * full) / (len(LEVELS) * maps + 4 * D * sparse),
    }


def break_even(widths: Sequence[tuple[int, int]], repeats: int, device: str) -> list[Panel]:
    """The table of K / L, counted and measured, for each (width, heads)."""
    columns = [{**counted(D), **measured_crossing(D, heads, repeats, device)} for D, heads in widths]
    names = list(columns[0])
    rows = [[name, *(f"{column[name]:.2f}" for column in columns)] for name in names]
    caption = (
        "K / L up to which K layers a group of RegularGPT cost no more than L of a causal Transformer, at "
        f"{T} tokens and C = {C}. The paper's 3.11 counts C keys a query in log_C T = {math.log(T, C):.2f} groups "
        f"against T keys; but there are {len(LEVELS)} groups, a causal query has T / 2 keys on average, and level 1 "
        f"finds no more than {T // C}. Neither counts the maps around the attention, which every layer has and which, "
        "at this length, are most of it: with them the crossing comes near one layer for one group, 1/2. What is left "
        "between counted and measured is how many operations a second each kernel does."
    )
    heads = ["", *(f"width {D}, {heads} heads" for D, heads in widths)]
    data = {f"width {D}": column for (D, _), column in zip(widths, columns, strict=True)}
    return [Table("The crossing: K < 3.11 L?", caption, heads, rows, data=data)]


def measured_crossing(D: int, heads: int, repeats: int, device: str) -> dict[str, float]:
    """K / L by the clock: of the attention alone, and of whole layers."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, T, D // heads, generator=draw).to(device).requires_grad_() for _ in range(3))
    r = torch.randn(heads, C, generator=draw).to(device).requires_grad_()

    def sparse(level: int) -> Tensor:
        return sliding_dilated_attention(q, k, v, r, chunk=C, level=level)

    for level in LEVELS:
        if not torch.allclose(sparse(level), attention(q, k, v, r, level), rtol=1e-3, atol=1e-4):
            raise Error(f"break-even: the sparse and the dense form disagree at level {level}. Nothing is timed.")
    alone: dict[str, Callable[[], Tensor]] = {f"level {level}": lambda l=level: sparse(l) for level in LEVELS}
    alone["full"] = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    x = torch.randn(1, T, D, generator=draw).to(device)
    layout = Layout.of(x)
    small, full = (
        Layer(D, mixer, Block("transformer", norm="post", activation="gelu", expansion=4), 0.0).to(device)
        for mixer in (SlidingDilated(D, heads=heads, chunk=C, missing="drop", biases=True), Softmax(D, heads=heads))
    )
    layers: dict[str, Callable[[], Tensor]] = {
        f"level {level}": lambda l=level: small(x, layout, Level(l)) for level in LEVELS
    }
    layers["full"] = lambda: full(x, layout)
    ratios: dict[str, float] = {}
    for what, calls in (("attention alone", alone), ("whole layers", layers)):
        for way, prepare in (("forward", _ahead), ("both ways", _both)):
            prepared = {name: prepare(call) for name, call in calls.items()}
            ratios[f"measured, {what}, {way}"] = ratio(prepared, repeats, device)
    return ratios


def ratio(calls: dict[str, Callable[[], Any]], repeats: int, device: str) -> float:
    """Seconds of "full" over those of all the others together."""
    times = in_turn(calls, repeats, device)
    return times.pop("full") / sum(times.values())


def _ahead(call: Callable[[], Tensor]) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            call()

    return run


def _both(call: Callable[[], Tensor]) -> Callable[[], None]:
    return lambda: call().sum().backward()


# Equation (1) to the letter: sliding-dilated attention as a softmax under a T×T mask. What the sparse form is held to.
#
#     M[m, n] = r_{(m-n) / C^l}  if (m-n) / C^l is in {0, …, C-1},  else -inf
#
# Shapes: B batch, T tokens, H heads, d head width, D model width, C chunk.


class DenselyMasked(Mixer):
    """A sliding-dilated mixer's own weights, used the dense way; missing taps are left out."""

    traits = Traits(takes_level=True)

    def __init__(self, sparse: SlidingDilated):
        super().__init__()
        self.heads, self.chunk = sparse.heads, sparse.chunk
        self.qkv, self.out, self.r = sparse.qkv, sparse.out, sparse.r

    def forward(self, x: Tensor, *, layout: Layout, state: Any = None, level: Level = FIRST) -> tuple[Tensor, None]:
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        return self.out(merge_heads(attention(q, k, v, self.r, level.number))), None


def attention(q: Tensor, k: Tensor, v: Tensor, r: Tensor, level: int) -> Tensor:
    """(B,H,T,d), q, k, v alike; r (H,C)."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(r, q.shape[2], level))


def mask(r: Tensor, T: int, level: int) -> Tensor:
    """(H,T,T) M of equation (1).

    >>> mask(torch.tensor([[0.5, 0.25]]), 3, level=1)[0]
    tensor([[0.5000,   -inf,   -inf],
            [  -inf, 0.5000,   -inf],
            [0.2500,   -inf, 0.5000]])
    """
    C = r.shape[1]
    outside = r.new_full((len(r), 1), -torch.inf)
    return torch.cat([r, outside], 1)[:, _taps(T, C, level, r.device)]


@lru_cache(maxsize=16)
def _taps(T: int, C: int, level: int, device: torch.device) -> Tensor:
    """(T,T) which tap of m the token n is; C where it is none."""
    at = torch.arange(T, device=device)
    lag = at[:, None] - at
    tap = lag // C**level
    seen = (lag >= 0) & (lag % C**level == 0) & (tap < C)
    return tap.where(seen, C)


def in_turn(calls: Mapping[str, Callable[[], object]], repeats: int, device: str = "cpu") -> dict[str, float]:
    """The median seconds of each call over `repeats` rounds, after one round that is not counted.

    They are taken in turn, so that whatever else the machine does slows all alike.
    """
    rounds = [{name: seconds(call, device) for name, call in calls.items()} for _ in range(repeats + 1)]
    return {name: statistics.median(once[name] for once in rounds[1:]) for name in calls}


def seconds(call: Callable[[], object], device: str) -> float:
    """Of one call, until what it started on the device is done."""
    began = time.perf_counter()
    call()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def machine(device: str) -> str:
    """What timings were taken on, in words to follow "on".

    >>> machine("cpu").startswith("the CPU, ")
    True
    """
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"the CPU, {threads} thread{'s' if threads > 1 else ''}"
