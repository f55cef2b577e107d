"""A certificate is accepted where it is true, and nothing that was changed is accepted, whoever seals it anew."""

from __future__ import annotations

import copy
import itertools
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.automata import Semiautomaton
from lengthwise.verify import certificate, compile_machine
from lengthwise.verify.algebra import Need
from lengthwise.verify.checker import Rejected, check, digest, in_words, seal
from lengthwise.verify.checker.claimed import Claim
from lengthwise.verify.claim import Claim as ProversClaim
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.codes import prove_codes

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
TAMPERINGS = 200


def resealed(given, weights=None):
    """As whoever wants to deceive would leave it: with the digests of what it says now."""
    given = dict(given)
    if weights is not None:
        given["model"] = {**given["model"], "weights": {name: digest(x) for name, x in weights.items()}}
    given["words"] = in_words(given)
    return {**given, "digest": seal(given)}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_true_is_accepted(made, name, tmp_path):
    it = made(name)
    report = check(it.certificate, it.weights)
    assert report.margin > 0
    assert report.conditions > 0
    certificate.write(it.certificate, tmp_path / "certificate.json")
    assert certificate.read(tmp_path / "certificate.json") == it.certificate
    assert str(report).startswith("accepted: Evaluated in float32, in any order of summation, the model")
    if it.model is not None:
        it.model.save_pretrained(tmp_path)
        assert check(it.certificate, tmp_path) == report


@pytest.mark.parametrize("name", NAMES)
def test_the_models_are_right(made, name):
    """So that what the tests below call true is."""
    it = made(name)
    if it.model is None or name.startswith("snapped"):
        return
    machine = it.claim.machine
    tokens = torch.randint(machine.num_symbols, (50, 200), generator=torch.Generator().manual_seed(0))
    states = machine.run(tokens)[:, -1]
    with torch.no_grad():
        said = it.model(tokens, logits_to_keep=1).logits[:, -1].argmax(-1)
    asked = it.claim.asked[states]
    assert (said.numpy() == it.claim.answers[states])[asked].all()


def places(data, at=()):
    """The path of every leaf of the JSON."""
    if isinstance(data, (dict, list)) and data:
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*at, key))
    else:
        yield at


def replaced(data, at, value):
    data = copy.deepcopy(data)
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return data


def other(value, draw):
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int):
        return value + draw.choice([-1, 1, 7])
    if isinstance(value, float):
        return draw.choice([np.nextafter(value, 9.0).item(), value * 1.001 + 1e-9, -value - 1.0, value + 1])
    return f"{value}x" if isinstance(value, str) else ["?"]


