"""What certify found of a run stands on the page, in the terminal and in the data, while its weights are the same."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lengthwise import lab, models, report, tasks, theory, verify
from lengthwise.report.drawing import in_html
from lengthwise.report.extracted_panel import panel_of
from lengthwise.report.machine_diagram import machine_diagram
from lengthwise.report.sections import group_runs
from lengthwise.report.verdicts import extracted_of_section
from lengthwise.verify import certificate as certificates
from lengthwise.verify import verdict_files
from lengthwise.verify.checker import Rejected, seal
from lengthwise.verify.claim import claim_of
from lengthwise.verify.falsification.reading import Reader
from lengthwise.verify.prove.boxes import prove_tree_boxes
from lengthwise.verify.verdict_files import (
    EXTRACTED,
    FILE,
    extract_for_page,
    extracted_of,
    keep,
    keep_extracted,
    recorded_verdict,
)

from .pages import page

CLAIM = claim_of(tasks.get("parity")).to_json()
REFUTED = verify.Refuted((0, 1) * 20, 1, 0)


@pytest.fixture(scope="module")
def proof():
    """A network that was written down for parity, and what proves it."""
    model = theory.regular_gpt(tasks.get("parity").machine).eval()
    found = prove_tree_boxes(model, claim_of(tasks.get("parity")), 60, "float64")
    return model, found


@pytest.fixture(scope="module")
def PROVED(proof):
    model, found = proof
    return verify.Proved(certificates.make(model, claim_of(tasks.get("parity")), found, "learned"))


@pytest.fixture
def run(make_run, tmp_path, proof, monkeypatch):
    """Of a record that says another model than lies there, as tests may: its config is tried apart."""
    monkeypatch.setattr(verdict_files, "config_is", lambda run, config: True)
    made = make_run("regular-gpt", 0)
    save_file(certificates.weights(proof[0]), tmp_path / "model.safetensors")
    return replace(made, path=tmp_path, result={**made.result, "files": {"model.safetensors": "aa"}})


def resealed(certificate, **changes):
    changed = {**certificate, **changes}
    return {**changed, "digest": seal(changed)}


def test_it_is_kept_and_read(run, PROVED):
    assert recorded_verdict(run) is None
    keep(run, REFUTED, CLAIM)
    assert recorded_verdict(run).verdict == REFUTED
    keep(run, PROVED, CLAIM, "best")
    record = recorded_verdict(run)
    assert (record.verdict, record.checkpoint, record.claim) == (PROVED, "best", CLAIM)


def test_what_was_decided_stays_where_a_later_search_knows_nothing(run, PROVED):
    keep(run, verify.Unknown("no time"), CLAIM)
    assert isinstance(recorded_verdict(run).verdict, verify.Unknown)
    keep(run, PROVED, CLAIM)
    keep(run, verify.Unknown("no time"), CLAIM)
    assert recorded_verdict(run).verdict == PROVED
    keep(run, verify.Unknown("no time"), CLAIM, "best")
    assert isinstance(recorded_verdict(run).verdict, verify.Unknown)


def test_other_weights_leave_it_aside(run, PROVED):
    keep(run, PROVED, CLAIM)
    other = replace(run, result={**run.result, "files": {"model.safetensors": "bb"}})
    assert recorded_verdict(other) is None
    assert "PROVED" not in str(report.table([other])) + page([other])


def test_a_proof_is_not_shown_of_weights_that_were_changed(run, PROVED):
    """Although the record of the run still says what it said."""
    keep(run, PROVED, CLAIM)
    assert "PROVED" in str(report.table([run]))
    save_file(nudged(run), run.path / "model.safetensors")
    assert recorded_verdict(run) is None
    assert "PROVED" not in str(report.table([run]))
    (run.path / "model.safetensors").unlink()
    assert recorded_verdict(run) is None


def nudged(run):
    """Its weights, one of which is the next number."""
    weights = load_file(run.path / "model.safetensors")
    name = sorted(weights)[0]
    weights[name].flat[0] = np.nextafter(weights[name].flat[0], np.float32(9))
    return weights


FORGERIES = {
    "another claim": lambda c: resealed(c, claim=claim_of(tasks.get("even-pairs")).to_json()),
    "a broken seal": lambda c: {**c, "made": "built"},
    "nothing said": lambda c: {"made": "learned"},
    "another kind": lambda c: resealed(c, kind="tree-codes"),
    "no sets": lambda c: resealed(c, proof={**c["proof"], "boxes": []}),
    "more parts than are checked": lambda c: resealed(c, proof={"pairs": [0] * 5000}),
    "another config": lambda c: resealed(
        c, model={**c["model"], "config": {**c["model"]["config"], "embedding_scale": 1e-30}}
    ),
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_verdict_puts_no_proof_anywhere(run, PROVED, forged):
    """However well its seal fits: the checker has the word."""
    keep(run, verify.Proved(forged(PROVED.certificate)), CLAIM)
    assert recorded_verdict(run) is None or not recorded_verdict(run).checked
    assert "PROVED" not in str(report.table([run])) + page([run]) + json.dumps(report.data([run]))


def test_a_proof_about_another_config_than_the_run_s_is_left_aside(run, PROVED, monkeypatch):
    def another(run, config):
        raise Rejected("embedding_scale differ")

    monkeypatch.setattr(verdict_files, "config_is", another)
    keep(run, PROVED, CLAIM)
    assert recorded_verdict(run) is None


def test_a_machine_that_says_the_same_is_the_same_claim(run, PROVED):
    """As that of a task with more states than the smallest, about which the certificate is."""
    twice = [[0, 3], [3, 0], [2, 1], [1, 2]]
    keep(run, PROVED, {**CLAIM, "delta": twice, "answers": [0, 1, 0, 1], "asked": [1] * 4})
    assert recorded_verdict(run).verdict == PROVED


@pytest.mark.parametrize("verdict", ["proved", "refuted"])
def test_a_verdict_about_another_machine_than_the_task_s_is_left_aside(run, PROVED, verdict):
    other = {**CLAIM, "answers": [1, 0]}
    certificate = resealed(PROVED.certificate, claim=other)
    keep(run, verify.Proved(certificate) if verdict == "proved" else REFUTED, other)
    assert recorded_verdict(run) is None


@pytest.mark.parametrize("name", ["elements", "boxes", "codes", "centres", "sets", "pairs", "states"])
def test_a_page_waits_for_no_proof_of_very_many_parts(run, PROVED, name, monkeypatch):
    """Whatever they are called."""
    monkeypatch.setattr(verdict_files, "_accepted", None)
    parts = [[0] * 5000] if name == "states" else [0] * 5000
    kind = "cascade" if name in ("pairs", "states") else "tree-boxes"
    keep(run, verify.Proved(resealed(PROVED.certificate, kind=kind, proof={"entries": [0], name: parts})), CLAIM)
    assert not recorded_verdict(run).checked
    assert "PROVED" not in str(report.table([run]))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run whose model is wrong after some words and right after others."""
    settings = {"training.steps": 2, "training.batch": 4, "tests.samples": 4, "model.width": 4}
    root = tmp_path_factory.mktemp("runs")
    return lab.bench("parity", "rnn", train_length=6, test_lengths="12", settings=settings, root=root)[0]


