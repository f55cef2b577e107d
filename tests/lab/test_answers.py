"""Experiments on SCROLLS: from scratch and from checkpoints, stopped and resumed, scored, measured again, refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import Error, lab, report
from lengthwise.evaluate.answer_scores import score
from lengthwise.lab import Job
from lengthwise.lab.experiment import AnswersSpec, Experiment
from lengthwise.lab.job import MATERIALS, run_group
from lengthwise.lab.material import Scoring
from lengthwise.text import scrolls, tokenizers
from lengthwise.train import Stop, Training

from . import scrolls as made

WINDOW, BUDGET = 60, 6
TRAINING = Training.of(
    batch=4, optimizer="adamw", lr=1e-2, steps=6, validate_every=2, checkpoint_every=2, validation_samples=3
)
HOW = {"window": WINDOW, "budget": BUDGET, "training": TRAINING}
TINY = {"model.width": 16, "model.heads": 2, "model.layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("scrolls"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def from_scratch(folder, store, task="qasper", model="bipe", **more):
    return lab.plan_answers(folder, task, model, **HOW, vocabulary=300, settings=TINY, store=store, **more)


@pytest.fixture(scope="module")
def run(folder, store, tmp_path_factory):
    (outcome,) = lab.run(from_scratch(folder, store), tmp_path_factory.mktemp("runs"), workers=1, device="cpu")
    assert outcome.run, outcome.error
    return outcome.run


def test_a_run_is_scored_by_what_its_best_weights_write(run, folder):
    written = json.loads((run.path / "predictions.json").read_text())
    questions = scrolls.grouped(scrolls.rows(folder, "qasper", "validation"))
    assert list(written) == [each.id for each in questions]
    found = run.result["answers"]
    assert (found["metric"], found["questions"]) == ("f1", 4)
    assert found["score"] == score("f1", list(written.values()), [each.outputs for each in questions])["score"]
    assert found["step"] == run.result["checkpoints"]["best"]["step"]
    assert lab.measure_answers(run.path, folder).tasks["qasper"].answers == written
    model, tokenizer = lab.load_model(run, "best").inner, lab.load_tokenizer(run)
    prompt = tokenizer(questions[0].input, add_special_tokens=False)["input_ids"]
    before = tokenizer("\n\nAnswer:", add_special_tokens=False)["input_ids"]
    prompt = torch.tensor([prompt[: WINDOW - BUDGET - len(before)] + before])
    tokens = []
    while len(tokens) < BUDGET and (not tokens or tokens[-1] != tokenizer.eos_token_id):
        with torch.no_grad():
            logits = model(input_ids=torch.cat([prompt, torch.tensor([tokens]).long()], 1)).logits
        tokens.append(int(logits[0, -1].argmax()))
    assert tokenizer.decode(tokens, skip_special_tokens=True).strip() == written[questions[0].id]


def test_the_record_is_read_back_and_reported(run):
    e = run.experiment
    assert isinstance(e.data, AnswersSpec)
    assert e.data.name == "scrolls-qasper"
    assert Experiment.from_json(e.to_json()) == e
    assert Experiment.from_json(e.to_json()).hash == e.hash
    assert [each.experiment for each in lab.load(run.path)] == [e]
    said = str(report.table([run]))
    assert "Answers" in said
    assert f"{run.result['answers']['score']:.2f}" in said
    assert "qasper" in said
    assert report.rows([run])[0]["score"] == run.result["answers"]["score"]


def test_the_hash_knows_the_rows_and_not_where_they_lie(folder, store, tmp_path):
    (e,) = from_scratch(folder, store)
    (elsewhere,) = from_scratch(made.write(tmp_path / "copy"), tmp_path / "store")
    assert elsewhere.hash == e.hash
    (other,) = from_scratch(made.write(tmp_path / "other", others=5), tmp_path / "store")
    assert other.hash != e.hash
    assert from_scratch(folder, store, questions=2)[0].hash != e.hash


def test_the_weights_of_the_best_validation_write(run):
    kind = MATERIALS[AnswersSpec](run.experiment, torch.device("cpu"), 1)
    state = kind.state(run.experiment)
    best = {name: tensor.clone() for name, tensor in lab.load_model(run, "best").inner.state_dict().items()}
    state.best, state.best_weights = {"accuracy": 0, "loss": 1.0, "step": 2}, best
    state.step = 6
    scoring = Scoring(state, lambda _: None, lambda _: None, Stop())
    _, said = kind.test_after(run.experiment, scoring)
    assert said["answers"]["step"] == 2
    assert state.scores["answers"] == json.loads((run.path / "predictions.json").read_text())


class StopAfter:
    """Asks for a stop once so many steps, or a test, have gone by."""

    def __init__(self, step, phase="train"):
        self.step, self.phase, self.stop = step, phase, Stop()

    def __call__(self, progress):
        if progress.phase.startswith(self.phase) and progress.step >= self.step:
            self.stop.asked = True


def finished(experiment, root, *stops):
    for at in stops:
        hear = StopAfter(*at)
        with pytest.raises(lab.Interrupted):
            run_group([experiment], Job(root, hear=hear, stop=hear.stop))
    (outcome,) = run_group([experiment], Job(root))
    assert outcome.run, outcome.traceback
    return outcome.run


def test_a_stopped_run_ends_as_it_would_have_ended(run, tmp_path):
    e = replace(run.experiment, objective=replace(run.experiment.objective, tokens_at_once=WINDOW))
    whole, stopped = finished(e, tmp_path / "a"), finished(e, tmp_path / "b", (3,), (1, "test"))
    for name in ("model", "best"):
        files = [each.path / name / "model.safetensors" for each in (whole, stopped)]
        assert files[0].exists() == files[1].exists()
        if files[0].exists():
            assert files[0].read_bytes() == files[1].read_bytes()
    for key in ("answers", "checkpoints", "epochs"):
        assert whole.result[key] == stopped.result[key]
    assert (whole.path / "predictions.json").read_text() == (stopped.path / "predictions.json").read_text()


@pytest.fixture(scope="module")
def gpt2(folder, store, tmp_path_factory):
    """A checkpoint of transformers', with the tokenizer that the runs from scratch have."""
    (e,) = from_scratch(folder, store)
    tokenizer = tokenizers.load(e.data.tokenizer_folder)
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "bos_token_id": None, "eos_token_id": None}
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("gpt2")
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize("kind", ["gpt2", "run", "run's folder"])
def test_any_checkpoint_is_trained_on(kind, gpt2, run, folder, tmp_path):
    checkpoint = {"gpt2": gpt2, "run": run.path, "run's folder": run.path / "model"}[kind]
    (e,) = lab.plan_answers(folder, "quality", str(checkpoint), **HOW)
    found = finished(e, tmp_path)
    assert found.result["answers"]["metric"] == "exact match"
    before, last = (found.result["checkpoints"][which]["perplexity"] for which in ("before", "last"))
    assert last < before
    assert "Perplexity" not in str(report.table([found])).splitlines()[0]


