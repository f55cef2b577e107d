"""The zoo: every proof is accepted, every refuting string is wrong, and every network can be taken away."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from lengthwise import lab
from lengthwise.cli import main
from lengthwise.errors import Error, UnknownName
from lengthwise.lab.collection import (
    CARD,
    CERTIFICATE,
    FILE,
    LANGUAGE_MODEL,
    card,
    network_folder,
    networks,
    write_network,
    zoo_folder,
)
from lengthwise.verify.checker import check
from lengthwise.verify.claim import claim_of

NAMES = networks()
PROVED = [name for name, about in NAMES.items() if about["verdict"] == "proved"]
LANGUAGE = [name for name, about in NAMES.items() if about["verdict"] == LANGUAGE_MODEL]
REFUTED = [name for name, about in NAMES.items() if about["verdict"] == "refuted"]


def test_there_is_one_of_each_kind():
    assert all((PROVED, REFUTED, LANGUAGE))
    assert sum(file.stat().st_size for file in zoo_folder().rglob("*")) < 10e6


LONG = "modular-arithmetic-regular-gpt"
"""Its proof has 22,930 conditions over 154 parts: two minutes."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == LONG else name for name in PROVED]
)
def test_a_proof_is_accepted(name):
    report = check(certificate_of(name), network_folder(name))
    assert (report.arithmetic, report.assumed) == ("float32", False)


@pytest.mark.parametrize("name", PROVED)
def test_a_proof_is_of_the_claim_of_its_task(name):
    certificate = certificate_of(name)
    assert (certificate["made"], certificate["inference"]) == (NAMES[name]["made"], "raw")
    assert certificate["claim"] == claim_of(lab.zoo(name)[1]).to_json()


def certificate_of(name):
    return json.loads((network_folder(name) / CERTIFICATE).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_is_right_on_strings_of_the_task(name):
    model, task = lab.zoo(name)
    strings = task.test_set(task.lengths(90, 100)[-1], 16)
    with torch.no_grad():
        answers = model(strings.tokens).argmax(-1)
    assert strings.mask[:, -1].all()
    assert torch.equal(answers[strings.mask], strings.targets[strings.mask])


@pytest.mark.parametrize("name", REFUTED)
def test_a_refuting_string_is_answered_wrongly(name):
    (model, task), about = lab.zoo(name), NAMES[name]
    word = torch.tensor([about["word"]])
    claim = claim_of(task)
    with torch.no_grad():
        assert int(model(word)[0, -1].argmax()) == about["said"] != about["right"]
    assert int(claim.answers[claim.machine.run(word.numpy())[0, -1]]) == about["right"]


TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n" * 40


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_model_reads_and_writes_and_claims_no_verdict(name):
    """Here, and as transformers loads it; as its network.json says, in float32 alone."""
    (model, tokenizer), about = lab.zoo(name), NAMES[name]
    alone = AutoModelForCausalLM.from_pretrained(network_folder(name))
    tokens = torch.tensor([tokenizer(TEXT)["input_ids"][:128]])
    assert {weight.dtype for weight in alone.parameters()} == {torch.float32}
    assert about["parameters"] == sum(weight.numel() for weight in alone.parameters())
    with torch.no_grad():
        logits = alone(tokens).logits
        torch.testing.assert_close(model(tokens), logits)
    # It has read more than the frequencies of tokens, which give about 5 nats.
    assert torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:]) < 3.5
    written = alone.generate(tokens[:, :8], max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert tokenizer.decode(written[0]).startswith("First Citizen")
    curve = [loss for _, loss in about["curve"]]
    assert curve[-1] < min(curve) + 0.01  # the last checkpoint, which nothing chose
    assert about["loss"].keys() == {"256", "512", "1024"}
    assert all(at["low"] <= at["times"] <= at["high"] for at in about["loss"].values())
    assert not (network_folder(name) / CERTIFICATE).exists()
    assert not {"word", "task", "accuracy"} & about.keys()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LANGUAGE])
