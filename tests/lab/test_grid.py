"""Words to experiments, and every mistake named before anything runs."""

import pytest

from lengthwise import lab, tasks
from lengthwise.errors import Error, LengthError, ShapeError, UnknownName
from lengthwise.lab import lengths, plan


def test_lengths():
    assert lengths("5") == (5,)
    assert lengths("41:100:20") == (41, 61, 81)
    assert lengths("41:81:20") == (41, 61, 81)
    assert lengths("3:5,4,2") == (2, 3, 4, 5)


@pytest.mark.parametrize("text", ["", "a", "0", "1:0", "5:1", "1:2:0", "1:2:3:4", "1;2", "-3", "1,,2"])
def test_not_lengths(text):
    with pytest.raises(Error):
        lengths(text)


def test_a_plan_is_the_whole_grid():
    experiments = plan(
        "parity",
        ["lstm", "transformer"],
        seeds=3,
        train_length=10,
        test_lengths="20,30",
        settings=["model.width=32", "transformer.layers=2", "training.betas=0.9,0.98"],
        sweep={"training.lr": [1e-3, 1e-4]},
    )
    assert len(experiments) == len({e.hash for e in experiments}) == 12
    first, last = experiments[0], experiments[-1]
    assert first.model.options == {"width": 32}
    assert last.model.options == {"width": 32, "layers": 2}
    assert (first.training.optimizer.lr, last.training.optimizer.lr, last.seed) == (1e-3, 1e-4, 2)
    assert first.training.curriculum.lengths == (1, 10)
    assert first.training.optimizer.betas == (0.9, 0.98)
    assert set(first.tests.lengths) == {3, 5, 7, 10, 20, 30}


def test_a_model_s_own_options_may_stand_behind_its_name_or_beside_it():
    named = plan("parity", ["lstm layers=2", ("gru", {"layers": 2})], settings={"model.layers": 3, "model.width": 32})
    assert [e.model.name for e in named] == ["lstm", "gru"]
    assert [e.model.options for e in named] == [{"layers": 2, "width": 32}] * 2
    assert plan("parity", ("lstm", {"layers": 2})) == plan("parity", "lstm layers=2")


def test_default_test_lengths_reach_past_training():
    (experiment,) = plan("modular-arithmetic", ["lstm"])
    tested = experiment.tests.lengths
    assert max(tested) > 400
    assert sum(n > 40 for n in tested) >= 20
    assert all(n % 2 == 1 for n in tested)


def test_a_task_by_name_or_made():
    made = tasks.get("parity", supervision="prefix")
    by_name = plan("parity", ["lstm"], settings={"task.supervision": "prefix"})
    assert plan(made, ["lstm"]) == by_name
    with pytest.raises(Error, match="already made"):
        plan(made, ["lstm"], settings={"task.supervision": "last"})


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        ({"task": "paryti"}, UnknownName, "'parity'"),
        ({"chosen": ["lstmm"]}, UnknownName, "'lstm'"),
        ({"chosen": []}, Error, "at least one model"),
        ({"settings": ["model.widht=64"]}, UnknownName, "'model.width'"),
        ({"settings": ["training.step=64"]}, UnknownName, "'training.steps'"),
        ({"settings": ["trainign.steps=64"]}, UnknownName, "'training'"),
        ({"settings": ["tests.lengths=64"]}, UnknownName, "tests"),
        ({"settings": ["width=64"]}, Error, "PART.NAME=VALUE"),
        ({"settings": ["task.supervison=last"]}, UnknownName, "supervision"),
        ({"settings": ["training.steps=many"]}, Error, "whole number"),
        ({"settings": ["training.steps=1.5"]}, Error, "whole number"),
        ({"settings": ["training.steps=0"]}, Error, "training.steps must be a whole number in 1..1000000000, got 0"),
        ({"settings": ["training.lr=-1"]}, Error, "above 0"),
        ({"settings": ["training.optimizer=sgd"]}, Error, "'adam', 'adamw' or 'muon'"),
        ({"settings": ["training.lengths=5"]}, Error, "two whole numbers"),
        ({"settings": ["training.lengths=9,5"]}, Error, "LOW"),
        ({"settings": ["training.warmup=2000"]}, Error, "warmup"),
        ({"seeds": 0}, Error, "at least 1"),
        ({"train_length": 50}, Error, "above every test length"),
        ({"task": "modular-arithmetic", "test_lengths": "40"}, LengthError, "39 or 41"),
    ],
)
def test_mistakes_are_named(call, error, says):
    call = {"task": "parity", "chosen": ["lstm"], "test_lengths": "45", **call}
    with pytest.raises(error) as caught:
        plan(call.pop("task"), call.pop("chosen"), **call)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Flat", "Narrow"])
def test_a_model_of_the_wrong_shape_is_refused_at_once(toy, name):
    with pytest.raises(ShapeError):
        plan("parity", [toy(name)])


def test_a_vocabulary_too_small_is_refused_at_once(tmp_path):
    """Even where the first strings drawn happen not to hold the token that is missing."""
    file = tmp_path / "small.py"
    file.write_text(
        "from torch import nn\nclass Small(nn.Embedding):\n    def __init__(self): super().__init__(2, 5)\n"
    )
    with pytest.raises(ShapeError, match=r"vocabulary is too small.* at least 3"):
        plan("cycle-navigation", [f"{file}:Small"])


def test_a_source_is_part_of_the_hash(tmp_path):
    file = tmp_path / "mine.py"
    code = "from torch import nn\nclass Mine(nn.Embedding):\n    def __init__(self): super().__init__(2, 2)\n"
    file.write_text(code)
    before = plan("parity", [f"{file}:Mine"])[0]
    file.write_text(code + "# changed\n")
    after = plan("parity", [f"{file}:Mine"])[0]
    assert before.hash != after.hash


def test_several_tasks_are_planned_one_after_the_other(tmp_path):
    size = {"cycle-navigation.size": 3, "training.steps": 7}
    both = plan(["parity", "cycle-navigation"], ["rnn", "lstm"], seeds=2, settings=size)
    alone = plan("parity", ["rnn", "lstm"], seeds=2, settings={"training.steps": 7})
    made = tasks.get("cycle-navigation", size=3)
    assert [e.hash for e in both] == [
        e.hash for e in [*alone, *plan(made, ["rnn", "lstm"], seeds=2, settings={"training.steps": 7})]
    ]
    assert plan(["parity", made], ["rnn", "lstm"], seeds=2, settings={"training.steps": 7}) == both
    everywhere = plan(["parity", "cycle-navigation"], ["rnn"], settings={"task.supervision": "prefix"})
    assert [e.task.params for e in everywhere] == [{"supervision": "prefix"}] * 2
    with pytest.raises(UnknownName, match="size"):
        plan(["parity", "cycle-navigation"], ["rnn"], settings={"task.size": 3})
    with pytest.raises(Error, match="at least one task"):
        plan([], ["rnn"])


def test_a_model_of_transformers_must_have_a_place_for_every_token_of_a_test(tmp_path):
    from transformers import GPT2Config

    GPT2Config(n_positions=24, n_embd=16, n_layer=1, n_head=2, vocab_size=8).save_pretrained(tmp_path)
    lab.plan("parity", [f"hf:{tmp_path}"], train_length=10, test_lengths="20")
    with pytest.raises(LengthError, match="its positions reach 24 tokens, and it would be trained or tested with 40"):
        lab.plan("parity", [f"hf:{tmp_path}"], train_length=10, test_lengths="20,40")
