"""Every state that a stack of automata can reach, beside the machine's.

A block's columns are one-hot, so after any word its state is x_0's entries moved by a function of b places: one of
finitely many. A layer is driven by the token and by the states of the layers before it. So the whole model is a finite
machine, a cascade, and running it beside the reference machine from (x_0, start) reaches finitely many pairs:

    (s_1 … s_L, q) --token--> (s_1' … s_L', δ(q, token))

The steps are taken in float64. Where the checker finds each argmax that moves an entry, and each right answer, ahead by
more than any rounding, the float network takes these very steps and is right at every length. States of the machine
after which nothing is ever asked again are left out.

Shapes: N pairs or steps, L layers, n entries of x_0 that are not 0.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...limits import Limit
from ...mixers import BlockLRNN
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from .. import certificate as certificates
from ..checker.cascade import Cascade
from ..claim import Claim
from ..verdict import Proof, Refuted, Unknown
from .boxes import leads
from .node import inner_of

REACHED = Limit("CASCADE_STATES", 200_000, "reachable states", "Silence the blocks that carry nothing")
AT_ONCE = 1024
"""Tokens whose functions are computed together."""


class NumberedRows:
    """Rows by number, each once."""

    def __init__(self, width: int, dtype: type):
        self.known: dict[bytes, int] = {}
        self.width, self.dtype = width, np.dtype(dtype)
        self._rows = np.zeros((64, width), self.dtype)

    def __len__(self) -> int:
        return len(self.known)

    @property
    def rows(self) -> np.ndarray:
        return self._rows[: len(self.known)]

    def add(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of each row, and which of `rows` are the first of their kind."""
        data = np.ascontiguousarray(rows, self.dtype).tobytes()
        size = self.width * self.dtype.itemsize
        keys = [data[i : i + size] for i in range(0, len(data), size)] if size else [b""] * len(rows)
        before, known = len(self.known), self.known
        numbers = np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, len(keys))
        found, first = np.unique(numbers, return_index=True)
        first = first[found >= before]
        if len(known) > len(self._rows):
            more = np.zeros((2 * len(known), self.width), self.dtype)
            more[:before] = self._rows[:before]
            self._rows = more
        self._rows[before : len(known)] = rows[first]
        return numbers, first


@dataclass(frozen=True)
class Closest:
    """The argmax that is decided by least."""

    gap: float
    layer: int
    block: int
    column: int
    symbol: int

    def __str__(self) -> str:
        return f"layer {self.layer}, block {self.block}, column {self.column}, token {self.symbol}"


@dataclass
class Reached:
    """What an exploration has found so far."""

    pairs: np.ndarray
    """(N,1+L) the machine's state, and each layer's by number."""
    states: list[np.ndarray]
    """Of each layer (·,n) places."""
    closest: Closest
    margin: float
    """The least, over all that is asked."""
    wrong: tuple[int, ...] | None = None
    """A shortest word after which the answer is not right."""


class TooMany(Exception):
    """The limit, or the time, was reached."""


class CascadeNetwork:
    """A stack of automata in float64: which functions a token chooses, and what a state is read as.

    A layer's state is where each entry of x_0 that is not 0 lies in its block: (n,) places 0..b-1.
    """

    def __init__(self, model: LengthwiseForCausalLM):
        self.model = copy.deepcopy(model).cpu().double().eval()
        self.layers: list[Any] = list(self.model.depth.layers)
        self.shapes = [layer.mixer.shape for layer in self.layers]
        first = [layer.mixer.initial for layer in self.layers]
        self.initial = [
            np.zeros(s) if x is None else x.detach().numpy() for s, x in zip(self.shapes, first, strict=True)
        ]
        self.entries = [(i, j.astype(np.uint8)) for i, j in map(np.nonzero, self.initial)]
        """Of each layer the block, and the place in it, of every entry."""
        self.outputs: int = self.model.head.weight.shape[0]
        self.reads_state_alone = not self.layers[-1].residual
        """Whether an answer depends on the last layer's state alone, and not on the token beside it."""

    @torch.no_grad()
    def functions(self, k: int, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """(N,h,b) where each place of each block of layer k goes, and by how much that is decided."""
        (h, b), layer = self.shapes[k], self.layers[k]
        M = layer.mixer.transition(layer.mixer_norm(x)).view(-1, h, b, b)
        if b == 1:
            return np.zeros((len(M), h, b), np.uint8), np.ones((len(M), h, b))
        best = M.topk(2, 2)
        gap = (best.values[:, :, 0] - best.values[:, :, 1]).nan_to_num(nan=-torch.inf)
        return best.indices[:, :, 0].to(torch.uint8).numpy(), gap.numpy()

    @torch.no_grad()
    def before(self, layer: int, symbols: np.ndarray, states: list[np.ndarray]) -> Tensor:
        """What a layer is given for these tokens (N,) if the earlier layers are then in these states, each (N,n)."""
        x = self.model.embedding.weight[torch.from_numpy(symbols)] * self.model.config.embedding_scale
        for k, places in enumerate(states[:layer]):
            y = self.read(k, places)
            x = x + y if self.layers[k].residual else y
        return x

    @torch.no_grad()
    def read(self, k: int, places: np.ndarray) -> Tensor:
        """What layer k gives in states (N,n)."""
        x0, (block, at) = self.initial[k], self.entries[k]
        total = np.zeros((len(places), x0.size))
        flat = block * x0.shape[1] + places.astype(np.int64)
        np.add.at(total, (np.arange(len(places))[:, None], flat), x0[block, at])
        return self.layers[k].mixer.readout(torch.from_numpy(total))

    @torch.no_grad()
    def logits(self, x: Tensor) -> np.ndarray:
        x = self.model.norm(x)
        return self.model.head(x if self.model.hidden is None else torch.relu(self.model.hidden(x))).numpy()


def network_of(model: nn.Module) -> CascadeNetwork | str:
    """The model as a stack of automata, or why the checker can take it for none."""
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Fixed):
        return "it is no stack of layers of this library"
    if not all(isinstance(layer.mixer, BlockLRNN) for layer in inner.depth.layers):
        return "its layers are no block-diagonal linear RNNs"
    reason = certificates.network_of(inner, Cascade, "float32")
    return reason if isinstance(reason, str) else CascadeNetwork(inner)


