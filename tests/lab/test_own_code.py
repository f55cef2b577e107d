"""Models and tasks from outside the library: recorded with their source, run only where that was asked for."""

from __future__ import annotations

import linecache
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
        for name in ("_given", "_asked", "_named", "_digests"):
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


def test_what_a_record_keeps(files, tmp_path):
    task, model = files()
    (run,) = bench(task, model, tmp_path / "runs")
    for name in ("model", "task"):
        kept = (run.path / f"{name}.py").read_bytes()
        assert kept == (tmp_path / f"my_{name}.py").read_bytes()
        assert run.result["files"][f"{name}.py"] == digest(kept)
    assert lab.load_task(run).params == {"digits": 4, "shift": 0}
    assert isinstance(lab.load_model(run), torch.nn.Module)


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


@pytest.fixture
def notebook(monkeypatch):
    """Runs cells as a notebook does: in a __main__ that has no file, whose lines are kept."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    cells = []

    def run(text):
        name = f"<ipython-input-{len(cells)}>"
        cells.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), module.__dict__)
        return module

    yield run
    for name in cells:
        linecache.cache.pop(name)


HELPERS = "import torch.nn.functional as F\nfrom torch import nn\nWIDTH = 4\ndef double(x):\n    return 2 * x\n"
CELL = """
class Cell(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, WIDTH), nn.Linear(WIDTH, vocab_size)
    def forward(self, tokens):
        return self.head(F.relu(double(self.embedding(tokens).cumsum(1))))
"""


def test_a_notebook_s_class_is_recorded_with_what_it_uses(notebook, tmp_path, another_process):
    notebook(HELPERS)
    first = notebook(CELL).Cell
    (run,) = bench("parity", first, tmp_path / "runs")
    kept = (run.path / "model.py").read_text()
    for line in ("import torch.nn.functional as F", "WIDTH = 4", "def double(x):", "class Cell(nn.Module):"):
        assert kept.splitlines().count(line) == 1
    second = notebook(CELL.replace("relu", "gelu")).Cell
    assert bench("parity", second, tmp_path / "runs")[0].path != run.path
    # Both are of this process: each run has its own class.
    assert type(lab.load_model(run).inner) is first
    another_process()
    with pytest.raises(Error, match="outside this library"):
        lab.load_model(run)
    with pytest.warns(UserWarning, match="is not what it was"):
        lab.load_model(run, model=second)
    tokens = torch.tensor([[0, 1, 1]])
    loaded = lab.load_model(run, trust=True)
    assert type(loaded.inner) is not first
    assert torch.equal(loaded(tokens), lab.load_model(run, model=first)(tokens))


def test_a_helper_that_changed_is_another_experiment(notebook, another_process):
    def source(helpers):
        notebook(helpers)
        return own_code.digest(notebook(CELL).Cell)

    assert source(HELPERS) == source(HELPERS)
    assert len({source(HELPERS), source(HELPERS.replace("2 * x", "3 * x")), source(HELPERS.replace("4", "5"))}) == 3


def test_a_local_class_can_be_benched(tmp_path):
    class Local(torch.nn.Embedding):
        def __init__(self):
            super().__init__(2, 2)

    (run,) = bench("parity", Local, tmp_path)
    assert type(lab.load_model(run).inner) is Local
