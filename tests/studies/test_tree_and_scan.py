"""A tree beside a scan: what is trained, and that the table says what was measured."""

import pytest
import torch
import tree_and_scan
from torch import nn
from tree_and_scan import MODELS, TASKS, planned, timed

from lengthwise import lab, recipes, tasks


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_all_are_trained_alike(scale):
    for task in TASKS:
        tree, scan, prefixes, automaton = (planned(scale, task, label)[0] for label in MODELS)
        assert tree.training == scan.training == prefixes.training == automaton.training
        assert tree.training.curriculum.lengths == (1, 40)
        assert tree.task == scan.task
        assert (tree.model.name, scan.model) == ("regular-gpt", prefixes.model)
        assert automaton.task == prefixes.task
        assert automaton.model.options == {**prefixes.model.options, "variant": "automaton"}
        assert tree.model.options["width"] == scan.model.options["width"]
        assert (
            tasks.get(scan.task.name, **scan.task.params).params["supervision"],
            tasks.get(prefixes.task.name, **prefixes.task.params).params["supervision"],
        ) == ("last", "prefix")
        assert tree.tests == scan.tests
    assert {"parity", "cycle-navigation", "modular-sum", "even-pairs"} <= TASKS.keys()
    assert {40, 500, 2_000} <= set(planned("laptop", "parity", "RegularGPT")[0].tests.lengths)


def test_smoke(tmp_path):
    recipe = recipes.get(tree_and_scan.__file__, scale="smoke").only(["even-pairs"])
    runs = [outcome.run for outcome in lab.run(recipe.experiments, tmp_path, workers=1, device="cpu") if outcome.run]
    table, drawn = recipe.panels(runs)
    assert [(row["task"], row["model"]) for row in table.data] == [("even-pairs", label) for label in MODELS]
    for run, row in zip(runs, table.data, strict=True):
        for n in ("40", "60"):
            share = run.result["checkpoints"]["last"]["correct"][n] / 4
            assert row["accuracy"][n] == {"max": share, "mean": share, "std": None, "majority": pytest.approx(0.8)}
        assert row["parameters"] == run.result["parameters"]
        assert row["train_seconds"] == run.result["seconds"]["train"]
        assert min(row["seconds_a_string"].values()) > 0
        assert drawn.data["series"][row["model"]]["y"][-1] == row["accuracy"]["60"]["mean"]
    assert "even-pairs, linear RNN, every prefix" in table.text
    assert "overflow" not in table.caption
    runs[1].result["checkpoints"]["last"]["overflowed"] = {"60": 3}
    table = recipe.panels(runs)[0]
    said = f"Logits that overflow count as wrong: even-pairs, {list(MODELS)[1]} at 60, 3 of 4 strings."
    assert table.caption.endswith(f" {said}")
    assert [row["overflowed"] for row in table.data] == [{"40": 0, "60": 3 * (i == 1)} for i in range(4)]
    assert recipe.panels([]) == []


class Noting(nn.Module):
    def __init__(self):
        super().__init__()
        self.asked: list[tuple[torch.Size, bool]] = []

    def forward(self, tokens: torch.Tensor, last: bool = False) -> None:
        assert not torch.is_grad_enabled()
        self.asked.append((tokens.shape, last))


def test_models_are_timed_alone_and_in_a_batch():
    a, b = Noting(), Noting()
    found = timed({"a": a, "b": b}, tasks.get("parity"), 7, 2, "cpu")
    assert {label: list(times) for label, times in found.items()} == {"a": ["alone", "batch"], "b": ["alone", "batch"]}
    rounds = 3  # one is not counted
    assert a.asked == b.asked == [((1, 7), True)] * rounds + [((64, 7), True)] * rounds


def test_seconds_are_of_one_string(monkeypatch):
    monkeypatch.setattr(tree_and_scan, "in_turn", lambda calls, repeats, device: dict.fromkeys(calls, 6.4))
    assert timed({"a": Noting()}, tasks.get("parity"), 7, 1, "cpu") == {
        "a": {"alone": 6.4, "batch": pytest.approx(0.1)}
    }
