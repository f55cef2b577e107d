"""A directory in which the tests of one file keep their runs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")
