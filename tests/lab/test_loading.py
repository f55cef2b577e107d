"""Models and tasks from outside the library: recorded with their source, run only where that was asked for."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import linecache
import py_compile
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

from lengthwise import lab, own_code, report, tasks
from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.files import digest
from lengthwise.lab.job import Job, run_group
from lengthwise.train import Interrupted

MODEL = """
import pathlib
from torch import nn
{mark}
class Mine(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, 4), nn.Linear(4, vocab_size)
    def forward(self, tokens):
        return self.head(self.embedding(tokens).cumsum(1))
"""
TASK = """
import pathlib, torch
from lengthwise.tasks import Task
{mark}
class Firsts(Task):
    '''Digits; the answer is the first one.'''
    vocabulary = tuple("0123")
    def __init__(self, digits: int = 4, shift=0):
        self.digits, self.shift = digits, shift
        self.outputs = 4
    def draw(self, length, batch, generator):
        return torch.randint(self.digits, (batch, length), generator=generator)
    def answer(self, tokens):
        return (tokens[:, :1].expand_as(tokens) + self.shift) % 4
    def baseline(self, length):
        return 1 / self.digits
"""
QUICK = {"training.steps": 4, "training.batch": 4, "training.validation_samples": 4, "tests.samples": 4}


@pytest.fixture
def another_process(monkeypatch):
    """What this process was asked for is forgotten, as in one that only reads the records."""

    def forget():
        for name in ("_given", "_asked", "_allowed", "_named", "_texts"):
            monkeypatch.setattr(own_code, name, type(getattr(own_code, name))())

    return forget


@pytest.fixture
def files(tmp_path):
    """A model and a task in files that note each time they are run."""

    def write(change=""):
        for name, code in (("model", MODEL), ("task", TASK)):
            mark = f"pathlib.Path({str(tmp_path / 'ran')!r}).write_text({name!r})"
            (tmp_path / f"my_{name}.py").write_text(code.format(mark=mark) + change)
        return f"{tmp_path / 'my_task.py'}:Firsts", f"{tmp_path / 'my_model.py'}:Mine"

    write.ran = lambda: (tmp_path / "ran").exists() and (tmp_path / "ran").unlink() is None
    return write


NET = """
from torch import nn
class Mine(nn.Module):
    heads = 1
    def __init__(self, vocab_size, width=4, *, bias=True):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size, bias)
    def forward(self, tokens):
        return self.head(self.embedding(tokens).cumsum(1))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that can be imported, which passes a class of one of its modules on."""
    monkeypatch.setattr(own_code, "_given", {})  # an earlier test may have handed over a class of this name
    folder = tmp_path / "packages" / "ours_of_test"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .net import Mine, Mine as Net\n")
    (folder / "net.py").write_text(NET)
    monkeypatch.syspath_prepend(folder.parent)
    yield folder
    forget_modules()


def forget_modules(*more):
    """As if Python had imported none of the tests' own modules."""
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith(("lengthwise_imported_", "ours_of_test", *more))]:
        del sys.modules[name]


def bench(task, model, root, **more):
    return lab.bench(task, [model], train_length=4, test_lengths="8", root=root, settings={**QUICK, **more})


def test_a_task_by_name_class_and_instance_is_one_experiment(files):
    task, model = files()
    made = tasks.get(task, digits=3)
    kind = type(made)
    settings = {"task.digits": "3"}
    plans = [
        lab.plan(made, [model]),
        lab.plan(task, [model], settings=["task.digits=3"]),
        lab.plan(kind, [model], settings={"task.digits": 3}),
    ]
    assert len({e.hash for (e,) in plans}) == 1
    ((experiment,), *_) = plans
    assert experiment.task.params == {"digits": 3}
    assert experiment.task.source == digest(Path(task.split(":")[0]).read_bytes())
    assert lab.Experiment.from_json(experiment.to_json()).hash == experiment.hash
    with pytest.raises(Error, match="digits must be a whole number"):
        lab.plan(task, [model], settings=settings)


