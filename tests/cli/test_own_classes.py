"""Every verb given a model, a task, or both, of one's own, in a process that was not asked to run their code."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lengthwise import Error, lab, own_code, tasks, theory
from lengthwise.cli import main
from lengthwise.files import canonical, digest, digest_of

CODE = '''
import torch
from torch import nn

from lengthwise import tasks


class Net(nn.Module):
    def __init__(self, vocab_size, width=4):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(vocab_size, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, tokens):
        return self.head(self.gru(self.embedding(tokens))[0])


class Firsts(tasks.Task):
    """The first letter, which no machine is given for."""

    vocabulary, outputs = ("a", "b"), 2

    def __init__(self, letters: int = 2):
        self.letters = letters

    def draw(self, length, batch, generator):
        return torch.randint(self.letters, (batch, length), generator=generator)

    def answer(self, tokens):
        return tokens[:, :1].expand_as(tokens)

    def baseline(self, length):
        return 0.5


class Speechless(Firsts):
    """Parity, with its machine and no answers in its states."""

    machine = tasks.get("parity").machine

    def answer(self, tokens):
        return tokens.cumsum(1) % 2


class Even(Speechless):
    readout = torch.arange(2)
'''
QUICK = ["training.steps=2", "training.batch=4", "training.validation_samples=4", "tests.samples=4"]
BENCH = [word for setting in QUICK for word in ("-s", setting)]
BENCH += ["--train-length", "6", "--test-lengths", "12", "--workers", "1", "--device", "cpu"]
RUNS = {
    "model": ("parity", "mine.py:Net"),
    "task": ("mine.py:Even", "lstm"),
    "both": ("mine.py:Even", "mine.py:Net"),
    "no machine": ("mine.py:Firsts", "lstm"),
    "no answers": ("mine.py:Speechless", "mine.py:Net"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(CODE)
    return folder


@pytest.fixture(scope="module")
def runs(folder) -> dict[str, str]:
    """The directory of one run of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for what, (task, model) in RUNS.items():
            assert main(["bench", task, "-m", model, *BENCH, "--out", f"runs/{what}"]) == 0
        return {what: str(lab.load(f"runs/{what}")[0].path) for what in RUNS}


@pytest.fixture
def say(folder, monkeypatch, capsys):
    """Calls lengthwise in the folder, by a process that knows nothing of its classes."""
    monkeypatch.chdir(folder)

    def said(*words) -> tuple[int, str, str]:
        for name in ("_given", "_asked", "_allowed", "_named", "_texts"):
            monkeypatch.setattr(own_code, name, type(getattr(own_code, name))())
        for name in [name for name in sys.modules if name.startswith("lengthwise_imported_mine")]:
            del sys.modules[name]
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "unexpected" not in err
        return code, out, err

    return said


@pytest.fixture
def wrong(say):
    """Returns the one line that a wrong call ends with."""

    def line(*words) -> str:
        code, out, err = say(*words)
        assert (code, out, err[:7], err.count("\n")) == (2, "", "error: ", 1)
        return err

    return line


@pytest.mark.parametrize("what", RUNS)
def test_report_runs_nothing_of_them(what, runs, say, tmp_path):
    code, out, _ = say("report", runs[what], "--html", tmp_path / "page.html")
    assert code == 0
    assert RUNS[what][1] in out
    assert (tmp_path / "page.html").is_file()
    assert not any(name.startswith("lengthwise_imported_mine") for name in sys.modules)


@pytest.mark.parametrize("what", RUNS)
@pytest.mark.parametrize(
    "call", ["inspect RUN clusters", "inspect RUN receptive-field", "inspect RUN algebra", "certify RUN"]
)
def test_their_code_waits_for_trust(what, call, runs, wrong):
    assert "--trust" in wrong(*(runs[what] if word == "RUN" else word for word in call.split()))


@pytest.mark.parametrize("what", RUNS)
@pytest.mark.parametrize("view", ["clusters", "receptive-field"])
def test_inspect_with_trust(what, view, runs, say):
    code, out, err = say("inspect", runs[what], view, "--length", 8, "--trust")
    assert code == 0, err
    assert RUNS[what][1] in out


@pytest.mark.parametrize("what", RUNS)
def test_attention_is_refused_to_models_without(what, runs, wrong):
    assert "Use a model such as transformer" in wrong("inspect", runs[what], "attention", "--trust")


@pytest.mark.parametrize("what", ["model", "task", "both"])
def test_certify_with_trust(what, runs, say):
    """Two steps teach nothing, so a short word refutes each, and the command that is printed shows it again."""
    code, out, err = say("certify", runs[what], "--trust", "--budget", "2", "--no-picture")
    assert code == 1, err
    assert "REFUTED" in out
    again = shlex.split(out.rpartition("lengthwise ")[2])
    assert "--trust" in again
    code, out, _ = say(*again)
    assert (code, out.startswith("refuted: after the word ")) == (1, True)


