"""`lengthwise train` and `lengthwise eval`: what they print, and what they refuse."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lengthwise import lab
from lengthwise.cli import console, main
from lengthwise.text import segment_ends

from ..lab import corpora

LENGTHS = ["--train-length", "16", "--test-lengths", "16,32", "--vocabulary", "280"]
SETTINGS = ["training.steps=4", "training.batch=4", "training.validation_samples=4", "text.held_out=0.3"]
TINY = [*LENGTHS, "--workers", "1", "--device", "cpu", "-s", "model.width=8"]
TINY += [word for setting in SETTINGS for word in ("-s", setting)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpora.write(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def root(corpus, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    assert train(corpus, root) == 0
    return root


def train(corpus, root, *more):
    models = ["-m", "transformer position=rope layers=1 heads=2", "-m", "transformer position=alibi layers=1 heads=2"]
    return main(["train", str(corpus), *models, *TINY, "--out", str(root), *more])


def test_train_again_from_its_file_finds_the_runs_finished(corpus, root, capsys):
    assert train(corpus, root, "--save-config", str(root / "study.toml")) == 0
    out, _ = capsys.readouterr()
    assert "Perplexity by length: corpus" in out
    assert "transformer position=alibi" in out
    page = (root / "index.html").read_text()
    assert "Language models on corpus" in page
    assert main(["train", "--config", str(root / "study.toml"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.count("found finished, perplexity ") == 2
    assert [row["length"] for row in json.loads(out)["rows"]] == [16, 32, 16, 32]


def test_one_long_file_is_divided_and_a_line_says_so(tmp_path, capsys):
    book = tmp_path / "book.txt"
    book.write_text("".join(f"Chapter {i} is about {i + 1} cats.\n\n" for i in range(300)))
    call = ["train", str(book), "-m", "transformer layers=1 heads=2", *TINY, "--out", str(tmp_path / "runs")]
    assert main([*call, "-s", "training.steps=1"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "divided" in line or ".py" in line] == [
        f"warning: {book}: one document, divided at the ends of paragraphs and lines into 92."
    ]


def test_eval_finds_what_the_run_reported(root, told):
    run = lab.load(root)[0]
    found = told("eval", "perplexity", run.path, "--device", "cpu")
    losses = run.result["checkpoints"]["last"]["losses"]
    assert {n: each["loss"] for n, each in found["lengths"].items()} == pytest.approx(losses)
    assert (found["way"], found["text"], found["seen"]) == ("windows", "corpus (held out)", "held out")
    same = ["--corpus", *run.experiment.data.files, "--tokens", "64", "--lengths", "8", "--store", str(root)]
    assert told("eval", "perplexity", run.path, *same, "--device", "cpu")["seen"] == "trained on"


def test_eval_reads_a_saved_folder_and_any_text(root, corpus, tmp_path, capsys):
    folder = lab.load(root)[0].path / "model"
    call = ["eval", "perplexity", str(folder), "--corpus", str(corpus / "000.txt"), "--lengths", "8,24"]
    call += ["--way", "last-token", "--samples", "6", "--store", str(tmp_path), "--device", "cpu"]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert "Perplexity by length" in out
    assert "drawn at random" in out
    assert "is not known" in " ".join(out.split()), "a folder does not say what it was trained on"
    assert "24 tokens: perplexity" in err


def test_eval_asks_for_a_needle_by_length_and_depth(root, corpus, tmp_path, capsys, told):
    run = lab.load(root)[0]
    few = ["--lengths", "130,150", "--samples", "2", "--device", "cpu"]
    needle = ["eval", "needle", str(run.path), *few, "--depths", "0,1", "-s", "choices=4"]
    assert main([*needle, "--html", str(tmp_path / "page.html")]) == 0
    out, err = capsys.readouterr()
    assert "a needle in a haystack" in out
    assert "all depths" in out
    assert "4 of 4 lengths and depths" in err
    assert "a needle in a haystack" in (tmp_path / "page.html").read_text()
    beside = ["--with-perplexity", "--tokens", "300", "--store", tmp_path]
    found = told("eval", "variables", run.path / "model", *few, "--corpus", corpus, "-s", "hops=1", *beside)
    assert (found["what"], found["settings"]["hops"], found["lengths"]) == ("variables", 1, [130, 150])
    assert set(found["perplexity"]["lengths"]) == {"130", "150"}


def test_a_haystack_of_needles_needs_no_corpus(root, told):
    call = ["eval", "needle", lab.load(root)[0].path / "model", "--lengths", "130", "--depths", "0.5"]
    for haystack in ("needles", "repeated"):
        assert told(*call, "--samples", "1", "--device", "cpu", "-s", f"haystack={haystack}")["text"] == "no text"


def test_cliff_says_up_to_which_length_models_are_usable(root, corpus, tmp_path, capsys, told):
    rope, alibi = (run.path for run in lab.load(root))
    few = ["--windows", "4", "--needles", "0", "--device", "cpu", "--store", str(tmp_path)]
    call = ["cliff", str(rope), str(alibi / "model"), "--corpus", str(corpus), "--trained", "16", *few]
    measured = told(*call, "--at-least", "17", "--html", tmp_path / "page.html")["models"]
    assert [(each["trained"], each["window"], each["stride"]) for each in measured] == [(16, 64, 8)] * 2
    assert measured[0]["usable"] > 16
    assert "usable up to" in (tmp_path / "page.html").read_text()
    assert main([*call, "--at-least", "65"]) == 1
    out, err = capsys.readouterr()
    assert "4 of 4 windows" in err
    assert "usable up to" in out
    converted = ["cliff", str(rope), *few, "--convert", "yarn factor=2 trained=16"]
    assert main(converted) == 0, "a run knows its text and the length it was trained at"
    assert f"{rope.name} + yarn factor=2 trained=16" in " ".join(capsys.readouterr().out.split())


def test_numbers_that_are_not_finite_are_null(capsys):
    console.emit({"a": [math.inf, 0.5], "b": math.nan})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": [None, 0.5], "b": None}


def wrong(root, corpus, tmp_path):
    """Calls that are wrong, and words of the line that says so."""
    folder = str(lab.load(root)[0].path / "model")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(bytes(range(128, 256)) * 9)
    (tmp_path / "short.txt").write_text("the cat")
    larger = shutil.copytree(folder, tmp_path / "larger")
    tokenizer = json.loads((larger / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": 280, "content": "<more>"})
    (larger / "tokenizer.json").write_text(json.dumps(tokenizer))
    eval_ = ["eval", "perplexity", folder, "--device", "cpu", "--store", str(tmp_path), "--lengths", "8", "--corpus"]
    mine = ["-m", "bipe", *TINY, "--out", str(tmp_path / "runs")]
    return [
        ([*eval_, str(tmp_path / "empty.txt")], "there is no text in it"),
        ([*eval_, str(tmp_path / "binary.txt")], "must be UTF-8"),
        ([*eval_, str(tmp_path / "short.txt")], "must fill a window of 8 tokens"),
        ([*eval_, str(tmp_path / "nowhere.txt")], "no such file or folder"),
        ([*eval_, str(corpus), "--tokenizer", str(larger)], "knows 280 tokens and the tokenizer has 281"),
        (["eval", "perplexity", folder, "--corpus", str(corpus)], "Name some, such as --lengths 512,1024"),
        (["eval", "perplexity", folder, "--lengths", "8"], "Give a corpus, such as --corpus book.txt"),
        (["eval", "perplexity", folder, "--way", "word"], "--way must be 'windows' or 'last-token'"),
        (["eval", "surprise", folder], "No such command 'surprise'"),
        (["cliff", folder, "--corpus", str(corpus)], "Name it, as in --trained 512"),
        (["cliff", folder, "--corpus", str(corpus), "--trained", "16"], "must hold its facts"),
        (["cliff", folder, "--trained", "16"], "Give a corpus, such as --corpus book.txt"),
        (["eval", "needle", folder, "--lengths", "40", "--corpus", str(corpus)], "A prompt must hold its facts"),
        (["eval", "needle", folder, "--lengths", "99"], "Give a corpus, such as --corpus book.txt"),
        (["eval", "needle", folder, "--lengths", "99", "-s", "hops=2"], "Unknown setting of needle 'hops'"),
        (
            ["eval", "needle", folder, "--lengths", "99", "-s", "keys=0"],
            "needle: keys must be a whole number in 1..100",
        ),
        (["eval", "needle", folder, "--lengths", "99", "--depths", "2"], "--depths must be"),
        (
            ["eval", "perplexity", folder, "--lengths", "8", "-s", "keys=2"],
            "eval perplexity has no option -s",
        ),
        (
            ["eval", "variables", folder, "--lengths", "99", "--depths", "1"],
            "eval variables has no option --depths",
        ),
        (["eval", "perplexity", folder, "--lengths", "8", "--depths", "1"], "eval perplexity has no option --depths"),
        (["eval", "needle", folder, "--lengths", "99", "-s", "haystack=text"], "Give a corpus"),
        (
            ["eval", "perplexity", folder, "--lengths", "8", "--convert", '{"name":"yarn"}'],
            "conversion 'yarn' needs factor. Add factor=…",
        ),
        (["train", str(tmp_path / "empty.txt"), *mine], "there is no text in it"),
        (
            ["train", str(tmp_path / "short.txt"), *mine],
            "Name more files, or part the text with lines of <|endoftext|>",
        ),
        (["train", str(tmp_path), *mine, "--html", str(tmp_path / "page.html")], "--html is"),
        (["train", str(tmp_path), *mine, "--save-config", str(tmp_path / "c.toml")], "would be read as text of"),
        (["train", *mine], "train needs a CORPUS"),
        (["train", str(corpus)], "train needs a model"),
        (["train", str(corpus), *mine, "-s", "training.stps=3"], "Did you mean 'training.steps'"),
    ]


def test_wrong_calls_are_one_line_and_two(root, corpus, tmp_path, refused):
    for call, words in wrong(root, corpus, tmp_path):
        refused(call, words)


@pytest.mark.slow
def test_a_training_that_is_killed_goes_on_bit_for_bit(corpus, tmp_path):
    call = ["train", str(corpus), "-m", "bipe heads=2 layers=1", *TINY, "-s", "training.steps=60"]
    call += ["-s", "training.checkpoint_every=7", "-s", "training.sample_every=9", "--out"]
    start = [sys.executable, "-c", "import sys; from lengthwise.cli import main; sys.exit(main())", *call]
    process = subprocess.Popen([*start, str(tmp_path / "killed")], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    ends = time.monotonic() + 120
    while not list((tmp_path / "killed").glob("*/state/*.safetensors")) and time.monotonic() < ends:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list((tmp_path / "killed").rglob("result.json"))
    for where in ("killed", "whole"):
        assert main([*call, str(tmp_path / where)]) == 0
    killed, whole = (lab.load(tmp_path / where)[0] for where in ("killed", "whole"))
    assert killed.result["folders"] == whole.result["folders"]
    assert killed.result["checkpoints"] == whole.result["checkpoints"]
    rows = [[row for row in run.metrics if row["kind"] != "speed"] for run in (killed, whole)]
    assert rows[0] == rows[1]


def test_models_train_in_the_folder_of_their_corpus(tmp_path, monkeypatch, capsys):
    """The runs, the tokens and the page are no part of the corpus, so the same call finds the runs finished."""
    folder = corpora.write(tmp_path / "tales")
    monkeypatch.chdir(folder)
    call = ["train", ".", "-m", "lstm layers=1", "-m", "bipe layers=1 heads=2", *TINY]
    for out in ("runs", "."):
        assert main([*call, "--out", out]) == 0
        made = {path.name for path in (folder / out).glob("*-s0-*")}
        assert {name[:-16] for name in made} == {"tales-lstm-s0-", "tales-bipe-s0-"}
        assert (folder / out / "index.html").is_file()
        capsys.readouterr()
        assert main([*call, "--out", out]) == 0
        assert capsys.readouterr().err.count("found finished, perplexity ") == 2
        assert {path.name for path in (folder / out).glob("*-s0-*")} == made


def test_conversions_are_written_as_models_are_and_segments_end_by_a_rule(root, corpus, tmp_path, told):
    """As a line of options, as JSON with the same meaning, and as tokens."""
    folder = tmp_path / "llama"
    AutoTokenizer.from_pretrained(lab.load(root)[0].path / "model").save_pretrained(folder)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=300, max_position_embeddings=16, initializer_range=1.0, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    call = ["eval", "perplexity", folder, "--corpus", corpus, "--lengths", "32", "--device", "cpu"]
    call += ["--store", tmp_path, "--tokens", "64"]

    def loss(*conversions):
        words = (word for each in conversions for word in ("--convert", each))
        return told(*call, *words)["lengths"]["32"]["loss"]

    ends = segment_ends(AutoTokenizer.from_pretrained(folder), "sentence")
    between = loss("yarn factor=4 trained=16", json.dumps({"name": "bipe", "ends": ends, "between": True}))
    assert between == loss('{"name": "yarn", "factor": 4, "trained": 16}', "bipe ends=sentence between=true")
    assert between == loss("yarn factor=4 trained=16", '{"name": "bipe", "ends": "sentence", "between": true}')
    assert between != loss("yarn factor=4 trained=16") != loss()


def test_a_run_goes_on_without_its_rotary_positions(root, corpus, tmp_path, capsys):
    """On its own text, in windows of its length; the file of the call repeats it."""
    rope, alibi = (run.path for run in lab.load(root))
    call = ["train", "--from", str(rope), "--convert", "drope", "--out", str(root), "--workers", "1", "--device", "cpu"]
    call += ["-s", "training.steps=2", "-s", "training.batch=4", "-s", "training.validation_samples=4", "--json"]
    assert main([*call, "--save-config", str(tmp_path / "study.toml")]) == 0
    made = next(each for each in lab.load(root) if each.experiment.continues)
    assert (made.experiment.data.block, made.experiment.tests.lengths) == (16, (16, 32))
    assert lab.load_model(made).inner.config.position == {"name": "none"}
    assert made.result["checkpoints"].keys() >= {"before", "last"}
    assert main(["train", "--config", str(tmp_path / "study.toml"), "--out", str(root), "--device", "cpu"]) == 0
    assert len([each for each in lab.load(root) if each.experiment.continues]) == 1
    shutil.rmtree(made.path)  # what other tests count
    capsys.readouterr()
    wrong = {
        (*call, "-m", "bipe"): "--model is for models from scratch",
        (*call, "--seeds", "2"): "--seeds is for models from scratch",
        (*call[:-1], "-s", "objective.state_passing=1"): "Softmax keeps the keys of all tokens",
        ("train", "--from", str(rope), "--out", str(tmp_path)): f"Add --out {root}",
        ("train", "--from", str(alibi), "--convert", "drope", "--out", str(root)): "DroPE drops rotary positions",
        ("train", "--from", str(alibi / "model")): "name a corpus and --train-length",
        ("train", str(corpus), "-m", "bipe", "--convert", "drope"): "--convert is for --from",
    }
    for words, said in wrong.items():
        assert main(list(words)) == 2, words
        assert said in " ".join(capsys.readouterr().err.split())
    folder = ["train", str(corpus), "--from", str(rope / "model"), "--train-length", "16", "--test-lengths", "16"]
    folder += ["-s", "training.steps=1", "-s", "training.batch=2", "-s", "text.held_out=0.3", "--device", "cpu"]
    assert main([*folder, "--convert", "drope", "--out", str(tmp_path / "other")]) == 0
    assert lab.load(tmp_path / "other")[0].experiment.model.name == "pretrained-drope"


def test_a_length_beyond_what_a_model_was_made_for_is_noted(root, corpus, tmp_path, capsys):
    from transformers import LlamaConfig, LlamaForCausalLM

    read = lab.load_tokenizer(lab.load(root)[0])
    config = LlamaConfig(vocab_size=len(read), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, max_position_embeddings=16)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "llama")
    read.save_pretrained(tmp_path / "llama")
    call = ["eval", "perplexity", str(tmp_path / "llama"), "--corpus", str(corpus / "000.txt"), "--device", "cpu"]
    for lengths, noted in (("8,16", 0), ("8,24", 1)):
        assert main([*call, "--lengths", lengths, "--store", str(tmp_path)]) == 0
        assert capsys.readouterr().err.count("it was made for 16 tokens") == noted
