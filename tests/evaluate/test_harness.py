"""lm-eval's own command line, on a folder that a model was saved to: by each of three ways to name the model."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from . import one_word

ROOT = Path(__file__).parents[2]
PLAIN = [sys.executable, "-m", "lm_eval", "--model", "hf"]
WAYS = {
    "the stock command": (PLAIN, ",trust_remote_code=True"),
    "its own command": ([sys.executable, "-m", "lm_eval", "--model", "lengthwise"], ""),
    "our module": ([sys.executable, "-m", "lengthwise.evaluate.harness", "--model", "lengthwise"], ""),
    "our module, max_length": (
        [sys.executable, "-m", "lengthwise.evaluate.harness", "--model", "lengthwise"],
        ",max_length=64",
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return one_word.save(tmp_path_factory.mktemp("saved"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_command_line_scores_a_folder(way, saved, tmp_path):
    pytest.importorskip("lm_eval")
    rows = [{"question": f"is {n} even ?", "right": n % 2} for n in (1, 2, 3, 4, 6)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "parity.yaml").write_text(one_word.TASK.replace("FILE", str(tmp_path / "data.jsonl")))
    command, more = WAYS[way]
    known = entry_points(group="lm_eval.models", name="lengthwise")
    if way == "its own command" and not known:
        pytest.skip("installed without its entry points")
    if way == "its own command" and not looks_for_plugins():
        pytest.skip("this lm-eval does not look for plugins")
    options = ["--include_path", str(tmp_path), "--tasks", "parity", "--device", "cpu", "--batch_size", "2"]
    caches = {name: str(tmp_path / name) for name in ("HF_MODULES_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [*command, "--model_args", f"pretrained={saved}{more}", *options],
        cwd=tmp_path, env={**os.environ, **caches, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("|parity"))
    assert "|acc" in line.replace(" ", "")
    assert "0.6" in line  # three of five are even


def looks_for_plugins():
    """Whether this lm-eval reads entry points, by its source; 0.4.13 does not."""
    folder = Path(importlib.util.find_spec("lm_eval").origin).parent
    return any("entry_points" in file.read_text(encoding="utf-8") for file in folder.glob("api/*.py"))


def test_without_lm_eval_it_says_what_to_install():
    hide = "import sys; sys.modules['lm_eval'] = None; import lengthwise.evaluate.harness"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("lengthwise.errors.Error: lengthwise.evaluate.harness needs lm-eval")
    assert "pip install 'lengthwise[harness]'" in done.stderr


def test_the_entry_point_names_the_class():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["lm_eval.models"]["lengthwise"].split(":")
    spec = importlib.util.find_spec(module.rpartition(".")[0])
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent / module.rpartition(".")[2] / "__init__.py"
    assert f"class {name}(HFLM)" in source.read_text()
    assert f'@register_model("{next(iter(project["entry-points"]["lm_eval.models"]))}")' in source.read_text()


def test_the_console_script_is_lm_eval_with_our_model():
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["lengthwise-lm-eval"]
    module, name = script.split(":")
    source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    assert f"import {name}" in source.read_text()
