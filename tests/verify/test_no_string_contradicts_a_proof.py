"""A million strings, random and structured, read by networks that are proved: no answer contradicts the proof.

The networks answer by their own forward pass in float32. Every sixteenth batch is read once more, in another order and
in batches of another size, so that sums of other shapes are seen to be covered as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lengthwise import tasks, theory
from lengthwise.verify import certificate, compile_machine
from lengthwise.verify.checker import check
from lengthwise.verify.claim import Claim, claim_of
from lengthwise.verify.consolidate.silence import silenced
from lengthwise.verify.falsification.words import Words
from lengthwise.verify.prove.cascade import prove_cascade
from lengthwise.verify.prove.codes import prove_codes

from .test_silence import SUM, noisy

MANY = 1_000_000
LENGTHS = (15, 16, 17, 19, 23, 29, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 129, 199, 200)
EVERY_LENGTH_TO = 14
"""All words up to here are read, as long as those of a length are at most an eighth of all strings."""
ROWS = 40
"""Of every family and length."""
BATCH, OTHER_BATCH = 1024, 97


def compiled(name):
    made = compile_machine(tasks.get(name))
    return made.model.eval(), made.claim, prove_codes, "compiled"


def built(name):
    task = tasks.get(name)
    return theory.exact_classifier(task, theory.block_lrnn).inner.eval(), claim_of(task), prove_cascade, "built"


def consolidated():
    taught = silenced(noisy().inner, claim_of(SUM), seconds=60).model
    return taught.eval(), claim_of(SUM), prove_cascade, "consolidated"


NETWORKS = {
    "parity of codes": lambda: compiled("parity"),
    "Tomita 5 of codes": lambda: compiled("tomita-5"),
    "cycle navigation of codes": lambda: compiled("cycle-navigation"),
    "cycle navigation as an automaton": lambda: built("cycle-navigation"),
    "a sum as an automaton, silenced": consolidated,
}


def proved(name):
    model, claim, prove, made = NETWORKS[name]()
    proof = prove(model, claim, 60)
    assert isinstance(proof, dict), proof
    assert check(certificate.make(model, claim, proof, made), certificate.weights(model)).arithmetic == "float32"
    return model, claim


def strings(claim: Claim, count: int, seed: int) -> Iterator[np.ndarray]:
    """`count` different words, (B,T) at a time."""
    assert claim.asked.all()
    words, S, rng, left = Words(claim), claim.machine.num_symbols, np.random.default_rng(seed), count
    for T in range(1, EVERY_LENGTH_TO + 1):
        if count < 8 * S**T:
            break
        for part in words.all(T):
            yield part
            left -= len(part)
    share = np.array(LENGTHS, dtype=float) ** -1.5
    until = left * (1 - share.cumsum() / share.sum())
    for T, rest in zip(LENGTHS, until, strict=True):
        own = left - int(rest)
        structured = np.concatenate(list(words.patterns(T, ROWS, seed)))
        p = rng.dirichlet([0.4] * S, size=own // 2)[:, None].cumsum(2)
        favoured = (rng.random((own // 2, T, 1)) > p[..., :-1]).sum(2)
        found = np.concatenate([structured, favoured, rng.integers(S, size=(own, T))]).astype(np.uint8)
        _, first = np.unique(found.view(f"V{T}")[:, 0], return_index=True)
        chosen = found[np.sort(first)][:own]
        left -= len(chosen)
        yield chosen.astype(np.int64)


def read(name: str, count: int) -> int:
    """How many words the network was asked; it was right on all of them."""
    (model, claim), done = proved(name), 0
    answers, batches = torch.as_tensor(claim.answers), 0

    def said(tokens):
        return model(tokens, logits_to_keep=1).logits[:, -1].argmax(-1)

    with torch.inference_mode():
        for part in strings(claim, count, seed=len(name)):
            for tokens in torch.from_numpy(part).split(BATCH):
                right = answers[claim.machine.run(tokens)[:, -1]]
                wrong = said(tokens) != right
                assert not wrong.any(), f"{name}: PROVED, and wrong after {tokens[wrong][0].tolist()}"
                if batches % 16 == 0:
                    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(batches))
                    for some in order.split(OTHER_BATCH):
                        assert (said(tokens[some]) == right[some]).all(), f"{name}: wrong in another order"
                done, batches = done + len(tokens), batches + 1
    return done


@pytest.mark.parametrize("name", ["cycle navigation of codes", "cycle navigation as an automaton"])
def test_a_thousand_strings_do_not_contradict_a_proof(name):
    assert read(name, 1000) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_million_strings_do_not_contradict_proofs(name):
    """In all: each network reads its part."""
    count = read(name, MANY // len(NETWORKS))
    print(f"{name}: right on all of {count:,} different strings")
    assert count == MANY // len(NETWORKS)


def test_the_strings_are_different_and_of_every_length():
    seen = [tuple(word) for part in strings(claim_of(SUM), 3000, 0) for word in part.tolist()]
    assert len(seen) == len(set(seen)) == 3000
    assert {len(word) for word in seen} >= {1, 2, 3, 4, 5, *LENGTHS}


def test_a_wrong_network_is_caught(monkeypatch):
    name = "cycle navigation as an automaton"
    model, claim = proved(name)
    with torch.no_grad():
        model.head.bias[0] += 100.0
    monkeypatch.setitem(globals(), "proved", lambda name: (model, claim))
    with pytest.raises(AssertionError, match="PROVED, and wrong after"):
        read(name, 100)
