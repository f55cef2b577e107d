"""The checker in JavaScript accepts what the one in Python accepts, and rejects what that rejects."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from lengthwise import lab
from lengthwise.files import read_json
from lengthwise.lab.collection import network_folder
from lengthwise.verify import checker
from lengthwise.verify.checker.weights import digest, read_model

from ..report.test_html_page import browser
from ..verify.test_theorem import (
    RNNS,
    checker_accepts,
    flip_flop_certificate,
    tampered_claims,
    tampered_sets,
    tampered_weights,
)
from .test_build import build, site  # noqa: F401

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
MODULES = Path(__file__).parents[2] / "site" / "proof"
PROGRAM = """
import { readFileSync } from "fs";
import { Rejected } from "%(at)s/bounds.mjs";
import { answer, check, opened } from "%(at)s/check.mjs";
const asked = JSON.parse(readFileSync(0, "utf-8"));
const verdicts = asked.proofs.map((proof) => {
  try {
    const conditions = check(proof);
    let each = conditions.next();
    while (!each.done) each = conditions.next();
    return each.value;
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    return { why: error.message };
  }
});
const network = asked.words.length && opened(asked.proofs[0]);
const answers = asked.words.map((word) => answer(network, word));
console.log(JSON.stringify({ verdicts, answers }));
"""


def in_javascript(proofs, words=()):
    told = json.dumps({"proofs": proofs, "words": words})
    command = ["node", "--input-type=module", "-e", PROGRAM % {"at": MODULES}]
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TREES = ("parity", "even-pairs", "tomita-5", "tomita-6")
LARGE = [f"{task}-regular-gpt" for task in TREES[1:]]


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_accepts_what_python_accepts(large, build):  # noqa: F811
    names = [name for name in build.shown_in_the_browser() if (name in LARGE) == large]
    others = {
        "parity-gru",
        "cycle-navigation-lstm",
        "parity-gru-settled",
        "d-2-automaton",
        "parity-regular-gpt",
        "parity-regular-gpt-compiled",
    }
    assert {*LARGE} == set(names) if large else {*RNNS, *others} < set(names)
    folders = [network_folder(name) for name in names]
    certificates = [read_json(folder / "certificate.json") for folder in folders]
    proofs = [build.proof_of(each, read_model(folder)[1]) for each, folder in zip(certificates, folders, strict=True)]
    for name, certificate, folder, verdict in zip(
        names, certificates, folders, in_javascript(proofs)["verdicts"], strict=True
    ):
        report = checker.check(certificate, folder)
        assert verdict.get("conditions") == report.conditions, (name, verdict)
        assert verdict["margin"] == pytest.approx(report.margin, rel=0.01), name


def test_it_rejects_what_python_rejects(build):  # noqa: F811
    content, tensors = flip_flop_certificate()
    changes = [*tampered_weights(tensors), *tampered_claims(content), *tampered_sets(content)]
    proofs = [build.proof_of(content, tensors)]
    for name, other, weights in changes:
        about = other or content
        digests = {key: digest(x) for key, x in (weights or tensors).items()}
        proofs.append(build.proof_of({**about, "model": {**about["model"], "weights": digests}}, weights or tensors))
        assert not checker_accepts(about, weights or tensors), name
    own, *others = in_javascript(proofs)["verdicts"]
    assert "why" not in own
    assert [name for (name, *_), verdict in zip(changes, others, strict=True) if "why" not in verdict] == []


def test_the_script_of_a_page_checks_as_its_modules_do(build):  # noqa: F811
    folder = network_folder("parity-regular-gpt")
    proof = build.proof_of(read_json(folder / "certificate.json"), read_model(folder)[1])
    script = f"""{build.in_one(iter(build.MODULES))}
