"""Benchmarks of lm-eval on files of this machine: a task of one's own, a copy of a data set, and what is refused."""

import json

import pytest

from lengthwise import Error, recipes
from lengthwise.evaluate.benchmarks import score_benchmarks

from . import one_word

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def offline(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        patch.setattr("datasets.config.HF_HUB_OFFLINE", True)
        patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return one_word.save(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    rows = [{"question": f"is {n} even ?", "right": n % 2} for n in (1, 2, 3, 4, 6)]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "parity.yaml").write_text(one_word.TASK.replace("FILE", str(folder / "data.jsonl")))
    return folder


def test_a_copy_of_the_data_takes_the_place_of_the_hubs_and_own_tasks_stand_beside(saved, own, tmp_path):
    (tmp_path / "piqa").mkdir()
    rows = [{"goal": f"is {n} even", "sol1": "yes", "sol2": "no", "label": n % 2} for n in (1, 2, 4, 6)]
    for split in ("train", "validation"):
        (tmp_path / "piqa" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = score_benchmarks(saved, ["piqa", "parity"], copies=tmp_path, tasks=own, max_length=64)
    assert found["piqa"].value == 0.75
    assert found["parity"].value == 0.6
    with pytest.raises(
        Error, match=r"race: EleutherAI/race could not be read: .*hf download EleutherAI/race .*/race\) "
    ):
        score_benchmarks(saved, ["piqa", "race"], copies=tmp_path)
    with pytest.raises(Error, match="there is a copy of none of race in it"):
        score_benchmarks(saved, ["race"], copies=tmp_path)


def test_the_recipe_measures_checkpoints_on_a_local_task(saved, own):
    settings = [f"checkpoint=rope={saved}", f"tasks={own}", "benchmark=parity", "max_length=64", "limit=2"]
    recipe = recipes.get("bipe", "table-2", "smoke", settings)
    (table,) = recipe.panels([])
    assert table.data[0]["scores"]["parity"]["value"] == 0.5
    assert table.data[0]["published"] == {"parity": None}
    with pytest.raises(Error, match="nothing: lm-eval has no such task"):
        recipes.get("bipe", "table-2", "smoke", [f"checkpoint={saved}", "benchmark=nothing"]).panels([])