@dataclass
class Explorer:
    network: CascadeNetwork
    claim: Claim
    most: int
    until: float
    closest: Closest = Closest(np.inf, 0, 0, 0, 0)
    margin: float = np.inf
    wrong: tuple[int, int] | None = None
    pairs: NumberedRows = field(init=False)
    parents: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        shapes = self.network.shapes
        L = len(shapes)
        self.entries = self.network.entries
        self.states = [NumberedRows(len(block), np.uint8) for block, _ in self.entries]
        self.drivers = [NumberedRows(1 + k, np.int32) for k in range(L)]
        self.functions = [np.zeros((0, *shape), np.uint8) for shape in shapes]
        self.gaps = [np.zeros((0, *shape)) for shape in shapes]
        self.steps = [NumberedRows(2, np.int32) for _ in range(L)]
        self.after = [np.zeros(0, np.int64) for _ in range(L)]
        self.pairs = NumberedRows(1 + L, np.int32)
        self.readings = NumberedRows(1 if self.network.reads_state_alone else 1 + L, np.int32)
        self.answered = NumberedRows(2, np.int32)
        self.logits = np.zeros((0, self.network.outputs))
        self.parents, self.symbols = [], []
        self.alive = self.claim.alive

    def run(self) -> Reached:
        start = [state.add(place[None])[0] for state, (_, place) in zip(self.states, self.entries, strict=True)]
        first = np.array([[self.claim.machine.start, *(int(i[0]) for i in start)]])
        self.pairs.add(first)
        self.parents, self.symbols = [np.array([-1])], [np.array([-1])]
        done = 0
        while done < len(self.pairs):
            end = len(self.pairs)
            for begin in range(done, end, 4096):
                self._level(np.arange(begin, min(end, begin + 4096)))
                if self.wrong is not None or self.closest.gap <= 0:
                    return self._reached()
            done = end
        return self._reached()

    def _level(self, nodes: np.ndarray) -> None:
        delta = self.claim.machine.delta
        S = delta.shape[1]
        node, symbol = np.repeat(nodes, S), np.tile(np.arange(S), len(nodes))
        pair = self.pairs.rows[node]
        q = delta[pair[:, 0], symbol]
        kept = self.alive[q]
        node, symbol, pair, q = node[kept], symbol[kept], pair[kept], q[kept]
        driver = symbol[:, None].astype(np.int32)
        for k in range(len(self.network.layers)):
            key = self._driven(k, driver)
            driver = np.concatenate([driver, self._stepped(k, pair[:, 1 + k], key)[:, None].astype(np.int32)], 1)
        if self.closest.gap <= 0:
            return
        self._answer(node, symbol, driver, q)
        _, first = self.pairs.add(np.concatenate([q[:, None], driver[:, 1:]], 1))
        self.parents.append(node[first])
        self.symbols.append(symbol[first])
        self._watch()

    def _watch(self) -> None:
        if len(self.pairs) > self.most:
            raise TooMany(
                f"more than {self.most:,} states are reachable beside the machine's. Silence the blocks that carry "
                f"nothing (--consolidate), or raise the limit: {REACHED.variable}=…"
            )
        if time.monotonic() > self.until:
            raise TooMany(
                f"the time was over after {len(self.pairs):,} reachable states. Give it a larger budget, or silence "
                "the blocks that carry nothing (--consolidate)"
            )

    def _driven(self, k: int, driver: np.ndarray) -> np.ndarray:
        """The number of each row's functions in layer k."""
        key, first = self.drivers[k].add(driver)
        for some in np.array_split(driver[first], max(1, -(-len(first) // AT_ONCE))):
            if not len(some):
                continue
            before = [self.states[j].rows[some[:, 1 + j]] for j in range(k)]
            F, G = self.network.functions(k, self.network.before(k, some[:, 0].astype(np.int64), before))
            self.functions[k] = np.concatenate([self.functions[k], F])
            self.gaps[k] = np.concatenate([self.gaps[k], G])
            self._watch()
        return key

    def _stepped(self, k: int, state: np.ndarray, key: np.ndarray) -> np.ndarray:
        """The number of layer k's state after these steps."""
        step, first = self.steps[k].add(np.stack([state, key], 1))
        state, key = state[first], key[first]
        block = self.entries[k][0]
        places = self.states[k].rows[state]
        moved = self.functions[k][key[:, None], block, places]
        if moved.size:
            gaps = self.gaps[k][key[:, None], block, places]
            i, j = np.unravel_index(gaps.argmin(), gaps.shape)
            if gaps[i, j] < self.closest.gap:
                symbol = int(self.drivers[k].rows[key[i], 0])
                self.closest = Closest(float(gaps[i, j]), k, int(block[j]), int(places[i, j]), symbol)
        new, _ = self.states[k].add(moved)
        self.after[k] = np.concatenate([self.after[k], new])
        return self.after[k][step]

    def _answer(self, node: np.ndarray, symbol: np.ndarray, driver: np.ndarray, q: np.ndarray) -> None:
        asked = self.claim.asked[q]
        node, symbol, driver, q = node[asked], symbol[asked], driver[asked], q[asked]
        if not len(q):
            return
        read, first = self.readings.add(driver[:, -1:] if self.network.reads_state_alone else driver)
        if len(first):
            L = len(self.network.layers)
            states = [self.states[j].rows[driver[first, 1 + j]] for j in range(L)]
            logits = self.network.logits(self.network.before(L, symbol[first], states))
            self.logits = np.concatenate([self.logits, logits])
        _, first = self.answered.add(np.stack([read, q], 1))
        if not len(first):
            return
        logits = self.logits[read[first]]
        least = leads(logits, logits, self.claim.answers[q[first]])
        self.margin = min(self.margin, float(least.min()))
        bad = ~(least > 0)
        if bad.any():
            i = first[int(bad.argmax())]
            self.wrong = int(node[i]), int(symbol[i])

    def _reached(self) -> Reached:
        word = None
        if self.wrong is not None:
            node, symbol = self.wrong
            parents, symbols = np.concatenate(self.parents), np.concatenate(self.symbols)
            letters = [symbol]
            while parents[node] >= 0:
                letters.append(int(symbols[node]))
                node = int(parents[node])
            word = tuple(reversed(letters))
        states = [state.rows for state in self.states]
        return Reached(self.pairs.rows, states, self.closest, self.margin, word)


def explore(network: CascadeNetwork, claim: Claim, seconds: float, most: int | None = None) -> Reached:
    """All reachable pairs, or up to the first wrong answer."""
    return Explorer(network, claim, REACHED.most if most is None else most, time.monotonic() + seconds).run()


def prove_cascade(model: nn.Module, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
    """A proof that a stack of automata is right at every length."""
    network = network_of(model)
    if isinstance(network, str):
        return f"it is no cascade of finite machines: {network}"
    try:
        reached = explore(network, claim, seconds)
    except TooMany as problem:
        return Unknown(str(problem))
    if reached.wrong is not None:
        return _wrong(model, claim, reached)
    if reached.closest.gap <= 0:
        where = reached.closest
        return Unknown(f"a transition's argmax is not decided ({where})", -where.gap)
    return {
        "kind": "cascade",
        "inference": "raw",
        "arithmetic": "float32",
        "margin": reached.margin,
        "proof": {
            "bound": "joint",
            "entries": [[[int(i), int(j)] for i, j in zip(*each, strict=True)] for each in network.entries],
            "states": [rows.tolist() for rows in reached.states],
            "pairs": reached.pairs.tolist(),
        },
    }


def _wrong(model: nn.Module, claim: Claim, reached: Reached) -> Refuted | Unknown:
    """The word, if the model itself says so."""
    assert reached.wrong is not None
    device = next(model.parameters()).device
    with torch.no_grad():
        said = model(torch.tensor([reached.wrong], device=device))
    last = getattr(said, "logits", said)[0, -1]
    answer = tuple((last > 0).nonzero().flatten().tolist()) if claim.several else int(last.argmax())
    right = claim.right(reached.wrong)
    if right is not None and answer != right:
        return Refuted(reached.wrong, answer, right)
    return Unknown("at a reachable state the right answer is not ahead", -reached.margin)