def test_a_proof_for_a_task_of_ones_own_is_checked_and_shown_without_its_code(folder, say):
    """By an RNN whose weights are written down: u = [x + s >= 1], v = [x + s >= 2] and s = u - v."""
    call = ["bench", "mine.py:Even", "-m", "rnn", "-s", "rnn.width=2", *BENCH, "--out", "proved"]
    assert say(*call)[0] == 0
    run = lab.load("proved")[0].path
    weights = load_file(run / "model.safetensors")
    written = {
        "embedding.weight": [[0, 0], [1, 0]],
        "weight_ih_l0": [[8, 0], [8, 0]],
        "weight_hh_l0": [[4, -4], [4, -4]],
        "bias_ih_l0": [-4, -12],
        "bias_hh_l0": [0, 0],
        "head.weight": [[-4, 4], [4, -4]],
        "head.bias": [4, -4],
    }
    for name in weights:
        (numbers,) = [numbers for end, numbers in written.items() if name.endswith(end)]
        weights[name] = torch.tensor(numbers, dtype=torch.float32)
    save_file(weights, run / "model.safetensors")
    result = json.loads((run / "result.json").read_text())
    del result["sha256"]
    result["files"]["model.safetensors"] = digest_of(run / "model.safetensors")
    (run / "result.json").write_text(json.dumps({**result, "sha256": digest(canonical(result))}))
    code, out, err = say("certify", run, "--trust", "--budget", "2", "--out", "proof.json", "--no-picture")
    assert (code, out.startswith("PROVED")) == (0, True), err
    code, out, err = say("certify", "--check", "proof.json", "--model", run)
    assert (code, out.startswith("accepted: ")) == (0, True), err
    assert "is assumed" not in out
    code, out, _ = say("report", run, "--html", "proved.html")
    assert "PROVED for every length, of the machine kept with it" in " ".join(out.split())
    assert "PROVED for every length" in (folder / "proved.html").read_text()
    assert not any(name.startswith("lengthwise_imported_mine") for name in sys.modules)


def test_a_wrong_word_of_ones_own_classes_is_shown_as_it_was_kept(runs, say):
    for what in ("model", "task", "both"):
        assert say("certify", runs[what], "--trust", "--budget", "2", "--no-picture")[0] == 1
        assert "(as it was kept; " in " ".join(say("report", runs[what])[1].split())
        assert not any(name.startswith("lengthwise_imported_mine") for name in sys.modules)


@pytest.mark.parametrize(
    ("what", "remedy"), [("no machine", "has no machine to be held against. Pass a"), ("no answers", "Set readout, a")]
)
def test_a_task_that_no_model_can_be_held_against_is_said_to_be_one(what, remedy, runs, say, wrong):
    assert remedy in wrong("certify", runs[what], "--trust")
    code, out, _ = say("certify", runs[what], "--task", "parity", "--trust", "--budget", "2")
    assert (code, "REFUTED" in out) == (1, True)
    wrong("compile", RUNS[what][0], "--out", "compiled")
    wrong("inspect", runs[what], "algebra", "--trust")


@pytest.mark.slow
def test_compile(folder, say):
    code, _, err = say("compile", "mine.py:Even", "--out", "compiled")
    assert code == 0, err
    assert (folder / "compiled" / "model.safetensors").is_file()


def test_a_model_in_a_folder_is_certified_for_a_task_of_ones_own(folder, say, wrong):
    theory.regular_gpt(tasks.get("parity").machine).save_pretrained(folder / "built")
    code, out, err = say("certify", "built", "--task", "mine.py:Even", "--budget", "4")
    assert code == 0, err
    assert "PROVED" in out
    wrong("certify", "built", "--task", "mine.py:Firsts")


@pytest.mark.parametrize("name", ["Even", "Firsts"])
def test_export(name, folder, say):
    call = ["export", f"mine.py:{name}", "--lengths", "8", "--samples", "4", "-s", "task.letters=2"]
    assert say(*call, "--out", f"exported-{name}")[0] == 0
    assert any((folder / f"exported-{name}").iterdir())


@pytest.mark.parametrize(("name", "option"), [("Net", "width"), ("Even", "letters"), ("Firsts", "letters")])
def test_list_names_their_options(name, option, say):
    code, out, err = say("list", f"mine.py:{name}")
    assert code == 0, err
    assert option in out


