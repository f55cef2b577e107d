"""A Transformer with BiPE that is a given Bi-NFA: its weights are written down, not trained (Theorem 3.2 of He et al.).

Part i of k has n_i states. A token's vector holds binary matrices, and which token it is:

    1, begins, separator    a constant (K, see below); whether it is the start token; whether it ends a segment
    inner_i (n_i, n_i)      where part i leads from each state, over the tokens this one covers in its segment
    outer (k, k)            from the part in which a segment begins to that of the next, over the segments it covers
    older                   what attention copies: the inner or the outer matrices of an earlier token
    place                   the token's place in its segment, one-hot modulo the first primes: the learned table of BiPE

    module 1    ceil(log2 longest) times: copy inner of the token 2^l before in the segment;  inner := older ∘ inner
    between     at a separator, once: outer_ij := OR over q of inner_i[q*_i, q] AND leaves_i[q, j]
    module 2    ceil(log2 segments) times: copy outer of the separator 2^l segments before;   outer := older ∘ outer
    read        state q of part i may have been reached where outer[start, i] AND inner_i[q*_i, q]

Width: 2 Σ n_i² + k² (2 k² + Σ n_i² where there are more parts than that), and a part that grows like log N alone.

Products: a ∘ b = min(1, Σ_k ReLU(a_ik + b_kj - 1)) has one ReLU inside another, and a feed-forward part has one. So it
takes two layers: one counts, one cuts at 1, by ReLU(2c - 1/2) - ReLU(2c - 3/2). No map has a bias; the constant is one.

Copies: where no token stands so far before, the start token is read, whose matrices are the
identity. Between segments RoPE tells the distance, inside them the places do. Norms (bi_nfa_vector.py): the constant is
so large that RMSNorm divides by nearly the same whatever the tokens are.

Shapes: D width, k parts, n_i states of part i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..automata import BiNFA
from ..errors import Error
from ..models import LengthwiseConfig, LengthwiseForCausalLM
from .bi_nfa_vector import LEAST_GAP, PAIRS, Regions
from .rounding import EPS
from .state_labels import CONFIDENCE, check_size

# The attention of bi_nfa_weights.py: one head that copies the matrices of one earlier token, and finds it with RoPE.
#
# Its logits are β times a number of which the right token has 1 more than all others and the start token 1/2 less, so
# that the start token is read where there is no right one.
#
#     fast pairs    Σ_c a cos((n - m - o) w_c), which has its one maximum where segment m stands o before segment n
#     remainders    in how many of them the places p - o and p' agree: all, if p' stands o before p
#     slowest pair  stands still, and says at every distance that a key is the start token's
#
# Shapes: D width.

SHARPNESS = 512.0
"""β: after rounding the right logit is ahead by at least a quarter of it, and exp(-128) is 0 in fp32."""
BASE = 1e8
"""Of RoPE: its slowest pair turns by less than 1e-4 in 1,000 segments."""


def offset_weight(width: int, segments: int) -> float:
    """Returns what each of the fast pairs counts, so that the right distance is ahead of all others by 1."""
    distances = torch.arange(1, segments + 1, dtype=torch.float64)
    similar = sum((distances * w).cos() for w in _angles(width))
    gap = PAIRS - float(torch.as_tensor(similar).max())
    if gap < LEAST_GAP:
        raise Error(
            f"bipe: at width {width:,} RoPE does not tell {segments:,} segments apart well enough. Build it for fewer."
        )
    return 1 / gap


def _angles(width: int) -> list[float]:
    """By which the fast pairs turn from one segment to the next."""
    return [BASE ** (-2 * c / width) for c in range(PAIRS)]


class CopyMaps:
    """The maps of one head: logits of queries and keys, and what it copies into `older`."""

    def __init__(self, at: Regions, offset_weight: float):
        self.at, self.offset_weight, self.half = at, offset_weight, at.width // 2
        self.angles = _angles(at.width)

    def copy_inside(self, steps: int) -> dict[str, Tensor]:
        """The inner matrices of the token so many places before, of the same segment."""
        at = self.at
        q, k = self._find(distance=0, agreements=len(at.places))
        for pair in range(PAIRS):
            k[pair, at.one], k[pair, at.begins] = 1 / at.constant, -1
        first = PAIRS
        for region in at.places:
            p = len(region)
            remainder = torch.arange(p)
            q[first + (remainder - steps) % p, region] = 1
            k[first + remainder, region] = 1
            k[first, at.begins] = -1  # the start token has a place too, which is not to agree
            first += p
        return self._maps(q, k, torch.cat([region.flatten() for region in at.inner]))

    def copy_between(self, steps: int) -> dict[str, Tensor]:
        """The outer matrices of the separator so many segments before."""
        q, k = self._find(distance=steps, agreements=0)
        k[:PAIRS, self.at.separator] = 1
        return self._maps(q, k, self.at.outer.flatten())

    def nothing(self) -> dict[str, Tensor]:
        D = self.at.width
        return {"mixer.qkv.weight": torch.zeros(3 * D, D), "mixer.out.weight": torch.zeros(D, D)}

    def _find(self, distance: int, agreements: int) -> tuple[Tensor, Tensor]:
        """Queries turned back by this distance, and the start token 1/2 below the right token's score."""
        D, K, a = self.at.width, self.at.constant, self.offset_weight
        q, k = torch.zeros(D, D), torch.zeros(D, D)
        for pair, w in enumerate(self.angles):
            q[pair, self.at.one] = a * math.cos(distance * w) / K
            q[self.half + pair, self.at.one] = -a * math.sin(distance * w) / K
        q[self.half - 1, self.at.one] = (PAIRS * a + agreements - 1 / 2) / K
        k[self.half - 1, self.at.begins] = 1
        return q, k

    def _maps(self, q: Tensor, k: Tensor, source: Tensor) -> dict[str, Tensor]:
        D = self.at.width
        v, out = torch.zeros(D, D), torch.zeros(D, D)
        channel = torch.arange(len(source))
        v[channel, source] = 1
        out[self.at.older[channel], channel] = 1
        # Attention divides its logits by sqrt(D).
        return {"mixer.qkv.weight": torch.cat([SHARPNESS * math.sqrt(D) * q, k, v]), "mixer.out.weight": out}


