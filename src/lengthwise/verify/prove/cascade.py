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
from dataclasses import dataclass
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


class ReachablePairs:
    """All reachable pairs, or those up to the first wrong answer or the first argmax that is not decided."""

    def __init__(self, network: CascadeNetwork, claim: Claim, seconds: float):
        self.network, self.claim = network, claim
        self.until = time.monotonic() + seconds
        self.closest = Closest(np.inf, 0, 0, 0, 0)
        self.margin = np.inf
        """The least, over all that is asked."""
        self.wrong: tuple[int, ...] | None = None
        """A shortest word after which the answer is not right."""
        shapes = network.shapes
        L = len(shapes)
        self.states = [NumberedRows(len(block), np.uint8) for block, _ in network.entries]
        """Of each layer (·,n) places."""
        self.pairs = NumberedRows(1 + L, np.int32)
        """(N,1+L) the machine's state, and each layer's by number."""
        self.drivers = [NumberedRows(1 + k, np.int32) for k in range(L)]
        self.functions = [np.zeros((0, *shape), np.uint8) for shape in shapes]
        self.gaps = [np.zeros((0, *shape)) for shape in shapes]
        self.readings = NumberedRows(1 if network.reads_state_alone else 1 + L, np.int32)
        self.logits = np.zeros((0, network.outputs))
        start = [state.add(place[None])[0] for state, (_, place) in zip(self.states, network.entries, strict=True)]
        self.pairs.add(np.array([[claim.machine.start, *(int(i[0]) for i in start)]]))
        self.parents, self.symbols = [np.array([-1])], [np.array([-1])]
        self.alive = claim.alive
        done = 0
        while done < (end := len(self.pairs)):
            for begin in range(done, end, 4096):
                self._step(np.arange(begin, min(end, begin + 4096)))
                if self.wrong is not None or self.closest.gap <= 0:
                    return
            done = end

    def _step(self, nodes: np.ndarray) -> None:
        """Lead these pairs on by every symbol."""
        delta = self.claim.machine.delta
        S = delta.shape[1]
        node, symbol = np.repeat(nodes, S), np.tile(np.arange(S), len(nodes))
        pair = self.pairs.rows[node]
        q = delta[pair[:, 0], symbol]
        alive = self.alive[q]
        node, symbol, pair, q = node[alive], symbol[alive], pair[alive], q[alive]
        driver = symbol[:, None].astype(np.int32)
        for k in range(len(self.network.layers)):
            after = self._moved(k, pair[:, 1 + k], self._driven(k, driver))
            driver = np.concatenate([driver, after[:, None].astype(np.int32)], 1)
        if self.closest.gap <= 0:
            return
        self._answer(node, driver, q)
        _, first = self.pairs.add(np.concatenate([q[:, None], driver[:, 1:]], 1))
        self.parents.append(node[first])
        self.symbols.append(symbol[first])
        self._watch()

    def _watch(self) -> None:
        if len(self.pairs) > REACHED.most:
            raise TooMany(
                f"more than {REACHED.most:,} states are reachable beside the machine's. Silence the blocks that carry "
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
        for begin in range(0, len(first), AT_ONCE):
            F, G = self.network.functions(k, self._before(k, driver[first[begin : begin + AT_ONCE]]))
            self.functions[k] = np.concatenate([self.functions[k], F])
            self.gaps[k] = np.concatenate([self.gaps[k], G])
            self._watch()
        return key

    def _before(self, k: int, driver: np.ndarray) -> Tensor:
        states = [self.states[j].rows[driver[:, 1 + j]] for j in range(k)]
        return self.network.before(k, driver[:, 0].astype(np.int64), states)

    def _moved(self, k: int, state: np.ndarray, key: np.ndarray) -> np.ndarray:
        """The number of layer k's state after these steps."""
        block = self.network.entries[k][0]
        places = self.states[k].rows[state]
        at = key[:, None], block, places
        if places.size:
            gaps = self.gaps[k][at]
            i, j = np.unravel_index(gaps.argmin(), gaps.shape)
            if gaps[i, j] < self.closest.gap:
                symbol = int(self.drivers[k].rows[key[i], 0])
                self.closest = Closest(float(gaps[i, j]), k, int(block[j]), int(places[i, j]), symbol)
        return self.states[k].add(self.functions[k][at])[0]

    def _answer(self, node: np.ndarray, driver: np.ndarray, q: np.ndarray) -> None:
        asked = self.claim.asked[q]
        node, driver, q = node[asked], driver[asked], q[asked]
        if not len(q):
            return
        reading, first = self.readings.add(driver[:, -1:] if self.network.reads_state_alone else driver)
        if len(first):
            logits = self.network.logits(self._before(len(self.network.layers), driver[first]))
            self.logits = np.concatenate([self.logits, logits])
        logits = self.logits[reading]
        least = leads(logits, logits, self.claim.answers[q])
        self.margin = min(self.margin, float(least.min()))
        bad = ~(least > 0)
        if bad.any():
            i = int(bad.argmax())
            self.wrong = self._word(int(node[i]), int(driver[i, 0]))

    def _word(self, node: int, symbol: int) -> tuple[int, ...]:
        parents, symbols = np.concatenate(self.parents), np.concatenate(self.symbols)
        word = [symbol]
        while parents[node] >= 0:
            word.append(int(symbols[node]))
            node = int(parents[node])
        return tuple(reversed(word))


def prove_cascade(model: nn.Module, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
    """A proof that a stack of automata is right at every length."""
    network = network_of(model)
    if isinstance(network, str):
        return f"it is no cascade of finite machines: {network}"
    try:
        reached = ReachablePairs(network, claim, seconds)
    except TooMany as problem:
        return Unknown(str(problem))
    if reached.wrong is not None:
        return _wrong(model, claim, reached.wrong, reached.margin)
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
            "states": [state.rows.tolist() for state in reached.states],
            "pairs": reached.pairs.rows.tolist(),
        },
    }


def _wrong(model: nn.Module, claim: Claim, word: tuple[int, ...], margin: float) -> Refuted | Unknown:
    """The word, if the model itself says so."""
    with torch.no_grad():
        output = model(torch.tensor([word], device=next(model.parameters()).device))
    last = getattr(output, "logits", output)[0, -1]
    answer = tuple((last > 0).nonzero().flatten().tolist()) if claim.several else int(last.argmax())
    right = claim.right(word)
    if right is not None and answer != right:
        return Refuted(word, answer, right)
    return Unknown("at a reachable state the right answer is not ahead", -margin)
