"""Language models from scratch: planned, trained, stopped and resumed, tested at every length, and loaded again."""

import json
import math
import signal
import warnings
from dataclasses import replace
from functools import partial

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config

from lengthwise import Error, lab, report
from lengthwise.evaluate import Loss, Variables
from lengthwise.lab.job import make_trainer
from lengthwise.report.sections import labelled
from lengthwise.text import corpora as corpora_of_text
from lengthwise.text import segment_ends, tokenizers, tokens_of

from . import corpora


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpora.write(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def plan(corpus, tmp_path_factory):
    return partial(corpora.plan, corpus, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def run(plan, tmp_path_factory):
    (experiment,) = plan("bipe heads=2 layers=1", settings={"training.lr": 10, "training.steps": 24})
    (outcome,) = lab.run([experiment], tmp_path_factory.mktemp("runs"), workers=1)
    assert outcome.run, outcome.traceback
    return outcome.run


def test_the_loss_falls_and_every_length_is_tested(plan, tmp_path):
    planned = plan("lstm layers=1", "transformer position=rope heads=2 layers=1", settings={"training.steps": 40})
    for outcome in lab.run(planned, tmp_path, workers=1):
        losses = [row["loss"] for row in outcome.run.metrics if row["kind"] == "train"]
        assert losses[0] == pytest.approx(math.log(280), rel=0.15)
        assert losses[-1] < 0.8 * losses[0]
        found = outcome.run.result["checkpoints"]["last"]
        assert found["losses"].keys() == found["predicted"].keys() == {"16", "32"}
        validated = [row for row in outcome.run.metrics if row["kind"] == "validation"]
        assert [row["step"] for row in validated] == list(range(4, 41, 4))
        assert min(row["loss"] for row in validated) == outcome.run.result["checkpoints"]["best"]["validation"]["loss"]


def test_what_is_reported_is_the_loss_of_the_saved_model_on_the_held_out_half(run):
    """By transformers' own loss, on text that is split and cut here once more."""
    text = lab.texts.read(run.experiment.data, 8)
    model = AutoModelForCausalLM.from_pretrained(run.path / "model").eval()
    measured = run.result["checkpoints"]["last"]["losses"]
    for length in (16, 32):
        rows = text.test[: len(text.test) // length * length].view(-1, length).long()
        with torch.no_grad():
            assert model(input_ids=rows, labels=rows).loss.item() == pytest.approx(measured[str(length)], rel=1e-5)


def test_text_has_a_start_of_its_own(plan, run):
    def starts(*models, **settings):
        return [e.model.options.get("initializer_range") for e in plan(*models, settings=settings)]

    assert starts("bipe", "transformer", "chacal", "lstm") == [0.02, 0.02, None, None]
    assert starts("bipe", "transformer", **{"model.initializer_range": 0.1, "transformer.initializer_range": 0.3}) == [
        0.1,
        0.3,
    ]
    without, null = plan("bipe initializer_range=null"), plan("bipe", settings={"model.initializer_range": None})
    assert without[0].hash_as_given == null[0].hash_as_given
    assert "initializer_range" not in without[0].model.options
    assert lab.load_model(run).inner.config.initializer_range == 0.02


def test_the_saved_tokenizer_pads_as_generation_needs_it(run):
    model = AutoModelForCausalLM.from_pretrained(run.path / "model").eval()
    tokenizer = tokenizers.load(run.path / "model")
    assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", tokenizer.eos_token)
    assert tokenizers.digest(tokenizer) == run.experiment.data.tokenizer
    prompts = ["the bird", "the bird saw the lake and the"]
    few = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    together = model.generate(**tokenizer(prompts, padding=True, return_tensors="pt"), **few)
    for prompt, row in zip(prompts, together, strict=True):
        alone = model.generate(**tokenizer(prompt, return_tensors="pt"), **few)[0]
        assert row[-len(alone) :].tolist() == alone.tolist()
    tokenizer.padding_side = "right"
    with pytest.raises(Error, match=r'tokenizer\.padding_side = "left"'):
        model.generate(**tokenizer(prompts, padding=True, return_tensors="pt"), **few)


def test_no_document_is_on_two_sides(run):
    spec = run.experiment.data
    text = lab.texts.read(spec, 1000)
    tokenizer = text.tokenizer

    def documents(tokens):
        return {document.strip() for document in tokenizer.decode(tokens).split("<|endoftext|>") if document.strip()}

    train, test = documents(text.train.flatten().long()), documents(text.test.long())
    validation = documents(text.validation.flatten().long())
    assert len(test) >= 2
    assert not train & validation
    assert not train & test
    assert not validation & test


def held_out(folder, texts):
    """The held-out documents of these texts, as the halves of an experiment have them."""
    folder.mkdir(exist_ok=True)
    (folder / "a.json").write_text(json.dumps(texts))
    opened = corpora_of_text.open([folder / "a.json"], held_out=0)
    tokenizer = tokenizers.load(tokenizers.train(opened, 257, root=folder))
    return tokens_of(opened, tokenizer, root=folder).train


def test_copies_of_a_document_are_on_the_same_half(tmp_path):
    texts = [f"The number {i % 9}." + " " * (i // 9) for i in range(45)]
    both = lab.texts.halves(held_out(tmp_path, texts))
    assert sorted([*both[0], *both[1]]) == list(range(45))
    validated, tested = ({i % 9 for i in half} for half in both)
    assert not validated & tested
    assert min(len(validated), len(tested)) == 4
    for two in (["one", "two" * 99], ["one" * 99, "two"], ["two", "one", "one"]):
        assert all(lab.texts.halves(held_out(tmp_path, two)))
    with pytest.raises(Error, match=r"two documents or more, one to validate on .* got 1, for copies count once"):
        lab.texts.halves(held_out(tmp_path, ["one", "one "]))
    with pytest.raises(Error, match=r"got 1\. Give more documents"):
        lab.texts.halves(held_out(tmp_path, ["one"]))


def test_a_text_that_is_edited_between_two_plans_is_read_again(run, tmp_path):
    """In one process, which keeps the tokens that it read last."""
    corpus = corpora.write(tmp_path / "corpus")
    options = {"train_length": 16, "test_lengths": "16", "settings": corpora.QUICK, "tokenizer": run.path / "model"}

    def planned():
        (model,) = lab.plan_language_models(corpus, "lstm", **options, store=tmp_path)
        assert lab.texts.read(model.data, 8).digests == model.data.digests
        (checkpoint,) = lab.plan_further(run.path / "model", [corpus], train_length=16, settings={"text.held_out": 0.3})
        return model.data.digests, checkpoint.data.digests

    before = planned()
    (corpus / "000.txt").write_text("the bird saw the lake. " * 20)
    assert all(old != new for old, new in zip(before, planned(), strict=True))


def test_the_best_and_the_last_model_are_kept(run):
    best = run.result["checkpoints"]["best"]
    # At so high a rate the loss goes up and down, and the last is hardly ever the best.
    assert (run.path / "best").is_dir() == (best["step"] < run.result["steps"])
    assert best["validation"]["loss"] == min(row["loss"] for row in run.metrics if row["kind"] == "validation")
    text = lab.texts.read(run.experiment.data, 8)
    for which, step in (("best", best["step"]), ("last", run.result["steps"])):
        row = next(row for row in run.metrics if row["kind"] == "validation" and row["step"] == step)
        rows = text.validation.long()
        with torch.no_grad():
            logits = lab.load_model(run, which)(rows)
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), rows[:, 1:].flatten())
        assert loss.item() == pytest.approx(row["loss"], rel=1e-5)


def test_an_edited_model_is_noticed(run, tmp_path):
    import shutil

    copy = shutil.copytree(run.path, tmp_path / run.path.name)
    config = copy / "model" / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(Error, match="edited since the run ended"):
        lab.load_model(lab.load(copy)[0])


def test_the_saved_model_generates_in_the_words_of_its_tokenizer(run):
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    model = AutoModelForCausalLM.from_pretrained(run.path / "model")
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    tokens = model.generate(**tokenizer("the cat", return_tensors="pt"), max_new_tokens=4, pad_token_id=0)
    assert tokenizer.decode(tokens[0]).startswith("the cat")
    assert lab.load_tokenizer(run)("the cat")["input_ids"] == tokenizer("the cat")["input_ids"]


class Interrupting(lab.Listener):
    """Presses Ctrl-C at a step of training, once."""

    def __init__(self, step):
        self.step = step

    def advance(self, progress):
        if progress.step == self.step:
            self.step = None
            signal.raise_signal(signal.SIGINT)


def test_a_run_that_is_stopped_goes_on_bit_for_bit(plan, tmp_path):
    planned = plan("transformer position=alibi heads=2 layers=1 dropout=0.1", settings={"training.sample_every": 4})
    with pytest.raises(lab.Interrupted):
        lab.run(planned, tmp_path / "stopped", workers=1, progress=Interrupting(7))
    stopped, whole = (lab.run(planned, tmp_path / where, workers=1)[0].run for where in ("stopped", "whole"))
    rows = [[row for row in run.metrics if row["kind"] != "speed"] for run in (stopped, whole)]
    assert rows[0] == rows[1]
    assert stopped.result["checkpoints"] == whole.result["checkpoints"]
    assert stopped.result["folders"] == whole.result["folders"]


def test_segments_end_where_the_tokenizer_says(plan):
    by_sentence, by_line, fixed = plan("bipe heads=2", "bipe heads=2 ends=line", "bipe heads=2 ends=8")
    tokenizer = tokenizers.load(by_sentence.data.tokenizer_folder)
    assert by_sentence.model.options["ends"] == segment_ends(tokenizer, "sentence")
    assert by_line.model.options["ends"] == segment_ends(tokenizer, "line")
    assert fixed.model.options["ends"] == 8
    placed = {"inside": {"name": "learned", "rows": 16}, "between": {"name": "rope"}, "ends": "sentence"}
    (bilevel,) = plan(("transformer", {"heads": 2, "position": "bilevel", "position_options": placed}))
    assert bilevel.model.options["position_options"]["ends"] == by_sentence.model.options["ends"]


def test_ends_may_be_none(plan):
    given = ("fox heads=2 ends=none", ("fox", {"heads": 2, "ends": "none"}), "fox heads=2")
    assert len({plan(model)[0].hash for model in given}) == 1


def test_an_experiment_is_known_by_its_text_and_tokenizer_wherever_they_lie(plan, corpus, tmp_path):
    import shutil

    (here,) = plan("lstm")
    moved = shutil.copytree(corpus, tmp_path / "elsewhere" / corpus.name)
    (there,) = corpora.plan(moved, tmp_path, "lstm")
    assert there.hash == here.hash
    assert lab.Experiment.from_json(here.to_json()) == here
    (moved / "new.txt").write_text("the cat saw a new bird.\n" * 9)
    (other,) = corpora.plan(moved, tmp_path, "lstm")
    assert other.hash != here.hash


def test_lengths_that_a_position_cannot_tell_apart_are_named_before_training(plan):
    with pytest.warns(
        UserWarning, match="it has 24 positions, and at test lengths 32 all tokens beyond share the last"
    ):
        plan("transformer position=learned max_length=24 heads=2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan("transformer position=sinusoidal heads=2", "bipe heads=2 max_length=8")
    with pytest.raises(Error, match="windows of 16 tokens are longer than its 8 positions"):
        plan("transformer position=learned max_length=8 heads=2")
    drawn = {"model.position_options": {"of": {"name": "rope"}, "longest": 24}}
    with pytest.raises(Error, match="its positions reach 24 tokens, and it would be trained or tested with 32"):
        plan("transformer position=randomized heads=2", settings=drawn)


def test_a_model_of_transformers_with_too_few_positions_is_refused_before_training(plan, tmp_path):
    GPT2Config(n_positions=24, n_embd=16, n_layer=1, n_head=2, vocab_size=300).save_pretrained(tmp_path)
    with pytest.raises(
        Error, match=r"its positions reach 24 tokens.* with 32\. Give the config max_position_embeddings"
    ):
        plan("lstm", f"hf:{tmp_path}")
    _, experiment = plan("lstm", f"hf:{tmp_path} max_position_embeddings=32")
    assert experiment.model.options["max_position_embeddings"] == 32


@pytest.mark.parametrize("model", ["transformer", "hf:"])
def test_a_sample_reads_no_more_than_the_model_can(plan, tmp_path, model):
    """A prompt of 8 tokens and 40 more, by models of 16 positions."""
    GPT2Config(n_positions=16, n_embd=16, n_layer=1, n_head=2, vocab_size=300).save_pretrained(tmp_path / "gpt2")
    placed = {"position": "randomized", "position_options": {"of": {"name": "rope"}, "longest": 16}, "heads": 2}
    asked = ("transformer", placed) if model == "transformer" else f"hf:{tmp_path / 'gpt2'}"
    _, experiment = plan("lstm", asked, settings={"training.sample_every": 6}, test_lengths="16")
    (outcome,) = lab.run([experiment], tmp_path / "runs", workers=1)
    assert outcome.run, outcome.traceback
    assert [row["step"] for row in outcome.run.metrics if row["kind"] == "sample"] == [6, 12]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({"settings": {f"training.{name}": value}}, f"training.{name} is for tasks")
            for name, value in {
                "lengths": "1,40",
                "curriculum": "growing",
                "varied": 0.5,
                "steady": "on",
                "noise": 0.1,
                "spans": True,
                "go_back": 0.3,
            }.items()
        ),
        ({"settings": {"tests.samples": 9}}, "tests.samples is for way='last-token'"),
        ({"settings": {"training.precision": "fp64"}}, "precision of text is one of fp32, bf16"),
        ({"settings": {"text.held_in": 0.1}}, "Did you mean 'text.held_out'"),
        ({"settings": {"txt.held_out": 0.1}}, "Unknown setting 'txt'"),
        ({"test_lengths": "16,1000000"}, "must fill a window of 1,000,000 tokens"),
        ({"train_length": 100_000}, "must fill a block of 100000|must fill a window of 100,000"),
        ({"train_length": 1}, "train_length must be a whole number at least 2"),
        ({"settings": {"model.width": "wide"}}, "width must be a whole number"),
        ({"settings": {"model.ends": "sentense"}}, "sentence"),
        ({"settings": {"model.ends": [3, 5000]}}, "below the 280 that the tokenizer has, got 5,000"),
        ({"settings": {"model.ends": "none"}}, "ends must be .* got None"),
    ],
)
def test_wrong_calls_are_refused_before_anything_runs(plan, options, said):
    with pytest.raises(Error, match=said):
        plan("bipe heads=2", **options)


def test_models_that_differ_in_options_are_told_apart_in_a_report(plan, tmp_path):
    planned = plan("transformer position=rope heads=2 layers=1", "transformer position=alibi heads=2 layers=1", seeds=2)
    runs = [outcome.run for outcome in lab.run(planned, tmp_path / "runs", workers=1)]
    said = str(report.table(runs))
    assert "transformer position=alibi" in said
    assert "transformer position=rope" in said
    assert " ± " in said
    rows = report.rows(runs)
    assert [(row["seed"], row["length"]) for row in rows[:4]] == [(0, 16), (0, 32), (1, 16), (1, 32)]
    losses = runs[0].result["checkpoints"]["last"]["losses"]
    assert [row["perplexity"] for row in rows[:2]] == [math.exp(losses["16"]), math.exp(losses["32"])]
    page = report.html(runs, tmp_path / "page.html").read_text()
    assert "Perplexity by length: corpus" in page
    assert "Perplexity at 32 tokens, 2 times the trained length" in page


def test_perplexities_of_different_tokenizers_are_not_ranked(plan, run, tmp_path):
    spec = replace(run.experiment.data, tokenizer=64 * "0", tokenizer_folder="tokenizers/other")
    runs = [run]
    for changed in (spec, replace(run.experiment.data, test_blocks=1)):
        runs.append(run._replace(experiment=replace(run.experiment, data=changed)))
    panels = report.text_runs.by_length(runs)
    assert [len(panel.data) for panel in panels] == [2, 2, 2]
    assert panels[1].title == "Perplexity by length: corpus (tokens of other)"
    labels = labelled([each.experiment for each in runs[:2]], {"bipe": "bipe"})
    assert labels[1] == "bipe tokenizer=00000000"


@pytest.mark.parametrize(
    ("text", "more", "refused"),
    [
        ([], {"test_blocks": 3}, "are for a checkpoint on another text"),
        (["corpus"], {"settings": {"training.spans": True}, "training": lab.Training()}, "training.spans is for tasks"),
        (["corpus"], {"settings": {"tests.samples": 9}}, "tests.samples is for way='last-token'"),
    ],
)
def test_what_no_checkpoint_can_be_told_is_refused(run, corpus, text, more, refused):
    with pytest.raises(Error, match=refused):
        lab.plan_further(run.path if not text else run.path / "model", text and [corpus], train_length=16, **more)


def test_a_checkpoint_is_told_how_many_last_tokens_are_tested_and_its_seed(run, corpus):
    more = {"way": "last-token", "settings": {"tests.samples": 9, "text.held_out": 0.3}, "seed": 4}
    (planned,) = lab.plan_further(run.path / "model", [corpus], train_length=16, **more)
    assert (planned.tests.samples, planned.tests.way, planned.seed) == (9, "last-token", 4)


def test_a_trained_model_is_a_checkpoint_to_tune_for_longer_texts(run, corpus, tmp_path):
    how = {"train_length": 16, "test_lengths": (16, 32), "training": lab.Training.of(steps=2, batch=2, lr=1e-4)}
    how["settings"] = {"text.held_out": 0.3}
    conversions = [], [{"name": "yarn", "factor": 2, "trained": 4}]
    planned = [one for each in conversions for one in lab.plan_further(run.path / "model", [corpus], each, **how)]
    runs = [outcome.run for outcome in lab.run(planned, tmp_path, workers=1)]
    before = [each.result["checkpoints"]["before"]["losses"] for each in runs]
    assert before[0].keys() == before[1].keys() == {"16", "32"}
    assert before[0] != before[1]
    assert "pretrained-yarn seed 0" in str(report.table(runs))
    assert [row["length"] for row in report.rows(runs)] == [16, 32, 16, 32]
    measured = lab.measure_perplexity(runs[1].path, device="cpu", tokens=10**9)
    assert measured.losses[32].mean == pytest.approx(runs[1].result["checkpoints"]["last"]["losses"]["32"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"way": "foo"}, "way must be 'windows' or 'last-token', got 'foo'"),
        ({"precision": "fp16"}, "precision must be 'fp32' or 'bf16', got 'fp16'"),
        ({"tokens": -1}, "tokens must be a whole number at least 2 or None, got -1"),
        ({"samples": 0}, "samples must be a whole number in 1"),
        ({"lengths": []}, "lengths is empty"),
        ({"lengths": [8.5]}, "lengths must be a list of whole numbers at least 2"),
        ({"tokens_at_once": 0}, "tokens_at_once must be a whole number at least 1"),
        ({"conversions": [[1]]}, r"A conversion needs a name, .* got \[1\]"),
    ],
)
def test_what_cannot_be_measured_is_refused(run, options, said):
    with pytest.raises(Error, match=said):
        lab.measure_perplexity(run.path, **options)