const proof = {json.dumps(proof)}, conditions = module_check.check(proof), network = module_check.opened(proof);
let each = conditions.next();
while (!each.done) each = conditions.next();
console.log(JSON.stringify([each.value.conditions, module_check.answer(network, [0, 1, 1, 1])]));
"""
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout) == [132, 1]


def tampered(certificate, weights):
    """Certificates of other machines, of other sets and of other weights, with these weights."""
    claim, proof = certificate["claim"], certificate["proof"]
    for q, row in enumerate(claim["delta"]):
        for s, to in enumerate(row):
            delta = [list(each) for each in claim["delta"]]
            delta[q][s] = (to + 1) % len(delta)
            yield {**certificate, "claim": {**claim, "delta": delta}}, weights
    yield {**certificate, "claim": {**claim, "answers": [1 - answer for answer in claim["answers"]]}}, weights
    yield {**certificate, "claim": {**claim, "start": 1 - claim["start"]}}, weights
    listed = {"cascade": "pairs", "tree-codes": "codes", "tree-boxes": "boxes"}[certificate["kind"]]
    for i in range(0, len(proof[listed]), 1 + len(proof[listed]) // 10):
        left = [each for k, each in enumerate(proof[listed]) if k != i]
        yield {**certificate, "proof": {**proof, listed: left}}, weights
    if listed == "pairs":
        states = [[[(place + 1) % 8 for place in state] for state in proof["states"][0]]]
        yield {**certificate, "proof": {**proof, "states": states}}, weights
    else:
        for element in (0, 1):
            alike = [{**each, "element": element} for each in proof[listed]]
            yield {**certificate, "proof": {**proof, listed: alike}}, weights
    if listed == "boxes":
        for share in (0.5, 30.0):  # what is led to them no longer fits, or what they lead to
            boxes = [{**box, "radius": [share * r for r in box["radius"]]} for box in proof["boxes"]]
            yield {**certificate, "proof": {**proof, "boxes": boxes}}, weights
        for change in ({"level": 1}, {"lacking": True}):
            yield {**certificate, "proof": {**proof, "boxes": [{**box, **change} for box in proof["boxes"]]}}, weights
        moved = [{**box, "centre": [c + 0.01 for c in box["centre"]]} for box in proof["boxes"]]
        yield {**certificate, "proof": {**proof, "boxes": moved}}, weights
        yield {**certificate, "proof": {**proof, "returns": 9}}, weights
    for name in weights:
        if not name.endswith("pad"):  # which hardly moves a node
            other = (
                -weights[name]
                if name.endswith(("head.weight", "norm.weight", "embedding.weight"))
                else 0 * weights[name]
            )
            if not name.endswith("bias") and not name.endswith(".r"):
                yield certificate, {**weights, name: other}


def numpy_accepts(certificate, weights):
    model = {**certificate["model"], "weights": {name: digest(x) for name, x in weights.items()}}
    certificate = {**certificate, "model": model}
    certificate["words"] = checker.in_words(certificate)
    certificate["digest"] = checker.seal(certificate)
    try:
        checker.check(certificate, weights)
    except checker.Rejected:
        return False
    return True


KINDS = ["parity-automaton", "even-pairs-automaton", "parity-regular-gpt-compiled", "parity-regular-gpt"]


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_of_proofs_are_rejected_as_by_python(name, build):  # noqa: F811
    certificate, weights = read_json(network_folder(name) / "certificate.json"), read_model(network_folder(name))[1]
    assert numpy_accepts(certificate, weights)
    changes, proofs = list(tampered(certificate, weights)), []
    for about, other in changes:
        digests = {key: digest(x) for key, x in other.items()}
        proofs.append(build.proof_of({**about, "model": {**about["model"], "weights": digests}}, other))
    accepted = ["why" not in verdict for verdict in in_javascript(proofs)["verdicts"]]
    assert accepted == [numpy_accepts(*change) for change in changes]
    assert not any(accepted)


TREE = [
    "embedding_scale",
    "position.name",
    "mixer.heads",
    "mixer.chunk",
    "block.norm",
    "block.activation",
    "depth.name",
    "depth.thickness",
]
CONFIGS = {
    "parity-rnn": [
        "embedding_scale",
        "final_norm",
        "position.name",
        "depth.layers",
        "head",
        "block.kind",
        "mixer.name",
        "tie_word_embeddings",
    ],
    "parity-automaton": [
        "embedding_scale",
        "final_norm",
        "position.name",
        "mixer.name",
        "head_bias",
        "mixer.blocks",
    ],
    "parity-regular-gpt-compiled": TREE,
    "parity-regular-gpt": TREE,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_what_it_does_not_know_it_refuses(name, build):  # noqa: F811
    """Other options and unknown ones; weights that float32 may lose or overflow, and ones that nothing uses."""
    certificate, weights = read_json(network_folder(name) / "certificate.json"), read_model(network_folder(name))[1]

    def proof(other, **edits):
        config = json.loads(json.dumps(certificate["model"]["config"]))
        for at, value in edits.items():
            *parts, last = at.split(".")
            place = config
            for part in parts:
                place = place[part]
            place[last] = value
        model = {"config": config, "weights": {key: digest(x) for key, x in other.items()}}
        return build.proof_of({**certificate, "model": model}, other)

    first = next(iter(weights))
    tiny, huge = weights["head.weight"].copy(), weights["head.weight"].copy()
    tiny[0, 0], huge[0, 0] = 2.0**-130, 2.0**100
    proofs = [
        *(proof(weights, **{at: 3}) for at in CONFIGS[name]),
        *(proof(weights, **{at: 1}) for at in ("dilation", "mixer.dilation", "depth.snapped")),
        *(proof({**weights, "head.weight": x}) for x in (tiny, huge)),
        proof({**weights, "embedding.weight": weights["embedding.weight"] * np.float32(2.0**70)}),
        proof({**weights, "more": weights[first]}),
        proof({key: x for key, x in weights.items() if key != first}),
    ]
    own, *others = in_javascript([proof(weights), *proofs])["verdicts"]
    assert "why" not in own
    assert [i for i, verdict in enumerate(others) if "why" not in verdict] == []


def test_affine_forms_hold_what_boxes_lead_to():
    """At the corners of boxes, where operations bend most; and they are not much wider than the boxes."""
    command = ["node", Path(__file__).parent / "affine_forms.mjs"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout)
    assert set(said["worst"]) == {"linear", "relu", "gelu", "norm", "attention"}
    for name, (outside, wide) in said["worst"].items():
        assert outside < 0, name
        assert wide < 60, name
    for x, value in said["erfs"]:
        assert abs(value - math.erf(x)) < 2**-42, x


def test_a_gate_whose_sum_may_overflow_is_no_step(build):  # noqa: F811
    content, tensors = flip_flop_certificate()
    large = {name: x.copy() for name, x in tensors.items()}
    large["embedding.weight"][0] = 2.0**99
    large["depth.layers.0.mixer.cell.weight_ih_l0"][:] = 2.0**99
    digests = {name: digest(x) for name, x in large.items()}
    (verdict,) = in_javascript([build.proof_of({**content, "model": {**content["model"], "weights": digests}}, large)])[
        "verdicts"
    ]
    assert "overflow" in verdict["why"]


def test_a_weight_that_is_another_is_seen_by_its_digest(build):  # noqa: F811
    content, tensors = flip_flop_certificate()
    last = next(reversed(tensors))
    proof = build.proof_of(content, {**tensors, last: np.nextafter(tensors[last], np.float32(9))})
    (verdict,) = in_javascript([proof])["verdicts"]
    assert verdict["why"] == f"the weight {last} is not the one the proof is about"


NETWORKS = ["parity-rnn", "cycle-navigation-rnn", "s3-words-gru", "tomita-6-lstm"]
NETWORKS += ["d-2-automaton", "parity-regular-gpt-compiled", *(f"{task}-regular-gpt" for task in TREES)]


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETWORKS)
def test_its_answers_are_torchs(name, count, build):  # noqa: F811
    folder = network_folder(name)
    model, task = lab.zoo(name)
    draw, symbols = np.random.default_rng(0), task.machine.num_symbols
    words = [draw.integers(symbols, size=draw.integers(1, 41)).tolist() for _ in range(count)]
    certificate = read_json(folder / "certificate.json")
    said = in_javascript([build.proof_of(certificate, read_model(folder)[1])], words)["answers"]
    right = [-1] * count
    for length in {*map(len, words)}:
        own = [i for i, word in enumerate(words) if len(word) == length]
        with torch.no_grad():
            answers = model(torch.tensor([words[i] for i in own]))[:, -1].argmax(-1).tolist()
        for i, answer in zip(own, answers, strict=True):
            right[i] = answer
    assert said == right


@pytest.mark.slow
def test_the_page_proves_and_a_broken_weight_does_not(site):  # noqa: F811
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not browser():
        pytest.skip("no Chromium found; LENGTHWISE_CHROMIUM names one")
    with playwright.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        tab = chromium.new_page()
        problems = []
        tab.on("pageerror", lambda e: problems.append(str(e)))
        tab.goto((site / "proof-parity-rnn.html").as_uri())
        tab.fill("#proof input[type=text]", "1" + "0" * 45)
        assert "✓ 1" in tab.inner_text("#proof table")
        tab.click("text=Check the proof >> nth=-1")
        tab.wait_for_selector("text=PROVED: 32 conditions")
        tab.click("text=Perturb one weight")
        tab.wait_for_selector("text=not proved")
        tab.goto((site / "proof-s3-words-rnn.html").as_uri())  # whose symbols have names of three letters
        assert tab.locator("#proof table .proved").count() == 4
        for name, shown in (
            ("d-2-automaton", "PROVED: 10,370"),
            ("parity-regular-gpt-compiled", "PROVED: 14 conditions"),
            ("parity-regular-gpt", "PROVED: 132 conditions"),
        ):
            tab.goto((site / f"proof-{name}.html").as_uri())
            tab.click("text=Check the proof >> nth=-1")
            tab.wait_for_selector(f"text={shown}")
            tab.click("text=Perturb one weight")
            tab.wait_for_selector("text=not proved")
        tab.fill("#proof input[type=text]", "1011010")
        assert tab.locator("#proof .tree .level").count() == 4
        tab.click("text=Read 10,000 random symbols")
        tab.wait_for_selector("#proof .margins")
        tab.goto((site / "refuted-parity-lstm-refuted.html").as_uri())
        assert tab.locator("#proof table .refuted").inner_text() == "✗ 0, not 1"  # after the last of 46 symbols alone
        assert tab.locator("text=Check the proof").count() == 0
        assert problems == []
        chromium.close()
