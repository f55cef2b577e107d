"""A network that was consolidated, and is not proved as it is, is proved with its nodes snapped, and so it is kept."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from lengthwise import tasks, theory, verify
from lengthwise.verify import certification, checker
from lengthwise.verify.certification import decide
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate.teaching import TaughtCopy
from lengthwise.verify.subject import subject_of

PARITY = tasks.get("parity")
CLAIM = claim_of(PARITY)


def spoiled(by: float, seed: int = 0):
    """A built model whose weights are all a little off."""
    model = copy.deepcopy(theory.regular_gpt(PARITY.machine)).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p += by * torch.randn(p.shape, generator=draw)
    return model


def wrong():
    model = spoiled(0.01)
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight.flip(0))
    return model


@pytest.fixture
def taught(family):
    """What every model is taught to be, and that no method proves it as it is."""

    def teach(model):
        family(teach=lambda *_: TaughtCopy(model, 1, 2, "sets"))

    return teach


def decided(folder):
    return decide(subject_of("certify", theory.regular_gpt(PARITY.machine), PARITY), 1.0, save=folder).verdict


def test_it_is_proved_and_kept_with_its_nodes_snapped(taught, tmp_path):
    taught(spoiled(0.01))
    verdict = decided(tmp_path / "made")
    assert isinstance(verdict, verify.Proved)
    kept = verdict.certificate
    assert (kept["inference"], kept["arithmetic"], kept["made"]) == ("snapped", "float32", "consolidated")
    assert checker.check(kept, tmp_path / "made").margin > 0.5
    assert kept["kept"] == {"own": 1, "all": 2, "of": "sets", "right": 1.0}
    assert verify.made_of(tmp_path / "made") == "consolidated"
    assert str(verify.kept_of(tmp_path / "made")) == "1 of its own 2 sets"
    model = type(spoiled(0)).from_pretrained(tmp_path / "made").eval()
    assert len(model.depth.layers[0].centres) == 2
    for word in itertools.product(range(2), repeat=7):
        assert int(model(torch.tensor([word])).logits[0, -1].argmax()) == sum(word) % 2


def test_one_that_is_wrong_is_not(taught, tmp_path):
    taught(wrong())
    assert isinstance(decided(tmp_path / "made"), verify.Refuted)
    assert not hasattr(type(wrong()).from_pretrained(tmp_path / "made").depth.layers[0], "centres")


def test_one_that_is_wrong_when_raw_alone_may_be_right_snapped(taught, monkeypatch, tmp_path):
    """The search has found a word that the network gets wrong; the one that is kept gets all words right."""
    taught(spoiled(0.01))
    search = certification.search

    def finds(*given, **options):
        found = search(*given, **options)
        return type("Found", (), {"refuted": verify.Refuted((1, 1), 1, 0), "seen": 2, "predicted": None})() or found

    monkeypatch.setattr(certification, "search", finds)
    assert isinstance(decided(tmp_path / "made"), verify.Proved)