# Feed-forward parts as they are written down: hidden units that read some entries and add to others.
#
# x + W_down ReLU(W_up x)        without biases: a constant is a multiple of the entry that holds one

Reads = Sequence[tuple[Tensor | int, Tensor | float]]
"""Entries, and what each is multiplied by."""


class HiddenUnits:
    """The hidden units of a feed-forward part: each adds the ReLU of a sum of entries to other entries."""

    def __init__(self, at: Regions):
        self.at = at
        self.up: list[Tensor] = []
        self.down: list[Tensor] = []

    def add(self, reads: Reads, writes: Reads, constant: float = 0.0) -> None:
        """A unit for every place of these tensors, as they broadcast."""
        every = [torch.as_tensor(x) for pair in (*reads, *writes) for x in pair]
        shape = torch.broadcast_shapes(*(x.shape for x in every))
        self.up.append(self._placed([*reads, (self.at.one, constant / self.at.constant)], shape))
        self.down.append(self._placed(writes, shape))

    def _placed(self, terms: Reads, shape: torch.Size) -> Tensor:
        weights = torch.zeros(shape.numel(), self.at.width)
        unit = torch.arange(shape.numel())
        for entry, factor in terms:
            entry = torch.as_tensor(entry).expand(shape).flatten()
            factor = torch.as_tensor(factor, dtype=weights.dtype).expand(shape).flatten()
            weights.index_put_((unit, entry), factor, accumulate=True)
        return weights

    def forget(self, entries: Tensor) -> None:
        """x - x = x - (ReLU(x) - ReLU(-x))"""
        self.add([(entries, 1.0)], [(entries, -1.0)])
        self.add([(entries, -1.0)], [(entries, 1.0)])

    @property
    def expansion(self) -> int:
        return max(1, -(-sum(map(len, self.up)) // self.at.width))

    def weights(self) -> dict[str, Tensor]:
        up, down = torch.cat(self.up), torch.cat(self.down)
        idle = torch.zeros(self.expansion * self.at.width - len(up), self.at.width)
        return {"up.weight": torch.cat([up, idle]), "down.weight": torch.cat([down, idle]).T.contiguous()}


def bipe(machine: BiNFA, *, longest: int, segments: int) -> LengthwiseForCausalLM:
    """The BiPE-RoPE Transformer that runs `machine`, with a start token (`config.bos_token_id`) before its word.

    Its logits say, after every token: first, whether the word so far is accepted, then whether each state may have been
    reached. They are above 0 for yes and below 0 for no. It is right for words of at most so many `segments`, each of
    at most `longest` tokens with its separator; its depth grows with the logarithm of both.

    >>> from lengthwise.automata import NFA
    >>> ends_in_a = NFA([[[0, 1], [0, 1]], [[1, 0], [1, 0]]], accepting={1}, symbols="ab")
    >>> machine = BiNFA([ends_in_a], [[[0], [1]]])  # it goes on past a segment only if that ends in an a
    >>> model = bipe(machine, longest=4, segments=8)
    >>> words = torch.tensor([[model.config.bos_token_id, *machine.encode(word)] for word in ("ba|a|ba", "ba|b|ba")])
    >>> (model(words).logits[:, -1, 0] > 0).tolist()
    [True, False]
    """
    for name, number in (("longest", longest), ("segments", segments)):
        if type(number) is not int or number < 1:
            raise Error(f"bipe: {name} must be a whole number of at least 1, got {number!r}.")
    at = Regions.of(machine.sizes, longest).with_constant()
    inside, between = _steps(longest), _steps(segments)
    maps = CopyMaps(at, offset_weight(at.width, segments))
    _check_size(machine, at, inside, between)
    layers = []
    for step in range(inside):
        layers += [(maps.copy_inside(2**step), _products(at, at.inner)), (None, _cuts(at, at.inner))]
    layers.append((None, _end_of_segment(machine, at)))
    for step in range(between):
        layers += [(maps.copy_between(2**step), _products(at, [at.outer])), (None, _cuts(at, [at.outer]))]
    layers.append((None, _reached(machine, at)))
    begin = machine.num_symbols
    config = LengthwiseConfig(
        vocab_size=machine.num_symbols + 1,
        num_outputs=1 + machine.num_states,
        width=at.width,
        mixer={"name": "softmax", "heads": 1, "biases": False},
        position={
            "name": "bilevel",
            "inside": {"name": "learned", "rows": longest},
            "between": {"name": "rope", "base": BASE},
            "ends": [machine.separator, begin],
        },
        depth={"name": "fixed", "layers": len(layers)},
        block=[_block(units.expansion) for _, units in layers],
        final_norm=False,
    )
    config.bos_token_id = begin
    weights = {"embedding.weight": _embedding(machine, at), "position.levels.0.table.weight": _places(at, longest)}
    for i, (copy, units) in enumerate(layers):
        layer = units.weights() | (maps.nothing() if copy is None else copy) | _norms(at)
        weights |= {f"depth.layers.{i}.{name}": tensor for name, tensor in layer.items()}
    weights |= _head(machine, at)
    with torch.device("meta"):  # so that no weight is drawn first
        model = LengthwiseForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    return model


def _steps(count: int) -> int:
    """ceil(log2 count)"""
    return (count - 1).bit_length()


def _check_size(machine: BiNFA, at: Regions, inside: int, between: int) -> None:
    products = inside * sum(n**3 for n in machine.sizes) + between * len(machine.parts) ** 3
    rest = 5 * (inside + between + 1) * (at.width + len(at.older))
    entries = at.width * (2 * products + 2 * rest)
    check_size("bipe: this machine makes about", entries, "Use a smaller machine, or shorter or fewer segments.")


def _block(expansion: int) -> dict[str, object]:
    return {
        "kind": "transformer",
        "norm": "pre",
        "activation": "relu",
        "expansion": expansion,
        "biases": False,
        "normalisation": "rms",
    }


def _embedding(machine: BiNFA, at: Regions) -> Tensor:
    """A symbol's own matrices; a separator and the start token leave the inner ones as they are, all but a separator
    the outer ones."""
    E = torch.zeros(machine.num_symbols + 1, at.width)
    E[:, at.one] = at.constant
    E[machine.separator, at.separator] = E[-1, at.begins] = 1
    for region, part in zip(at.inner, machine.parts, strict=True):
        E[: machine.separator, region.flatten()] = torch.from_numpy(part.matrices.copy()).flatten(1).to(E)
        E[machine.separator :, region.diagonal()] = 1
    E[:, at.outer.diagonal()] = 1
    E[machine.separator, at.outer.diagonal()] = 0
    return E


def _places(at: Regions, longest: int) -> Tensor:
    table = torch.zeros(longest, at.width)
    for region in at.places:
        place = torch.arange(longest)
        table[place, region[place % len(region)]] = 1
    return table


def _norms(at: Regions) -> dict[str, Tensor]:
    """sqrt(K² / D + eps), by which a vector of K alone is divided."""
    weight = torch.full((at.width,), math.sqrt(at.constant**2 / at.width + EPS))
    return {"mixer_norm.weight": weight, "feed_norm.weight": weight.clone()}


def _products(at: Regions, matrices: list[Tensor]) -> HiddenUnits:
    """Each matrix becomes older ∘ itself, counted: what was copied of it stands in `older`, one after the other."""
    units, read = HiddenUnits(at), 0
    for own in matrices:
        n = len(own)
        older = at.older[read : read + n**2].view(n, n)
        units.add([(older[:, :, None], 1.0), (own[None], 1.0)], [(own[:, None], 1.0)], -1.0)
        units.forget(own)
        units.forget(older)
        read += n**2
    return units


def _cuts(at: Regions, matrices: list[Tensor]) -> HiddenUnits:
    """Counts become bits."""
    units = HiddenUnits(at)
    for counts in matrices:
        units.add([(counts, 2.0)], [(counts, 1.0)], -1 / 2)
        units.add([(counts, 2.0)], [(counts, -1.0)], -3 / 2)
        units.forget(counts)
    return units


def _end_of_segment(machine: BiNFA, at: Regions) -> HiddenUnits:
    """At separators: the outer matrix, cut at once, and inner rows that say the start state; other tokens stay."""
    units = HiddenUnits(at)
    for i, (inner, entry, leaves) in enumerate(zip(at.inner, machine.entries, machine.leaves, strict=True)):
        row, out = inner[entry], torch.from_numpy(leaves.copy()).to(torch.get_default_dtype())
        counts = [(row[q], 2 * out[q]) for q in range(len(row))]
        shut = 2.0 * len(row)
        units.add([*counts, (at.separator, shut)], [(at.outer[i], 1.0)], -1 / 2 - shut)
        units.add([*counts, (at.separator, shut)], [(at.outer[i], -1.0)], -3 / 2 - shut)
        units.add([(row, 1.0), (at.separator, 1.0)], [(row, -1.0)], -1.0)
        units.add([(at.separator, 1.0)], [(row[entry], 1.0)])
    return units


def _reached(machine: BiNFA, at: Regions) -> HiddenUnits:
    """Into `older`: whether each state may have been reached."""
    units = HiddenUnits(at)
    states = at.older[: machine.num_states].split(machine.sizes)
    for i, (inner, entry, state) in enumerate(zip(at.inner, machine.entries, states, strict=True)):
        units.add([(at.outer[machine.start, i], 1.0), (inner[entry], 1.0)], [(state, 1.0)], -1.0)
    return units


def _head(machine: BiNFA, at: Regions) -> dict[str, Tensor]:
    """The first logit counts the accepting states that may have been reached."""
    Q = machine.num_states
    weight = torch.zeros(1 + Q, at.width)
    weight[0, at.older[:Q]] = 2 * CONFIDENCE * torch.from_numpy(machine.accepts_state).to(weight)
    weight[torch.arange(1, 1 + Q), at.older[:Q]] = 2 * CONFIDENCE
    return {"head.weight": weight, "head.bias": torch.full((1 + Q,), -CONFIDENCE)}
