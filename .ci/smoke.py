"""Installs a wheel into a bare environment and tries what a user would: `python .ci/smoke.py dist/*.whl`.

The environment has the wheel alone; what it needs it reads from the environment that runs this file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ("py.typed", "cli/names.jsonl", "report/page.css", "recipes/proof/table.toml", "networks/parity-rnn/config.json")


def main(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "bare"
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"

        def call(*words: str | Path, code: int = 0) -> str:
            done = subprocess.run(
                list(map(str, words)), capture_output=True, text=True, cwd=scratch, env={"HOME": scratch}
            )
            assert done.returncode == code, f"{words}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
            return done.stdout

        def inside(expression: str) -> str:
            return call(python, "-c", f"import lengthwise, importlib.metadata as m; print({expression})").strip()

        call(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel.resolve())
        packages = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        # A .pth adds the folder alone, not what an editable install wrote into it.
        (packages / "what-it-needs.pth").write_text(sysconfig.get_path("purelib") + "\n")

        assert Path(inside("lengthwise.__file__")).is_relative_to(packages)
        assert inside("lengthwise.__version__") == inside("m.version('lengthwise')") == project["version"]
        extras = set(inside("*m.metadata('lengthwise').get_all('Provides-Extra')").split())
        assert extras == set(project["optional-dependencies"]), extras
        missing = [name for name in DATA if not (packages / "lengthwise" / name).is_file()]
        assert not missing, f"the wheel lacks {missing}"

        lengthwise = home / "bin" / "lengthwise"
        assert call(lengthwise, "--version").split() == ["lengthwise", project["version"]]
        assert len(json.loads(call(lengthwise, "zoo", "--json"))) == len(list((ROOT / "zoo").glob("*/config.json")))
        call(lengthwise, "zoo", "parity-rnn")
        call(lengthwise, "certify", "--check", "parity-rnn/certificate.json", "--model", "parity-rnn")
        call(
            lengthwise, "certify", "--check", "parity-rnn/certificate.json", "--model", "parity-rnn", "--theorem", "coq"
        )
        steps = ("-s", "training.steps=2", "-s", "tests.samples=4", "--train-length", "4", "--test-lengths", "8")
        assert json.loads(call(lengthwise, "bench", "parity", "-m", "lstm", *steps, "--json"))["tasks"]
        assert "parity" in call(lengthwise, "reproduce", "--help") + call(lengthwise, "list")
        call(lengthwise, "bnech", code=2)
    print(f"{wheel.name}: installed into a bare environment, and works there.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
