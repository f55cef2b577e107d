"""The proof tables: words far beyond are what they say, nothing is asked twice, and no way to a network is mixed up."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from lengthwise import lab, recipes, tasks, theory, verify
from lengthwise.lab import statistics
from lengthwise.recipes.proof import networks as networks_file
from lengthwise.recipes.proof import steady, table
from lengthwise.recipes.proof.long_words import long_words, wrong_words
from lengthwise.recipes.proof.networks import NetworkQuestion, ProofNetwork, networks
from lengthwise.recipes.proof.scales import BUDGETS, MODELS, TASKS, Budget, StringCounts
from lengthwise.recipes.proof.table import _panel, planned, task_of
from lengthwise.report.drawing import in_text
from lengthwise.verify.subject import KeptShare

BRIEF = NetworkQuestion(Budget(10.0), StringCounts(20, 2, 2, {64: 2}, 64))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    (outcome,) = lab.run(planned("smoke", "parity", "LSTM"), tmp_path_factory.mktemp("runs"), workers=1, device="cpu")
    assert outcome.run
    return outcome.run


@pytest.mark.parametrize("row", TASKS["laptop"])
def test_long_words_have_the_right_answers_each_in_turn(row):
    claim = verify.claim_of(task_of(row, "last"))
    words, answers = long_words(claim, 301, 6, seed=1)
    assert len(words) == 6
    assert 290 < words.shape[1] <= 301
    assert [claim.right(word) for word in words.tolist()] == answers.tolist()
    assert len(set(answers.tolist())) == min(6, len(np.unique(claim.answers[claim.asked])))
    assert np.array_equal(words, long_words(claim, 301, 6, seed=1)[0])


def test_long_words_stay_open():
    claim = verify.claim_of(tasks.get("d-2"))
    word = long_words(claim, 400, 1, seed=0)[0][0]
    state, seen = claim.machine.start, []
    for symbol in word[:300].tolist():
        state = int(claim.machine.delta[state, symbol])
        seen.append(state)
    sink = next(q for q in range(claim.machine.num_states) if (claim.machine.delta[q] == q).all())
    assert sink not in seen


def test_a_right_model_is_right_on_long_words_and_a_wrong_one_is_not():
    claim = verify.claim_of(tasks.get("parity"))
    assert len(wrong_words(theory.exact_classifier("parity"), claim, 1001, 4, "cpu")) == 0
    turned = verify.Claim(claim.machine, 1 - claim.answers, claim.asked)
    assert len(wrong_words(theory.exact_classifier("parity"), turned, 1001, 4, "cpu")) == 4


def test_a_wrong_word_far_beyond_refutes_what_nothing_was_known_of(run, monkeypatch):
    claim = verify.claim_of(tasks.get("parity"))
    monkeypatch.setattr(verify, "certify", lambda *a, **k: verify.Unknown("it was not looked at"), raising=False)
    monkeypatch.setattr(networks_file, "score_strings", lambda *a, **k: SimpleNamespace(correct={1: 8}))
    monkeypatch.setattr(networks_file, "thinned", lambda *a: [1])
    monkeypatch.setattr(networks_file, "share_right", lambda *a: 1.0)
    question = NetworkQuestion(Budget(5.0), StringCounts(20, 1, 8, {64: 2}, 64))
    (found,) = networks(run, question, "cpu")
    assert (found.raw, found.near) == ("refuted", 1.0)
    assert found.far["64"] < 1
    kept = json.loads((run.path / "verdict.json").read_text())
    assert len(kept["word"]) == found.wrong <= 64
    assert claim.right(kept["word"]) == kept["right"] != kept["said"]


def test_a_test_string_that_is_wrong_refutes_what_nothing_was_known_of(run, monkeypatch):
    monkeypatch.setattr(verify, "certify", lambda *a, **k: verify.Unknown("it was not looked at"), raising=False)
    (found,) = networks(run, NetworkQuestion(Budget(4.0), StringCounts(20, 2, 8, {64: 2}, 64)), "cpu")
    assert found.near < 1
    assert (found.raw, found.why, found.far) == ("refuted", "", {})
    assert 0 < found.wrong <= 20


def test_the_same_question_is_asked_once(run, monkeypatch):
    found = networks(run, BRIEF, "cpu")
    assert [(n.made, n.snapped) for n in found] == [("learned", None)]
    assert found[0].raw == "refuted"
    assert found[0].wrong
    kept = json.loads((run.path / "verdict.json").read_text())
    assert kept["verdict"] == "refuted"
    assert len(kept["word"]) == found[0].wrong

    asked = []
    monkeypatch.setattr(networks_file, "_learned", lambda *a: asked.append(a) or ProofNetwork("learned", near=0.5))
    assert networks(run, BRIEF, "cpu") == found
    assert not asked
    networks(run, BRIEF._replace(budget=Budget(0.3)), "cpu")
    assert len(asked) == 1


def test_only_what_is_not_proved_is_consolidated_and_every_network_says_how_it_was_made(run, monkeypatch):
    model = theory.exact_classifier("parity")

    def learned(word):
        monkeypatch.setattr(networks_file, "_learned", lambda *a: ProofNetwork("learned", word))

    made = []

    def certify(model, claim, budget, *, made=None, kept=None):
        said.append((made, kept))
        return verify.Unknown("it was not looked at")

    said: list[str] = []
    kept = KeptShare(3, 8, "sets", 0.99)
    copy = {"model": model, "made": "consolidated", "kept": kept}
    monkeypatch.setattr(networks_file, "consolidated", lambda *a: made.append(a) or a[0]._replace(**copy))
    monkeypatch.setattr(verify, "certify", certify, raising=False)
    monkeypatch.setattr(networks_file, "_snaps", lambda model: False)
    question = NetworkQuestion(Budget(0.1, 0.1, 5), None, consolidate=True, compile=True)
    learned("proved")
    assert [n.made for n in networks(run, question, "cpu")] == ["learned", "compiled"]
    assert not made
    assert said == [("compiled", None)]
    assert json.loads((run.path / "compiled" / "made.json").read_text())["made"] == "compiled"
    learned("refuted")
    said.clear()
    again = networks(run, question._replace(budget=Budget(0.2, 0.1, 5)), "cpu")
    assert [n.made for n in again] == ["learned", "consolidated", "compiled"]
    assert said == [("consolidated", kept), ("compiled", None)]
    assert again[1].kept == kept.to_json()


def test_a_network_that_learned_nothing_has_a_line_that_says_it_is_not_consolidated(run):
    """Four steps teach an LSTM nothing."""
    found = networks(run, NetworkQuestion(Budget(0.1, 0.1), None, consolidate=True), "cpu")
    assert [(n.made, n.raw) for n in found][1:] == [("consolidated", "refused")]
    assert "It has not learned the machine" in found[1].why
    assert not (run.path / "consolidated" / "made.json").exists()


def test_one_line_that_fails_loses_nothing_and_is_tried_again(run, monkeypatch):
    question, asked = BRIEF._replace(budget=Budget(0.4)), []

    def fails(*given):
        asked.append(given)
        raise RuntimeError("no memory")

    monkeypatch.setattr(networks_file, "_learned", fails)
    for _ in range(2):
        with pytest.warns(UserWarning, match="no memory.*tries it again"):
            (found,) = networks(run, question, "cpu")
        assert (found.raw, "no memory" in found.why) == ("unknown", True)
    assert len(asked) == 2
    monkeypatch.setattr(networks_file, "_learned", lambda *a: ProofNetwork("learned", "proved"))
    assert networks(run, question, "cpu")[0].raw == "proved"


def test_a_panel_says_what_is_proved():
    refuted = ProofNetwork("consolidated", "refuted", kept={"own": 3, "all": 8}, wrong=99_999, far={"100000": 0.9})
    panel = _panel("laptop", "parity", {name: [refuted] for name in MODELS})
    assert (panel.title, panel.lead) == ("parity: 2 elements", "parity: proved at every length: none.")
    assert panel.data["RNN"][0]["made"] == "consolidated"
    proved = ProofNetwork("learned", "unknown", "proved")
    assert _panel("laptop", "parity", {"RegularGPT": [proved]}).lead.endswith("RegularGPT (learned, snapped).")


def test_a_matrix_says_the_verdict_in_a_sign_and_how_a_copy_is_proved():
    refuted, copy = ProofNetwork("learned", "refuted", wrong=1_234), ProofNetwork("consolidated", "proved")
    by_task = {
        "parity": {"GRU": [refuted, copy], "RNN": [ProofNetwork("learned", "proved")]},
        "d-2": {"GRU": [refuted]},
    }
    matrix = table.panels("laptop", by_task)[0]
    assert matrix.columns == ["", "GRU", "RNN"]
    assert [[getattr(cell, "mark", cell) for cell in row] for row in matrix.rows] == [
        ["parity", "✗ refuted", "✓ proved"], ["d-2", "✗ refuted", ""]
    ]  # fmt: skip
    assert matrix.rows[0][1].notes == (("at", "1,234 tokens"), ("then", "✓ consolidated"))
    assert "1 of 3 networks are proved right at every length and 2 are refuted" in matrix.finding
    assert "Of the 2 cells where none is proved so, 1 have one" in matrix.finding
    assert '<td class="bad"><b>✗ refuted</b>' in matrix.html
    assert "✗ refuted" in matrix.text


def test_the_steady_matrix_counts_what_is_proved_learned_or_settled_and_nothing_compiled():
    refuted, proved = ProofNetwork("learned", "refuted", wrong=7), ProofNetwork("learned", "proved")
    settled, compiled = ProofNetwork("settled", "proved"), ProofNetwork("compiled", "proved")
    wrong = ProofNetwork("settled", "refuted", wrong=9)
    way = steady.SETTLED
    matrix = steady.matrix(
        {
            ("parity", "RNN", "steady"): [[proved], [refuted]],
            ("parity", "discrete", way): [[proved], [refuted, settled], [refuted, compiled], [refuted, wrong]],
        }
    )
    assert matrix.columns == ["", "RNN, steady", f"discrete, {way}"]
    assert matrix.rows[0][1].notes == (("besides", "1 refuted"), ("wrong at", "7"))
    assert matrix.rows[0][2].mark == "✗ refuted 3 of 4"
    assert matrix.rows[0][2].notes[-1] == ("settled", "✓ 2 of 4")
    assert matrix.finding == (
        "Trained steady, proved as they were learned: RNN 1 of 2. "
        "Of 4 trees trained otherwise, 2 are proved, learned or settled."
    )


def test_of_several_seeds_the_commonest_verdict_is_shown_and_the_others_are_named():
    cell = networks_file.verdict_cell(["proved", "refuted", "proved"])
    assert (cell.mark, cell.notes) == ("✓ proved 2 of 3", (("besides", "1 refuted"),))


@pytest.mark.slow
def test_the_table_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setitem(BUDGETS, "smoke", Budget(20, 1, 60))
    recipe = recipes.get("proof", "table", "smoke")
    outcomes = lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")
    panels = recipe.panels([o.run for o in outcomes if o.run])
    assert panels
    assert all(max(map(len, in_text(p, 60).splitlines())) <= 60 for p in panels)
    compiled = next(tmp_path.glob("*/compiled/certificate.json"))
    verify.checker.check(json.loads(compiled.read_text()), compiled.parent)


def test_state_tracking_gives_every_network_a_verdict(tmp_path):
    recipe = recipes.get("proof", "state-tracking", "smoke").only(["parity"])
    mine = [e for e in recipe.experiments if e.model.name in ("pd-ssm", "hf:mamba2")]
    runs = [o.run for o in lab.run(mine, tmp_path, workers=1, device="cpu")]
    panel, differences = recipe.panels(runs)
    assert differences.title == "What differs from the paper at smoke scale"
    assert panel.columns == ["model", "parity", "average", "published"]
    assert [(row[0], *row[2:]) for row in panel.rows] == [("PD-SSM", "–", "98.8"), ("Mamba-2", "–", "–")]
    for row, run in zip(panel.data, runs, strict=True):
        beyond = [n for n in run.experiment.tests.lengths if n >= 40]
        assert row["seeds"] == [{"seed": 0, "accuracy": statistics.score(run, beyond)}]
        assert [network["raw"] for network in row["networks"]] == ["refuted"]
    assert panel.finding == (
        "Of 0 networks that are right on all test strings 0 are refuted. Of all 2, proved at every length as training "
        "left them: none."
    )