def test_nothing_of_a_record_is_run_without_trust(files, tmp_path, another_process, capsys):
    task, model = files()
    (run,) = bench(task, model, tmp_path / "runs")
    another_process()
    for name in [name for name in sys.modules if name.startswith("lengthwise_imported_my_")]:
        del sys.modules[name]
    files.ran()
    (again,) = lab.load(tmp_path / "runs")
    report.html([again], tmp_path / "page.html")
    assert main(["report", str(run.path)]) == 0
    assert "my_task.py:Firsts" in capsys.readouterr().out
    with pytest.raises(Error, match=r"task .*my_task.py:Firsts is Python code from outside.*trust=True \(--trust"):
        lab.load_model(again)
    assert main(["inspect", str(run.path), "receptive-field"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert not files.ran()
    assert main(["inspect", str(run.path), "receptive-field", "--length", "8", "--trust"]) == 0
    assert files.ran()
    same = lab.load_model(again, trust=True)
    tokens = torch.tensor([[0, 1, 2]])
    assert torch.equal(same(tokens), lab.load_model(again, trust=True)(tokens))


def test_changed_source_is_never_loaded_without_a_word(files, tmp_path, another_process):
    _, model = files()
    (run,) = bench("parity", model, tmp_path / "runs")
    another_process()
    files("# changed\n")
    files.ran()
    with pytest.raises(Error, match=r"my_model.py:Mine is not what it was in this run. Restore it .*model.py\), train"):
        lab.load_model(run, trust=True)
    assert not files.ran()
    with pytest.warns(UserWarning, match="the class given takes its place"):
        lab.load_model(run, model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab.load_model(run, model=f"{run.path / 'model.py'}:Mine")


def test_a_run_is_not_gone_on_with_by_other_source(files, tmp_path, another_process):
    task, model = files()
    experiments = lab.plan(task, [model], train_length=4, test_lengths="8", settings=QUICK)
    job = Job(tmp_path / "runs", hear=lambda progress: setattr(job.stop, "asked", progress.step == 2))
    with pytest.raises(Interrupted):
        run_group(experiments, job)
    another_process()
    files("# changed\n")
    (outcome,) = run_group(experiments, Job(tmp_path / "runs"))
    assert outcome.run is None
    assert "its source has changed since the experiment was planned" in outcome.error
    assert lab.plan(task, [model], train_length=4, test_lengths="8", settings=QUICK)[0].hash != experiments[0].hash
    another_process()
    files()
    (outcome,) = run_group(experiments, Job(tmp_path / "runs"))
    assert outcome.run, outcome.error


def test_a_task_whose_parameters_do_not_build_it_is_refused(files, tmp_path):
    task, model = files()
    made = tasks.get(task)
    made.shift = 1
    made.params = {"digits": 4}
    with pytest.raises(Error, match="build another task"):
        lab.plan(made, [model])
    made.params = {"colour": 4}
    with pytest.raises(Error, match=r"arguments of __init__.*colour"):
        lab.plan(made, [model])
    with pytest.raises(Error, match="A task is a name"):
        lab.plan(3, [model])
    (tmp_path / "none.py").write_text("x = 1")
    with pytest.raises(Error, match=r"must be a class of lengthwise\.tasks\.Task"):
        lab.plan(f"{tmp_path / 'none.py'}:x", [model])


CELL = """
import torch
class Cell(torch.nn.Embedding):
    def __init__(self):
        super().__init__(2, 2)
"""


def test_a_class_in_no_file_is_refused_with_how_to_write_it_to_one(monkeypatch):
    """As of a notebook: a __main__ without a file, whose lines are kept."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setitem(linecache.cache, "<cell>", (len(CELL), None, CELL.splitlines(True), "<cell>"))
    exec(compile(CELL, "<cell>", "exec"), module.__dict__)
    with pytest.raises(Error, match=r"^Cell: a notebook.*%%writefile my_code\.py, and name my_code\.py:Cell\.$"):
        lab.plan("parity", [module.Cell])


def test_a_record_of_a_notebook_s_class_is_loaded_from_the_source_it_keeps(files, tmp_path, another_process):
    """As runs were recorded whose class was in no file."""
    _, model = files()
    (run,) = bench("parity", model, tmp_path / "runs")
    spec = dataclasses.replace(run.experiment.model, name="__main__:Mine")
    again = run._replace(experiment=dataclasses.replace(run.experiment, model=spec))
    another_process()
    with pytest.raises(Error, match="outside this library"):
        lab.load_model(again)
    assert type(lab.load_model(again, trust=True).inner).__name__ == "Mine"


def test_a_local_class_can_be_benched(tmp_path):
    class Local(torch.nn.Embedding):
        def __init__(self):
            super().__init__(2, 2)

    (run,) = bench("parity", Local, tmp_path)
    assert type(lab.load_model(run).inner) is Local


def test_the_bytes_of_the_digest_are_what_runs_whatever_python_has_compiled(files, tmp_path, another_process):
    """Byte code in __pycache__ may say that it is never to be compared with its source."""
    _, model = files()
    (run,) = bench("parity", model, tmp_path / "runs")
    other = tmp_path / "other.py"
    other.write_text("raise SystemExit('other code')")
    for path in (tmp_path / "my_model.py", run.path / "model.py"):
        cached = importlib.util.cache_from_source(str(path))
        py_compile.compile(str(other), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    forget_modules()
    another_process()
    assert isinstance(lab.load_model(run, trust=True), torch.nn.Module)
    assert "class Mine" in inspect.getsource(type(lab.load_model(run, trust=True).inner))
    (tmp_path / "my_model.py").unlink()
    forget_modules()
    assert isinstance(lab.load_model(run, trust=True), torch.nn.Module)


def test_a_module_s_byte_code_does_not_run_in_its_place(package, tmp_path, another_process):
    (run,) = bench("parity", "ours_of_test.net:Mine", tmp_path / "runs")
    other = tmp_path / "other.py"
    other.write_text("raise SystemExit('other code')")
    cached = importlib.util.cache_from_source(str(package / "net.py"))
    py_compile.compile(str(other), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    forget_modules()
    another_process()
    assert isinstance(lab.load_model(run, trust=True), torch.nn.Module)


def test_what_lies_beside_a_kept_copy_is_never_imported(files, tmp_path, another_process):
    _, model = files("import sibling_of_test\n")
    (tmp_path / "sibling_of_test.py").write_text("")
    (run,) = bench("parity", model, tmp_path / "runs")
    (tmp_path / "my_model.py").unlink()
    (run.path / "sibling_of_test.py").write_text("")
    forget_modules("sibling_of_test")
    another_process()
    with pytest.raises(Error, match="No module named 'sibling_of_test'"):
        lab.load_model(run, trust=True)


def test_records_alone_make_nothing_run(files, tmp_path, another_process):
    task, model = files()
    bench(task, model, tmp_path / "runs")
    experiments = [run.experiment for run in lab.load(tmp_path / "runs")]
    assert lab.run(experiments, tmp_path / "again")[0].run, "this process was asked for it"
    forget_modules()
    another_process()
    files.ran()
    with pytest.raises(Error, match=r"a record alone names it\. Plan the experiment with lab.plan"):
        lab.run(experiments, tmp_path / "third")
    files("# changed\n")
    (outcome,) = run_group(experiments, Job(tmp_path / "third"))
    assert "its source has changed" in outcome.error
    assert not files.ran(), "the digest is compared before anything runs"


def test_a_worker_may_run_what_its_job_was_asked_for(files, tmp_path, another_process):
    """Also where no file can be seen to define the class before it is imported."""
    files()
    (tmp_path / "all.py").write_text("from my_model import *\n")
    experiments = lab.plan("parity", [f"{tmp_path / 'all.py'}:Mine"], train_length=4, test_lengths="8", settings=QUICK)
    own = lab.running.asked_own(experiments)
    forget_modules("my_model")
    another_process()
    (outcome,) = run_group(experiments, Job(tmp_path / "runs"))
    assert "its source has changed" in outcome.error
    (outcome,) = run_group(experiments, Job(tmp_path / "runs", own=own))
    assert outcome.run, outcome.error


def test_a_record_keeps_the_source_that_ran(files, tmp_path):
    task, model = files()
    experiments = lab.plan(task, [model], train_length=4, test_lengths="8", settings=QUICK)
    before = {name: (tmp_path / f"my_{name}.py").read_bytes() for name in ("model", "task")}
    files("# changed while the grid runs\n")
    (outcome,) = lab.run(experiments, tmp_path / "runs")
    assert outcome.run, outcome.error
    assert {name: (outcome.run.path / f"{name}.py").read_bytes() for name in before} == before
    assert {name: outcome.run.result["files"][f"{name}.py"] for name in before} == {
        name: digest(content) for name, content in before.items()
    }


@pytest.mark.parametrize(
    "edit",
    [
        ("cumsum(1)", "cumsum(1) * 2"),
        ("width=4", "width=8"),
        ("*, bias=True", "*, bias=False"),
        ("heads = 1", "heads = 2"),
    ],
)
def test_a_class_that_was_imported_before_an_edit_is_refused(package, edit):
    kind = importlib.import_module("ours_of_test.net").Mine
    path = package / "net.py"
    first = path.read_text()
    path.write_text(first.replace(*edit))
    assert path.read_text() != first
    with pytest.raises(Error, match="its file has changed since Python imported it"):
        lab.plan("parity", [kind])
    path.write_text(first)
    assert lab.plan("parity", [kind])[0].model.source == digest(first.encode())


def test_a_class_that_is_passed_on_is_found_where_it_is_defined(package, tmp_path, another_process):
    (run,) = bench("parity", "ours_of_test:Mine", tmp_path / "runs")
    (renamed,) = bench("parity", "ours_of_test:Net", tmp_path / "runs")
    assert run.experiment.model.source == digest((package / "net.py").read_bytes())
    forget_modules()
    another_process()
    assert isinstance(lab.load_model(run, trust=True), torch.nn.Module)
    assert isinstance(lab.load_model(renamed, trust=True), torch.nn.Module)
    forget_modules()
    (package / "__init__.py").write_text("def __getattr__(name):\n    from . import net\n    return net.Mine\n")
    assert isinstance(lab.load_model(run, trust=True), torch.nn.Module), "the kept copy"
    (package / "__init__.py").write_text("from .net import Mine\n")
    (package / "net.py").write_text((package / "net.py").read_text() + "# changed\n")
    with pytest.raises(Error, match="is not what it was in this run"):
        lab.load_model(run, trust=True)


def test_names_of_records_are_shown_without_their_escape_sequences(files, tmp_path, another_process):
    _, model = files()
    (run,) = bench("parity", model, tmp_path / "runs")
    spec = dataclasses.replace(run.experiment.model, name="\x1b[2Jmine.py:Mine", source="0")
    run = run._replace(experiment=dataclasses.replace(run.experiment, model=spec))
    with pytest.warns(UserWarning, match="takes its place") as told:
        lab.load_model(run, model=model)
    assert "\x1b" not in str(told[0].message)
