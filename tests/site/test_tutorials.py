"""The tutorials run, and become pages and notebooks that say what came out."""

from pathlib import Path

import pytest

from .conftest import script

ROOT = Path(__file__).parents[2]
FAST = ("refutation",)


@pytest.fixture(scope="module")
def tutorials():
    return script("tutorials")


def test_every_file_is_in_the_menu_short_and_uses_public_names(tutorials):
    assert sorted(tutorials.NAMES) == sorted(file.stem for file in tutorials.FOLDER.glob("*.py"))
    for name in tutorials.NAMES:
        text = (tutorials.FOLDER / f"{name}.py").read_text()
        assert len(text.splitlines()) <= 70, name
        assert "\n# For whoever " in text, name
        imported = [line for line in text.splitlines() if line.startswith("from lengthwise")]
        assert all(line.startswith("from lengthwise import ") for line in imported), name


def test_cells_know_their_lines(tutorials):
    text = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\nx\n"
    markdown, code = tutorials.cells(text)
    assert (markdown["kind"], markdown["source"]) == ("markdown", "# Title\n\nText.")
    assert (code["kind"], code["source"], code["line"]) == ("code", "x = 1\nx", 7)


@pytest.fixture
def folder(tutorials, tmp_path, monkeypatch):
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    return tmp_path


def test_an_error_in_a_cell_fails_the_build_and_names_its_line(tutorials, folder):
    (folder / "broken.py").write_text("# %% [markdown]\n# # Broken\n\n# %%\nx = 1\nprint(1 / 0)\n")
    with pytest.raises(RuntimeError, match=r'(?s)broken failed.*broken\.py", line 6.*ZeroDivisionError'):
        tutorials.executed("broken")


def test_what_a_cell_prints_and_gives_is_on_the_page_and_in_the_notebook(tutorials, folder):
    text = "# %% [markdown]\n# # Small\n\n# %%\nprint('said')\n1 + 1\n\n# %%\nfrom lengthwise import report\n\n"
    text += 'report.line_chart("A", "", "x", "y", {"a": ([1, 2], [3, 4])})\n'
    (folder / "small.py").write_text(text)
    done = tutorials.executed("small")
    page, notebook = tutorials.page("small", done), tutorials.notebook(done)
    assert page.startswith("# Small")
    shown = ("```text\nsaid\n2\n```", "<svg", 'data-theme="dark"', 'href="tutorials/small.ipynb"')
    assert [text for text in shown if text not in page] == []
    assert tutorials.DARK not in page
    title, first, drawn = notebook["cells"]
    assert (title["cell_type"], first["cell_type"]) == ("markdown", "code")
    assert first["outputs"][0]["text"] == "said\n2\n"
    assert "<svg" in drawn["outputs"][0]["data"]["text/html"]


def test_a_class_stands_in_a_file_that_the_notebook_writes_and_imports(tutorials, folder):
    (folder / "own.py").write_text("# %% two.py\nclass Two:\n    value = 2\n\n\n# %%\nTwo.value\n")
    done = tutorials.executed("own")
    written, imported, used = tutorials.notebook(done)["cells"]
    assert written["source"] == "%%writefile two.py\nclass Two:\n    value = 2"
    assert (imported["source"], used["source"]) == ("from two import *", "Two.value")
    assert used["outputs"][0]["text"] == "2\n"


@pytest.mark.parametrize(
    "name",
    [
        *FAST,
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("own-task", "own-model", "learned-to-proved", "language-model", "sweep")
        ),
    ],
)
def test_it_runs_and_says_what_it_should(name, tutorials):
    said = {
        "own-task": ["palindrome"],
        "own-model": ["RunningMean → refuted"],
        "refutation": ["after a word of 46 tokens", "proved: the model is right on every word"],
        "learned-to-proved": ["equal at every length: True", "proved: the model is right"],
        "language-model": ["alibi", "usable up to"],
        "sweep": ["exit codes: [0, 0]", "training.lr"],
    }
    page = tutorials.page(name, tutorials.executed(name)).lower()
    assert [words for words in said[name] if words.lower() not in page] == []
