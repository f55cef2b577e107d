"""The page of every table and figure is what site/reproduction.py makes of the recipes and the results."""

import doctest
import json
from pathlib import Path

import pytest

from lengthwise import recipes
from lengthwise.recipes.papers.chacal.chains import TOY as CHAINS

from .conftest import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made():
    return script("reproduction")


def test_the_page_is_what_is_generated(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.text(), "run: python site/reproduction.py"


def test_its_examples(made):
    assert doctest.testmod(made).failed == 0


def test_every_recipe_of_a_paper_is_on_it(made):
    papers = {" ".join(name) for name in recipes.TABLES if name[0] not in ("demo", "proof")}
    assert {item.recipe for item in made.ITEMS} == papers - {"bipe theorem-3"}


def test_nothing_is_said_of_what_is_no_item(made):
    said = {(paper, name) for paper, of in made.WORDS.items() if paper != "head" for name in of if name != "title"}
    assert said == {(item.paper, item.name) for item in made.ITEMS}


def test_results_that_were_made_overnight_come_first(made):
    for item in made.ITEMS:
        assert list(item.results()) == [scale for scale in made.SCALES if scale in item.results()]


def cell(verdict, score=1.0):
    return {"verdict": verdict, "published": {"max": None, "mean": 0.5}, "measured": {"mean": score}}


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        (["agrees", "agrees"], "reproduced"),
        (["agrees", "differs"], "in part"),
        (["agrees", "one seed"], "in part"),
        (["differs", "vacuous"], "different"),
        (["not learned", "one seed"], "proves nothing yet"),
    ],
)
def test_verdicts_of_cells(made, cells, verdict):
    row = {"row": "parity", "majority": 0.5, "published_majority": 0.75}
    rows = [{**row, "cells": {str(i): cell(each) for i, each in enumerate(cells)}}]
    found = made.compared("Measured")({"panels": [{"title": "Measured beside", "data": rows}]})
    assert found.verdict == verdict
    assert "| parity | 75.0 → 50.0 | 50.0 → 100.0" in found.table


def test_parts_of_a_table_are_joined_by_their_rows(made):
    def record(column):
        named = {"title": "Measured", "data": [{"row": "parity", "cells": {column: 1}}]}
        unnamed = {"title": "What differs", "data": [{"setting": "model.width"}]}
        return {"tasks": [column], "provenance": {"seeds": ["0"]}, "panels": [named, unnamed]}

    whole = made.joined([record("wide"), record("narrow")])
    assert [panel["data"] for panel in whole["panels"]] == [
        [{"row": "parity", "cells": {"wide": 1, "narrow": 1}}],
        [{"setting": "model.width"}],
    ]
    assert whole["tasks"] == ["wide", "narrow"]


def test_chains_are_reproduced_once_every_row_is_there(made):
    def found(*means):
        rows = zip(CHAINS, means, strict=False)
        data = [{"model": c.label, "tokens": 128, "seeds": 3, "published": CHAINS[c], "mean": mean} for c, mean in rows]
        return made.chains({"panels": [{"title": "Measured beside", "data": data}]})

    published = [row.accuracy / 100 for row in CHAINS.values()]
    assert found(*published).verdict == "reproduced"
    assert found(0.1, *published[1:]).verdict == "in part"
    assert found(*published[:2])[:2] == (
        "in part",
        "2 of 2 rows of the published length are within 5 points. The other 4 have not been run.",
    )
    assert found(0.1, 0.1).verdict == "different"
    assert found(published[0]).verdict == "proves nothing yet"


@pytest.mark.parametrize(
    ("seeds", "beyond", "verdict"),
    [(1, 180.0, "proves nothing yet"), (2, 180.0, "reproduced"), (2, 45.0, "different")],
)
def test_a_jump_is_told_from_a_rise(made, seeds, beyond, verdict):
    published = {"32/6": {"512": 30.0, "1024": 30.0, "2048": 900.0}, "128/6": {"512": 30.0, "1024": 60.0}}
    rows = [{"model": "8/2", "expected": 64, "inside": 30.0, "beyond": beyond}]
    grown = [{"model": "8/2", "perplexity": 25.0, "times": {"256": 1.5}}]
    panels = {"Where RegularGPT": rows, "Published": published, "Beyond the trained length": grown}
    records = {"rows": [{"seed": seed} for seed in range(seeds)]}
    found = made.breaks({**records, "panels": [{"title": title, "data": data} for title, data in panels.items()]})
    assert found.verdict == verdict
    rise = f"×{beyond / 30:.1f}"
    assert f"Published jumps of ×30 (32/6) where one more group runs; here rises of {rise} to {rise}." in found.words
    assert f"| 8/2 | 64 | {rise}0 |" in found.table
    assert "| 8/2 | 25.0 | ×1.50 |" in found.table


def test_problems_of_other_lengths_stand_by_operators(made):
    series = {"rope, 48": {"x": [4.0, 6.0], "y": [0.0, 0.9310]}, "alibi, 48": {"x": [4.0, 6.0], "y": [0.5, 0.9]}}
    assert made.other_lengths({"series": series}).splitlines()[0] == "| all steps right, by operators | 4 | 6 |"
    assert "| rope | 0.0 | 93.1 |" in made.other_lengths({"series": series})


