"""Models whose proofs are written down beside them, one of every kind."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lengthwise import automata, models, tasks, theory
from lengthwise.verify import certificate
from lengthwise.verify.checker import digest, in_words, seal
from lengthwise.verify.claim import claim_of


def sealed(model, claim, kind, margin=0.1, inference="raw", **proof):
    given = {"kind": kind, "inference": inference, "arithmetic": "float32", "margin": margin, "proof": proof}
    return SimpleNamespace(
        model=model,
        claim=claim,
        certificate=certificate.make(model, claim, given, "built"),
        weights=certificate.weights(model),
    )


def tree(name, radius=1e-3):
    """The RegularGPT of theory: a node is its map, written as a matrix of ones and zeros."""
    task = tasks.get(name)
    model, elements, n = theory.exact_classifier(task).inner, monoid(task.machine), task.machine.num_states
    boxes = []
    for i, element in enumerate(elements):
        centre = np.zeros(2 * n * n)
        centre[np.arange(n) * n + element] = 1
        boxes.append({"element": i, "centre": centre.tolist(), "radius": [radius] * len(centre)})
    return sealed(model.eval(), claim_of(task), "tree-boxes", elements=elements.tolist(), boxes=boxes)


def snapped(name):
    made = tree(name)
    proof = made.certificate["proof"]
    centres = [{"element": box["element"], "centre": box["centre"]} for box in proof["boxes"]]
    given = {"elements": proof["elements"], "centres": centres, "radius": 0.01}
    model = made.model.snap(torch.tensor([entry["centre"] for entry in centres]), 0.01).eval()
    return sealed(model, made.claim, "tree-boxes", inference="snapped", **given)


def codes(name):
    """The tree of theory with discrete nodes, each row of the matrix a choice; no model of torch is needed for it."""
    made = tree(name)
    n = made.claim.machine.num_states
    D = 2 * n * n
    rows = np.eye(n * n, D, dtype=np.float32)
    weights = {
        **made.weights,
        "depth.layers.0.nodes.choose.weight": 8 * rows,
        "depth.layers.0.nodes.choose.bias": np.zeros(n * n, dtype=np.float32),
        "depth.layers.0.nodes.codebook": rows,
    }
    elements = made.certificate["proof"]["elements"]
    listed = [{"element": i, "code": element} for i, element in enumerate(elements)]
    given = copy.deepcopy(made.certificate)
    given["model"]["config"]["depth"]["nodes"] = {"groups": n, "codes": n}
    given["model"]["weights"] = {key: digest(x) for key, x in weights.items()}
    given |= {"kind": "tree-codes", "proof": {"elements": elements, "codes": listed}}
    given["words"] = in_words(given)
    given["digest"] = seal(given)
    return SimpleNamespace(model=None, claim=made.claim, certificate=given, weights=weights)


def cascade(name):
    """The block-diagonal LRNN of theory: a block's one entry is where the machine is."""
    task = tasks.get(name)
    model = theory.exact_classifier(task, theory.block_lrnn).inner
    n, start = task.machine.num_states, task.machine.start
    every = [[q] for q in range(n)]
    reached = [[q, q] for q in range(n)]
    return sealed(
        model.eval(), claim_of(task), "cascade", bound="joint", entries=[[[0, start]]], states=[every], pairs=reached
    )


