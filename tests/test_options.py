"""Options: read from annotations, from words, checked, and listed."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import pytest
from rich.console import Console

from lengthwise import Error, lab, mixers, models, recipes, tasks
from lengthwise.cli import console, main
from lengthwise.errors import UnknownName
from lengthwise.options import Option, Word, above, at_least, schema, take


@pytest.mark.parametrize(
    ("kind", "bounds", "given", "read"),
    [
        (int, at_least(2), 3.0, 3),
        (int, at_least(2), Word("1e3"), 1000),
        (float, None, 1, 1.0),
        (float, at_least(1, at_most=float("inf")), float("inf"), float("inf")),
        (tuple[int, int], None, Word("2,50"), (2, 50)),
        (Literal["last", "all"] | list[int], None, Word("-1"), [-1]),
        (Literal["none", "glu"] | None, None, Word("none"), "none"),
        (Literal["pre", "post"] | None, None, Word("none"), None),
        (str, None, Word("10"), "10"),
        (str | None, None, Word("null"), None),
        (bool, None, Word("true"), True),
        (Sequence[float] | None, None, (1, 2), [1.0, 2.0]),
    ],
)
def test_a_value_becomes_its_option_s_type(kind, bounds, given, read):
    found = Option("x", kind, bounds=bounds).read(given, "m: x")
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("kind", "bounds", "given", "said"),
    [
        (int, at_least(2, at_most=100), 101, r"m: x must be a whole number in 2\.\.100, got 101"),
        (int, None, True, "must be a whole number, got True"),
        (float, above(0), float("inf"), "must be a number above 0, got inf"),
        (float, None, float("nan"), "must be a number, got nan"),
        (Literal["pre", "post"], None, "prf", "must be 'pre' or 'post', got 'prf'. Did you mean 'pre'"),
        (tuple[float, float], at_least(0, below=1), (0.9, 1), "must be two numbers at least 0 and below 1"),
        (str, None, 3, "must be a text, got 3"),
    ],
)
def test_a_wrong_value_is_named(kind, bounds, given, said):
    with pytest.raises(Error, match=said):
        Option("x", kind, bounds=bounds).read(given, "m: x")


def test_names_are_checked_before_values():
    def make(*, width: Annotated[int, at_least(1), "How wide."] = 4, name: str): ...

    known = schema(make, keyword_only=True)
    with pytest.raises(UnknownName, match=r"Did you mean 'model\.width'"):
        take(known, {"widht": "no", "width": "no"}, "lstm", "model.")
    with pytest.raises(Error, match=r"lstm needs name. Add --set model.name=…"):
        take(known, {"width": 3}, "lstm", "model.")
    assert take(known, {"name": "a"}, "lstm") == {"name": "a"}


def test_a_type_error_inside_a_constructor_stays_one(monkeypatch):
    class Broken(mixers.Softmax):
        def __init__(self, width: int):
            len(3)

    monkeypatch.setitem(mixers.MIXERS, "broken", Broken)
    with pytest.raises(TypeError, match="has no len"):
        mixers.get("broken", width=4)


def test_every_option_of_every_preset_task_and_recipe_has_a_line():
    schemas = {name: room.options(name) for room in (models, tasks) for name in room.available()}
    schemas |= {name: recipes.options(*name.split(" ", 1)) for name in recipes.available()}
    missing = [f"{name}: {o.name}" for name, known in schemas.items() for o in known.values() if len(o.line) < 10]
    assert missing == []


def test_a_name_lists_its_options(capsys):
    assert main(["list", "regular-gpt"]) == 0
    out = capsys.readouterr().out
    assert "chunk  a whole number at least 2; default 2" in out
    assert "Example: lengthwise bench parity -m regular-gpt --set model.width=64" in out
    assert main(["list", "chacal", "table-3", "--json"]) == 0
    assert '"name": "checkpoint"' in capsys.readouterr().out
    assert main(["list", "trainin"]) == 2
    assert "Did you mean 'training'?" in capsys.readouterr().err


def test_an_unknown_name_lists_no_other_twice_and_suggests_only_what_is_near():
    assert "Known: abc, xyz." in str(UnknownName("name", "q", ["xyz", "abc", "xyz"]))
    assert "Did you mean 'linear'?" in str(UnknownName("name", "liner", ["linear"]))
    assert "Known: demo." in str(UnknownName("name", "dims", ["demo"]))


def listed(capsys, *words):
    assert main(["list", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_example_of_list_works(capsys):
    tables = listed(capsys)
    names = dict.fromkeys([*(name for lines in tables.values() for name in lines), "d-7", "regex:(ab|ba)*"])
    for name in names:
        for entry in listed(capsys, *name.split()):
            example = entry["example"]
            if entry["room"] in ("position", "mixer"):
                exec(example, {})
                continue
            words = shlex.split(example)
            if entry["room"] == "recipe":
                recipes.get(*words[2:4], settings=words[5::2])
            else:
                assert lab.plan(words[2], [words[4]], settings=words[6::2]), example


def test_list_tells_none_from_the_choice_none(capsys):
    assert main(["list", "block-lrnn"]) == 0
    out = capsys.readouterr().out
    assert "normalisation  'paper', 'official', 'orthogonal', 'one-hot', 'none' or None; default None" in out
    assert main(["list", "training"]) == 0
    out = capsys.readouterr().out
    assert "fused  True or False; default True" in out
    assert "default none" not in out


def test_list_takes_a_table_or_the_recipes_of_one_paper(capsys):
    tables = listed(capsys)
    assert list(tables) == ["tasks", "models", "recipes", "positions", "mixers", "settings"]
    for table, lines in tables.items():
        assert listed(capsys, table) == {table: lines}
    assert {entry["room"] for entry in listed(capsys, "chacal")} == {"model", "recipe"}
    assert main(["list", "regulargpt"]) == 0
    out = capsys.readouterr().out
    assert " regulargpt figure-4b " in out
    assert "demo parity" not in out


def test_every_line_of_list_is_whole(capsys):
    tables = listed(capsys)
    for table in ("positions", "mixers", "settings"):
        for name, line in tables[table].items():
            assert line.endswith("."), name
            assert line[0] != "`", name
    assert tables["settings"]["training"] != tables["settings"]["tests"]
    assert "at most 7 deep" in listed(capsys, "d-7")[0]["line"]
    assert "(ab|ba)*" in listed(capsys, "regex:(ab|ba)*")[0]["line"]


def test_list_indents_what_goes_on_in_a_narrow_terminal(capsys, monkeypatch):
    terminal = lambda: Console(file=sys.stdout, width=60, force_terminal=True, color_system=None, highlight=False)  # noqa: E731
    monkeypatch.setattr(console, "out", terminal)
    assert main(["list", "block-lrnn"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Example: ")) <= 60
    at = next(i for i, line in enumerate(lines) if line.startswith("normalisation  "))
    assert lines[at + 1].startswith("        '")
    assert any(line.startswith("Example: lengthwise bench parity -m block-lrnn --set ") for line in lines)
    assert main(["list"]) == 0
    footer = capsys.readouterr().out.split("A task may also be")[1].splitlines()
    assert len(footer) > 2
    assert all(line.startswith("  ") for line in footer[1:])