@pytest.mark.parametrize("name", NAMES)
def test_no_change_of_a_certificate_is_accepted(made, name):
    it, draw = made(name), random.Random(name)
    leaves = list(places(it.certificate))
    for _ in range(TAMPERINGS // 2):
        at = draw.choice(leaves)
        value = it.certificate
        for key in at:
            value = value[key]
        with pytest.raises(Rejected):
            check(replaced(it.certificate, at, other(value, draw)), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_no_change_of_weights_is_accepted(made, name):
    it, draw = made(name), random.Random(name)
    for _ in range(TAMPERINGS // 2):
        key = draw.choice(sorted(it.weights))
        x = it.weights[key].copy()
        at = draw.randrange(x.size)
        x.flat[at] = draw.choice([np.nextafter(x.flat[at], np.float32(9)), -x.flat[at] - 1, x.flat[at] + 1, np.nan])
        with pytest.raises(Rejected):
            check(it.certificate, {**it.weights, key: x})


@pytest.mark.parametrize("name", NAMES)
def test_no_other_claim_is_accepted_even_if_sealed(made, name):
    """Every state of these machines answers in its own way or is told apart later, so no other claim is true."""
    it, draw = made(name), random.Random(name)
    claim = it.certificate["claim"]
    Q, S = len(claim["delta"]), len(claim["symbols"])
    outputs = it.weights["head.weight"].shape[0]
    for _ in range(20):
        changed = copy.deepcopy(claim)
        if draw.random() < 0.5:
            q = draw.choice([q for q in range(Q) if claim["asked"][q]])
            changed["answers"][q] = draw.choice([a for a in range(outputs) if a != claim["answers"][q]])
        else:
            q, s = draw.randrange(Q), draw.randrange(S)
            changed["delta"][q][s] = draw.choice([p for p in range(Q) if p != claim["delta"][q][s]])
        with pytest.raises(Rejected):
            check(resealed({**it.certificate, "claim": changed}), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_no_false_proof_is_accepted_even_if_sealed(made, name):
    """Sets that belong to other maps or states, sets that are gone, and sets that are no sets."""
    it, draw = made(name), random.Random(name)
    proof = it.certificate["proof"]
    listed = next(k for k in ("boxes", "centres", "codes", "sets", "pairs") if k in proof)
    owner = {"sets": "state", "pairs": 0}.get(listed, "element")
    count = len(proof["elements"]) if "elements" in proof else len(it.certificate["claim"]["delta"])
    heeded = Claim(it.certificate["claim"]).heeded
    for i in range(len(proof[listed])):
        if listed == "pairs" and not heeded[proof["pairs"][i][0]]:
            continue  # nothing is asked from there on
        gone = {**proof, listed: proof[listed][:i] + proof[listed][i + 1 :]}
        if not (listed == "sets" and is_first(proof["sets"][i])):
            with pytest.raises(Rejected):
                check(resealed({**it.certificate, "proof": gone}), it.weights)
        own = proof[listed][i][owner]
        for wrong in {(own + 1) % count, draw.randrange(count), count, -1} - {own}:
            given = {**it.certificate, "proof": replaced(proof, (listed, i, owner), wrong)}
            with pytest.raises(Rejected):
                check(resealed(given), it.weights)
    for name_of in {"centre", "radius", "code"} & (proof[listed][0].keys() if isinstance(owner, str) else set()):
        for value in (float("inf"), 1e300, "1", None, -1.0, True):
            given = {**it.certificate, "proof": replaced(proof, (listed, 0, name_of, 0), value)}
            with pytest.raises(Rejected):
                check(resealed(given), it.weights)


def is_first(entry):
    """Whether it is the set that is there for 0 alone, which no symbol leads to, or another of the start state."""
    return entry["state"] == 0


def test_a_box_that_is_too_small_or_too_large_is_not_accepted(made):
    for name in ("tree-parity", "rnn", "lstm"):
        it = made(name)
        key = "boxes" if "boxes" in it.certificate["proof"] else "sets"
        for factor in (1e-6, 300.0):
            proof = copy.deepcopy(it.certificate["proof"])
            for entry in proof[key]:
                entry["radius"] = [r * factor for r in entry["radius"]]
            with pytest.raises(Rejected):
                check(resealed({**it.certificate, "proof": proof}), it.weights)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_right_by_less_than_rounding_is_not_accepted(made, name):
    """The head's rows are brought together until the logits differ by 1e-7 where they should be far apart."""
    it = made(name)
    head = it.weights["head.weight"]
    near = {**it.weights, "head.weight": (head * 1e-8).astype(np.float32)}
    near["head.bias"] = (it.weights["head.bias"] * 1e-8 + 1).astype(np.float32)
    with pytest.raises(Rejected, match=r"not right"):
        check(resealed(it.certificate, near), near)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_model_is_not_accepted(made, name):
    it = made(name)
    swapped = {**it.weights, "head.weight": it.weights["head.weight"][::-1].copy()}
    swapped["head.bias"] = it.weights["head.bias"][::-1].copy()
    with pytest.raises(Rejected, match="not right"):
        check(resealed(it.certificate, swapped), swapped)
    leaves = {**it.weights, "embedding.weight": it.weights["embedding.weight"][::-1].copy()}
    with pytest.raises(Rejected):
        check(resealed(it.certificate, leaves), leaves)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("format", 2, "format must be 1"),
        ("kind", "tree", "not known"),
        ("made", "trained", "not known"),
        ("margin", -1.0, "above 0"),
        ("margin", 0, "above 0"),
        ("arithmetic", "bfloat16", "must be float32 or float64"),
        ("proof", {}, "proof must be"),
        ("claim", {}, "claim must be"),
    ],
)
def test_fields_say_what_is_wrong(made, field, value, said):
    it = made("tree-parity")
    given = {**it.certificate, field: value}
    given["digest"] = seal(given)
    with pytest.raises(Rejected, match=said):
        check(given, it.weights)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "recurrence-boxes"}, "depth has options"),
        ({"kind": "tree-codes"}, "those of this model are continuous"),
        ({"kind": "cascade"}, "depth has options"),
        ({"inference": "snapped"}, "must be an object of centres, elements, radius"),
    ],
)
def test_a_proof_of_another_kind_is_refused(made, change, said):
    it = made("tree-parity")
    with pytest.raises(Rejected, match=said):
        check(resealed({**it.certificate, **change}), it.weights)


def test_words_must_be_those_of_the_claim(made):
    it = made("rnn")
    given = {**it.certificate, "words": "The model is right."}
    with pytest.raises(Rejected, match="the claim in words must be"):
        check({**given, "digest": seal(given)}, it.weights)


