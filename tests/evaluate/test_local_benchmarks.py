"""RULER and BABILong from local files: the scores, the tasks that are written, and lm-eval's own command on them."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from lengthwise import Error
from lengthwise.evaluate import benchmark_scores, local_benchmarks
from lengthwise.evaluate.local_benchmarks import write_babilong, write_ruler

from . import one_word

yaml = pytest.importorskip("yaml")

RULER = [
    ({"outputs": ["1234567"]}, " The number is 1234567.", 1),
    ({"outputs": ["1234567"]}, " The number is 123456.", 0),
    ({"outputs": ["ABCDE", "FGHIJ", "KLMNO", "PQRST"]}, "abcde,\x00Klmno and pqrst", 0.75),
    ({"outputs": ["a", "b"]}, "", 0),
]
BABILONG = [
    ("qa1", "kitchen", "Where is Mary?", " Kitchen.", 1),
    ("qa1", "kitchen", "Where is Mary?", "Mary is in the kitchen. Not in the garden.", 1),
    ("qa1", "kitchen", "Where is Mary?", "Mary is in the kitchen, not in the garden.", 0),
    ("qa1", "kitchen", "Where is Mary?", "I see. In the kitchen.", 0),
    ("qa1", "kitchen", "Where is Mary?", "In the garden", 0),
    ("qa1", "kitchen", "Where is Mary?", "", 0),
    ("qa4", "garden", "What is north of the kitchen?", "The garden is north of the kitchen.", 1),
    ("qa5", "Fred", "Who gave the apple to Bill?", "Fred gave the apple to Bill", 1),
    ("qa5", "Fred", "Who gave the apple to Bill?", "Jeff gave the apple to Bill", 0),
    ("qa7", "two", "How many objects is Mary carrying?", "two<context> one", 1),
    ("qa8", "apple,milk", "What is Mary carrying?", "the milk and an apple", 1),
    ("qa8", "apple,milk", "What is Mary carrying?", "the milk", 0),
]


@pytest.mark.parametrize(("doc", "said", "score"), RULER)
def test_ruler_counts_the_references_that_are_contained(doc, said, score):
    assert benchmark_scores.ruler(doc, [said]) == {"found": score}
    assert benchmark_scores.ruler_any(doc, [said]) == {"found": float(score > 0)}


@pytest.mark.parametrize(("task", "target", "question", "said", "score"), BABILONG)
def test_babilong_wants_the_target_alone_in_the_first_sentence(task, target, question, said, score):
    function = getattr(benchmark_scores, f"babilong_{task}")
    assert function({"target": target, "question": question}, [said]) == {"right": score}


def rows(path, *each):
    path.write_text("\n".join(map(json.dumps, each)))
    return path


class Loader(yaml.SafeLoader):
    pass


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


def test_a_task_names_its_file_its_prompt_and_its_function(tmp_path):
    niah = rows(tmp_path / "a 'b'.jsonl", {"input": "x", "outputs": ["y"], "answer_prefix": " The"})
    vt = rows(tmp_path / "vt.jsonl", {"input": "x", "outputs": ["y"], "length": 12})
    qa = rows(tmp_path / "qa.jsonl", {"input": "x", "outputs": ["y"]})
    names = write_ruler(tmp_path / "tasks", {"niah_single_1_4096": niah, "vt": vt, "qa_1": qa})
    assert names == ["ruler_niah_single_1_4096", "ruler_vt", "ruler_qa_1"]
    said = [yaml.load((tmp_path / "tasks" / f"{name}.yaml").read_text(), Loader) for name in names]
    assert [task["task"] for task in said] == names
    assert [task["dataset_kwargs"]["data_files"]["test"] for task in said] == [str(niah), str(vt), str(qa)]
    assert [task["doc_to_text"] for task in said] == ["{{input}}{{answer_prefix}}", "{{input}}", "{{input}}"]
    assert [task["generation_kwargs"]["max_gen_toks"] for task in said] == [128, 30, 32]
    functions = ["benchmark_scores.ruler", "benchmark_scores.ruler", "benchmark_scores.ruler_any"]
    assert [task["process_results"] for task in said] == functions

    bab = rows(tmp_path / "b.json", [{"input": "x", "question": "y", "target": "z"}])
    (name,) = write_babilong(tmp_path / "tasks", {"qa2_4k": bab}, instruction='Say "where" {{now}}:\n')
    task = yaml.load((tmp_path / "tasks" / f"{name}.yaml").read_text(), Loader)
    jinja2 = pytest.importorskip("jinja2")
    prompt = jinja2.Template(task["doc_to_text"]).render(input="A fact.", question="Where?")
    assert prompt == 'Say "where" {{now}}:\nA fact.\nWhere?\nAnswer:'
    assert task["process_results"] == "benchmark_scores.babilong_qa2"
    for function in (*functions, "benchmark_scores.babilong_qa2"):
        spec = importlib.util.spec_from_file_location("copied", tmp_path / "tasks" / "benchmark_scores.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert callable(getattr(module, function.partition(".")[2]))


def test_parquet_is_read_where_pyarrow_is(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"input": ["x"], "question": ["y"], "target": ["z"]})
    parquet.write_table(table, tmp_path / "qa1.parquet")
    (name,) = write_babilong(tmp_path, {"qa1": tmp_path / "qa1.parquet"})
    assert yaml.load((tmp_path / f"{name}.yaml").read_text(), Loader)["dataset_path"] == "parquet"


def test_wrong_names_and_files_are_refused(tmp_path):
    good = rows(tmp_path / "good.jsonl", {"input": "x", "outputs": ["y"]})
    for call, said in {
        (write_ruler, "needle", good): "RULER's tasks begin with niah, vt, cwe, fwe, qa",
        (
            write_ruler,
            "niah",
            rows(tmp_path / "b.jsonl", {"input": 1}),
        ): "must have input, outputs, and outputs is missing",
        (write_ruler, "niah", rows(tmp_path / "c.txt", {})): "read from .jsonl, .json, .parquet, got '.txt'",
        (write_ruler, "niah", rows(tmp_path / "d.jsonl")): "must hold rows of JSON",
        (write_ruler, "niah", rows(tmp_path / "e.jsonl", 7)): "a row is an object with named fields, got int",
        (write_ruler, "niah", tmp_path / "nowhere.jsonl"): "nowhere.jsonl: no such file",
        (write_babilong, "qa19_0k", good): "of BABILong's tasks qa1, ",
        (write_babilong, "qa1", good): "question, target is missing",
    }.items():
        write, name, file = call
        with pytest.raises(Error, match=said):
            write(tmp_path / "tasks", {name: file})
    with pytest.raises(Error, match="at least one file"):
        write_ruler(tmp_path / "tasks", {})
    assert not (tmp_path / "tasks").exists()
    assert local_benchmarks.KINDS["niah"] == 128


WORDS = ["[END]", *"the number of a b c d is Where Mary ? Answer : facts kitchen garden".split()]  # noqa: SIM905


@pytest.mark.slow
def test_lm_eval_scores_a_saved_model_on_local_files(tmp_path):
    """A model that says "kitchen" to everything, by lm-eval's own command with our model's name."""
    pytest.importorskip("lm_eval")
    one_word.save(tmp_path / "saved", WORDS, "kitchen")
    answers = (["kitchen"], ["kitchen", "garden"], ["garden"], ["Kitchen"])
    ruler = rows(tmp_path / "r.jsonl", *({"input": "the number of a is", "outputs": each} for each in answers))
    facts = [{"input": "facts", "question": "Where is Mary?", "target": t} for t in ("kitchen", "garden", "office")]
    babilong = rows(tmp_path / "b.jsonl", *facts)
    names = write_ruler(tmp_path / "tasks", {"niah_single_1": ruler}) + write_babilong(
        tmp_path / "tasks", {"qa1": babilong}
    )
    caches = {name: str(tmp_path / name) for name in ("HF_MODULES_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "lengthwise.evaluate.harness", "--model", "lengthwise",
         "--model_args", f"pretrained={tmp_path / 'saved'},max_length=256", "--include_path", str(tmp_path / "tasks"),
         "--tasks", ",".join(names), "--device", "cpu", "--batch_size", "2"],
        cwd=tmp_path, env={**os.environ, **caches, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    table = {
        line.split("|")[1]: line.replace(" ", "")
        for line in done.stdout.splitlines()
        if "|none" in line.replace(" ", "")
    }
    found = {name.strip(): line for name, line in table.items()}
    assert "|found|" in found["ruler_niah_single_1"].replace("↑", "")
    assert "0.625" in found["ruler_niah_single_1"]  # (1 + 1/2 + 0 + 1) / 4
    assert "0.3333" in found["babilong_qa1"]
