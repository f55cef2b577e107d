"""Induction over time for automata stacked on one another: every state they reach beside the machine's is listed.

A layer's block has one-hot columns: after a word, entry i of its first state x_0 lies where functions of the block's
places have moved it, and entries that meet are summed. So the places of the entries are all that a layer remembers, and
the token with the places in the layers before decides its next function, an argmax of every column:

    (q, s_1, …, s_L) --symbol--> (δ(q, symbol), s_1', …, s_L')

The claim is that all tuples that are reached are listed. It holds if the first is, if every listed one leads to
listed ones by every symbol, and if each argmax that moves an entry is decided by more than any rounding. Then the
answer has to be right after each. States of the machine from which no question can be reached any more are left out.

Shapes: N tuples, S symbols, L layers, n entries of x_0 that are not 0, h blocks, b places of a block, U different
cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .claim import StatedClaim
from .fields import FLAG, LIST, Rejected, exactly, fields, maybe, real, same, table, whole
from .intervals import Array, Interval
from .network import Network
from .weights import Tensors

AT_ONCE = 512
KINDS = {"residual": True, "normed": False, "bare": False}
"""Blocks, and whether the layer's input is added to what it gives."""
NETWORKS = ("linear", "two-layer")
MIXER = {
    "name": exactly("block-lrnn"),
    "transition": exactly(*NETWORKS),
    "inputs": exactly("none", *NETWORKS),
    "normalisation": exactly("one-hot", "paper", "none"),
    "p": real(1.0),
    "learned_initial": FLAG,
    "readout": exactly("linear", "identity"),
}
PROOF = {"bound": exactly("joint"), "entries": LIST, "states": LIST, "pairs": LIST}