def recurrence(cell, layers=1, width=2, sharp=8.0):
    """Parity by two units: u = [x + s >= 1], v = [x + s >= 2] and s = u - v, where 1 and -1 are yes and no."""
    task = tasks.get("parity")
    model = models.build(cell, vocab_size=2, num_outputs=2, width=width, layers=layers).inner.eval()
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    scale = {"rnn": 1.0, "gru": 1.0, "lstm": np.tanh(1.0)}[cell]  # what a sure unit's h is
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.embedding.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        for k, layer in enumerate(model.depth.layers):
            own = layer.mixer.cell
            at = {"rnn": 0, "gru": 2, "lstm": 2}[cell] * width
            if k == 0:
                own.weight_ih_l0[at : at + 2, 0] = sharp
                own.weight_hh_l0[at : at + 2] = sharp / 2 / scale * torch.tensor([[1.0, -1.0], [1.0, -1.0]])
                own.bias_ih_l0[at : at + 2] = sharp * torch.tensor([-0.5, -1.5])
            else:
                own.weight_ih_l0[at : at + 2] = sharp * torch.eye(2)
            for gate, bias in {"gru": {0: 20.0, 1: -20.0}, "lstm": {0: 20.0, 1: -20.0, 3: 20.0}}.get(cell, {}).items():
                own.bias_ih_l0[gate * width : (gate + 1) * width] = bias
        assert gates * width == model.depth.layers[0].mixer.cell.bias_ih_l0.shape[0]
        model.head.weight.copy_(torch.tensor([[-4.0, 4.0], [4.0, -4.0]]))
        model.head.bias.copy_(torch.tensor([4.0, -4.0]) * float(scale))
    return sealed(model, claim_of(task), "recurrence-boxes", sets=sets(model, cell, task.machine))


def sets(model, cell, machine, radius=2e-3):
    """A box around every state that the model reaches by words of up to 8 symbols, those close by counted once."""
    parts = 2 if cell == "lstm" else 1
    found = []
    for length in range(9):
        for number in range(2**length):
            word = [number >> k & 1 for k in range(length)]
            x, joint = model.embedding(torch.tensor([word], dtype=torch.long)), []
            for layer in model.depth.layers:
                hidden = torch.zeros(parts, 1, 1, x.shape[-1])
                if length:
                    x, end = layer.mixer.cell(x)
                    hidden = torch.stack(end) if parts == 2 else end[None]
                joint += [h[0, 0] for h in hidden]
            centre = torch.cat(joint).detach().double()
            state = machine.state_after(word) if word else machine.start
            if all(q != state or (centre - c).abs().max() > radius / 4 for q, c in found):
                found.append((state, centre))
    return [{"state": q, "centre": c.tolist(), "radius": [radius] * len(c)} for q, c in found]


def arithmetic(modulus=2):
    return tasks.get("modular-arithmetic", modulus=modulus, leading_plus=True)


def monoid(machine):
    """All maps that words of at least one symbol are."""
    found = automata.transition_monoid(machine)
    made = {tuple(found.elements[i]) for row in found.cayley for i in row}
    return np.array([list(e) for e in found.elements if tuple(e) in made])


MADE = {
    "tree-parity": lambda: tree("parity"),
    "tree-cycle": lambda: tree("cycle-navigation"),
    "snapped-parity": lambda: snapped("parity"),
    "codes-parity": lambda: codes("parity"),
    "codes-cycle": lambda: codes("cycle-navigation"),
    "cascade-parity": lambda: cascade("parity"),
    "cascade-arithmetic": lambda: cascade("modular-arithmetic"),
    "rnn": lambda: recurrence("rnn"),
    "rnn-2": lambda: recurrence("rnn", 2),
    "gru": lambda: recurrence("gru"),
    "lstm": lambda: recurrence("lstm"),
}

NAMES = [
    "tree-parity",
    pytest.param("tree-cycle", marks=pytest.mark.slow),
    "snapped-parity",
    "codes-parity",
    "codes-cycle",
    "cascade-parity",
    "cascade-arithmetic",
    "rnn",
    "rnn-2",
    "gru",
    "lstm",
]
"""Those that tests go through."""


def resealed(given, weights=None):
    """As whoever wants to deceive would leave it: with the digests of what it says now."""
    given = dict(given)
    if weights is not None:
        given["model"] = {**given["model"], "weights": {name: digest(x) for name, x in weights.items()}}
    given["words"] = in_words(given)
    return {**given, "digest": seal(given)}


@pytest.fixture(scope="session")
def made():
    """By name, a model with its certificate."""
    known = {}

    def get(name):
        if name not in known:
            known[name] = MADE[name]()
        return known[name]

    return get
