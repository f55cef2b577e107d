"""What answers at once: help, lists and wrong calls import nothing heavy, and read the registries off their source."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lengthwise import mixers, models, positions, recipes, tasks
from lengthwise.cli import registries
from lengthwise.errors import UnknownName

HEAVY = ("torch", "transformers", "numpy", "pandas", "matplotlib")

VERBS = ("list", "bench", "train", "eval", "reproduce", "report", "inspect", "certify", "export", "compile", "doctor")

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
    **{f"list {table}": 0 for table in (*registries.REGISTRIES, "settings")},
    "list nosuch": 2,
    "report nosuch": 2,
    # Only torch knows whether a Mac has a GPU.
    **({} if sys.platform == "darwin" else {"doctor": 0}),
}
"""The calls that import nothing heavy, and how they end. All others may: `list NAME` builds the schema of NAME."""


def test_light_calls_import_nothing_heavy(tmp_path):
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


def live(kind) -> str:
    """The first sentence on a class, from the class itself."""
    made = getattr(kind, "func", kind)
    own = made.__doc__ or ""
    of_file = sys.modules[made.__module__].__doc__ or ""
    return registries.first_sentence(of_file if own.strip()[:1] in ("", "`") else own)


def test_what_is_read_off_the_source_is_what_the_registries_hold():
    tables = {
        "tasks": tasks.available(),
        "models": models.available(),
        "recipes": recipes.available(),
        "positions": {name: live(kind) for name, kind in positions.POSITIONS.items()},
        "mixers": {name: live(kind) for name, kind in mixers.MIXERS.items()},
    }
    assert {table: registries.lines(table) for table in registries.REGISTRIES} == tables
    assert {table: registries.names(table) for table in registries.REGISTRIES} == {
        table: list(lines) for table, lines in tables.items()
    }


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
    ("table", "others"),
    [
        ("tasks", ["d-7", "tomita-8", "regex:(ab|ba)*", "regex:a\nb", "mine.py:Task", "package.module:Task"]),
        ("models", ["hf:gpt2", "mine.py:Model", "package.module:Model"]),
        ("recipes", ["mine.py", "mine.py table", "study tree-and-scan"]),
        ("models", registries.names("models")),
        ("tasks", registries.names("tasks")),
        ("recipes", registries.names("recipes")),
    ],
)
def test_names_that_can_be_something_pass(table, others):
    for name in others:
        registries.check(table, name)
