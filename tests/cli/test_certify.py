"""`lengthwise certify`, as it is typed: verdicts, exit codes, the word once more, and what cannot be certified."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from typing import Any, cast

import pytest

from lengthwise import lab, own_code, tasks, theory
from lengthwise.cli import certify as verb
from lengthwise.cli import console, main, work
from lengthwise.verify import verdict_files
from lengthwise.verify.verdict_files import EXTRACTED, extracted_of, recorded_verdict

from .tiny import TINY, bench


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An untrained LSTM on parity, which is wrong soon."""
    root = tmp_path_factory.mktemp("runs")
    assert bench(root) == 0
    return lab.load(root)[0].path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A model that is right, in a folder of its own."""
    folder = tmp_path_factory.mktemp("built") / "model"
    theory.regular_gpt(tasks.get("parity").machine).save_pretrained(folder)
    return folder


@pytest.fixture
def no_methods(monkeypatch):
    from lengthwise.verify import certification

    monkeypatch.setattr(certification, "family_of", lambda model: "no method is tried")


def test_a_wrong_model_is_refuted_and_the_word_is_read_once_more(run, tmp_path, capsys):
    out = tmp_path / "verdict.json"
    assert main(["certify", str(run), "--budget", "30", "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("REFUTED at length ")
    assert "word:  " in said.out
    line = next(line for line in said.out.splitlines() if line.startswith("See it again: "))
    again = shlex.split(line.removeprefix("See it again: "))
    assert again[:3] == ["lengthwise", "certify", str(run)]
    assert main(again[1:]) == 1
    assert capsys.readouterr().out.startswith("refuted: after the word ")
    assert main(["certify", str(run), "--word", str(out), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == json.loads(out.read_text())
    assert main(["certify", "--check", str(out), "--model", str(run)]) == 2
    assert "is no certificate, for nothing was proved: it says 'refuted'" in capsys.readouterr().err


def test_json_is_alone_on_stdout(run, told):
    found = told("certify", run, "--budget", "30", code=1)
    assert found["verdict"] == "refuted"
    assert found["made"] == "learned"
    assert found["search"]["strings"] >= 1
    assert recorded_verdict(lab.load(run)[0]).verdict.to_json() == {
        name: found[name] for name in ("verdict", "word", "said", "right")
    }
    assert found["command"].startswith("lengthwise certify ")


def test_the_page_has_a_picture_of_what_was_proved(run, tmp_path, capsys, monkeypatch):
    """The run's model is taken for one that is parity, of which a proof is found at once."""
    place = tmp_path / run.name
    shutil.copytree(run, place)
    (place / EXTRACTED).unlink(missing_ok=True)
    kept_of = lambda: extracted_of(lab.load(place)[0])  # noqa: E731
    model = theory.exact_classifier("parity")
    monkeypatch.setattr(lab, "load_model", lambda *_, **__: model)
    for options, there in ((["30", "--no-picture"], False), (["5"], False), (["30"], True)):
        assert main(["certify", str(place), "--budget", *options]) == 0
        assert (kept_of() is not None) is there
    assert kept_of()["said"].startswith("an algebra of 2 elements")
    html = tmp_path / "page.html"
    assert main(["report", str(place), "--html", str(html)]) == 0
    assert 'aria-label="Table of the algebra"' in html.read_text()


