"""The numbers that stand in a theorem are the weights, to the last bit and in the order in which Coq reads them.

Of every family, what `Network.v` has from its first number to its last is written down here anew, after the records of
`theorem/`: two numbers or two rows that changed places are another network.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.theorem import folder as theorem

from .test_theorem import certificate_of, network_folder

LAYER = "depth.layers.0"
MIXER = f"{LAYER}.mixer"
SCALE = "scale"


def linear(w, name):
    """By rows, each with its bias."""
    W = w[f"{name}.weight"]
    bias = w.get(f"{name}.bias", np.zeros(len(W), np.float32))
    return [x for row, b in zip(W, bias, strict=True) for x in (*row, b)]


def norm(w, name):
    return [x for both in zip(w[f"{name}.weight"], w[f"{name}.bias"], strict=True) for x in both]


def units(w, gate=0):
    """A gate of a cell: the rows of W and of U, and their biases."""
    parts = [w[f"{MIXER}.cell.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    D = parts[1].shape[1]
    own = (part[gate * D : (gate + 1) * D] for part in parts)
    return [x for W, U, b, c in zip(*own, strict=True) for x in (*W, *U, b, c)]


def rnn(w):
    return [SCALE, *w["embedding.weight"].ravel(), *units(w), *linear(w, "head")]


def gated(w, count):
    gates = [f"gate_{k}" for k in range(count)]
    each = [x for k, gate in enumerate(gates) for x in (gate, SCALE, *units(w, k))]
    return [*w["embedding.weight"].ravel(), *linear(w, "head"), *each, *gates]


def automaton(w):
    x0 = w[f"{MIXER}.initial"]
    at = [(int(block), int(place)) for block, place in zip(*np.nonzero(x0), strict=True)]
    maps = [*linear(w, f"{MIXER}.transition.0"), *linear(w, f"{MIXER}.transition.2")]
    entries = [x for block, place in at for x in (block, x0[block, place])]
    layer = [*norm(w, f"{MIXER}_norm"), *maps, *x0.shape, *entries]
    head = [*norm(w, "norm"), *linear(w, "hidden"), *linear(w, "head")]
    return [SCALE, *w["embedding.weight"].ravel(), *layer, *(place for _, place in at), *head]


def regular_gpt(w):
    reads = np.split(w[f"{MIXER}.qkv.weight"], 3)
    queries, keys, values = (linear({"part.weight": W}, "part") for W in reads)
    fields = {
        "unit_of_weights": [SCALE],
        "chunk": [2],
        "heads": [8],
        "embedded": w["embedding.weight"].ravel(),
        "before_the_first": w["pad"],
        "queries": queries,
        "keys": keys,
        "values": values,
        "tap_biases": w[f"{MIXER}.r"].ravel(),
        "outs": linear(w, f"{MIXER}.out"),
        "mixer_norm": norm(w, f"{LAYER}.mixer_norm"),
        "ups": linear(w, f"{LAYER}.up"),
        "downs": linear(w, f"{LAYER}.down"),
        "feed_norm": norm(w, f"{LAYER}.feed_norm"),
        "choices": linear(w, f"{LAYER}.nodes.choose"),
        "codebook": w[f"{LAYER}.nodes.codebook"].ravel(),
        "answering": linear(w, "head"),
    }
    return [x for field, numbers in fields.items() for x in (f"{field} :=", *numbers)]


ORDERS = {
    "parity-rnn": rnn,
    "d-2-rnn": rnn,
    "parity-gru": lambda w: gated(w, 3),
    "parity-lstm": lambda w: gated(w, 4),
    "parity-automaton": automaton,
    "d-2-automaton": automaton,
    "parity-regular-gpt-compiled": regular_gpt,
}


@pytest.mark.parametrize("name", ORDERS)
def test_numbers_are_exactly_the_weights_in_their_order(name):
    """Every weight that is written, divided by 2^scale, is the float32 number that belongs there."""
    tensors = read_model(network_folder(name))[1]
    text = theorem.statement(certificate_of(name), tensors)["Network.v"].split("Definition", 1)[1]
    scale = int(re.search(r"(?:Network|Stack|unit_of_weights :=) (\d+)", text)[1])
    written = [int(x) if x[-1].isdigit() and "_" not in x else x for x in re.findall(TOKEN, text)]
    expected = [x * 2.0**scale if isinstance(x, float) else x for x in map(plain, ORDERS[name](tensors))]
    assert written == [scale if x == SCALE else x for x in expected]


TOKEN = re.compile(r"(?<=^  )\w+ :=|gate_\d|-?\b\d+", re.MULTILINE)
"""A field's name, a gate's, or a whole number."""


def plain(x):
    return x.item() if isinstance(x, np.generic) else x
