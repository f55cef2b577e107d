"""What answers at once: help, lists and wrong calls import nothing heavy, and know what the registries know."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lengthwise import lab, models, recipes, tasks
from lengthwise.cli import registries
from lengthwise.cli.study import settings_typed
from lengthwise.cli.work import check_settings
from lengthwise.errors import Error, UnknownName

from .listed_names import rows

HEAVY = ("torch", "transformers", "numpy", "pandas", "matplotlib")

VERBS = ("list", "bench", "train", "eval", "reproduce", "report", "inspect", "certify", "export", "compile", "doctor")
VERBS += ("zoo", "push")

MEASURES = ("perplexity", "needle", "variables", "scrolls")

LIGHT = {
    "--help": 0,
    **{f"{verb} --help": 0 for verb in (*VERBS, *(f"eval {what}" for what in MEASURES))},
    "nosuch": 2,
    "bench --nosuch": 2,
    "bench nosuch -m lstm": 2,
    "bench parity -m lstm,nosuch": 2,
    "bench parity lstm": 2,
    "export nosuch --lengths 4 --out nosuch": 2,
    "compile nosuch --out nosuch": 2,
    "certify nosuch --task nosuch": 2,
    "reproduce nosuch": 2,
    "reproduce demo nosuch": 2,
    "list": 0,
    **{f"list {table}": 0 for table in registries.tables()},
    "list nosuch": 2,
    "zoo": 0,
    "zoo nosuch": 2,
    "report nosuch": 2,
    **{f"list {name}": 0 for name in ("parity", "d-5", "regex:(ab)*", "regular-gpt", "training", "tests")},
    **{f"list {name}": 0 for name in ("rope", "softmax", "bipe", "demo parity")},
    "list regular-gpt --json": 0,
    "bench --config names.toml": 2,
    "bench --config models.toml": 2,
    "bench --config settings.toml": 2,
    "bench --config keys.toml": 2,
    "bench --config nosuch.toml": 2,
    "bench parity -m lstm -s steps=5": 2,
    **{f"bench parity -m lstm,gru -s {part}.nosuch=5": 2 for part in ("training", "tests", "model", "task", "lstm")},
    "bench parity -m lstm -s nosuch.width=5": 2,
    "export parity --lengths 4 --out nosuch -s task.nosuch=1": 2,
    "train stdlib -m nosuch": 2,
    "train stdlib -m": 2,
    "train --config text.toml": 2,
    "inspect nosuch clusters": 2,
    "certify nosuch --task parity": 2,
    "eval perplexity ./nosuch": 2,
    "eval perplexity here/nosuch": 2,
    # Only torch knows whether a Mac has a GPU.
    **({} if sys.platform == "darwin" else {"doctor": 0}),
}
"""The calls that import nothing heavy, and how they end."""

FILES = {
    "names.toml": 'task = "nosuch"\nmodels = ["lstm"]',
    "models.toml": 'task = "parity"\nmodels = ["nosuch"]',
    "settings.toml": 'task = "parity"\nmodels = ["lstm"]\n[settings]\ntraining.nosuch = 3',
    "keys.toml": 'tusk = "parity"',
    "text.toml": 'corpus = ["stdlib"]\nmodels = ["nosuch position=rope"]',
}


def test_light_calls_import_nothing_heavy(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "here").mkdir()
    code = f"""
import contextlib, io, json, sys
from lengthwise.cli import doctor, main
doctor.GPU_DEVICES = ()
for call in {list(LIGHT)}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        ended = main(call.split())
    print(json.dumps([call, ended, sorted(set({HEAVY}) & set(sys.modules))]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    for call, ended, imported in map(json.loads, done.stdout.splitlines()):
        assert (call, ended, imported) == (call, LIGHT[call], [])
    assert len(done.stdout.splitlines()) == len(LIGHT)


def test_the_names_that_are_listed_are_those_of_the_registries():
    """If not: `python tests/cli/listed_names.py`."""
    assert [json.loads(row) for row in registries.FILE.read_text().splitlines()] == list(rows())


@pytest.mark.parametrize("name", ["d-7", "tomita-9", "regex:(ab)*"])
def test_a_task_that_is_not_listed_has_the_options_of_its_family(name):
    assert registries.options("tasks", name) == [option.to_json() for option in tasks.options(name).values()]


@pytest.mark.parametrize(
    ("table", "name", "ask"),
    [
        *(("tasks", name, tasks.get) for name in ("pariti", "zzz", "d-x", "d-" + "1" * 10, "", "Parity", "mine.py")),
        *(("models", name, models.options) for name in ("lstmm", "gpt2", "", "mine.py")),
        *(
            ("recipes", name, lambda name: recipes.get(*name.split(" ", 1)))
            for name in ("nosuch", "demo prity", "demo")
        ),
    ],
)
def test_an_unknown_name_is_refused_as_its_registry_refuses_it(table, name, ask):
    with pytest.raises(UnknownName) as registry:
        ask(name)
    with pytest.raises(UnknownName) as early:
        registries.check(table, name)
    assert str(early.value) == str(registry.value)


@pytest.mark.parametrize(
    "settings",
    [
        ["model.nosuch=1"],
        ["gru.nosuch=1"],
        ["model.chunk=2"],
        ["task.nosuch=1"],
        ["parity.nosuch=1"],
        ["training.nosuch=1"],
        ["tests.nosuch=1"],
        ["nosuch.width=1"],
        ["steps=1"],
    ],
)
def test_a_wrong_setting_is_refused_as_the_plan_refuses_it(settings):
    with pytest.raises(Error) as planned:
        lab.plan("parity", ["lstm", "gru"], settings=settings)
    with pytest.raises(Error) as early:
        check_settings(["parity"], ["lstm", "gru"], settings_typed(settings))
    assert str(early.value) == str(planned.value)


def test_settings_that_planning_takes_pass():
    check_settings(["parity"], ["lstm", "regular-gpt"], {"model.chunk": 3, "lstm.width": 8, "training.lr": 1e-4})
    check_settings(["parity"], ["mine.py:Net"], {"model.nosuch": 3, "Net.nosuch": 4, "tests.seed": 1})


AFTER_THE_START = {
    *("scipy", "pandas", "matplotlib", "sklearn", "datasets", "numba", "ray", "submitit", "optuna", "automata"),
    *("torch._inductor.compile_fx", "torch.utils.tensorboard", "networkx"),
    *(f"lengthwise.{room}" for room in ("insight", "theory", "verify", "recipes", "report.html_page")),
}
"""What no run needs before its first step. Without these, what takes time are torch and transformers alone."""


def test_a_bench_trains_before_it_imports_what_training_does_not_need(tmp_path):
    code = f"""
import json, os, sys
from lengthwise.cli import main
from lengthwise.train.trainer import Trainer
def first_step(self):
    print(json.dumps(sorted({AFTER_THE_START} & set(sys.modules))), flush=True)
    os._exit(7)
Trainer.run = first_step
main("bench parity -m lstm".split())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (7, []), done.stderr


@pytest.mark.parametrize(
    ("table", "others"),
    [
        ("tasks", ["d-7", "tomita-8", "regex:(ab|ba)*", "regex:a\nb", "mine.py:Task", "package.module:Task"]),
        ("models", ["hf:gpt2", "mine.py:Model", "package.module:Model"]),
        ("recipes", ["mine.py", "mine.py table", "study tree-and-scan"]),
    ],
)
def test_names_that_can_be_something_pass(table, others):
    for name in others:
        registries.check(table, name)