def test_certify_keeps_a_picture_unless_it_shall_not(run, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(verdict_files, "extract_for_page", lambda run, *rest: asked.append(run.path))
    assert main(["certify", str(run), "--budget", "30", "--no-picture"]) == 1
    assert not asked
    assert main(["certify", str(run), "--budget", "30"]) == 1
    assert asked == [run]


def test_a_model_in_a_folder_is_held_against_a_task(built, capsys, no_methods, told):
    assert main(["certify", str(built), "--task", "parity", "--budget", "0.5"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("UNKNOWN: no failure in ")
    assert "certify: " in said.err
    found = told("certify", built, "--task", "even-pairs", "--budget", "30", code=1)
    assert (found["verdict"], found["made"]) == ("refuted", "given")
    assert main(["certify", str(built), "--task", "parity", "--word", "1:3 0"]) == 0
    assert capsys.readouterr().out == "right: after this word of 4 tokens the model says 1\n"


def test_a_copy_of_a_run_is_seen_again_by_the_run_s_own_task(run, tmp_path, monkeypatch, told):
    """Here nothing is taught, and nothing is saved."""
    from lengthwise.verify import certification

    decide = certification.decide
    monkeypatch.setattr(certification, "decide", lambda subject, seconds, watch, **_: decide(subject, seconds, watch))
    copy = tmp_path / "copy"
    command = told("certify", run, "--settle", "--save", copy, "--budget", "30", code=1)["command"]
    assert command.startswith(f"lengthwise certify {copy} --task parity ")


def test_a_folder_says_how_its_model_was_made(built, tmp_path, told, refused):
    folder = tmp_path / "compiled"
    shutil.copytree(built, folder)
    call = ["certify", folder, "--task", "even-pairs", "--budget", "30"]
    (folder / "made.json").write_text('{"made": "compiled"}')
    assert told(*call, code=1)["made"] == "compiled"
    (folder / "made.json").write_text('{"made": "by hand"}')
    refused(call, "`made` must be compiled or consolidated or settled or learned, got 'by hand'")


def test_a_network_of_the_zoo_says_its_task_and_what_it_prints_can_be_called(built, tmp_path, told, no_methods):
    """Words of S2 are what a network of parity knows."""
    folder = tmp_path / "network"
    shutil.copytree(built, folder)
    about = {"name": "word-problem", "params": {"group": "S2", "supervision": "prefix"}}
    (folder / "network.json").write_text(json.dumps({"task": about, "made": "learned"}))
    found = told("certify", folder, "--budget", "30", code=1)
    assert (found["verdict"], found["made"]) == ("unknown", "learned")
    assert told("certify", folder, "--task", "even-pairs", "--budget", "30", code=1)["verdict"] == "refuted"
    (folder / "network.json").write_text(json.dumps({"task": {"name": "even-pairs", "params": {}}, "made": "learned"}))
    found = told("certify", folder, "--budget", "30", code=1)
    assert told(*shlex.split(found["command"])[1:], "--json", code=1)["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["{run}", "--consolidate", "--save", "{built}"], "there is something already. Name a new folder."),
        (["{built}"], "is a model and no run, so say what it is held against: --task NAME"),
        (["{built}", "--task", "boxes"], "only a task with a machine"),
        (["{built}", "--task", "cycle-navigation"], "reads 2 tokens of 3 symbols"),
        (["{built}", "--task", "parityy"], "Did you mean 'parity'?"),
        (["{built}", "--task", "parity", "--word", "2"], "each in 0..1"),
        (["{built}", "--task", "parity", "--word", "0x3"], "TOKEN:TIMES"),
        (["{built}", "--task", "parity", "--word", ""], "one token or more"),
        (["{built}", "--task", "parity", "--word", "0:9999999"], "at most 1,048,576 symbols"),
        (["{built}", "--task", "parity", "--budget", "nan"], "--budget must be a number"),
        (["{built}", "--task", "parity", "--budget", "-1"], "--budget must be a number"),
        (["{run}", "--consolidate"], "--save DIR says where it goes: give both"),
        (["{run}", "--checkpoint", "first"], "--checkpoint"),
        (["nowhere"], "no such file or directory"),
        ([], "needs a run or a folder with a model"),
        (["--check", "proof.json"], "--check FILE and --model DIR go together"),
        (["{run}", "--check", "proof.json", "--model", "{run}"], "without RUN"),
        (
            ["--check", "nowhere.json", "--model", "{run}"],
            "no such file or directory. Name a JSON file that certify --out wrote",
        ),
    ],
)
def test_wrong_calls_are_one_line(call, words, run, built, capsys):
    assert main(["certify", *(part.format(run=run, built=built) for part in call)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.parametrize("option", ["--word 1", "--budget 60", "--consolidate", "--save x", "--no-picture", "--trust"])
def test_a_check_refuses_what_it_would_ignore(option, tmp_path, capsys):
    words = ["--check", str(tmp_path / "c.json"), "--model", str(tmp_path), *option.split()]
    assert main(["certify", *words]) == 2
    assert f"--check takes no {option.split()[0]}" in " ".join(capsys.readouterr().err.split())


def test_a_check_against_a_task_compares_symbols_and_answers():
    from lengthwise.verify.checker.claim import StatedClaim, difference
    from lengthwise.verify.claim import claim_of

    parity, other = (claim_of(tasks.get(name)).to_json() for name in ("parity", "tomita-5"))
    swapped = {**parity, "delta": parity["delta"][::-1], "start": 1, "answers": parity["answers"][::-1]}
    swapped["delta"] = [[1 - q for q in row] for row in swapped["delta"]]
    assert difference(StatedClaim(parity), StatedClaim(swapped)) is None  # the same, its states in another order
    wrong = {**parity, "answers": parity["answers"][::-1]}
    assert "after the word" in difference(StatedClaim(parity), StatedClaim(wrong))
    assert "symbols" in difference(StatedClaim(parity), StatedClaim({**parity, "symbols": ["a", "b"]}))
    assert difference(StatedClaim(parity), StatedClaim(other)) is not None


def test_a_file_that_is_no_certificate_is_named(run, tmp_path, capsys):
    file = tmp_path / "list.json"
    file.write_text("[1, 2]")
    assert main(["certify", "--check", str(file), "--model", str(run)]) == 1
    assert f"error: {file} is rejected: a certificate must be an object of" in capsys.readouterr().err
    file.write_text("hello")
    assert main(["certify", "--check", str(file), "--model", str(run)]) == 2
    assert "Name a JSON file that certify --out wrote" in capsys.readouterr().err


def test_a_copy_that_was_not_taught_to_the_end_says_so(run, capsys):
    from types import SimpleNamespace

    from lengthwise.verify import Unknown
    from lengthwise.verify.certification import Decision

    search: Any = SimpleNamespace(stopped=None, seen=None, predicted=None)
    for cut_short, told in ((8.2, True), (None, False)):
        verb._say(Decision(Unknown("a box is too wide"), search, "consolidated", cut_short), cast(Any, None), None)
        assert ("The copy was taught for 8 s, all that --budget gave it" in capsys.readouterr().out) is told


def test_an_unfinished_run(run, tmp_path, capsys):
    unfinished = tmp_path / run.name
    unfinished.mkdir()
    for name in ("config.json", "metrics.jsonl"):
        (unfinished / name).write_bytes((run / name).read_bytes())
    assert main(["certify", str(unfinished)]) == 2
    assert "no finished run here. Unfinished ones go on when started again" in capsys.readouterr().err


@pytest.mark.slow
def test_a_task_without_a_machine(tmp_path, capsys):
    words = ["bench", "selective-copy", "-m", "lstm", *TINY, "--out", str(tmp_path)]
    words[words.index("--test-lengths") + 1] = "41"
    assert main(words) == 0
    capsys.readouterr()
    assert main(["certify", str(tmp_path)]) == 2
    assert "selective-copy of this run has no machine to be held against" in capsys.readouterr().err


def test_no_word_is_too_long_to_be_seen_again(tmp_path):
    from lengthwise.verify import Refuted

    word = tuple(i % 2 for i in range(1000))
    refuted = Refuted(word, 1, 0)
    assert verb._see_again(["lengthwise"], refuted, None) is None
    assert verb._see_again(["lengthwise"], refuted, tmp_path / "v.json") == f"lengthwise --word {tmp_path / 'v.json'}"
    verb._write(tmp_path / "v.json", refuted)
    assert verb.read_word(str(tmp_path / "v.json")) == word
    assert verb.read_word(verb.in_runs((0,) * 5000 + (1,))) == (0,) * 5000 + (1,)


def test_a_terminal_is_shown_a_bar(monkeypatch, capsys):
    from rich.console import Console

    from lengthwise.verify.falsification.hunt import Stage

    monkeypatch.setattr(console, "err", lambda: Console(file=sys.stderr, force_terminal=True, width=60))
    with work.watched("certify") as watch:
        watch(Stage("families of strings at 8 symbols", 0.4))
    assert "families of strings" in capsys.readouterr().err


def test_a_run_whose_model_is_not_built_as_the_certificate_says_is_refused(run):
    """Its weights alone do not say which function they are of."""
    from lengthwise import lab
    from lengthwise.verify.certificate import deciding
    from lengthwise.verify.checker import Rejected

    config = deciding(lab.load_model(lab.load(run)[0]).inner)
    assert verdict_files.config_is(lab.load(run)[0], config)
    with pytest.raises(Rejected, match="embedding_scale differ"):
        verdict_files.config_is(lab.load(run)[0], {**config, "embedding_scale": 2.0})


def test_elsewhere_it_is_about_ten_lines(capsys):
    from lengthwise.verify.falsification.hunt import Stage

    with work.watched("certify") as watch:
        for i in range(1000):
            watch(Stage(f"stage {i}", i / 1000))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0] == "certify: stage 0"


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers"):
            raise ImportError(name + " was imported")
sys.meta_path.insert(0, Refuse())
from lengthwise.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*words):
    call = [sys.executable, "-c", WITHOUT_TORCH, *map(str, words)]
    return subprocess.run(call, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


@pytest.mark.slow
def test_a_right_model_is_proved_and_its_certificate_checked_without_torch(built, tmp_path, capsys):
    certificate = tmp_path / "proof.json"
    assert main(["certify", str(built), "--task", "parity", "--budget", "40", "--out", str(certificate)]) == 0
    assert capsys.readouterr().out.startswith("PROVED for every length.")
    done = without_torch("certify", "--check", certificate, "--model", built)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("accepted: ")
    done = without_torch("certify", "--check", certificate, "--model", built, "--json")
    assert json.loads(done.stdout)["accepted"] is True
    other = tmp_path / "other"
    theory.regular_gpt(tasks.get("tomita-1").machine).save_pretrained(other)
    done = without_torch("certify", "--check", certificate, "--model", other)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    done = without_torch("certify", "--check", certificate, "--model", other, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["accepted"] is False


def test_the_settings_of_a_task_say_what_is_right(built, capsys):
    """Parity's model answers parity's states by their numbers, so it is right on the words of its group."""
    of_z2 = ["--task", "word-problem", "--set", "task.group=Z2", "--set", "task.generators=[[0,1],[1,0]]"]
    assert main(["certify", str(built), *of_z2, "--word", "1 1 1"]) == 0
    assert "the model says 1" in capsys.readouterr().out
    assert main(["certify", str(built), "--task", "parity", "--set", "model.width=3", "--word", "1"]) == 2
    assert "task.NAME=VALUE, got model.width" in capsys.readouterr().err
    assert main(["certify", str(built), "--set", "task.group=Z2", "--word", "1"]) == 2
    assert "about the task that --task names" in capsys.readouterr().err


def test_a_task_of_ones_own_without_a_machine_is_said_to_have_none(tmp_path, monkeypatch, capsys):
    """With --trust; and not that --trust is missing."""
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom lengthwise import tasks\n\n\nclass Firsts(tasks.Task):\n"
        "    vocabulary = ('a', 'b')\n    outputs = 2\n\n"
        "    def draw(self, length, batch, generator):\n"
        "        return torch.randint(2, (batch, length), generator=generator)\n\n"
        "    def answer(self, tokens):\n        return tokens[:, :1].expand_as(tokens)\n\n"
        "    def baseline(self, length):\n        return 0.5\n"
    )
    settings = {"training.steps": 2, "training.batch": 4, "tests.samples": 4, "model.width": 4}
    runs = lab.bench(f"{tmp_path}/mine.py:Firsts", "lstm", test_lengths="50", settings=settings, root=tmp_path / "runs")
    monkeypatch.setattr(own_code, "_asked", {})
    assert main(["certify", str(runs[0].path)]) == 2
    assert "--trust" in capsys.readouterr().err
    assert main(["certify", str(runs[0].path), "--trust"]) == 2
    assert "has no machine to be held against" in " ".join(capsys.readouterr().err.split())
