"""From a run that was trained on strings to a proof that the checker accepts, of the network as it is."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from lengthwise import tasks
from lengthwise.cli import main
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.verify import extract
from lengthwise.verify.claim import claim_of

CLAIM = claim_of(tasks.get("even-pairs"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What `certify --consolidate` made of a RegularGPT that learned even pairs in 1,000 steps."""
    out = tmp_path_factory.mktemp("runs")
    short = ["--test-lengths", "41", "--workers", "1", "-s", "tests.samples=8", "-s", "training.validation_samples=32"]
    small = ["-s", "model.width=32", "-s", "training.steps=1000"]
    assert main(["bench", "even-pairs", "-m", "regular-gpt", *small, *short, "--out", str(out)]) == 0
    (run,) = [path for path in out.iterdir() if path.is_dir()]
    made = out / "made"
    said = main(
        ["certify", str(run), "--consolidate", "--save", str(made), "--budget", "600", "--out", str(out / "proof.json")]
    )
    assert said == 0
    return made


@pytest.mark.slow
def test_it_is_proved_as_it_is(folder):
    proof = folder.parent / "proof.json"
    assert main(["certify", "--check", str(proof), "--model", str(folder)]) == 0
    certificate = json.loads(proof.read_text())
    assert (certificate["inference"], certificate["arithmetic"]) == ("raw", "float32")
    assert certificate["made"] == "consolidated"


@pytest.mark.slow
@torch.no_grad()
def test_raw_and_snapped_say_the_same_and_what_is_right(folder):
    raw = LengthwiseForCausalLM.from_pretrained(folder).eval()
    other = extract(raw, CLAIM).snap()
    longest = len(other.depth.layers[0].centres) + CLAIM.machine.num_states - 1
    for n in range(1, longest + 1):
        words = torch.tensor(list(itertools.product(range(2), repeat=n)))
        assert torch.equal(answers(other, words), right(words))
    for n in (5, 9, 17, 23, 31, 32, 33, 40, 65, 100):
        words = torch.randint(2, (10_000, n), generator=torch.Generator().manual_seed(n))
        for part in words.split(1000):
            assert torch.equal(answers(raw, part), right(part))
            assert torch.equal(answers(other, part), right(part))


def answers(model, words):
    return model(words, logits_to_keep=1).logits[:, -1].argmax(-1)


def right(words):
    state = torch.full((len(words),), CLAIM.machine.start)
    delta = torch.from_numpy(CLAIM.machine.delta.copy()).long()
    for symbols in words.unbind(1):
        state = delta[state, symbols]
    return torch.from_numpy(CLAIM.answers.copy())[state]
