"""What was proved is what the records of `reproduce proof table` and their certificates say.

`python tests/test_proved_so_far.py RECORDS` copies from the records of that table the certificates that are small,
beside its results.
"""

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


def certificate_file(task: str, model: str, network: dict[str, Any]) -> Path:
    return FOLDER / "certificates" / f"{task}-{model}-{network['certificate'][:12]}.json.gz"


def test_the_document_names_the_networks_that_are_refused():
    refused = {(model, task) for task, model, n in networks() if n["raw"] == "refused"}
    assert refused == {("RegularGPT", "d-2"), ("discrete", "d-2"), ("GRU", "tomita-6"), ("LSTM", "cycle-navigation")}
    said = "Refused are RegularGPTs of both kinds on D₂, the GRU on Tomita 6 and the LSTM on cycle navigation."
    assert said in " ".join((ROOT / "docs" / "proved.md").read_text(encoding="utf-8").split())


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
    copy_certificates(Path(sys.argv[1]))