@pytest.mark.parametrize(
    "call",
    [
        ["list", "mine.py:Nothing"],
        ["bench", "mine.py:Net", "-m", "lstm"],
        ["bench", "parity", "-m", "mine.py:Even"],
        ["export", "mine.py:Net", "--lengths", "8", "--out", "x"],
        ["compile", "mine.py:Net", "--out", "x"],
    ],
)
def test_a_class_of_another_kind_is_refused_with_those_of_the_file(call, wrong):
    assert "In it: " in wrong(*call)


@pytest.mark.parametrize("what", RUNS)
@pytest.mark.parametrize("trust", [[], ["--trust"]])
def test_eval_reads_no_run_on_strings(what, trust, runs, wrong):
    assert "lengthwise train" in wrong("eval", "perplexity", runs[what], *trust)


def test_eval_of_ones_own_model_on_text(folder, say, wrong):
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran"]
    (folder / "corpus").mkdir()
    for i in range(40):
        text = " ".join(words[(i * j + j * j) % len(words)] for j in range(200))
        (folder / "corpus" / f"{i}.txt").write_text(f"{i}: {text}")
    train = ["train", "corpus", "-m", "mine.py:Net", "--train-length", "8", "--test-lengths", "8,16", "--device", "cpu"]
    train += ["-s", "training.steps=2", "-s", "training.batch=4", "-s", "text.held_out=0.3", "-s", "Net.width=6"]
    assert say(*train, "--vocabulary", "300", "--out", "text")[0] == 0
    (run,) = lab.load("text")
    assert run.experiment.model.options == {"width": 6}
    needle = ["needle", "--lengths", "128", "--samples", "1", "--depths", "0.5"]
    for call in (["perplexity"], needle):
        assert "--trust" in wrong("eval", *call, run.path, "--device", "cpu")
    assert say("eval", "perplexity", run.path, "--device", "cpu", "--trust")[0] == 0
    for call in (["eval", *needle], ["eval", "perplexity", "--convert", "chain"], ["inspect"], ["certify"]):
        wrong(*call, run.path, *(["clusters"] if call == ["inspect"] else []), "--trust")


@pytest.mark.parametrize("models", [["mine.py:Net,lstm"], ["lstm,mine.py:Net"], ["mine.py:Net", "-m", "lstm"]])
def test_a_class_shares_one_option_with_others(models, folder, say):
    saved = folder / "saved.toml"
    call = ["bench", "parity", "-m", *models, *BENCH, "--sweep", "Net.width=4,5", "--save-config", saved]
    assert say(*call, "--out", "shared")[0] == 0
    content = tomllib.loads(saved.read_text())
    assert sorted(content["models"]) == ["lstm", "mine.py:Net"]
    assert content["sweep"] == {"mine.py:Net": {"width": [4, 5]}}
    assert say("bench", "--config", saved, "--out", "shared")[2].count("found finished, ") == 3
    assert say("report", "shared", "--sweep", "Net.width")[0] == 0


def test_a_comma_in_the_path_of_a_class_parts_nothing(folder, say):
    (folder / "a,b").mkdir()
    (folder / "a,b" / "other.py").write_text(CODE)
    call = ["bench", "parity", "-m", "lstm,mine.py:Net", "-m", "a,b/other.py:Net", *BENCH, "--out", "commas"]
    assert say(*call)[0] == 0
    names = {run.experiment.model.name for run in lab.load("commas")}
    assert names == {"lstm", "a,b/other.py:Net", "mine.py:Net"}


def test_a_class_is_named_alone_in_settings(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "other.py").write_text(CODE)
    mine, other = "mine.py:Net", "other.py:Net"
    (alone,) = lab.plan("parity", mine, settings={"Net.width": 6})
    assert alone.hash == lab.plan("parity", mine, settings={f"{mine}.width": 6})[0].hash
    assert alone.model.options == {"width": 6}
    swept = lab.plan("mine.py:Even", [mine, "lstm"], sweep={"Net.width": [4, 6]}, settings=["Even.letters=1"])
    assert [e.model.options.get("width") for e in swept] == [4, None, 6]
    assert {e.task.params["letters"] for e in swept} == {1}
    with pytest.raises(Error, match=r"Net.width: Net is each of mine.py:Net, other.py:Net. Give the whole name"):
        lab.plan("parity", [mine, other], settings={"Net.width": 6})
    with pytest.raises(Error, match=r"mine.py:Net.width is set twice"):
        lab.plan("parity", mine, settings={"Net.width": 6, f"{mine}.width": 5})
    with pytest.raises(Error, match="part of the question"):
        lab.plan("mine.py:Even", mine, sweep={"Even.letters": [1, 2]})
    with pytest.raises(Error, match="Unknown setting 'Nett'"):
        lab.plan("parity", mine, settings={"Nett.width": 6})
