"""Which entries of x_0 carry the machine through a stack of automata, and what the stack does with them.

On random words each entry is followed as functions of places move it about. The carriers are the fewest entries whose
places tell the answer, and the fewest in the layers below whose places tell, beside the token, where those go next:
chosen on half of the words, and judged on the other. What the stack does with them is a table for each layer: for a
token, and the places of the carriers below, where each place goes, as most words have it.

Entries of one block that have met stay together. So after `SETTLED` tokens few are left to tell apart, and only what
comes after is read.

Shapes: B words, T tokens, h blocks, b width of a block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...models.token_classifier import evaluating
from ...seeds import generator
from ..checker.claim import numbered
from ..claim import Claim
from .teaching import CannotBeTaught

Entry = tuple[int, int, int]
"""Layer, block, and place in x_0."""

WORDS, LENGTH, SETTLED = 800, 48, 12
"""Words, their tokens, and after how many of these most entries of a block that ever meet have met."""
ENOUGH = 0.9
"""How often the chosen entries must tell what is asked of them, on words that did not choose them."""


class NoCarriers(CannotBeTaught):
    """No few entries carry the machine."""


@dataclass(frozen=True)
class Observed:
    """The stack on random words."""

    symbols: np.ndarray
    """(B,T)"""
    answers: np.ndarray
    """(B,T) the number of the right answer, -1 where nothing is asked."""
    places: list[np.ndarray]
    """Of each layer (B,1+T,h,b): where each entry of x_0 lies, before the first token and after each."""
    functions: list[np.ndarray]
    """Of each layer (B,T,h,b): where each place goes."""
    sizes: list[np.ndarray]
    """Of each layer (h,b): |x_0|."""


def random_words(claim: Claim, count: int, length: int, seed: int) -> np.ndarray:
    """(count, length) symbols after which something may still be asked, each of them as likely as the others.

    Two words of every four keep to states, as long as they can, from which more than one answer can still come: in a
    language such as D_2 most words are soon in a state that they never leave.
    """
    alive = claim.alive
    delta = claim.machine.delta
    undecided = alive & _undecided(claim)
    careful = (np.arange(count) % 4 > 1)[:, None]
    g = generator("silence", "words", seed)
    draws = torch.rand(count, length, generator=g).numpy()
    q = np.full(count, claim.machine.start)
    words = np.zeros((count, length), np.int64)
    for t in range(length):
        next_ = delta[q]
        keeps = undecided[next_]
        open = np.where(careful & keeps.any(1, keepdims=True), keeps, alive[next_])
        rank = np.floor(draws[:, t] * open.sum(1)).astype(int)
        words[:, t] = (open.cumsum(1) > rank[:, None]).argmax(1)
        q = delta[q, words[:, t]]
    return words


def _undecided(claim: Claim) -> np.ndarray:
    """(Q,) from where words lead to two different answers."""
    numbers = np.where(claim.asked, claim.answer_numbers, -1)
    kinds = np.unique(numbers[claim.asked])
    leads = numbers[:, None] == kinds
    while not np.array_equal(leads, more := leads | leads[claim.machine.delta].any(1)):
        leads = more
    return leads.sum(1) > 1


@torch.no_grad()
def observe(model: Any, claim: Claim, seed: int) -> Observed:
    words = random_words(claim, WORDS, LENGTH, seed)
    device = model.embedding.weight.device
    with evaluating(model):
        inputs = model(torch.from_numpy(words).to(device), output_hidden_states=True).hidden_states
    places, functions = [], []
    for x, layer in zip(inputs, model.depth.layers, strict=False):
        A, _ = layer.mixer.transitions(layer.mixer_norm(x))
        F = A.argmax(-2).cpu().numpy().astype(np.uint8)
        h, b = layer.mixer.shape
        now = np.broadcast_to(np.arange(b, dtype=np.uint8), (len(words), h, b))
        moved = [now]
        for t in range(LENGTH):
            now = np.take_along_axis(F[:, t], now.astype(np.int64), -1)
            moved.append(now)
        places.append(np.stack(moved, 1))
        functions.append(F)
    q = claim.machine.run(torch.from_numpy(words)).numpy()
    right = claim.answer_numbers
    sizes = [layer.mixer.initial.abs().cpu().numpy() for layer in model.depth.layers]
    return Observed(words, np.where(claim.asked[q], right[q], -1), places, functions, sizes)


def choose(seen: Observed, state_alone: bool) -> list[list[Entry]]:
    """The entries that tell the answer, and those that tell where these lie next, layer by layer from the last."""
    L = len(seen.places)
    place = {
        (l, i, j): places[:, :, i, j].astype(np.int64)
        for l, places in enumerate(seen.places)
        for i in range(places.shape[2])
        for j in range(places.shape[3])
    }
    now = {entry: places[:, 1:] for entry, places in place.items()}
    settled = np.arange(seen.symbols.shape[1]) >= SETTLED
    asked = (seen.answers >= 0) & settled
    size = {(l, i, j): seen.sizes[l][i, j] for l, i, j in place}
    largest = sorted(place, key=lambda entry: -size[entry])  # of those that tell as much, the one that is heard most
    candidates = [entry for entry in largest if entry[0] == L - 1 or not state_alone]
    carriers = set(_tell([] if state_alone else [seen.symbols], now, candidates, seen.answers, asked, "the answer"))
    for l in reversed(range(1, L)):
        below = [entry for entry in largest if entry[0] < l]
        for entry in sorted(entry for entry in carriers if entry[0] == l):
            columns = [seen.symbols, place[entry][:, :-1]]
            sure = sorted(entry for entry in carriers if entry[0] < l)
            what = f"where an entry of layer {l} goes"
            carriers |= set(_tell(columns, now, below, now[entry], np.broadcast_to(settled, asked.shape), what, sure))
    return [sorted(entry for entry in carriers if entry[0] == l) for l in range(L)]


def _tell(
    sources: Sequence[np.ndarray],
    now: dict[Entry, np.ndarray],
    candidates: Sequence[Entry],
    target: np.ndarray,
    asked: np.ndarray,
    what: str,
    chosen: Iterable[Entry] = (),
) -> list[Entry]:
    """The fewest of the candidates that, with what is given, tell the target on words that did not choose them."""
    first = np.zeros_like(asked)
    first[::2] = True
    fit, target = first[asked], target[asked]
    columns = {entry: now[entry][asked] for entry in {*candidates, *chosen}}
    base = numbered(np.stack([x[asked] for x in sources], 1)) if sources else np.zeros(len(target), np.int64)

    def key(entries: Iterable[Entry]) -> np.ndarray:
        numbers = base
        for entry in entries:
            numbers = np.unique(numbers * 256 + columns[entry], return_inverse=True)[1]
        return numbers

    def score(numbers: np.ndarray) -> float:
        return _held_out(numbers, target, fit)

    chosen = list(chosen)
    numbers = key(chosen)
    best = score(numbers)
    while best < 1:
        rest = [entry for entry in candidates if entry not in chosen]
        tried = [(score(numbers * 256 + columns[entry]), [entry]) for entry in rest]
        tried.sort(key=lambda each: -each[0])
        if not tried:
            break
        if tried[0][0] < best + 1e-3 and best < ENOUGH:  # two may tell together what neither tells alone
            few = [entry for _, (entry,) in tried[:24]]
            pairs = [[a, b] for i, a in enumerate(few) for b in few[:i]]
            tried = [(score((numbers * 256 + columns[a]) * 256 + columns[b]), [a, b]) for a, b in pairs]
            tried.sort(key=lambda each: -each[0])
        better, more = tried[0]
        if better <= best + (0 if best < ENOUGH else 1e-3):
            break
        chosen += more
        numbers, best = key(chosen), better
    if best < ENOUGH:
        raise NoCarriers(f"no entries tell {what} on more than {100 * best:.1f}% of words: they carry no such machine")
    return chosen


def _held_out(key: np.ndarray, target: np.ndarray, fit: np.ndarray) -> float:
    """Returns how often the commonest target beside a key, among `fit`, is that of the others. New keys say nothing."""
    key = np.unique(key, return_inverse=True)[1]
    size = int(target.max()) + 1
    counts = np.bincount(key[fit] * size + target[fit], minlength=(int(key.max()) + 1) * size).reshape(-1, size)
    guess = np.where(counts.any(1), counts.argmax(1), -1)
    return float((guess[key[~fit]] == target[~fit]).mean())


class MoveTable:
    """The goal of each place, as most words have it that meet the same token and states below."""

    def __init__(self, seen: Observed, chosen: list[list[Entry]], layer: int):
        self.layer = layer
        N = seen.symbols[:, SETTLED:].size
        columns = [seen.symbols[:, SETTLED:].reshape(N, 1)]
        columns += [
            seen.places[l][:, 1 + SETTLED :, i, j].reshape(N, 1) for below in chosen[:layer] for l, i, j in below
        ]
        rows = np.concatenate(columns, 1).astype(np.int64)
        self.rows: dict[bytes, list[int]] = defaultdict(list)
        """Where each token and states below were met."""
        for n, row in enumerate(rows):
            self.rows[row.tobytes()].append(n)
        self.seen = seen.functions[layer][:, SETTLED:].reshape(N, *seen.functions[layer].shape[2:])
        self.lies = np.zeros_like(self.seen, dtype=bool)
        for _, i, j in chosen[layer]:
            self.lies[np.arange(N), i, seen.places[layer][:, SETTLED:-1, i, j].ravel()] = True
        self.voted: dict[bytes, np.ndarray] = {}

    def functions(self, symbol: int, below: Sequence[np.ndarray]) -> np.ndarray:
        key = np.concatenate([[symbol], *below]).astype(np.int64).tobytes()
        if key not in self.rows:
            raise NoCarriers(
                f"the entries that carry the machine reach a state below layer {self.layer} that no word showed"
            )
        if key not in self.voted:
            F, lies = self.seen[self.rows[key]], self.lies[self.rows[key]]
            votes = ((F[..., None] == np.arange(F.shape[-1])) * (1 + 1000 * lies[..., None])).sum(0)
            self.voted[key] = votes.argmax(-1).astype(np.uint8)
        return self.voted[key]
