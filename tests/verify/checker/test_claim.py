"""Which parts of words matter, found by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.claim import claim_of

from .conftest import arithmetic


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_the_parts_that_matter_are_those_of_asked_words(chunk):
    """All parts of all short asked words that a tree's node may cover, found by hand; others are of no such word."""
    own = claim_of(arithmetic())
    claim, delta = StatedClaim(own.to_json()), own.machine.delta.tolist()
    symbols = range(claim.symbols)

    def after(word, q):
        for s in word:
            q = delta[q][s]
        return q

    live, opens = set(), set()
    for length in range(1, 7):
        for word in itertools.product(symbols, repeat=length):
            if not own.asked[after(word, claim.start)]:
                continue
            for end in range(length, 0, -chunk):
                opens.add(word[:end])
                live |= {word[begin:end] for begin in range(end)}
    for length in (1, 2):
        words = list(itertools.product(symbols, repeat=length))
        maps = np.array([[after(w, q) for q in range(claim.states)] for w in words])
        assert [w in live for w in words] == claim.live(maps, chunk).tolist()
        assert [w in opens for w in words] == claim.opens(maps, chunk).tolist()