def check_cascade(network: Cascade, claim: StatedClaim, proof: Any) -> tuple[int, float]:
    """Returns how many conditions were checked, and the least of all gaps and margins."""
    claim.fits(network.symbols, network.outputs)
    states, pairs = _listed(network, claim, proof)
    rows = [{row.tobytes(): i for i, row in enumerate(each)} for each in states]
    listed = {row.tobytes() for row in pairs}
    first = [known.get(layer.entries[1].tobytes(), -1) for known, layer in zip(rows, network.layers, strict=True)]
    if np.array([claim.start, *first]).tobytes() not in listed:
        raise Rejected("the first states are not listed.")

    N, S = len(pairs), claim.symbols
    pair, symbol = pairs[np.repeat(np.arange(N), S)], np.tile(np.arange(S), N)
    q = claim.delta[pair[:, 0], symbol]
    heeded = claim.heeded[q]
    pair, symbol, q = pair[heeded], symbol[heeded], q[heeded]
    least, count, driver = np.inf, 0, symbol[:, None]
    for k, layer in enumerate(network.layers):
        cases, case = np.unique(driver, axis=0, return_inverse=True)
        case = case.reshape(-1)
        block, places = layer.entries[0], states[k][pair[:, 1 + k]]
        to, gap = np.zeros((2, len(cases), layer.blocks, layer.width))
        for begin in range(0, len(cases), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            to[some], gap[some] = layer.functions(network.before(k, cases[some], states))
        gaps = gap[case[:, None], block, places]
        if gaps.size and not (gaps > 0).all():
            raise Rejected(f"an argmax of layer {k} that moves an entry is not decided: its gap is {gaps.min():.3g}.")
        least, count = min(least, float(gaps.min(initial=np.inf))), count + gaps.size
        moved = np.ascontiguousarray(to[case[:, None], block, places].astype(np.int64))
        after = np.array([rows[k].get(row.tobytes(), -1) for row in moved], dtype=np.int64)
        if (after < 0).any():
            raise Rejected(f"layer {k} is led to a state that is not listed.")
        driver = np.concatenate([driver, after[:, None]], 1)
    for row in np.ascontiguousarray(np.concatenate([q[:, None], driver[:, 1:]], 1)):
        if row.tobytes() not in listed:
            raise Rejected(f"the states {row.tolist()} are reached, and they are not listed.")
    return count + len(q), min(least, _answers(network, claim, driver, q, states))


def _answers(network: Cascade, claim: StatedClaim, driver: Array, q: Array, states: list[Array]) -> float:
    cases = np.unique(np.concatenate([driver[claim.asked[q]], q[claim.asked[q]][:, None]], 1), axis=0)
    least = np.inf
    for begin in range(0, len(cases), AT_ONCE):
        some = cases[begin : begin + AT_ONCE]
        logits = network.head(network.before(len(network.layers), some[:, :-1], states))
        margins = claim.margins(logits, some[:, -1])
        if not (margins > 0).all():
            raise Rejected(f"after a listed state the answer is not right: by {margins.min():.3g}.")
        least = min(least, float(margins.min()))
    return least


def _listed(network: Cascade, claim: StatedClaim, proof: Any) -> tuple[list[Array], Array]:
    """Returns of each layer its states (·,n), places of its entries; and the tuples (N,1+L)."""
    fields("the proof", proof, PROOF, {"gap": real()})
    own = [[[int(i), int(j)] for i, j in zip(*layer.entries, strict=True)] for layer in network.layers]
    if not same(proof["entries"], own):
        raise Rejected("the entries must be those of the first states that are not 0, in their order.")
    L, states = len(network.layers), []
    if len(proof["states"]) != L:
        raise Rejected(f"the proof must list the states of each of {L} layers.")
    for layer, rows in zip(network.layers, proof["states"], strict=True):
        n = len(layer.entries[0])
        if n == 0 and rows == [[]]:
            states.append(np.zeros((1, 0), dtype=np.int64))
            continue
        places = table(rows, "a layer's states", 2, layer.width)
        if places.shape[1] != n:
            raise Rejected(f"a layer's state must say where each of {n} entries is.")
        states.append(np.ascontiguousarray(places))
    pairs = table(proof["pairs"], "the pairs", 2)
    if pairs.shape[1] != 1 + L:
        raise Rejected(f"a pair must be the machine's state and one of each of {L} layers.")
    if (pairs >= [claim.states, *map(len, states)]).any():
        raise Rejected("the numbers of a pair must be those of states that are listed.")
    return states, np.ascontiguousarray(pairs)


class Automata:
    """One layer."""

    def __init__(self, network: Cascade, k: int, mixer: dict[str, Any], block: dict[str, Any]):
        self.network, ops = network, network.ops
        fields("mixer", mixer, MIXER, {"blocks": maybe(whole(1)), "block": maybe(whole(1))})
        kind = fields("block", block, {"kind": exactly(*KINDS)}, {"biases": exactly(True)})["kind"]
        D, at = network.width_of_model, f"depth.layers.{k}"
        blocks, width = mixer.get("blocks"), mixer.get("block")
        width = 8 if blocks is None and width is None else width
        self.blocks, self.width = blocks or D // width, width or D // blocks
        self.norm = None if kind == "bare" else network.norm(f"{at}.mixer_norm")
        self.residual, h, b = KINDS[kind], self.blocks, self.width
        if mixer["normalisation"] == "paper" and mixer["p"] != 1:
            raise Rejected("transitions that are bounded in another norm than p = 1 cannot be checked.")
        self.chosen = mixer["normalisation"] == "one-hot"
        self.transition = self._network(f"{at}.mixer.transition", mixer["transition"], h * b * b, h * b * b, True)
        if mixer["inputs"] != "none":
            inputs = self._network(f"{at}.mixer.inputs", mixer["inputs"], D, h * b, False)
            if any(W.any() or (c is not None and c.any()) for W, c in inputs):
                raise Rejected("tokens must add nothing to the state: inputs that are not none or 0 cannot be checked.")
        x0 = network.weights.take(f"{at}.mixer.initial", h, b) if mixer["learned_initial"] else np.zeros((h, b))
        self.entries = np.nonzero(x0)
        self.values, self.readout = x0[self.entries], None
        if mixer["readout"] == "linear":
            self.readout = network.linear(f"{at}.mixer.readout", D, h * b, True)
        elif h * b != D:
            raise Rejected(f"readout can be the identity of a state as wide as the model alone, got {mixer}.")
        self.ops = ops

    def _network(self, at: str, kind: Any, hidden: int, outputs: int, bias: bool) -> list[tuple[Array, Array | None]]:
        linear, D = self.network.linear, self.network.width_of_model
        if kind == "linear":
            return [linear(at, outputs, D, bias)]
        return [linear(f"{at}.0", hidden, D, True), linear(f"{at}.2", outputs, hidden, True)]

    def functions(self, x: Interval) -> tuple[Array, Array]:
        """(U,h,b) where each place goes, and by how much more than any rounding that is decided."""
        shape = (x.shape[0], self.blocks, self.width, self.width)
        if not self.chosen:
            return self._plain(x, shape)
        if self.norm is not None:
            x = self.ops.norm(x, *self.norm)
        for i, part in enumerate(self.transition):
            x = self.ops.linear(self.ops.relu(x) if i else x, *part)
        M = x.reshape(*shape)
        to = M.mid.argmax(2)
        best = np.take_along_axis(M.lo, to[:, :, None], 2)[:, :, 0]
        others = M.hi.copy()
        np.put_along_axis(others, to[:, :, None], -np.inf, 2)
        gap = best - others.max(2)
        return to, np.where(np.isnan(gap), -np.inf, gap)

    def _plain(self, x: Interval, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Without a choice, columns must be one-hot as they come: W x is a column of W where x is one-hot itself."""
        (W, c), e = self.transition[0], x.lo
        one = ((e == 0) | (e == 1)).all(1) & (e.sum(1) == 1) & (x.hi == e).all(1)
        if self.norm is not None or len(self.transition) > 1 or (c is not None and c.any()) or not one.all():
            raise Rejected("transitions that are not chosen must be one-hot to the last bit, and these are not surely.")
        M = W.T[e.argmax(1)].reshape(shape)
        plain = ((M == 0) | (M == 1)).all(2) & (M.sum(2) == 1)
        return M.argmax(2), np.where(plain, 1.0, -np.inf)

    def read(self, places: Array) -> Interval:
        """Returns what the layer gives in states (U,n)."""
        n = self.blocks * self.width
        total, size, met = np.zeros((3, len(places), n))
        at = (np.arange(len(places))[:, None], self.entries[0] * self.width + places)
        for into, value in ((total, self.values), (size, np.abs(self.values)), (met, np.ones(len(self.values)))):
            np.add.at(into, at, np.broadcast_to(value, places.shape))
        own = 4 * self.width * 2.0**-52 * size
        noise = np.where(met > 1, self.ops.arithmetic.up(self.ops.arithmetic.gamma(self.width + 2) * size + own), 0.0)
        x = Interval.of(total).widened(noise)
        return x if self.readout is None else self.ops.linear(x, *self.readout)


class Cascade(Network):
    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        self.width_of_model = self.width
        each = enumerate(zip(*self.fixed_layers(), strict=True))
        self.layers = [Automata(self, k, mixer, block) for k, (mixer, block) in each]
        self.weights.done()

    def before(self, layer: int, cases: Array, states: list[Array]) -> Interval:
        """Returns what a layer is given in these cases (U,1+…): the symbol, and of each layer before it the state."""
        x = self.leaves[cases[:, 0]]
        for k, automata in enumerate(self.layers[:layer]):
            y = automata.read(states[k][cases[:, 1 + k]])
            x = self.ops.add(x, y) if automata.residual else y
        return x
