"""The checker in JavaScript accepts what the one in Python accepts. (What it rejects: verify/test_corpus.py.)"""

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
from lengthwise.lab.collection import network_folder, networks
from lengthwise.verify import checker

from ..report.test_html_page import browser
from ..verify.corpus_networks import flip_flop_proved
from ..verify.test_codes_by_level import one_code_for_two, tomita_5_by_level
from ..verify.test_theorem import RNNS

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
MODULES = Path(__file__).parents[2] / "site" / "proof"
PROGRAM = """
import { readFileSync } from "fs";
import { Rejected } from "%(at)s/bounds.mjs";
import { answer, check, logitsAfter, opened } from "%(at)s/check.mjs";
const { proofs, words } = JSON.parse(readFileSync(0, "utf-8"));
function verdict(proof) {
  try {
    const conditions = check(proof);
    let each = conditions.next();
    while (!each.done) each = conditions.next();
    return each.value;
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    return { why: error.message };
  }
}
function answers([proof]) {
  const network = opened(proof);
  return words.map((word) => ({ answer: answer(network, word), logits: [...logitsAfter(network, word)] }));
}
console.log(JSON.stringify(words ? answers(proofs) : proofs.map(verdict)));
"""


def in_javascript(proofs, words=None):
    """The verdicts on proofs; or what the network of one answers after words."""
    told = json.dumps({"proofs": proofs, "words": words})
    command = ["node", "--input-type=module", "-e", PROGRAM % {"at": MODULES}]
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TREES = ("parity", "even-pairs", "tomita-5", "tomita-6")
LARGE = [f"{task}-regular-gpt" for task in TREES[1:]]


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_accepts_what_python_accepts(large, build):
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
    proved = {name for name, about in networks().items() if about["verdict"] == "proved"}
    assert proved - set(build.shown_in_the_browser()) == {"modular-arithmetic-regular-gpt"}
    for name, verdict in zip(names, in_javascript([build.proved_network(name) for name in names]), strict=True):
        folder = network_folder(name)
        report = checker.check(read_json(folder / "certificate.json"), folder)
        assert verdict.get("conditions") == report.conditions, (name, verdict)
        assert verdict["margin"] == pytest.approx(report.margin, rel=0.01), name


def test_the_script_of_a_page_checks_as_its_modules_do(build):
    proof = build.proved_network("parity-regular-gpt")
    script = f"""{build.in_one(iter(build.MODULES))}
const proof = {json.dumps(proof)}, conditions = module_check.check(proof), network = module_check.opened(proof);
let each = conditions.next();
while (!each.done) each = conditions.next();
console.log(JSON.stringify([each.value.conditions, module_check.answer(network, [0, 1, 1, 1])]));
"""
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout) == [132, 1]


def test_affine_forms_hold_what_boxes_lead_to():
    """At the corners of boxes, where operations bend most; and they are not much wider than the boxes."""
    command = ["node", Path(__file__).parent / "affine_forms.mjs"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout)
    assert set(said["worst"]) == {"linear", "relu", "gelu", "norm", "attention", "scores", "values"}
    for name, (outside, wide) in said["worst"].items():
        assert outside < 0, name
        assert wide < 60, name
    for x, value in said["erfs"]:
        assert abs(value - math.erf(x)) < 2**-42, x


@pytest.mark.parametrize(("proved", "near"), [(tomita_5_by_level, 0.01), (one_code_for_two, 0.4)])
def test_codes_of_levels_are_checked_as_python_checks_them(build, proved, near):
    """Codes are followed by intervals here, which forget what cancels in the roundings; Python's points do not."""
    certificate, weights = proved()
    listed = certificate["proof"]["codes"]
    fewer = {**certificate, "proof": {**certificate["proof"], "codes": listed[:-1]}}
    flat = [{name: each[name] for name in ("element", "code")} for each in listed]
    mixed = {**certificate, "proof": {**certificate["proof"], "codes": flat}}
    verdict, *rejected = in_javascript([build.proof_of(each, weights) for each in (certificate, fewer, mixed)])
    report = checker.check(certificate, weights)
    assert verdict["conditions"] == report.conditions
    assert verdict["margin"] == pytest.approx(report.margin, rel=near)
    assert [each["why"].split(" the ")[-1] for each in rejected] == ["product of their maps", "a code is listed twice"]


def test_a_weight_that_is_another_is_seen_by_its_digest(build):
    certificate, weights = flip_flop_proved()
    last = next(reversed(weights))
    proof = build.proof_of(certificate, {**weights, last: np.nextafter(weights[last], np.float32(9))})
    (verdict,) = in_javascript([proof])
    assert verdict["why"] == f"the weight {last} is not the one the proof is about"


PROVED = ["parity-rnn", "cycle-navigation-rnn", "s3-words-gru", "tomita-6-lstm"]
PROVED += ["d-2-automaton", "parity-regular-gpt-compiled", *(f"{task}-regular-gpt" for task in TREES)]
REFUTED = ["parity-lstm-refuted", *(f"even-pairs-{name}-refuted" for name in ("transformer", "bipe", "chacal"))]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 200) for name in PROVED),
        *((name, 40) for name in REFUTED),
        *(pytest.param(name, 10_000, marks=pytest.mark.slow) for name in PROVED),
        *(pytest.param(name, 1000, marks=pytest.mark.slow) for name in REFUTED),
    ],
)
def test_its_answers_are_torchs(name, count, build):
    model, task = lab.zoo(name)
    draw, symbols, longest = np.random.default_rng(0), task.machine.num_symbols, 60 if name in REFUTED else 40
    words = [draw.integers(symbols, size=draw.integers(1, longest + 1)).tolist() for _ in range(count)]
    if name in REFUTED:
        words.append(networks()[name]["word"])
    data = build.refuted_network(name) if name in REFUTED else build.proved_network(name)
    said = in_javascript([data], words)
    logits = torch.empty(len(words), len(said[0]["logits"]))
    for length in {*map(len, words)}:
        own = [i for i, word in enumerate(words) if len(word) == length]
        with torch.no_grad():
            logits[own] = model(torch.tensor([words[i] for i in own]))[:, -1]
    answers = [each["answer"] for each in said]
    assert answers == logits.argmax(-1).tolist()
    torch.testing.assert_close(torch.tensor([each["logits"] for each in said]), logits, rtol=1e-3, atol=1e-3)
    if name in REFUTED:
        assert answers[-1] == networks()[name]["said"] != task.answer(torch.tensor(words[-1:]))[0, -1]


def test_every_refuted_network_runs_in_the_browser(build):
    refuted = {name for name, network in networks().items() if network["verdict"] == "refuted"}
    assert set(build.refuted_in_the_browser()) == refuted


@pytest.mark.slow
def test_the_page_proves_and_a_broken_weight_does_not(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not browser():
        pytest.skip("no Chromium found; LENGTHWISE_CHROMIUM names one")
    with playwright.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        tab = chromium.new_page()
        problems = []
        tab.on("pageerror", lambda e: problems.append(str(e)))
        tab.goto((site / "index.html").as_uri())
        tab.click("text=Check the proof >> nth=-1")
        tab.wait_for_selector("text=PROVED: 32 conditions")
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
        for name in REFUTED:
            said, right = networks()[name]["said"], networks()[name]["right"]
            tab.goto((site / f"refuted-{name}.html").as_uri())
            assert tab.inner_text("#proof tbody tr:last-child .refuted") == f"✗ {said}, not {right}"
            tab.fill("#proof input[type=text]", "011")
            assert tab.locator("#proof tbody .proved").count() == 3
        assert problems == []
        chromium.close()
