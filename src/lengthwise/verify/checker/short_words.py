"""The finite machine that a snapped tree is, and the claim's, on all short words, where these are few.

Two machines of m and n states that differ do so on a word of at most m + n - 1 symbols. So this proves again what the
induction did, word by word.
"""

from __future__ import annotations

from .claimed import Claim
from .intervals import Array
from .weights import Rejected

WORDS = 100_000


def agree_on_short_words(chunk: int, claim: Claim, own: Array, table: dict[tuple[int, ...], int]) -> None:
    """Or it is rejected. `own` (N,Q): the map of each centre; `table`: the centre of every node, symbols as -1 - s."""
    longest = min(len(own) + claim.states - 1, 40)
    if sum(claim.symbols**k for k in range(1, longest + 1)) > WORDS:
        return
    for length in range(1, longest + 1):
        for number in range(claim.symbols**length):
            word = [number // claim.symbols**k % claim.symbols for k in range(length)]
            state = claim.start
            for s in word:
                state = int(claim.delta[state, s])
            if not claim.asked[state]:
                continue
            nodes = [-1 - s for s in word]
            while True:
                short = len(nodes) % chunk
                parts = [nodes[:short]] if short else []
                parts += [nodes[k : k + chunk] for k in range(short, len(nodes), chunk)]
                nodes = [table[tuple(part)] for part in parts]
                if len(nodes) == 1:
                    break
            if own[nodes[0]][claim.start] != state:
                raise Rejected(f"the snapped model and the claim's machine differ on the word {word}.")