def test_a_model_learns_to_answer(folder, store, tmp_path):
    """After as many steps as it takes it knows all colours it was told, and so its score is not all luck."""
    how = {**HOW, "training": TRAINING.but(steps=60, lr=2e-2), "budget": 12}
    (e,) = lab.plan_answers(
        folder, "quality", "transformer", **how, vocabulary=300, settings=TINY, store=store, questions=3
    )
    found = finished(e, tmp_path)
    assert found.result["answers"]["questions"] == 3
    written = json.loads((found.path / "predictions.json").read_text())
    assert set(written.values()) <= set(made.COLOURS)
    losses = [row["loss"] for row in found.metrics if row["kind"] == "train"]
    assert losses[-1] < losses[0] / 3


def test_the_test_split_is_answered_without_a_score(run, folder):
    found = lab.measure_answers(run.path, folder, split="test")
    assert found.tasks["qasper"].scores is None
    assert len(found.tasks["qasper"].answers) == 4
    assert found.to_json()["tasks"]["qasper"] == {"metric": "f1", "questions": 4, "score": None}
    assert (found.average, found.window) == (None, WINDOW)


def test_the_average_is_that_of_all_seven_tasks():
    def of(task, score):
        return lab.Answered(scrolls.TASKS[task].metric, {"score": score}, {"1": ""})

    seven = {task: of(task, float(n)) for n, task in enumerate(scrolls.TASKS)}
    assert lab.MeasuredAnswers("m", "s", "validation", 9, seven).average == 3
    seven.pop("quality")
    assert lab.MeasuredAnswers("m", "s", "validation", 9, seven).average is None