def test_accuracy_by_steps(made, tmp_path):
    assert made.by_steps(tmp_path / "none.json") == ""
    runs = [{"name": "Sum, seed 0", "published": 0.9, "accuracy": [0.9, 0.5]}]
    content = {"what": "sums", "caption": "Why.", "steps": [2000, 4000], "shown": [4000], "runs": runs}
    (tmp_path / "by-steps.json").write_text(json.dumps(content))
    caption, _, head, _, last = made.by_steps(tmp_path / "by-steps.json").splitlines()
    assert head == "| sums after steps | 4,000 | best of these evaluations |"
    assert caption == "Why. Counted so, 1 of 1 runs are within 5 points of the published number."
    assert last == "| Sum, seed 0 | 50.0 | 90.0 |"
    (tmp_path / "by-steps.json").write_text(json.dumps({**content, "runs": [{"name": "Sum", "accuracy": [0.9, 0.5]}]}))
    assert made.by_steps(tmp_path / "by-steps.json").startswith("Why.\n\n| sums after")


def test_boxes_are_compared_by_stories_drawn_as_published(made):
    """By the mean over lengths, which is beside them, the order would be the other one."""
    figures = {"Standard 2": 58.8, "ChaCAL 2": 99.1, "ChaCAL 2, sum of paths": None}
    rows = [
        {
            "form": "advanced",
            "model": model,
            "seeds": 3,
            "mean": mean,
            "drawn_as_trained": [{"stories": whole}] * 3,
            "published": published and [0.01, published, 1.0, 1.0],
        }
        for (model, published), mean, whole in zip(figures.items(), (0.4, 0.3, 0.2), (0.6, 0.8, 0.9), strict=True)
    ]
    finding = made.boxes({"panels": [{"title": "Measured beside published", "data": rows}]})
    assert finding.verdict == "reproduced"
    assert "| ChaCAL 2, sum of paths | 3 | – | 90.0 |" in finding.table
    rows[0]["drawn_as_trained"] = [{"stories": 0.4}, {"stories": 0.82}, {"stories": 0.58}]
    finding = made.boxes({"panels": [{"title": "Measured beside published", "data": rows}]})
    assert (finding.verdict, "differ by more than neighbouring models" in finding.words) == ("proves nothing yet", True)
    for row in rows:
        row["drawn_as_trained"] = [{"stories": row["mean"]}]
    finding = made.boxes({"panels": [{"title": "Measured beside published", "data": rows}]})
    assert "Standard 2 is above ChaCAL 2 in every seed" in finding.words
    assert finding.verdict == "different"


@pytest.mark.parametrize(("chain", "verdict"), [((0.4, 0.45), "different"), ((0.4, 0.55), "proves nothing yet")])
def test_two_models_of_boxes_the_other_way_round_are_another_order(made, chain, verdict):
    """Though the seeds of a third lie on both sides of either."""
    rows = [
        {
            "form": "advanced",
            "model": model,
            "seeds": 2,
            "mean": 0.5,
            "drawn_as_trained": [{"stories": share} for share in shares],
            "published": [0.01, published, 1.0, 1.0],
        }
        for model, published, shares in (
            ("Standard 2", 58.8, (0.5, 0.6)),
            ("Standard 3", 84.8, (0.3, 0.9)),
            ("ChaCAL 2", 99.1, chain),
        )
    ]
    finding = made.boxes({"panels": [{"title": "Measured beside published", "data": rows}]})
    assert finding.verdict == verdict
    assert ("Standard 2 is above ChaCAL 2 in every seed" in finding.words) == (verdict == "different")


def test_cells_that_were_run_at_different_times_are_one_table(made):
    def result(date, *cells):
        rows = [{"row": row, "cells": {model: cell("agrees", score)}} for row, model, score in cells]
        curves = {"title": "Learning", "data": {"x": date}}
        panels = [{"title": "Measured beside", "data": rows}, curves]
        return {"tasks": [date], "panels": panels, "provenance": {"date": [date]}}

    whole = made.joined([result("1", ("a", "x", 0.1), ("b", "x", 0.2)), result("2", ("b", "y", 0.3), ("c", "y", 0.4))])
    assert whole["tasks"] == whole["provenance"]["date"] == ["1", "2"]
    assert whole["panels"][1]["data"] == {"x": "1"}
    scores = {r["row"]: {m: c["measured"]["mean"] for m, c in r["cells"].items()} for r in whole["panels"][0]["data"]}
    assert scores == {"a": {"x": 0.1}, "b": {"x": 0.2, "y": 0.3}, "c": {"y": 0.4}}


def test_a_part_of_a_table_is_found_beside_it(made, tmp_path, monkeypatch):
    monkeypatch.setattr(made, "ROOT", tmp_path)
    for name in ("lrnn-table-2-overnight", "lrnn-table-2-s4-overnight", "lrnn-table-2-s4-laptop"):
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "results.json").touch()
    (item,) = (item for item in made.ITEMS if item.recipe == "lrnn table-2")
    assert [f.name for f in item.folders("overnight")] == ["lrnn-table-2-overnight", "lrnn-table-2-s4-overnight"]
