"""Every state that a stack of automata can reach, beside the machine's.

A block's columns are one-hot, so after any word its state is x_0's entries moved by a function of b places: one of
finitely many. A layer is driven by the token and by the states of the layers before it. So the whole model is a finite
machine, a cascade, and running it beside the reference machine from (x_0, start) reaches finitely many pairs:

    (s_1 … s_L, q) --token--> (s_1' … s_L', δ(q, token))

The checker says where each place goes and by how much more than any rounding that is decided: where it always is, and
each right answer is ahead, the float network takes these very steps and is right at every length. States of the machine
after which nothing is ever asked again are left out.

Shapes: N pairs or steps, L layers, n entries of x_0 that are not 0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from torch import nn

from ...limits import Limit
from ...mixers import BlockLRNN
from ...models.depth import Fixed
from .. import certificate as certificates
from ..checker import Rejected
from ..checker.cascade import Cascade
from ..checker.claim import StatedClaim
from ..checker.intervals import Interval, concatenate
from ..claim import Claim
from ..falsification.reading import Reader
from ..verdict import NotProved, Proof, Refuted, Unknown, proof_by
from .node import inner_of

REACHED = Limit("CASCADE_STATES", 200_000, "reachable states", "Silence the blocks that carry nothing")
SILENCE = "or silence the blocks that carry nothing (--settle or --consolidate)"
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
        unique, first = np.unique(numbers, return_index=True)
        first = first[unique >= before]
        if len(known) > len(self._rows):
            more = np.zeros((2 * len(known), self.width), self.dtype)
            more[:before] = self._rows[:before]
            self._rows = more
        self._rows[before : len(known)] = rows[first]
        return numbers, first


def cascade_of(model: nn.Module) -> Cascade | str:
    """The model as the checker reads it, or why it can take it for no stack of automata."""
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Fixed):
        return "it is no stack of layers of this library"
    if not all(isinstance(layer.mixer, BlockLRNN) for layer in inner.depth.layers):
        return "its layers are no block-diagonal linear RNNs"
    return certificates.network_of(inner, Cascade, "float32")


class ReachablePairs:
    """All reachable pairs of states of a cascade and of the claim's machine."""

    def __init__(
        self,
        claim: Claim,
        entries: Sequence[tuple[np.ndarray, ...]],
        shapes: list[tuple[int, int]],
        limit: Limit,
        until: float,
    ):
        """`entries`: of each layer the block of every entry, and the place where it begins."""
        self.claim, self.limit, self.until = claim, limit, until
        L = len(entries)
        self.blocks = [np.asarray(block, dtype=np.int64) for block, _ in entries]
        self.states = [NumberedRows(len(block), np.uint8) for block in self.blocks]
        """Of each layer (·,n) places."""
        self.pairs = NumberedRows(1 + L, np.int32)
        """(N,1+L) the machine's state, and each layer's by number."""
        self.drivers = [NumberedRows(1 + k, np.int32) for k in range(L)]
        """Of each layer (·,1+k) what it is driven by: a symbol, and the states of the layers before it."""
        self.functions = [np.zeros((0, *shape), np.uint8) for shape in shapes]
        """Of each layer (·,h,b) where each place goes by each driver."""
        self.gaps = [np.zeros((0, *shape)) for shape in shapes]
        """By how much that is decided."""
        self.used = [np.zeros((0, *shape), bool) for shape in shapes]
        """Whether an entry ever lies there then."""
        self.parents, self.symbols = [np.array([-1])], [np.array([-1])]
        for state, (_, place) in zip(self.states, entries, strict=True):
            state.add(np.asarray(place)[None])
        self.pairs.add(np.array([[claim.machine.start, *[0] * L]]))

    def look(self) -> None:
        done, alive = 0, self.claim.alive
        while done < (end := len(self.pairs)):
            for begin in range(done, end, 4096):
                self._step(np.arange(begin, min(end, begin + 4096)), alive)
            done = end

    def moves(self, k: int, drivers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N,h,b) where each place of layer k goes by these drivers (N,1+k), and by how much that is decided."""
        raise NotImplementedError

    def read(self, node: np.ndarray, drivers: np.ndarray, q: np.ndarray) -> None:
        """Look at what is answered in these states: a symbol and the states of all layers, (N,1+L)."""
        raise NotImplementedError

    def _step(self, nodes: np.ndarray, alive: np.ndarray) -> None:
        """Lead these pairs on by every symbol."""
        delta = self.claim.machine.delta
        S = delta.shape[1]
        node, symbol = np.repeat(nodes, S), np.tile(np.arange(S), len(nodes))
        pair = self.pairs.rows[node]
        q = delta[pair[:, 0], symbol]
        node, symbol, pair, q = (each[alive[q]] for each in (node, symbol, pair, q))
        driver = symbol[:, None].astype(np.int32)
        for k, state in enumerate(self.states):
            key, first = self.drivers[k].add(driver)
            for begin in range(0, len(first), AT_ONCE):
                to, gap = self.moves(k, driver[first[begin : begin + AT_ONCE]])
                self.functions[k] = np.concatenate([self.functions[k], to.astype(np.uint8)])
                self.gaps[k] = np.concatenate([self.gaps[k], gap])
                self.used[k] = np.concatenate([self.used[k], np.zeros(to.shape, bool)])
                self._watch()
            after = state.add(self._moved(k, key, state.rows[pair[:, 1 + k]]))[0]
            driver = np.concatenate([driver, after[:, None].astype(np.int32)], 1)
        asked = self.claim.asked[q]
        if asked.any():
            self.read(node[asked], driver[asked], q[asked])
        _, first = self.pairs.add(np.concatenate([q[:, None], driver[:, 1:]], 1))
        self.parents.append(node[first])
        self.symbols.append(symbol[first])
        self._watch()

    def _moved(self, k: int, driver: np.ndarray, places: np.ndarray) -> np.ndarray:
        """(N,n) where these places (N,n) of the entries go by drivers of these numbers (N,)."""
        at = driver[:, None], self.blocks[k], places
        self.used[k][at] = True
        gaps = self.gaps[k][at]
        if gaps.size and gaps.min() <= 0:
            i, j = np.unravel_index(gaps.argmin(), gaps.shape)
            symbol = self.drivers[k].rows[driver[i], 0]
            where = f"block {self.blocks[k][j]}, column {places[i, j]}, token {symbol}"
            why = f"an argmax of layer {k} that moves an entry is not decided ({where})"
            raise NotProved(Unknown.short(why, float(gaps.min())))
        return self.functions[k][at]

    def _watch(self) -> None:
        if len(self.pairs) > self.limit.most:
            why = f"more than {self.limit.most:,} states are reachable beside the machine's"
            raise NotProved(Unknown(f"{why}. Raise the limit ({self.limit.variable}=…), {SILENCE}"))
        if time.monotonic() > self.until:
            why = f"the time was over after {len(self.pairs):,} reachable states"
            raise NotProved(Unknown(f"{why}. Give it a larger budget, {SILENCE}"))

    def word(self, node: int, symbol: int) -> tuple[int, ...]:
        """A shortest one to this pair, and then the symbol."""
        parents, symbols = np.concatenate(self.parents), np.concatenate(self.symbols)
        word = [symbol]
        while parents[node] >= 0:
            word.append(int(symbols[node]))
            node = int(parents[node])
        return tuple(reversed(word))


class NetworkPairs(ReachablePairs):
    """Those of a network: up to the first answer that is not right, or the first argmax that is not decided."""

    def __init__(self, model: nn.Module, network: Cascade, claim: Claim, until: float):
        layers = network.layers
        shapes = [(layer.blocks, layer.width) for layer in layers]
        super().__init__(claim, [layer.entries for layer in layers], shapes, REACHED, until)
        self.model, self.network, self.stated = model, network, StatedClaim(claim.to_json())
        self.margin = np.inf
        """The least, over all that is asked."""
        self.read_alone = not layers[-1].residual
        """Whether an answer depends on the last layer's state alone, and not on the token beside it."""
        self.readings = NumberedRows(1 if self.read_alone else 1 + len(layers), np.int32)
        self.logits = Interval.of(np.zeros((0, network.outputs)))

    def moves(self, k: int, drivers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.network.layers[k].functions(self._before(k, drivers))

    def read(self, node: np.ndarray, drivers: np.ndarray, q: np.ndarray) -> None:
        reading, first = self.readings.add(drivers[:, -1:] if self.read_alone else drivers)
        if len(first):
            logits = self.network.head(self._before(len(self.states), drivers[first]))
            self.logits = concatenate([self.logits, logits], 0)
        margins = self.stated.margins(self.logits[reading], q)
        self.margin = min(self.margin, float(margins.min()))
        if not self.margin > 0:
            i = int((~(margins > 0)).argmax())
            raise NotProved(_wrong(self.model, self.claim, self.word(int(node[i]), int(drivers[i, 0])), self.margin))

    def _before(self, k: int, drivers: np.ndarray) -> Interval:
        return self.network.before(k, drivers, [state.rows.astype(np.int64) for state in self.states])


def prove_cascade(model: nn.Module, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
    """A proof that a stack of automata is right at every length."""
    network = cascade_of(model)
    if isinstance(network, str):
        return f"it is no cascade of finite machines: {network}"
    reached = NetworkPairs(model, network, claim, time.monotonic() + seconds)
    try:
        reached.look()
    except NotProved as end:
        return end.verdict
    except Rejected as reason:
        return str(reason)
    sets = {
        "bound": "joint",
        "entries": [[[int(i), int(j)] for i, j in zip(*layer.entries, strict=True)] for layer in network.layers],
        "states": [state.rows.tolist() for state in reached.states],
        "pairs": reached.pairs.rows.tolist(),
    }
    return proof_by("cascade", "float32", reached.margin, sets)


def _wrong(model: nn.Module, claim: Claim, word: tuple[int, ...], margin: float) -> Refuted | Unknown:
    """The word, if the model itself says so."""
    with Reader(model, claim) as reader:
        refuted = reader.alone(np.array(word))
    return refuted or Unknown.short("at a reachable state the right answer is not ahead", margin)