def test_its_card_says_what_its_network_says(name):
    assert (network_folder(name) / CARD).read_text(encoding="utf-8") == card(name, NAMES[name])


def test_transformers_loads_one():
    model, _ = lab.zoo("parity-rnn")
    alone = AutoModelForCausalLM.from_pretrained(network_folder("parity-rnn"))
    tokens = torch.randint(2, (3, 50))
    torch.testing.assert_close(alone(tokens).logits[..., :2], model(tokens))


def test_one_is_copied_out(tmp_path, capsys):
    out = tmp_path / "mine"
    assert main(["zoo", "parity-rnn", "--out", str(out)]) == 0
    assert "Proved right on every string of every length" in capsys.readouterr().out
    assert {file.name for file in out.iterdir()} >= {FILE, CARD, CERTIFICATE, "config.json", "model.safetensors"}
    assert main(["certify", "--check", str(out / CERTIFICATE), "--model", str(out)]) == 0
    assert main(["zoo", "parity-rnn", "--out", str(out)]) == 2
    assert main(["zoo", "parity-rnm"]) == 2
    assert "Did you mean 'parity-rnn'" in capsys.readouterr().err


def test_the_list_names_all(capsys):
    assert main(["zoo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == NAMES.keys()
    assert main(["zoo"]) == 0
    assert all(name in capsys.readouterr().out for name in ["parity-rnn"])


def test_another_folder_can_be_the_zoo(tmp_path, monkeypatch):
    monkeypatch.setenv("LENGTHWISE_ZOO", str(tmp_path))
    assert lab.zoo() == []
    with pytest.raises(UnknownName):
        lab.zoo("parity-rnn")
    monkeypatch.setenv("LENGTHWISE_ZOO", str(tmp_path / "nowhere"))
    with pytest.raises(Error, match="LENGTHWISE_ZOO"):
        lab.zoo()


class Hub:
    """Stands for the Hugging Face hub."""

    sent: dict

    def create_repo(self, repo_id, private, exist_ok):
        if "/" not in repo_id:
            raise ValueError("no such organisation")
        if repo_id == "me/offline":
            raise Exception("Name or service not known")
        Hub.sent = {"to": repo_id, "private": private}

    def upload_folder(self, repo_id, folder_path, commit_message):
        from pathlib import Path

        Hub.sent["files"] = {file.name: file.read_bytes() for file in Path(folder_path).iterdir()}


def test_a_run_is_sent_with_its_card(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    settings = {"training.steps": 2, "model.width": 8}
    [run] = lab.bench("parity", ["rnn"], train_length=4, test_lengths="8", settings=settings, root=tmp_path)
    assert main(["push", str(run.path), "--to", "me/mine"]) == 0
    assert (Hub.sent["to"], Hub.sent["private"]) == ("me/mine", False)
    assert Hub.sent["files"].keys() >= {CARD, FILE, "config.json", "model.safetensors"}
    about = json.loads(Hub.sent["files"][FILE])
    assert about["verdict"] == "unknown"
    assert Hub.sent["files"][CARD].decode() == card("me/mine", about)
    assert "(2 steps, seed 0)" in card("me/mine", about)
    training = {**about["training"], "steady": True, "spans": True}
    spans = card("me/mine", {**about, "training": training})
    assert "on their answers and those of every span, and on nothing else (2 steps, seed 0, steady)" in spans
    assert main(["push", str(run.path), "--to", "mine"]) == 2
    assert "no such organisation" in capsys.readouterr().err
    on_text = run._replace(experiment=replace(run.experiment, data=lab.TextSpec("a text")))
    with pytest.raises(Error, match="it was trained on text"):
        write_network(on_text, tmp_path / "none", None)
    assert main(["push", str(run.path), "--to", "me/offline"]) == 2
    assert "me/offline could not be written: Name or service not known" in capsys.readouterr().err
