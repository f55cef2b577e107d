"""Figures 3 and 4: the runs are Table 1's, and a model that is right by construction shows what the paper shows."""

import json

import pytest
import torch

from lengthwise import lab, recipes, theory
from lengthwise.cli import main
from lengthwise.recipes.papers.regulargpt import figure_3, figure_4
from lengthwise.recipes.papers.regulargpt.table_1 import planned


def trained(root, task):
    (outcome,) = lab.run(planned("smoke", task, "regular-gpt C=2"), root, workers=1, device="cpu")
    assert outcome.run
    return outcome.run


def built(run):
    """Right by construction, with a little noise on every output, which the next group takes out again."""
    classifier = theory.exact_classifier(run.experiment.task.name)
    noise = torch.Generator().manual_seed(0)
    (layer,) = classifier.inner.depth.layers
    layer.register_forward_hook(lambda module, inputs, y: y + 0.02 * torch.randn(y.shape, generator=noise))
    return classifier


@pytest.mark.parametrize("figure", ["figure-3", "figure-4"])
def test_nothing_is_trained_but_what_table_1_trains(figure):
    first = {e.hash for e in recipes.get("regulargpt", "table-1", "laptop").experiments}
    mine = recipes.get("regulargpt", figure, "laptop").experiments
    assert {e.task.name for e in mine} == {"parity", "cycle-navigation"}
    assert {e.hash for e in mine} <= first
    assert {e.model.options.get("chunk") for e in mine if e.model.name == "regular-gpt"} == {2}


def test_a_machine_has_a_cluster_for_each_transition(root, monkeypatch):
    monkeypatch.setattr(figure_3, "load_model", built)
    recipe = recipes.get("regulargpt", "figure-3", "smoke")
    parity, cycle, table = recipe.panels([trained(root, "parity"), trained(root, "cycle-navigation")])
    assert parity.title == "parity: 2 clusters found, 2 expected"
    assert cycle.title == "cycle-navigation: 5 clusters found, 5 expected"
    assert [(row["clusters"], row["expected"], row["agreement"]) for row in table.data] == [(2, 2, 1), (5, 5, 1)]
    assert table.caption.startswith("2 of 2 runs have as many clusters as expected.")


def test_the_table_says_what_was_not_found(root):
    recipe = recipes.get("regulargpt", "figure-3", "smoke")
    _, table = recipe.panels([trained(root, "cycle-navigation")])
    (row,) = table.data
    assert row["clusters"] != 5
    assert row["agreement"] < 1
    assert table.caption.startswith("0 of 1 runs")
    run = trained(root, "cycle-navigation")
    right = run.result["checkpoints"]["last"]["correct"]
    beyond = [right[str(n)] / run.result["samples"] for n in run.experiment.tests.lengths if n > 40]
    assert row["accuracy_beyond_training"] == sum(beyond) / len(beyond)


class Sent(Exception):
    pass


@pytest.mark.parametrize(("name", "module"), [("figure-3", figure_3), ("figure-4", figure_4)])
def test_the_model_is_looked_at_where_it_is_asked(root, monkeypatch, name, module):
    class Model:
        def to(self, device):
            raise Sent(device)

    monkeypatch.setattr(module, "load_model", lambda run: Model())
    with pytest.raises(Sent, match="cuda:1"):
        recipes.get("regulargpt", name, "smoke").panels([trained(root, "parity")], "cuda:1")


def test_smoke_of_figure_4(root, capsys):
    call = ["reproduce", "regulargpt", "figure-4", "--scale", "smoke", "--only", "parity", "--out", str(root)]
    assert main([*call, "--workers", "1", "--json"]) == 0
    drawn, table = json.loads(capsys.readouterr().out)["panels"]
    assert list(drawn["data"]) == list(table["data"]["parity"]) == ["regular-gpt C=2", "rnn", "transformer-xl"]
    (rnn,) = table["data"]["parity"]["rnn"]
    assert rnn["length"] == 60
    assert rnn["newest_90"] < 30, "an untrained recurrent network forgets"
