"""`lengthwise eval scrolls`: what it prints and writes, and what it refuses."""

import json

import pytest

from lengthwise import lab
from lengthwise.cli import main
from lengthwise.evaluate.written_answers import read_submission
from lengthwise.train import Training

from ..lab import scrolls as made

FEW = ["-s", "window=60", "-s", "budget=4", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("scrolls"), train=6, others=3)


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    tiny = {"model.width": 8, "model.heads": 2, "model.layers": 1}
    training = Training.of(batch=2, steps=2, validation_samples=2)
    (e,) = lab.plan_answers(
        folder, "qasper", "transformer", window=60, budget=4, training=training, vocabulary=300, settings=tiny,
        store=root / "store",
    )  # fmt: skip
    (outcome,) = lab.run([e], root, workers=1, device="cpu")
    return outcome.run


def test_a_run_answers_its_own_task(run, folder, capsys):
    assert main(["eval", "scrolls", str(run.path), "--data", str(folder), "--device", "cpu", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found["tasks"]) == ["qasper"]
    assert found["tasks"]["qasper"]["score"] == run.result["answers"]["score"]
    assert (found["window"], found["average"]) == (60, None)
    assert "qasper: 3 of 3 questions" in err


def test_a_folder_answers_the_tasks_that_are_named(run, folder, tmp_path, capsys):
    call = ["eval", "scrolls", str(run.path / "model"), "--data", str(folder), *FEW]
    assert main([*call, "--task", "quality", "--task", "qasper", "--html", str(tmp_path / "page.html")]) == 0
    out, _ = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines() if "f1  " in line or "exact match " in line] == [
        "qasper",
        "quality",
    ]
    assert "SCROLLS" in (tmp_path / "page.html").read_text()


def test_submissions_of_several_models_go_into_one_file(run, folder, tmp_path, capsys):
    call = ["eval", "scrolls", str(run.path / "model"), "--data", str(folder), *FEW]
    for task in ("qasper", "quality"):
        assert main([*call, "--task", task, "--submission", str(tmp_path / "s.csv")]) == 0
        assert "It still lacks contract_nli" in capsys.readouterr().out.replace("\n", " ")
    found = read_submission(tmp_path / "s.csv")
    assert {task: len(each) for task, each in found.items()} == {"qasper": 3, "quality": 3}


def test_tasks_answered_before_a_failure_are_kept(run, folder, tmp_path, capsys):
    call = ["eval", "scrolls", str(run.path / "model"), "--data", str(folder), *FEW]
    # gov_report comes after qasper, and there is no copy of it.
    more = ["--task", "qasper", "--task", "gov_report", "--submission", str(tmp_path / "s.csv")]
    assert main([*call, *more]) == 2
    assert "neither gov_report/test.jsonl" in capsys.readouterr().err.replace("\n", " ")
    assert list(read_submission(tmp_path / "s.csv")) == ["qasper"]


WRONG = {
    "corpus": (["--corpus", "stdlib"], "has no option --corpus"),
    "task": (["--task", "qasperr"], "Did you mean 'qasper'"),
    "setting": (["-s", "windw=9"], "Did you mean 'window'"),
    "folder": (["--data", "nowhere"], "nowhere: no such folder. Give the folder of a copy of SCROLLS"),
    "no task there": (["--task", "contract_nli"], "neither contract_nli/validation.jsonl"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name, run, folder, refused):
    more, said = WRONG[name]
    data = [] if name == "folder" else ["--data", folder]
    refused(["eval", "scrolls", run.path / "model", "-s", "window=60", "-s", "budget=4", *data, *more], said)
