"""The networks of the corpus, each with a certificate that holds: small ones of every family, and some of the zoo."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lengthwise import models, tasks
from lengthwise.automata import Semiautomaton
from lengthwise.files import read_json
from lengthwise.lab.collection import network_folder
from lengthwise.verify import certificate, compile_machine
from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.cascade import cascade_of, prove_cascade
from lengthwise.verify.prove.codes import prove_codes
from lengthwise.verify.prove.recurrence import prove_recurrence

from .checker.conftest import MADE
from .proposals import accepted
from .test_cascade import SUM, automaton
from .test_recurrence_boxes import FLIP_FLOP, flip_flop, made

Certificate = dict[str, Any]
Weights = dict[str, Any]
LAYER = "depth.layers.0"
CELL = f"{LAYER}.mixer.cell"
READS, KEEPS, BIAS, OTHER_BIAS = (f"{CELL}.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))


def flip_flop_proved() -> tuple[Certificate, Weights]:
    return proved(prove_recurrence, flip_flop(), claim_of(FLIP_FLOP))


def gated_flip_flop() -> tuple[Certificate, Weights]:
    """A GRU whose gates stand still, r open and z shut: what is left of it is the flip-flop's RNN."""
    plain, model = flip_flop(), made("gru")
    cell, own = model.inner.depth.layers[0].mixer.cell, plain.inner.depth.layers[0].mixer.cell
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        for name in ("embedding", "head"):
            getattr(model.inner, name).load_state_dict(getattr(plain.inner, name).state_dict())
        cell.weight_ih_l0[12:], cell.weight_hh_l0[12:] = own.weight_ih_l0, own.weight_hh_l0
        cell.bias_ih_l0[:6], cell.bias_ih_l0[6:12] = 9.0, -9.0
    return proved(prove_recurrence, model, claim_of(FLIP_FLOP))


def latch() -> tuple[Certificate, Weights]:
    """An LSTM of two units, written down for parity."""
    it = MADE["lstm"]()
    return it.certificate, it.weights


def automaton_of_sums() -> tuple[Certificate, Weights]:
    model = automaton(SUM.machine, claim_of(SUM).answers, noise=False)
    return proved(prove_cascade, model, claim_of(SUM))


def narrow_tree() -> tuple[Certificate, Weights]:
    """Parity in 8 numbers a node."""
    compiled = compile_machine(tasks.get("parity"), width=8)
    return proved(prove_codes, compiled.model.eval(), compiled.claim)


def of_zoo(name: str) -> tuple[Certificate, Weights]:
    return read_json(network_folder(name) / "certificate.json"), read_model(network_folder(name))[1]


def proved(prove: Callable, model: Any, claim: Any) -> tuple[Certificate, Weights]:
    found = accepted(prove, model, claim)
    assert isinstance(found, dict), found
    return found, certificate.weights(getattr(model, "inner", model))


def planted(cell: str) -> tuple[Certificate, Weights]:
    """One symbol, of which x and -x are summed under a tanh: the answer is 1 unless x overflows."""
    gates, at = {"rnn": (1, 0), "gru": (3, 2), "lstm": (4, 2)}[cell]
    model = models.build(cell, vocab_size=1, num_outputs=2, width=2).inner.eval()
    weights = {name: np.zeros_like(x) for name, x in certificate.weights(model).items()}
    weights["embedding.weight"][0] = 2.0**6
    weights[READS][2 * at : 2 * at + 2] = 2.0**6 * np.array([1, -1], dtype=np.float32)
    if gates > 1:
        weights[BIAS][2:4] = -20.0  # nothing is kept
    weights["head.bias"][:] = [-4, 4]
    size = 4 if cell == "lstm" else 2
    claim = {"symbols": ["0"], "delta": [[0]], "start": 0, "answers": [1], "asked": [1]}
    proof = {"sets": [{"state": 0, "centre": [0.0] * size, "radius": [1.1] * size}]}
    given = copy.deepcopy(MADE[cell]().certificate)
    given["model"]["config"] |= {"vocab_size": 1, "num_outputs": 2, "width": 2}
    return {**given, "claim": claim, "proof": proof}, weights


def tiny_symbols() -> tuple[Certificate, Weights]:
    """Parity, whose symbols a norm tells apart though they are as small as 2^-80."""
    given, weights = copy.deepcopy(MADE["cascade-parity"]().certificate), dict(MADE["cascade-parity"]().weights)
    config = given["model"]["config"]
    config["block"], config["mixer"]["normalisation"] = [{"kind": "normed"}], "one-hot"
    weights[f"{LAYER}.mixer_norm.weight"] = np.full(2, 2.0**99, dtype=np.float32)
    weights[f"{LAYER}.mixer_norm.bias"] = np.zeros(2, dtype=np.float32)
    name = f"{LAYER}.mixer.transition.weight"
    weights[name] = np.float32(2.0**30) * weights[name]
    weights["embedding.weight"] = np.float32(2.0**-80) * np.array([[1.5, 1.0], [1.0, 1.5]], dtype=np.float32)
    return given, weights


def stack() -> tuple[Certificate, Weights]:
    """A stack of two residual layers with weights as they were drawn, and the machine that it is.

    A state of the machine is the places of all entries, and the symbol that was read last.
    """
    torch.manual_seed(3)
    sizes = {"width": 4, "blocks": 2, "block": 2, "layers": 2}
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, variant="automaton", residual="all", **sizes).eval()
    network = cascade_of(model)
    first = tuple(tuple(map(int, layer.entries[1])) for layer in network.layers)
    order, delta, answers = [(first, 0)], [], []
    for places, last in order:
        row = []
        for symbol in range(2):
            after = []
            for k, layer in enumerate(network.layers):
                to, gap = layer.functions(before(network, k, symbol, after))
                assert (gap[0, layer.entries[0], places[k]] > 0).all()
                after.append(tuple(map(int, to[0, layer.entries[0], places[k]])))
            found = tuple(after), symbol
            if found not in order:
                order.append(found)
            row.append(order.index(found))
        delta.append(row)
        answers.append(int(network.head(before(network, 2, last, places)).mid[0].argmax()))
    machine = Semiautomaton(delta, accepting=set(np.flatnonzero(answers).tolist()))
    return proved(prove_cascade, model, claim_of(machine))


def before(network, layer, symbol, places):
    """What a layer is given where those before it have these places."""
    return network.before(layer, np.array([[symbol] + [0] * layer]), [np.array([each]) for each in places])