def test_a_wrong_word_is_read_again_before_it_is_shown(small, monkeypatch):
    words = [tuple(int(b) for b in f"{n:06b}") for n in range(64)]
    with Reader(lab.load_model(small), claim_of(tasks.get("parity"))) as reader:
        read = {word: reader.alone(np.array(word)) for word in words}
    wrong = next(each for each in read.values() if each)
    right = next(word for word, each in read.items() if each is None)
    keep(small, wrong, CLAIM)
    assert (recorded_verdict(small).verdict, recorded_verdict(small).checked) == (wrong, True)
    assert "(the shortest string found)" in page([small])
    keep(small, verify.Refuted(right, 1 - sum(right) % 2, sum(right) % 2), CLAIM)
    shown = " ".join(str(report.table([small])).split())
    assert "not decided: the wrong word that was kept, of 6 tokens, is answered right" in shown
    assert "fails first" not in shown + page([small])
    monkeypatch.setattr(verdict_files, "READ", 5)
    assert "(as it was kept; " in page([small])


def test_a_proof_that_takes_long_to_check_is_shown_as_not_checked(run, PROVED, monkeypatch):
    monkeypatch.setattr(verdict_files, "QUICK", 3)  # two boxes, two at a time
    keep(run, PROVED, CLAIM)
    assert not recorded_verdict(run).checked
    assert "PROVED" not in str(report.table([run])) + page([run])
    assert report.data([run])["tasks"][0]["models"][0]["runs"][0]["verdict"]["verdict"] == "unchecked"
    assert "was not checked here" in " ".join(str(report.table([run])).split())


