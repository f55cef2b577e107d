"""What one can find out: help, `list` and `doctor`."""

from __future__ import annotations

import json
import re
import sys

import pytest

from lengthwise import lab, models, recipes
from lengthwise.cli import console, main, registries


@pytest.mark.parametrize("name", ["list", "doctor"])
def test_json_is_alone_on_stdout(name, capsys):
    assert main([name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main([name]) == 0
    assert "{" not in capsys.readouterr().out


def test_list_has_every_name(capsys):
    from lengthwise import mixers, models, positions, tasks

    main(["list"])
    out = capsys.readouterr().out
    parts = (*positions.POSITIONS, *mixers.MIXERS, "training", "tests")
    for name in (*tasks.available(), *models.available(), *recipes.available(), *parts):
        assert f" {name} " in out


def test_the_help_of_list_names_what_can_be_listed(capsys):
    main(["list", "--help"])
    out = capsys.readouterr().out
    assert "list[str]" not in out
    for word in ("task", "model", "recipe", "position", "mixer", "training", "tests", "settings"):
        assert word in out


def test_doctor_says_what_is_missing(capsys, monkeypatch):
    from lengthwise.cli import doctor

    monkeypatch.setattr(
        doctor, "_package", lambda name, purpose, required=False: doctor.Check(name, "bad", "x", purpose)
    )
    assert main(["doctor"]) == 1
    assert "✗" in capsys.readouterr().out


def test_doctor_cuts_nothing_on_a_narrow_terminal(capsys, monkeypatch):
    from rich.console import Console

    from lengthwise.cli import doctor

    long = doctor.Check("a part", "ok", "/a/path/that/is/longer/than/its/column", "training.precision=bf16-and-more")
    monkeypatch.setattr(doctor, "examine", lambda: [long])
    monkeypatch.setattr(console, "out", lambda: Console(width=60, file=sys.stdout))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    for word in (long.found, long.purpose):
        assert all(letter in out for letter in word)
    assert max(map(len, out.splitlines())) <= 60


VERBS = ("list", "bench", "train", "reproduce", "report", "inspect", "certify", "export", "compile", "doctor")
VERBS += ("cliff", "zoo", "push", *(f"eval {what}" for what in ("perplexity", "needle", "variables", "scrolls")))


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb, capsys):
    assert main([*verb.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Example: lengthwise {verb}" in " ".join(out.split())
    assert "--json" in out


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("verb", ["", "eval", *VERBS])
def test_help_shows_values_and_no_types(verb, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main([*verb.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert not re.search(r"<[a-zA-Z]", out), "a Python type such as <int range>"
    assert not re.search(r"\w…", out.replace("NAME[,NAME…]", "")), "a cut word"
    assert max(map(len, out.splitlines())) <= int(columns)


def test_everything_that_can_be_listed_says_what_its_options_are_for():
    entries = [entry for lines in registries.tables().values() for name in lines for entry in registries.entries(name)]
    silent = [f"{e['room']} {e['name']}: {o['name']}" for e in entries for o in e["options"] if not o["line"]]
    assert silent == []


def test_a_setting_typed_as_an_option_is_answered_with_set(capsys):
    """Every setting that the schema has, though the command line reads no schema for it."""
    known = {part: lab.settings_of_part(part) for part in ("training", "tests")} | {"model": models.options("lstm")}
    for part, settings in known.items():
        for name in settings.keys() - {"curriculum", "optimizer"}:
            assert registries.setting(name) == f"{part}.{name}"
    for option, meant in (
        ("--steps", "--set training.steps=…"),
        ("--lr", "--set training.lr=…"),
        ("--samples", "--set tests.samples=…"),
        ("--seed", "--seeds"),
        ("--worker", "--workers"),
    ):
        assert main(["bench", "parity", "-m", "lstm", option, "5"]) == 2
        assert f"Did you mean {meant}?" in " ".join(capsys.readouterr().err.split())
