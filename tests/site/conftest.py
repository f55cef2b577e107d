"""The scripts of the site, which belong to no package, as modules."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parents[2] / "site"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return script("build")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built in minutes."""
    pytest.importorskip("pydata_sphinx_theme")
    out = tmp_path_factory.mktemp("site") / "html"
    done = subprocess.run([sys.executable, SITE / "build.py", out], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return out
