"""Theorems about automata: Coq and the checker reject every change of a network, its machine or what it reaches."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch

from lengthwise import models
from lengthwise.automata import Semiautomaton
from lengthwise.errors import Error
from lengthwise.verify import certificate as certificates
from lengthwise.verify.checker import Rejected
from lengthwise.verify.checker.cascade import Cascade, check_cascade
from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.cascade import network_of, prove_cascade
from lengthwise.verify.theorem import folder as theorem

from .proposals import accepted
from .test_cascade import SUM, automaton
from .test_theorem import certificate_of, coq, decided, definitions, development, network_folder  # noqa: F401

SEED = 3
CHECK = "stack_check weights claim tuples"
LAYER = "depth.layers.0"


def certified(model, claim):
    return accepted(prove_cascade, model, claim), certificates.weights(model.inner)


def checker_accepts(content, tensors):
    """Whether the numpy checker finds the conditions to hold, whatever the digests say."""
    try:
        network = Cascade(content["model"]["config"], dict(tensors), content["arithmetic"])
        check_cascade(network, StatedClaim(content["claim"]), content["proof"])
    except Rejected:
        return False
    return True


def tampered_weights(tensors):
    """The machine's own columns, its first state, and each row of the head."""
    b = 6
    bias = f"{LAYER}.mixer.transition.bias"
    for place in range(3):  # where the machine is in this state, every symbol leads to a place of none
        yield f"column {place}", {bias: (place + 5 * b, 20.0)}
        yield f"tie {place}", {bias: (place + 5 * b, None)}
    for symbol in range(3):
        yield f"embedding {symbol}", {"embedding.weight": ((symbol,), "next")}
    yield "no gain", {f"{LAYER}.mixer_norm.weight": (slice(None), 0.0)}
    yield "shift", {f"{LAYER}.mixer_norm.bias": (0, 9.0)}
    yield "initial place", {f"{LAYER}.mixer.initial": ((0, 4), 2.0)}
    yield "initial sign", {f"{LAYER}.mixer.initial": ((0, 0), -2.0)}
    yield "last gain", {"norm.weight": (slice(None), 0.0)}
    for answer in range(3):
        yield f"head {answer}", {"head.weight": ((answer,), "next")}
        yield f"head bias {answer}", {"head.bias": (answer, 30.0)}


def changed(tensors, change):
    found = {name: x.copy() for name, x in tensors.items()}
    for name, (at, by) in change.items():
        x = found[name]
        if by == "next":
            x[at] = x[(at[0] + 1) % len(x)]
        elif by is None:  # as high as it is at the place that is chosen by 0
            place = at % 6
            other = f"{LAYER}.mixer.transition.weight"
            found[other][at], x[at] = found[other][place + 6 * place], x[place + 6 * place]
        else:
            x[at] = by
    return found


def tampered_proofs(content):
    """What is claimed, and what is said to be reached."""
    claim, proof = content["claim"], content["proof"]
    for q, row in enumerate(claim["delta"]):
        for s, to in enumerate(row):
            delta = copy.deepcopy(claim["delta"])
            delta[q][s] = (to + 1) % 3
            yield f"delta {q} {s}", {**content, "claim": {**claim, "delta": delta}}
    yield "start", {**content, "claim": {**claim, "start": 1}}
    yield "answers", {**content, "claim": {**claim, "answers": claim["answers"][::-1]}}
    pairs = proof["pairs"]
    for i in range(len(pairs)):
        yield f"without tuple {i}", {**content, "proof": {**proof, "pairs": [*pairs[:i], *pairs[i + 1 :]]}}
    for i, (q, state) in enumerate(pairs[:3]):
        moved = [*pairs[:i], [(q + 1) % 3, state], *pairs[i + 1 :]]
        yield f"tuple {i} of another state", {**content, "proof": {**proof, "pairs": moved}}


@coq
@pytest.mark.slow
def test_coq_and_the_checker_reject_whatever_was_changed(tmp_path, development):  # noqa: F811
    content, tensors = certified(automaton(SUM.machine, claim_of(SUM).answers, noise=False), claim_of(SUM))
    assert checker_accepts(content, tensors)
    own = definitions(content, tensors)
    modules = [("own", own, "true")]
    for name, change in tampered_weights(tensors):
        other = changed(tensors, change)
        text = definitions(content, other)
        assert not checker_accepts(content, other), name
        modules.append((name, text, "false"))
    for name, other in tampered_proofs(content):
        assert not checker_accepts(other, tensors), name
        text = definitions(other, tensors)
        modules.append((name, text, "false"))
    assert len(modules) > 36
    decided(tmp_path, development, content, CHECK, modules)


def stacked(seed):
    """A stack of two residual layers with weights as they were drawn, and the machine that it is.

    A state of the machine is the places of all entries, and the symbol that was read last.
    """
    torch.manual_seed(seed)
    sizes = {"width": 4, "blocks": 2, "block": 2, "layers": 2}
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, variant="automaton", residual="all", **sizes).eval()
    network = network_of(model)
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
    return model, claim_of(Semiautomaton(delta, accepting=set(np.flatnonzero(answers).tolist())))


def before(network, layer, symbol, places):
    """What a layer is given where those before it have these places."""
    return network.before(layer, np.array([[symbol] + [0] * layer]), [np.array([each]) for each in places])


@coq
@pytest.mark.slow
def test_coq_accepts_a_stack_and_rejects_another(tmp_path, development):  # noqa: F811
    content, tensors = certified(*stacked(SEED))
    assert len(set(content["claim"]["answers"])) == 2
    other = {**tensors, "depth.layers.1.mixer.initial": tensors["depth.layers.1.mixer.initial"][:, ::-1].copy()}
    flipped = {**content, "claim": {**content["claim"], "answers": [1 - a for a in content["claim"]["answers"]]}}
    modules = [("own", definitions(content, tensors), "true")]
    modules += [("initial", definitions(content, other), "false"), ("answers", definitions(flipped, tensors), "false")]
    assert not checker_accepts(content, other)
    decided(tmp_path, development, content, CHECK, modules)


def test_numbers_are_exactly_the_weights():
    """Every weight that is written, divided by 2^scale, is the float32 number."""
    tensors = read_model(network_folder("parity-automaton"))[1]
    text = theorem.statement(certificate_of("parity-automaton"), tensors)["Network.v"]
    written = {int(k) for k in re.findall(r"-?\d+", text[text.index("stack := Stack 44") + 17 :])}
    expected = {int(k) for x in tensors.values() for k in (x.astype(np.float64) * 2.0**44).ravel()}
    assert expected <= written
    assert len(written - expected) < 30  # places, sizes


def test_automata_that_add_their_tokens_are_refused(tmp_path):
    content = copy.deepcopy(certificate_of("parity-automaton"))
    content["model"]["config"]["mixer"]["inputs"] = "linear"
    assert "inputs linear" in theorem.refusal(content)
    with pytest.raises(Error):
        theorem.write_theorem(content, network_folder("parity-automaton"), tmp_path / "coq")
