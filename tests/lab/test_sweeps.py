"""Sweeps: the same experiments as one by one, every mistake named beforehand, and a choice that tests cannot sway."""

from __future__ import annotations

import math

import pytest

from lengthwise import Error, lab
from lengthwise.errors import UnknownName
from lengthwise.lab.experiment import Experiment, LengthTests, ModelSpec, TaskSpec
from lengthwise.lab.records import Run
from lengthwise.lab.sweeps import parse_sweep, values_of
from lengthwise.train.settings import Training

SMALL = {"model.width": 8, "training.steps": 3, "training.batch": 4}


def swept(sweep, models=("lstm",), **more):
    settings = {**SMALL, **more.pop("settings", {})}
    return lab.plan("parity", list(models), sweep=sweep, test_lengths="50", settings=settings, **more)


def one(model="lstm", seeds=1, **settings):
    given = {**SMALL, **{key.replace("__", "."): value for key, value in settings.items()}}
    return {e.hash for e in lab.plan("parity", [model], test_lengths="50", settings=given, seeds=seeds)}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4, 3e-4", ["1e-4", "3e-4"]),
        ("(0.9,0.98),(0.9,0.999)", ["0.9,0.98", "0.9,0.999"]),
        ("[0.9,0.98],[0.9,0.999]", ["[0.9,0.98]", "[0.9,0.999]"]),
        ("\"a,b\",'c'", ["a,b", "c"]),
        ('{"a": [1, 2]},none', ['{"a": [1, 2]}', "none"]),
        ("f(1,2),g", ["f(1,2)", "g"]),
        ("(1)(2),3", ["(1)(2)", "3"]),
    ],
)
def test_commas_in_brackets_and_quotes_part_nothing(text, values):
    assert values_of(text) == values


def test_a_sweep_is_what_set_makes_one_by_one():
    made = swept(["training.lr=1e-4,3e-4", "regular-gpt.chunk=2,3"], ["regular-gpt", "lstm"], seeds=2)
    alone = one("lstm", 2, training__lr=1e-4) | one("lstm", 2, training__lr=3e-4)
    for lr in (1e-4, 3e-4):
        for chunk in (2, 3):
            alone |= one("regular-gpt", 2, training__lr=lr, model__chunk=chunk)
    assert len(made) == len(alone) == 12
    assert {e.hash for e in made} == alone
    again = swept({"training": {"lr": [1e-4, 3e-4]}, "regular-gpt.chunk": "2,3"}, ["regular-gpt", "lstm"], seeds=2)
    assert {e.hash for e in again} == alone


def test_options_that_one_model_lacks_follow_the_rule_of_set():
    with pytest.raises(UnknownName, match=r"model\.chunk"):
        swept(["model.chunk=2,3"], ["lstm"])
    with pytest.warns(UserWarning, match=r"model\.chunk is no option of lstm, and is used for the others alone"):
        made = swept(["model.chunk=2,3"], ["regular-gpt", "lstm"])
    assert [e.model.name for e in made] == ["regular-gpt", "lstm", "regular-gpt"]
    betas = swept(["training.betas=(0.9,0.98),(0.9,0.999)"])
    assert [e.training.optimizer.betas for e in betas] == [(0.9, 0.98), (0.9, 0.999)]


@pytest.mark.parametrize(
    ("sweep", "settings", "says"),
    [
        (["training.lr"], {}, "A sweep is NAME=VALUE,VALUE, got 'training.lr'"),
        (["training.lr=1e-3"], {}, "needs two values at least"),
        (["training.lr=1e-3,,1"], {}, "needs two values at least"),
        (["training.lr=1,2", "training.lr=3,4"], {}, "training.lr is swept twice"),
        (["training.lr=1,2"], {"training.lr": 1}, "training.lr is both set and swept"),
        (["training.lr=1e-3,0.001"], {}, "1e-3 and 0.001 make the same runs"),
        (["model.layers=1,2"], {"lstm.layers": 1}, "1 and 2 make the same runs"),
        (["training.lrr=1,2"], {}, "Did you mean 'training.lr'?"),
        (["lr=1,2"], {}, "Did you mean training.lr?"),
        (["training.lr=1,-2"], {}, "training.lr must be a number above 0, got -2"),
        (["gru.width=1,2"], {}, "Unknown setting 'gru'"),
        (["training.lengths=(1,40),(1,20)"], {}, "training.lengths is part of the question"),
        (["tests.seed=1,2"], {}, "tests.seed is part of the question"),
        (["task.supervision=last,prefix"], {}, "task.supervision is part of the question"),
        (["parity.supervision=last,prefix"], {}, "parity.supervision is part of the question"),
        (["training.betas=(1,2"], {}, "a partner for every bracket"),
        (["training.betas=1,2)"], {}, "a partner for every bracket"),
        (["training.optimizer='adam,adamw"], {}, "every bracket and quote"),
        ({"training.lr": 3}, {}, "needs two values at least, joined by commas, got '3'"),
        (3, {}, "sweep must be texts NAME=VALUE,VALUE, or a mapping"),
        ([3], {}, "sweep must be texts"),
        ({3: [1, 2]}, {}, "A setting is named by a text, got 3"),
        ({"training.steps": range(1, 10**6)}, {}, "needs two values"),
        ({"training.validate_every": list(range(1, 20_000))}, {}, "at most 10,000 runs in one grid"),
    ],
)
def test_mistakes_are_named_before_anything_runs(sweep, settings, says):
    with pytest.raises(Error) as caught:
        swept(sweep, settings=settings)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_a_sweep_of_nothing():
    assert parse_sweep({}) == parse_sweep(()) == {}


