"""What docs/proved.md says was proved is what the records of `reproduce proof table` say, and their certificates.

`python tests/test_proved_so_far.py` prints the table of the document; `python tests/test_proved_so_far.py RECORDS`
copies from the records of that table the certificates that are small, beside its results.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lengthwise.report import recorded
from lengthwise.verify.checker.check import in_words, kept_in_words, seal

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "proof-table-laptop"
LARGEST = 100_000
"""Bytes of a certificate, compressed, that is kept."""
HEAD = "| network | made | proved at every length (what it kept of its own) |\n|---|---|---|\n"


def networks() -> list[tuple[str, str, dict[str, Any]]]:
    """Task, model and network of every line of the table."""
    panels = recorded(FOLDER)["panels"]
    return [
        (panel["title"].split(":")[0], model, network)
        for panel in panels
        if " elements" in panel["title"]
        for model, each in panel["data"].items()
        for network in each
    ]


def proved() -> list[tuple[str, str, dict[str, Any]]]:
    return [each for each in networks() if "proved" in (each[2]["raw"], each[2]["snapped"])]


def proved_so_far() -> str:
    """The table of docs/proved.md."""
    rows: dict[tuple[str, str], list[str]] = {}
    for task, model, n in proved():
        made = n["made"]
        if made == "compiled" and n["kept"]:
            made = "consolidated, and so compiled: it kept nothing"
        made += "" if n["raw"] == "proved" else ", then snapped"
        notes = [f"{n['kept']['own']}/{n['kept']['all']}"] if n["kept"] and n["kept"]["own"] else []
        notes += ["float64 alone"] if n["arithmetic"] == "float64" else []
        rows.setdefault((model, made), []).append(f"{task} ({', '.join(notes)})" if notes else task)
    order = list(dict.fromkeys(model for _, model, _ in networks()))
    ranks = ("learned", "learned, then snapped", "consolidated")
    made_rank = {made: i for i, made in enumerate(ranks)}
    keys = sorted(rows, key=lambda key: (order.index(key[0]), made_rank.get(key[1], len(ranks)), key[1]))
    return HEAD + "".join(f"| {model} | {made} | {', '.join(rows[model, made])} |\n" for model, made in keys)


def certificate_file(task: str, model: str, network: dict[str, Any]) -> Path:
    return FOLDER / "certificates" / f"{task}-{model}-{network['certificate'][:12]}.json.gz"


def test_the_document_s_table_is_that_of_the_records():
    assert proved_so_far() in (ROOT / "docs" / "proved.md").read_text(encoding="utf-8")


def test_every_small_certificate_is_kept_and_says_what_its_line_says():
    kept = {certificate_file(*each): each[2] for each in proved()}
    files = sorted((FOLDER / "certificates").iterdir())
    assert set(files) <= set(kept)
    assert len(files) > 0.8 * len(kept)
    for file in files:
        assert file.stat().st_size <= LARGEST
        certificate, network = json.loads(gzip.decompress(file.read_bytes())), kept[file]
        assert certificate["digest"] == network["certificate"] == seal(certificate)
        assert certificate["words"] == in_words(certificate)
        for field in ("made", "arithmetic"):
            assert certificate[field] == network[field]
        assert certificate.get("kept") == network["kept"]
        assert (certificate["inference"] == "raw") is (network["raw"] == "proved")


@pytest.mark.parametrize(("made", "own"), [("consolidated", True), ("compiled", False)])
def test_who_kept_nothing_of_its_own_is_compiled(made, own):
    taught = [n for *_, n in networks() if n["kept"] and n["made"] == made]
    assert all(bool(n["kept"]["own"]) is own for n in taught)
    assert all(kept_in_words(n) for n in taught)


def copy_certificates(records: Path) -> None:
    """Of all certificates in the records, those that stand in the table."""
    wanted = {n["certificate"]: certificate_file(task, model, n) for task, model, n in proved()}
    found = [*records.glob("*/*certificate.json"), *records.glob("*/*/*certificate.json")]
    found += records.glob("*/verdict.json")
    (FOLDER / "certificates").mkdir(exist_ok=True)
    for old in (FOLDER / "certificates").iterdir():
        old.unlink()
    for file in found:
        content = json.loads(file.read_text(encoding="utf-8"))
        certificate = content.get("certificate", content)
        packed = gzip.compress(json.dumps(certificate).encode(), mtime=0)
        if (target := wanted.get(certificate.get("digest"))) and len(packed) <= LARGEST:
            target.write_bytes(packed)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        copy_certificates(Path(sys.argv[1]))
    print(proved_so_far())