@pytest.mark.parametrize(("options", "said"), [({"depths": []}, "depths is empty"), ({"lengths": []}, "lengths is em")])
def test_what_cannot_be_asked_is_refused(run, options, said):
    with pytest.raises(Error, match=said):
        lab.measure_far_tokens(run.path, **{"lengths": [200], **options})
    found = lab.measure_far_tokens(run.path, (), [200], Variables(hops=0), depths=[], samples=1)
    assert found.scores.depths == ()


def test_a_run_is_measured_in_its_own_tokens(run, corpus, tmp_path):
    own = lab.measure_perplexity(run.path, tokenizer=run.experiment.data.tokenizer_folder)
    assert own.losses == lab.measure_perplexity(run.path, tokens=None).losses
    other = tokenizers.train(corpora_of_text.open([corpus]), 270, root=tmp_path)
    for more in ({}, {"corpus": str(corpus)}):
        with pytest.raises(Error, match="another tokenizer than that of"):
            lab.measure_perplexity(run.path, tokenizer=other, store=tmp_path, **more)
        with pytest.raises(Error, match="another tokenizer than that of"):
            lab.measure_far_tokens(run.path, tokenizer=other, **more)


def test_what_was_measured_is_json():
    losses = {8: Loss(0.0, 7), 16: Loss(None, 7), 32: Loss(1e4, 7)}
    found = lab.Measured("model", "text", "windows", losses).to_json()["lengths"]
    assert [each["perplexity"] for each in found.values()] == [1.0, None, None]
    assert [each["loss"] for each in found.values()] == [0.0, None, 1e4]