def finished(lr, seed, accuracy, loss=0.5, test=0, model="lstm", **options):
    e = Experiment(
        TaskSpec("parity"), ModelSpec(model, options), Training.of(lr=lr), LengthTests((50,), samples=100), seed
    )
    point = {"correct": {"50": test}, "step": 1, "validation": {"accuracy": accuracy, "loss": loss}}
    return Run(None, e, {"samples": 100, "checkpoints": {"last": point, "best": point}}, [])  # pyright: ignore


def test_validation_alone_chooses():
    grid = {1e-4: (0.7, 0.9), 1e-3: (0.8, 0.85), 1e-2: (0.5, 1.0)}
    for tests in ((0, 50, 100), (100, 50, 0)):
        runs = [
            finished(lr, seed, accuracy, test=test)
            for (lr, both), test in zip(grid.items(), tests, strict=True)
            for seed, accuracy in enumerate(both)
        ]
        (choice,) = lab.choose(runs, ["training.lr"])
        assert choice.chosen.values == {"training.lr": 1e-3}, "the best mean, whatever the tests and the best seed say"
        assert [len(setting.runs) for setting in choice.settings] == [2, 2, 2]
        assert choice.chosen.accuracies == [0.8, 0.85]
        assert choice.edges == ()
        assert [c.chosen for c in lab.choose(runs[::-1], ["training.lr"])] == [choice.chosen]


def test_equal_accuracies_are_told_apart_by_the_loss():
    runs = [finished(lr, 0, 1.0, loss) for lr, loss in ((1e-4, math.nan), (1e-3, 0.3), (1e-2, 0.2), (1e-1, 0.4))]
    (choice,) = lab.choose(runs, ["training.lr"])
    assert choice.chosen.values == {"training.lr": 1e-2}


def test_a_setting_that_lacks_a_seed_is_not_chosen():
    runs = [finished(1e-4, seed, 0.6) for seed in (0, 1)] + [finished(1e-3, 0, 0.9)]
    planned = [run.experiment for run in runs] + [finished(1e-3, 1, 0).experiment, finished(1e-2, 0, 0).experiment]
    (choice,) = lab.choose(runs, ["training.lr"], planned)
    assert choice.chosen.values == {"training.lr": 1e-4}
    assert [(len(s.runs), s.seeds) for s in choice.settings] == [(2, 2), (1, 2), (0, 1)]


def test_models_are_chosen_for_each_by_itself_and_defaults_are_values():
    runs = [finished(1e-3, 0, 0.5), finished(1e-3, 0, 0.9, width=8), finished(1e-3, 0, 0.4, model="gru", width=8)]
    lstm, gru = lab.choose(runs, ["lstm.width", "training.lr"])
    assert [s.values["model.width"] for s in lstm.settings] == [8, 64], "an option left out is at its default"
    assert lstm.chosen.values["model.width"] == 8
    assert len(gru.settings) == 1
    with pytest.raises(UnknownName, match=r"Did you mean 'training\.lr'"):
        lab.choose(runs, ["training.lrr"])
    with pytest.raises(Error, match="There is nothing to choose"):
        lab.choose(runs, ["training.steps"])


def test_the_edge_of_the_grid_is_told_unless_nothing_lies_beyond():
    options = [("regular-gpt", {"chunk": chunk}) for chunk in (2, 3)]
    runs = [finished(1e-3, 0, 0.9 - 0.1 * options["chunk"], model=m, **options) for m, options in options]
    (choice,) = lab.choose(runs, ["model.chunk"])
    assert (choice.chosen.values, choice.edges) == ({"model.chunk": 2}, ()), "no chunk is smaller than 2"
    runs = [finished(lr, 0, lr) for lr in (1e-3, 1e-2)]
    (choice,) = lab.choose(runs, ["training.lr"])
    assert choice.edges == ("training.lr=0.01 is the highest that was tried: a better one may lie above it.",)
