"""Options: read from annotations, from words, checked, and listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import pytest

from lengthwise import Error, mixers, models, recipes
from lengthwise.cli import main
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


def test_every_option_of_every_preset_and_recipe_has_a_line():
    schemas = {name: models.options(name) for name in models.available()}
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