def test_recomputed_activations_and_parts_of_a_batch_change_nothing(plan, tmp_path):
    model, found = "transformer position=rope heads=2 layers=1 dropout=0.1", []
    for settings in ({}, {"training.recompute": True}, {"objective.tokens_at_once": 32, "model.dropout": 0.0}):
        (experiment,) = plan(model if "model.dropout" not in settings else model.replace("0.1", "0"), settings=settings)
        (outcome,) = lab.run([experiment], tmp_path, workers=1)
        assert outcome.run, outcome.traceback
        found.append(outcome.run.result["checkpoints"]["last"]["losses"])
    assert found[0] == found[1]
    trainer = make_trainer(plan(model, settings={"training.recompute": True}))
    trainer.strategy.prepare(trainer.states[0])
    assert trainer.states[0].core.depth.layers[0].gradient_checkpointing
    (whole,) = lab.run(plan(model.replace("0.1", "0")), tmp_path, workers=1)
    assert found[2] == pytest.approx(whole.run.result["checkpoints"]["last"]["losses"], rel=1e-5)


def test_bf16_trains_and_is_tested(plan, tmp_path):
    (outcome,) = lab.run(plan("bipe heads=2 layers=1", settings={"training.precision": "bf16"}), tmp_path, workers=1)
    (full,) = lab.run(plan("bipe heads=2 layers=1"), tmp_path, workers=1)
    assert outcome.run, outcome.traceback
    half, single = (each.run.result["checkpoints"]["last"]["losses"]["16"] for each in (outcome, full))
    assert half != single, "or bf16 was not used"
    assert half == pytest.approx(single, rel=0.05)


def test_samples_and_speed_are_in_the_metrics(plan, tmp_path):
    (outcome,) = lab.run(plan("lstm", settings={"training.sample_every": 6}), tmp_path, workers=1)
    samples = [row for row in outcome.run.metrics if row["kind"] == "sample"]
    assert [row["step"] for row in samples] == [6, 12]
    text = lab.texts.read(outcome.run.experiment.data, 8)
    begins = text.tokenizer.decode(text.validation[0, :8].tolist())
    assert all(row["text"].startswith(begins) and len(row["text"]) > len(begins) for row in samples)
    speeds = [row["tokens_per_second"] for row in outcome.run.metrics if row["kind"] == "speed"]
    assert len(speeds) == 3
    assert min(speeds) > 0