def test_a_proof_at_the_best_checkpoint_is_of_its_weights(run, PROVED):
    keep(run, PROVED, CLAIM, "best")
    assert recorded_verdict(run).verdict == PROVED  # no step was better than the last
    save_file(nudged(run), run.path / "best.safetensors")
    assert recorded_verdict(run) is None


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"format": 1, "weights": "aa"}', {"claim": {"delta": [[9]]}}])
def test_a_damaged_one_is_left_aside(run, PROVED, damage):
    """And one whose claim cannot be drawn."""
    keep(run, PROVED, CLAIM)
    content = json.loads((run.path / FILE).read_text())
    (run.path / FILE).write_text(damage if isinstance(damage, str) else json.dumps({**content, **damage}))
    assert recorded_verdict(run) is None


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, "PROVED for every length (made: learned, says the certificate)"),
        (
            REFUTED,
            f"fails first at length 40: after {'0 1 ' * 12}… it says 1, and 0 is right "
            "(as it was kept; the shortest string found)",
        ),
        (verify.Unknown("nothing <b>closes"), "not decided: nothing <b>closes"),
    ],
)
def test_it_is_shown_everywhere(run, PROVED, verdict, words):
    verdict = verdict or PROVED
    keep(run, verdict, CLAIM)
    assert f"regular-gpt: {words}" in " ".join(str(report.table([run])).split())
    data = report.data([run])["tasks"][0]["models"][0]["runs"][0]["verdict"]
    assert (data["verdict"], data["words"]) == (verdict.to_json()["verdict"], words)
    assert "certificate" not in data
    html = page([run])
    assert f"regular-gpt: {escape(words)}" in html
    assert "nothing <b>closes" not in html
    assert html.index('class="plane"') < html.index('class="chips"') < html.index("accuracy, %")


def test_the_machine_is_drawn():
    for name in ("parity", "cycle-navigation", "tomita-3"):
        claim = claim_of(tasks.get(name)).to_json()
        drawing = machine_diagram(name, claim)
        assert drawing.count("<circle") == len(claim["delta"])
        steps = {(q, t) for q, row in enumerate(claim["delta"]) for t in row}
        assert drawing.count("marker-end") == len(steps) + 1
        assert "nan" not in drawing
    assert machine_diagram("large", claim_of(tasks.get("modular-arithmetic")).to_json()) == ""
    assert machine_diagram("one", {**CLAIM, "delta": [[0, 0]]}).count("<circle") == 1


def test_what_was_extracted_is_a_panel():
    parity = tasks.get("parity")
    panel = report.extracted(verify.extract(theory.regular_gpt(parity.machine), parity), "regular-gpt on parity")
    assert panel.title == "What regular-gpt on parity computes"
    assert [line.split() for line in panel.text.split("\n\n")[1].splitlines()[1:]] == [
        ["0", "1", "says"],
        ["0", "0", "1", "0"],
        ["1", "1", "0", "1"],
    ]
    assert "Says 1 after the words (0|10*1)*10*" in panel.lead
    assert "<table" in panel.html
    assert (panel.data["algebra"]["elements"], panel.data["equal"]) == (2, True)


