"""The tutorials, `tutorials/*.py`: each is run cell by cell, and becomes a page and a notebook with what came out.

A tutorial is plain Python: `# %% [markdown]` begins a text, `# %%` code. As in a notebook, what the last line of a cell
gives is shown, drawn where it can draw itself. An error in a cell fails the build. `# %% my_model.py` begins code with
a class, whose file a record names: the notebook writes that file and imports from it.

    python site/tutorials.py FILE    # the cells as JSON, with their outputs, run where it is called
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lengthwise.files import write_atomically

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "site" / "tutorials"
NAMES = ["own-task", "own-model", "refutation", "learned-to-proved", "language-model", "sweep"]
"""In the order of the menu."""
DARK = "@media (prefers-color-scheme: dark) {"
"""Of a panel's style sheet: on the site a switch says it."""
Cell = dict[str, Any]


def cells(text: str) -> Iterator[Cell]:
    """The cells of a tutorial: their kind, source and first line."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("# %%")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        markdown = "[markdown]" in lines[start]
        own = [re.sub(r"^# ?", "", line) if markdown else line for line in lines[start + 1 : end]]
        file = re.fullmatch(r"# %% (\w+)\.py", lines[start])
        cell = {"kind": "markdown" if markdown else "code", "source": "\n".join(own).strip("\n"), "line": start + 2}
        yield {**cell, **({"module": file[1]} if file else {})}


def run(file: Path) -> list[Cell]:
    """Runs a tutorial in this process as if it were the program: its cells, the code with `text` and `html`."""
    main = sys.modules["__main__"]
    main.__file__, done = str(file), []  # classes of the tutorial are then found in its file
    for cell in cells(file.read_text(encoding="utf-8")):
        if cell["kind"] == "code":
            tree = ast.increment_lineno(ast.parse(cell["source"]), cell["line"] - 1)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(tree, file, "exec", dont_inherit=True), vars(main))  # as Python compiles the file itself
                value = eval(compile(ast.Expression(last.value), file, "eval"), vars(main)) if last else None
            html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
            shown = "" if html or value is None else f"{value!r}\n"
            cell = {**cell, "text": said.getvalue() + shown, "html": html}
        done.append(cell)
    return done


def remembered(name: str) -> list[Cell]:
    """What `executed` gives, run again once the tutorial, this file or the library has changed."""
    sources = [FOLDER / f"{name}.py", Path(__file__), *sorted((ROOT / "src").rglob("*.py"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    kept = ROOT / "build" / "tutorials" / f"{name}-{digest[:16]}.json"
    if not kept.exists():
        done = executed(name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps(done).encode())
    return json.loads(kept.read_text(encoding="utf-8"))


def executed(name: str) -> list[Cell]:
    """Runs a tutorial in a process and a folder of its own, with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{name}.py"
        file.write_text((FOLDER / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
        command = [sys.executable, Path(__file__), file.name]
        done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the tutorial {name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def page(name: str, done: Sequence[Cell]) -> str:
    """The page of the site."""
    parts = []
    for cell in done:
        if cell["kind"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        if cell["text"]:
            parts.append(f"```text\n{cell['text'].rstrip()}\n```")
        if cell["html"]:
            html = cell["html"].replace(DARK, 'html[data-theme="dark"] & {').replace("color-scheme: light dark;", "")
            parts.append(f'```{{raw}} html\n<div class="shown">{html}</div>\n```')
    links = " · ".join(f'<a href="tutorials/{name}.{end}" download>{end}</a>' for end in ("py", "ipynb"))
    return "\n\n".join([*parts, f"Download this page as {links}.", ""])


def notebook(done: Sequence[Cell]) -> dict[str, Any]:
    """The same for Jupyter."""

    def outputs(cell: Cell) -> Iterator[dict[str, Any]]:
        if cell["text"]:
            yield {"output_type": "stream", "name": "stdout", "text": cell["text"]}
        if cell["html"]:
            yield {"output_type": "display_data", "metadata": {}, "data": {"text/html": cell["html"]}}

    written = []
    for cell in done:
        code = {"execution_count": None, "outputs": list(outputs(cell))} if cell["kind"] == "code" else {}
        sources = [cell["source"]]
        if module := cell.get("module"):
            sources = [f"%%writefile {module}.py\n{cell['source']}", f"from {module} import *"]
        for source in sources:
            id_ = f"cell-{len(written)}"
            written.append({"cell_type": cell["kind"], "id": id_, "metadata": {}, "source": source, **code})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": written, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def write(pages: Path, files: Path) -> None:
    """Runs the tutorials, two at a time: their pages, and beside these their files to download."""
    files.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for name, done in zip(NAMES, pool.map(remembered, NAMES), strict=True):
            (pages / f"tutorial-{name}.md").write_text(page(name, done), encoding="utf-8")
            (files / f"{name}.py").write_text((FOLDER / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
            (files / f"{name}.ipynb").write_text(json.dumps(notebook(done), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]).resolve())))