def test_models_may_stand_in_a_list_or_a_tuple(folder, store):
    planned = from_scratch(folder, store, model=("bipe", "transformer"))
    assert [e.model.name for e in planned] == ["bipe", "transformer"]
    (with_options,) = from_scratch(folder, store, model=("transformer", {"position": "rope"}))
    assert with_options.model.options["position"] == "rope"


def wrong(folder, store, gpt2, run, tmp_path):
    """Calls that are refused, and words of the line that says so."""
    small = tmp_path / "small"
    GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=64)).save_pretrained(small)
    tokenizers.load(gpt2).save_pretrained(small)
    plan, tiny = lab.plan_answers, {"vocabulary": 300, "settings": TINY, "store": store}
    return {
        "task": (lambda: plan(folder, "qaspr", "bipe", **HOW, **tiny), "Did you mean 'qasper'"),
        "folder": (lambda: plan(tmp_path / "no", "qasper", "bipe", **HOW, **tiny), "no such folder. Give the folder"),
        "window": (
            lambda: plan(folder, "qasper", str(gpt2), **{**HOW, "window": 65}),
            r"window must be in 2..64, the positions of .*, got 65. Use --set window=",
        ),
        "budget": (
            lambda: plan(folder, "qasper", str(gpt2), **{**HOW, "budget": 60}),
            "A window of 60 tokens has no place for an input: an answer takes up to 60",
        ),
        "vocabulary": (
            lambda: plan(folder, "qasper", str(small), **HOW),
            r"its model knows 9 tokens and its tokenizer \d+. They are not of one model",
        ),
        "measured vocabulary": (
            lambda: lab.measure_answers(small, folder, ["qasper"], window=WINDOW),
            "its model knows 9 tokens and the tokenizer has",
        ),
        "measured window": (
            lambda: lab.measure_answers(gpt2, folder, ["qasper"], window=100),
            "it has places for 64 tokens, got length 100",
        ),
        "conversions of a preset": (
            lambda: plan(folder, "qasper", "transformer", **HOW, **tiny, conversions=[{"name": "chain"}]),
            "transformer: conversions are for checkpoints, got 1. Give the path of a finished run",
        ),
        "conversions of an experiment": (
            lambda: plan(folder, "qasper", run.experiment, **HOW, conversions=[{"name": "chain"}]),
            "bipe: conversions are for checkpoints, got 1",
        ),
        "own model": (lambda: plan(folder, "qasper", "torch.nn:Linear", **HOW), "models of your own lack"),
        "fp64": (
            lambda: plan(folder, "qasper", "bipe", **{**HOW, "training": TRAINING.but(precision="fp64")}, **tiny),
            "training.precision of text",
        ),
        "perplexity": (lambda: lab.measure_perplexity(run.path), "it was trained to answer qasper. Give a corpus"),
        "missing": (
            lambda: lab.measure_answers(run.path, folder, ["contract_nli"], budget=4),
            "neither contract_nli/validation.jsonl",
        ),
    }


def test_what_is_refused(folder, store, gpt2, run, tmp_path):
    for call, said in wrong(folder, store, gpt2, run, tmp_path).values():
        with pytest.raises(Error, match=said) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_rows_that_changed_since_are_noticed(folder, store, tmp_path):
    copy = made.write(tmp_path / "copy")
    (e,) = from_scratch(copy, tmp_path / "store")
    made.write(copy, train=13)
    (outcome,) = run_group([e], Job(tmp_path / "runs"))
    assert "qasper changed since the experiment was planned" in str(outcome.error)