def test_a_model_of_other_weights_or_another_config_is_named(made, tmp_path):
    it = made("rnn")
    with pytest.raises(Rejected, match="other weights than the certificate names"):
        check(it.certificate, made("gru").weights | {"more": np.zeros(1, dtype=np.float32)})
    with pytest.raises(Rejected, match=r"weight .* is not the one"):
        check(it.certificate, {name: x * 2 for name, x in it.weights.items()})
    it.model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "embedding_scale": 2.0}))
    with pytest.raises(Rejected, match="embedding_scale differ"):
        check(it.certificate, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    with pytest.raises(Rejected, match="loads as bfloat16"):
        check(it.certificate, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"task": "a run's record"}))
    assert check(it.certificate, tmp_path).conditions


def test_a_damaged_file_of_weights_is_refused(made, tmp_path):
    it = made("rnn")
    it.model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for content in (b"", whole[:7], whole[:40], whole[:-4], whole + b"1234", b"\xff" * 8 + whole[8:]):
        file.write_bytes(content)
        with pytest.raises(Rejected, match=r"safetensors|belong to no weight|not where"):
            check(it.certificate, tmp_path)
    file.unlink()
    with pytest.raises(Error, match="no such file"):
        check(it.certificate, tmp_path)


def test_it_runs_without_torch(made, tmp_path):
    """And without anything else but numpy: the rest cannot be imported."""
    it = made("lstm")
    it.model.save_pretrained(tmp_path)
    certificate.write(it.certificate, tmp_path / "certificate.json")
    code = (
        "import sys, runpy\n"
        "for name in ('torch', 'transformers', 'safetensors', 'automata', 'numba', 'scipy', 'typer', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "runpy.run_module('lengthwise.verify.checker', run_name='__main__', alter_sys=True)"
    )

    def run(file):
        return subprocess.run([sys.executable, "-c", code, file, str(tmp_path)], capture_output=True, text=True)

    done = run(str(tmp_path / "certificate.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("accepted: Evaluated in float32")
    given = {**it.certificate, "margin": 5.0}
    certificate.write(given, tmp_path / "changed.json")
    done = run(str(tmp_path / "changed.json"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rejected: the certificate was changed")
    assert run("none.json").returncode == 2


def arithmetic(modulus=2):
    return tasks.get("modular-arithmetic", modulus=modulus, leading_plus=True)


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_the_parts_that_matter_are_those_of_asked_words(chunk):
    """All parts of all short asked words that a tree's node may cover, found by hand; others are of no such word."""
    own = claim_of(arithmetic())
    claim, delta = Claim(own.to_json()), own.machine.delta.tolist()
    symbols = range(claim.symbols)

    def after(word, q):
        for s in word:
            q = delta[q][s]
        return q

    live, opens = set(), set()
    for length in range(1, 7):
        for word in itertools.product(symbols, repeat=length):
            if not own.asked[after(word, claim.start)]:
                continue
            for end in range(length, 0, -chunk):
                opens.add(word[:end])
                live |= {word[begin:end] for begin in range(end)}
    for length in (1, 2):
        words = list(itertools.product(symbols, repeat=length))
        maps = np.array([[after(w, q) for q in range(claim.states)] for w in words])
        assert [w in live for w in words] == claim.live(maps, chunk).tolist()
        assert [w in opens for w in words] == claim.opens(maps, chunk).tolist()


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_checker_and_prover_leave_out_the_same_parts(chunk):
    draw = np.random.default_rng(chunk)
    for _ in range(50):
        Q, S = draw.integers(2, 7), draw.integers(1, 4)
        asked = (draw.random(Q) < 0.3) | (np.arange(Q) == draw.integers(Q))
        own = ProversClaim(Semiautomaton(draw.integers(Q, size=(Q, S)), int(draw.integers(Q))), np.zeros(Q, int), asked)
        claim, need = Claim(own.to_json()), Need(own, chunk)
        maps = draw.integers(Q, size=(100, Q))
        assert (claim.live(maps, chunk) == need(maps, begins=False)).all()
        assert (claim.opens(maps, chunk) == need(maps, begins=True)).all()


@pytest.mark.slow
def test_of_arithmetic_with_a_leading_plus_half_of_the_parts_have_no_code():
    """Operator and digit come in pairs, so no node is of a digit alone."""
    task = arithmetic()
    made = compile_machine(task)
    claim = claim_of(task)
    proof = prove_codes(made.model.eval(), claim, 100)
    assert isinstance(proof, dict), proof
    given = certificate.make(made.model, claim, proof, "compiled")
    assert check(given, certificate.weights(made.model)).conditions > len(proof["proof"]["codes"]) ** 2
    fewer = {**proof["proof"], "codes": proof["proof"]["codes"][1:]}
    with pytest.raises(Rejected):
        check(resealed({**given, "proof": fewer}), certificate.weights(made.model))
