"""What every folder of results/ must say of itself."""

import html
import json
from pathlib import Path

import pytest

from lengthwise.report.provenance import FIELDS

FOLDERS = sorted(path.parent for path in (Path(__file__).parent.parent / "results").glob("*/results.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_says_where_its_numbers_come_from(folder):
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))["provenance"]
    assert set(found) == set(FIELDS)
    said = [value for values in found.values() for value in values]
    assert all(found.values())
    assert all(isinstance(value, str) and value for value in said)
    page = html.unescape((folder / "index.html").read_text(encoding="utf-8"))
    facts = page[page.index('<section id="run">') :]
    assert [value for value in said if value not in facts] == []
