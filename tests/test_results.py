"""What every folder of results/ must say of itself."""

import gzip
import html
import json
import re
from pathlib import Path

import pytest

from lengthwise.recipes.common.comparison import ComparedCell
from lengthwise.report import inside, recorded
from lengthwise.report.provenance import FIELDS

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in (ROOT / "results").glob("*/results.json*"))
PAGES = sorted((ROOT / "results").rglob("*.html"))
OWN_FOLDER = re.compile(
    r"(?:(?<![\w./-])|(?<=file://))/(?:home|root|tmp|work|workspace|scratch|private|dev|Users|mnt|var|opt)/[^\s\"<]*"
)


def own_folders(text: str) -> list[str]:
    """The folders of one machine that are named, in JSON behind the ends of lines too."""
    return OWN_FOLDER.findall(text.replace("\\n", "\n"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_is_small(page):
    assert page.stat().st_size <= 300 * 1024


def test_all_results_are_small():
    assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()) <= 8 * 1024 * 1024


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_names_no_folder_of_the_machine_that_made_it(page):
    texts = [page.read_text(encoding="utf-8"), json.dumps(inside(page))]
    assert [name for text in texts for name in own_folders(text)] == []


def test_numbers_name_no_folder_of_the_machine_that_made_them():
    for path in (ROOT / "results").rglob("*.json*"):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        assert own_folders(text) == [], path


def test_a_folder_of_a_machine_is_known():
    named = ["a --out /work/x", '"a\\n/root/x"', "file:///tmp/x", "A=/a:/home/b", "(/Users/x)"]
    assert all(own_folders(text) for text in named)
    assert own_folders("https://host/work/x runs/work/x ./tmp/x a/home/b") == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_says_where_its_numbers_come_from(folder):
    found = recorded(folder)["provenance"]
    assert set(found) == set(FIELDS)
    said = [value for values in found.values() for value in values]
    assert all(found.values())
    assert all(isinstance(value, str) and value for value in said)
    page = html.unescape((folder / "index.html").read_text(encoding="utf-8"))
    facts = page[page.index('<section id="run"') :]
    assert [value for value in said if value not in facts] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_comparisons_are_judged_by_todays_rule(folder):
    for panel in recorded(folder).get("panels", []):
        rows = panel["data"] if isinstance(panel["data"], list) else []
        for row in (row for row in rows if isinstance(row, dict) and "published_majority" in row):
            for cell in row["cells"].values():
                scores, inside = tuple(cell["measured"]["scores"]), cell["training_lengths"]
                published = {name: number for name, number in cell["published"].items() if number is not None}
                measured = ComparedCell(scores, published, row["majority"], inside)
                assert cell["verdict"] == measured.verdict(row["published_majority"])


ONE = re.compile(r"\b(?:one|single) (?:run|seed)s?\b")
DIARY = {"log.md", "earlier-log.md"}
DOCUMENTS = [
    "README.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if page.name not in DIARY),
]
SETTLED = re.compile(r"\bas published\b|\bis ahead\b|\bare ahead\b")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_one_seed_settles_nothing(document):
    paragraphs = (ROOT / document).read_text(encoding="utf-8").split("\n\n")
    assert [p for p in paragraphs if ONE.search(p) and SETTLED.search(p)] == []
