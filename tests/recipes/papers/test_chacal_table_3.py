"""Table 3 of ChaCAL on a tiny GPT-2, from the command line to the numbers."""

import json
import math
import re
import shutil
import signal

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from lengthwise import Error, lab, recipes
from lengthwise.cli import main
from lengthwise.errors import UnknownName
from lengthwise.train import Interrupted

WORDS = ["the", "cat", "and", "dog", "saw", "a", "bird", "in", "tree", "on", "hill", "by", "lake"]


def sentences(n, seed):
    """Documents in which every word but the first follows from the one before it."""
    draw = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(WORDS), (n, 2), generator=draw).tolist()
    return [" ".join(WORDS[(a + i * (1 + b % 3)) % len(WORDS)] for i in range(40)) for a, b in starts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint whose tokens are bytes, with the dropout that GPT-2 has."""
    path = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: i for i, letter in enumerate([*alphabet, "<|endoftext|>"])}, []))
    plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|endoftext|>").save_pretrained(path)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=257, n_positions=64, n_embd=32, n_layer=2, n_head=4, eos_token_id=256)
    GPT2LMHeadModel(config).save_pretrained(path)
    return path


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in sentences(60, seed=1)))
    return path


def call(folder, text, *more):
    return [
        "reproduce",
        "chacal",
        "table-3",
        "--scale",
        "smoke",
        "-s",
        f"checkpoint={folder}",
        "-s",
        f"text={text}",
        *more,
    ]


def by_title(said):
    return {panel["title"]: panel["data"] for panel in said["panels"]}


def test_the_table_has_all_rows_and_finished_parts_are_found_again(folder, text, tmp_path, capsys):
    asked = call(folder, text, "--out", str(tmp_path / "runs"), "--json", "-s", "lr=1e-2", "-s", "steps=12")
    assert main(asked) == 0
    out, err = capsys.readouterr()
    found = by_title(json.loads(out))
    rows = found["Perplexity on held-out text"]["rows"]
    assert {name: row["published"] for name, row in rows.items()} == {
        "as it is": 23.78,
        "trained on": 20.15,
        "ChaCAL, not trained on": None,
        "ChaCAL, trained on": 21.46,
    }
    # Random weights know nothing of 257 tokens; a dozen steps tell that letters are more frequent than other bytes.
    assert rows["as it is"]["measured"] == pytest.approx(257, rel=0.15)
    for name in ("trained on", "ChaCAL, trained on"):
        assert 1 < rows[name]["measured"] < 60
    assert rows["as it is"]["measured"] != rows["ChaCAL, not trained on"]["measured"]
    assert {row["setting"] for row in found["What is not as published"]} == {"steps", "batch", "block", "lr", "warmup"}
    assert re.search(r"\[[12]/2\] pretrained seed 0: perplexity", err)
    assert re.search(r"\[[12]/2\] pretrained-chain seed 0: perplexity", err)

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("result.json")}
    assert len(before) == 2
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert by_title(json.loads(out))["Perplexity on held-out text"]["rows"] == rows
    assert "step" not in err
    assert before == {path: path.stat().st_mtime_ns for path in before}


def finished(recipe, root):
    """The recipe's runs, by the name of the model."""
    outcomes = lab.run(recipe.experiments, root, workers=1)
    assert all(outcome.run for outcome in outcomes), outcomes
    return {outcome.experiment.model.name: outcome.run for outcome in outcomes}


def rows(recipe, runs):
    return recipe.panels(list(runs.values()))[0].data["rows"]


def test_what_was_trained_loads_again_and_scores_as_reported(folder, text, tmp_path):
    from lengthwise.convert.chained import ChainGPT2LMHeadModel
    from lengthwise.text import documents, pack_train_and_test

    asked = [f"checkpoint={folder}", f"text={text}", "steps=6", "lr=1e-2"]
    runs = finished(recipes.get("chacal", "table-3", "smoke", asked), tmp_path)
    train, test = documents.split(documents.read([text]), 0.1)
    _, blocks, *_ = pack_train_and_test(train, test, AutoTokenizer.from_pretrained(folder), 16, 8)
    blocks = blocks.long()
    for name, expected in (("pretrained", GPT2LMHeadModel), ("pretrained-chain", ChainGPT2LMHeadModel)):
        model = AutoModelForCausalLM.from_pretrained(runs[name].path / "model")
        assert type(model) is expected
        # transformers' own loss is the mean over the same tokens.
        loss = model.eval()(input_ids=blocks, labels=blocks).loss.item()
        reported = runs[name].result["checkpoints"]["last"]["perplexity"]
        assert math.exp(loss) == pytest.approx(reported, rel=1e-5)
        assert AutoTokenizer.from_pretrained(runs[name].path / "model").eos_token == "<|endoftext|>"


class Interrupting:
    """Presses Ctrl-C at these steps of a run, once each."""

    def __init__(self, *steps):
        self.steps, self.heard = list(steps), []

    def begin(self, experiment): ...

    def waiting(self, experiment): ...

    def end(self, experiment, outcome): ...

    def advance(self, progress):
        self.heard.append((progress.what, progress.step))
        if self.steps and progress.step == self.steps[0]:
            self.steps.pop(0)
            signal.raise_signal(signal.SIGINT)


def test_a_run_that_is_stopped_goes_on_as_if_nothing_had_been(folder, text, tmp_path):
    recipe = recipes.get("chacal", "table-3", "smoke", [f"checkpoint={folder}", f"text={text}", "steps=9", "lr=1e-2"])
    listener = Interrupting(3, 8)
    for _ in range(2):
        with pytest.raises(Interrupted, match="all state is kept"):
            lab.run(recipe.experiments, tmp_path / "stopped", workers=1, progress=listener)
    for experiment in recipe.experiments:
        assert (tmp_path / "stopped" / experiment.directory).exists() == (experiment is recipe.experiments[0])
    lab.run(recipe.experiments, tmp_path / "stopped", workers=1, progress=listener)
    assert listener.heard == [(e.hash, n) for e in recipe.experiments for n in range(1, 10)]
    stopped, whole = (finished(recipe, tmp_path / where) for where in ("stopped", "whole"))
    assert rows(recipe, stopped) == rows(recipe, whole)
    assert all(stopped[name].metrics == run.metrics for name, run in whole.items())


def test_a_changed_text_or_checkpoint_is_refused(folder, text, tmp_path):
    """An experiment names both by what is in them; its record says where they were."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    first, second = recipes.get("chacal", "table-3", "smoke", [f"checkpoint={copy}", f"text={text}"]).experiments
    elsewhere = shutil.copy(text, tmp_path / "elsewhere.jsonl")
    moved = recipes.get("chacal", "table-3", "smoke", [f"checkpoint={folder}", f"text={elsewhere}"]).experiments
    assert [e.hash for e in moved] == [first.hash, second.hash]
    assert moved[0].to_json() != first.to_json()
    assert lab.Experiment.from_json(first.to_json()).data.files == (str(text),)
    text.write_text(text.read_text() + json.dumps({"text": "a new one"}) + "\n")
    (outcome,) = lab.run([first], tmp_path / "runs", workers=1)
    assert "the text changed since the experiment was planned" in outcome.error
    (copy / "generation_config.json").write_text("{}")
    (outcome,) = lab.run([first], tmp_path / "runs", workers=1)
    assert "its files changed since the experiment was planned" in outcome.error


def test_a_run_on_text_is_reported_beside_others(folder, text, tmp_path, capsys):
    recipe = recipes.get("chacal", "table-3", "smoke", [f"checkpoint={folder}", f"text={text}"])
    runs = finished(recipe, tmp_path / "runs")
    assert main(["report", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    last = runs["pretrained-chain"].result["checkpoints"]["last"]["perplexity"]
    assert "pretrained-chain seed 0" in said
    assert f"{last:.4g}" in said
    assert main(["report", str(tmp_path / "runs"), "--json", "--html", str(tmp_path / "page.html")]) == 0
    assert json.loads(capsys.readouterr().out)["panels"][0]["data"][0]["last"] == last
    assert "pretrained-chain seed 0" in (tmp_path / "page.html").read_text()


def test_a_model_that_cannot_be_converted_is_refused_before_anything_is_trained(folder, text, tmp_path):
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "other")
    config = GPTNeoXConfig(
        vocab_size=257, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path / "other")
    with pytest.raises(Error, match="to_chain: the model must be a GPT2Model"):
        assert recipes.get(
            "chacal", "table-3", "smoke", [f"checkpoint={tmp_path / 'other'}", f"text={text}"]
        ).experiments


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "needs checkpoint and text. Add --set checkpoint=… --set text=…"),
        (["text=nowhere.txt"], "needs checkpoint"),
        (["checkpoint=a", "text=b", "steps=some"], "steps must be a whole number at least 1 or None, got 'some'"),
        (["checkpoint=a", "checkpoint=c", "text=b"], "checkpoint is one value, got a and c"),
        (["checkpoint=a", "text=b", "lr=-1"], "lr must be a number above 0"),
        (["checkpoint=a", "text=b", "precision=fp8"], "precision must be 'fp32', 'bf16' or None"),
        (["checkpoint"], "is NAME=VALUE, got 'checkpoint'"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(Error, match="^.*" + said.replace(".", r"\.")):
        assert recipes.get("chacal", "table-3", "smoke", settings).experiments


def test_unknown_settings_are_refused_everywhere():
    with pytest.raises(UnknownName, match="Did you mean 'checkpoint'"):
        recipes.get("chacal", "table-3", "smoke", ["checkpiont=a"])
    with pytest.raises(Error, match="demo parity takes no settings, got 'text=a'"):
        recipes.get("demo", "parity", "smoke", ["text=a"])
