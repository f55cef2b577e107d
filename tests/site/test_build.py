"""The site: it builds without a warning, its links lead somewhere, and a browser opens it from disk."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from lengthwise.lab.collection import networks
from lengthwise.verify.checker import cascade, claim, tree, weights
from lengthwise.verify.checker.check import FIELDS, FORMAT, KEPT, KINDS, MADE

from ..report.test_html_page import browser

ROOT = Path(__file__).parents[2]
LINKS = re.compile(r'(?:href|src)="([^"]+)"')


def test_the_halls_hold_the_whole_zoo(build):
    verdicts = {name: network["verdict"] for name, network in networks().items()}
    for hall, verdict in ((build.hall_of_proofs(), "proved"), (build.hall_of_refutations(), "refuted")):
        assert set(re.findall(r"^\| \[?`([^`]+)`", hall, re.MULTILINE)) == {
            n for n, v in verdicts.items() if v == verdict
        }


def test_a_string_is_written_as_the_command_reads_it(build):
    assert build.shortened([1, *[0] * 45, 1, 1]) == "1 0:45 1:2"


def test_up_to_which_length_all_is_right(build):
    assert build.right_to({"40": 1.0, "100": 1.0, "500": 0.7969}) == "to 100 symbols; 80% at 500"
    assert build.right_to({"40": 1.0, "4000": 1.0}) == "to 4,000 symbols"


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("[p](../results/a-laptop/index.html)", '<a href="results/a-laptop/index.html">p</a>'),
        ("[p](../src/lengthwise/files.py)", "p (`src/lengthwise/files.py`)"),
        ("[p](../README.md)", "[p](index.md)"),
        ("[p](certify.md#a-part)", "[p](certify.md#a-part)"),
        ("[p](../site/certificate.md)", "[p](certificate.md)"),
        ("[p](../docs/certify.md#a-part)", "[p](certify.md#a-part)"),
        ("[p](docs/certify.md)", "[p](certify.md)"),
    ],
)
def test_links_out_of_the_documents(build, link, becomes, tmp_path):
    build.write(tmp_path / "page.md", f"See {link}.")
    assert (tmp_path / "page.md").read_text() == f"See {becomes}."


def test_every_verb_and_public_name_has_its_place(build):
    pages = "\n".join(build.command_line())
    for verb in ("bench", "certify", "zoo", "eval perplexity"):
        assert f"`lengthwise {verb}`" in pages
    assert "`--train-length` `N`" in pages
    assert "## `lab.bench`" in "\n".join(build.public_names("lab"))


def keys(given: Any) -> Iterator[str]:
    """The names of all fields in JSON."""
    if isinstance(given, dict):
        yield from given
    for each in given.values() if isinstance(given, dict) else given if isinstance(given, list) else ():
        yield from keys(each)


def test_every_field_of_a_certificate_is_described():
    page = (ROOT / "site" / "certificate.md").read_text(encoding="utf-8")
    names = {*FIELDS, *KEPT, *KINDS, *MADE, *claim.FIELDS, *cascade.PROOF, *weights.CONFIG}
    names |= {"kept", *tree.BOX, *tree.PLACES}
    for file in (ROOT / "zoo").glob("*/certificate.json"):
        certificate = json.loads(file.read_text(encoding="utf-8"))
        names |= {*certificate, *keys(certificate["claim"]), *keys(certificate["proof"]), *certificate["versions"]}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert f"format {FORMAT}" in page


def test_every_option_has_its_place(build):
    assert "## `rope`" in (page := "\n".join(build.options("positions")))
    assert "| `base` |" in page


def test_every_document_has_its_place(build):
    named = [page for pages in build.PARTS.values() for page in pages]
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= set(named)
    assert len(named) == len(set(named))


@pytest.mark.slow
def test_every_link_leads_to_a_file(site):
    broken = []
    for page in site.glob("*.html"):
        for link in LINKS.findall(page.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            if not parts.scheme and parts.path and not (site / unquote(parts.path)).exists():
                broken.append(f"{page.name}: {link}")
    assert broken == []


@pytest.mark.slow
def test_every_page_is_small(site):
    """Those of the site, and those of results."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "results").rglob("*.html"))) + 100
    assert {page.name: page.stat().st_size for page in pages if page.stat().st_size > 300 * 1024} == {}


@pytest.mark.slow
def test_a_browser_opens_it_from_disk(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not browser():
        pytest.skip("no Chromium found; LENGTHWISE_CHROMIUM names one")
    with playwright.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        for width, scheme in ((390, "light"), (1600, "dark")):
            tab = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            problems, asked = [], []
            tab.on("console", lambda m, into=problems: into.append(m.text) if m.type == "error" else None)
            tab.on("pageerror", lambda e, into=problems: into.append(str(e)))
            tab.on("request", lambda r, into=asked: into.append(r.url))
            for name in ("index", "ten-minutes", "hall-of-proofs", "hall-of-refutations", "certify", "cli", "api-lab"):
                tab.goto((site / f"{name}.html").as_uri())
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
            assert tab.evaluate("document.documentElement.dataset.theme") == scheme
            tab.goto((site / "search.html").as_uri() + "?q=refuted")
            tab.wait_for_selector("#search-results li a")
            assert problems == []
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        chromium.close()