@pytest.fixture(scope="module")
def extracted():
    """An algebra, and a machine."""
    tree = verify.extract(theory.exact_classifier(tasks.get("parity")), tasks.get("parity"))
    cycle = tasks.get("cycle-navigation")
    return tree, verify.extract(theory.exact_classifier(cycle, theory.block_lrnn), cycle)


def block(run):
    (section,) = group_runs([run])
    return "".join(in_html(panel) for panel in extracted_of_section(section))


def test_what_was_extracted_stands_on_the_page_of_its_run(run, PROVED, extracted):
    assert extracted_of(run) is None
    tree, machine = extracted
    keep_extracted(run, tree, "best")
    shown = page([run])
    assert extracted_of(run)["said"] == str(tree)
    assert "What was extracted" in shown
    assert "at its best checkpoint: an algebra of 2 elements" in shown
    assert "Says 1 after the words (0|10*1)*10*" in shown
    assert 'aria-label="Table of the algebra"' in shown
    keep_extracted(run, machine)
    shown = block(run)
    assert "a machine of 5 states" in shown
    assert shown.count("<circle") >= 5
    keep(run, PROVED, CLAIM)
    shown = page([run])
    assert shown.index('class="chips"') < shown.index("What was extracted")
    other = replace(run, result={**run.result, "files": {"model.safetensors": "bb"}})
    assert extracted_of(other) is None
    assert block(other) == ""


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        '{"found": {"algebra": 3, "machine": null, "regexes": {}}}',
        '{"found": {"algebra": null, "machine": {"said": []}, "regexes": {}}}',
        '{"found": {"algebra": {"elements": 2, "symbols": [], "table": [], "said": [1]}, "machine": {}}}',
    ],
)
def test_what_somebody_changed_is_left_aside(run, extracted, damage):
    keep_extracted(run, extracted[0])
    content = json.loads((run.path / EXTRACTED).read_text())
    (run.path / EXTRACTED).write_text(json.dumps({**content, **json.loads(damage)}) if "found" in damage else damage)
    assert block(run) == ""


def test_a_picture_is_kept_where_it_is_soon_extracted(run, monkeypatch):
    parity = tasks.get("parity")
    model, claim = theory.exact_classifier(parity), claim_of(parity)
    assert not extract_for_page(run, model, claim, 1e-9)
    assert extracted_of(run) is None
    assert extract_for_page(run, model, claim, 60)
    assert extracted_of(run)["said"].startswith("an algebra of 2 elements")
    monkeypatch.setattr("lengthwise.verify.extraction.find_algebra", None)
    assert extract_for_page(run, model, claim, 60)  # what is there is not made again
    transformer = models.build("transformer", vocab_size=2, num_outputs=2, width=8)
    assert not extract_for_page(run, transformer, claim, 60, "best")


def test_a_picture_that_is_not_the_machine_is_not_put_beside_a_proof(run, PROVED):
    keep(run, PROVED, CLAIM)
    model = theory.exact_classifier(tasks.get("even-pairs"))
    assert not extract_for_page(run, model, claim_of(tasks.get("parity")), 60)
    assert extracted_of(run) is None


def test_a_large_table_is_not_kept(run, extracted, monkeypatch):
    monkeypatch.setattr("lengthwise.verify.verdict_files.LARGE", 1)
    keep_extracted(run, extracted[0])
    assert extracted_of(run)["found"]["algebra"]["table"] == []
    assert "an algebra of 2 elements" in block(run)


def test_a_machine_that_names_several_outputs_says_which():
    machine = {"symbols": ["a"], "delta": [[1], [2], [2]], "start": 0, "said": [None, [0, 2], []]}
    drawn = in_html(panel_of({"algebra": None, "machine": machine, "regexes": {}}, "It says so.", "it"))
    assert ">0,2<" in drawn
    assert ">–<" in drawn
