"""Calls of the command line, as the tests of several verbs make them."""

from __future__ import annotations

import json

import pytest

from lengthwise.cli import main
from lengthwise.lab import provenance


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    """The code is as it was committed, also while somebody works on it: of runs by other code there would be a note."""
    monkeypatch.setitem(provenance.code_version(), "clean", True)


@pytest.fixture
def told(capsys):
    """Returns what a call says with --json."""

    def call(*words, code: int = 0):
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def refused(capsys):
    """Sees that a call is wrong: it ends with 2 and one line, which has the words, and with nothing on stdout."""

    def call(words, reason: str) -> None:
        capsys.readouterr()
        assert main([*map(str, words)]) == 2, words
        out, err = capsys.readouterr()
        assert (out, err[:7], err.count("\n")) == ("", "error: ", 1), words
        assert reason.lower() in err.lower(), words

    return call
