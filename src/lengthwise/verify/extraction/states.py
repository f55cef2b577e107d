"""The machine of a recurrent model, found without labels: step from state to state, take what is near for one, compare.

1. From the state after the empty word every symbol leads on. A state within a radius of one that was met before is
   that one; any other is a new one, and is stepped on from, until nothing is new. The states that stand for the
   clusters are the model's own, after a shortest word each.
2. The machine must say what the model itself says, of random words and of all short ones. The largest radius of which
   that is true is the one; of several that fail, the one that fails least.

Shapes: B words, T tokens, n numbers in a state, S symbols.
"""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ...automata import Semiautomaton
from ...errors import Error
from ...limits import Limit
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from ..claim import Claim
from .agreement import Sample, check_time, coarsest
from .answers import Answer, read
from .extracted import Extracted
from .moore import Moore

STATES = Limit("EXTRACTED_STATES", 500, "clusters of states", "Train the model further, so that they fall into fewer")
SHORT = 8
"""How far apart states are is seen after words of so many lengths, the shortest."""


def no_recurrence(model: object) -> str | None:
    """Returns why a model is no recurrence over states of one size; None where it is."""
    if not isinstance(model, LengthwiseForCausalLM) or not isinstance(model.depth, Fixed):
        return "it has no fixed stack of layers"
    if model.uncached:
        return "it keeps no state between tokens"
    if model.depth.keeps_keys or model.position.at_input or model.places_for_mixers:
        return "what it keeps grows with every token"
    return None


def find_states(model: nn.Module, claim: Claim, sample: Sample, until: float = inf) -> Extracted:
    """Returns the machine of the model over all words after which `claim` asks something."""
    inner: Any = getattr(model, "inner", model)
    states = torch.cat([_after(inner, words)[0] for words in sample.words[:SHORT]])
    apart = float(torch.cdist(states, states).max()) + 1e-6
    build = lambda share: _explored(inner, claim, share * apart, until)  # noqa: E731
    machine, agreement, refused = coarsest(build, sample)
    return Extracted("states", machine.smallest(), agreement, sample.count, len(machine), model, refused)


@torch.no_grad()
def _after(model: LengthwiseForCausalLM, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """(B,n) the states after these words (B,T), and (B,E) the logits."""
    made = model(tokens.to(model.embedding.weight.device), use_cache=True, logits_to_keep=1)
    # torch's own recurrences have a first dimension for layers, which is 1.
    numbers = [x for x in tree_leaves(list(made.past_key_values.states.values())) if isinstance(x, Tensor)]
    real = [torch.view_as_real(x) if x.is_complex() else x for x in numbers if x.is_complex() or x.is_floating_point()]
    return torch.cat([x.double().cpu().reshape(len(tokens), -1) for x in real], 1), made.logits[:, -1]


def _explored(model: LengthwiseForCausalLM, claim: Claim, radius: float, until: float) -> Moore:
    """The machine of the states that are reached, two within the radius being one.

    State 0 is the start, and the last one, if it is needed, where words lead after which nothing is ever asked.
    """
    S, target = claim.machine.num_symbols, claim.machine.delta.tolist()
    alive = claim.alive
    clusters, steps = _Clusters(model, claim, radius), {}
    pairs = [(0, claim.machine.start)]
    seen = set(pairs)
    for q, state in pairs:  # grows while we walk it: breadth first
        check_time(until)
        needed = [s for s in range(S) if alive[target[state][s]]]
        if new := [s for s in needed if (q, s) not in steps]:
            steps.update(zip([(q, s) for s in new], clusters.after(q, new), strict=True))
        for s in needed:
            pair = (steps[q, s], target[state][s])
            if pair not in seen:
                seen.add(pair)
                pairs.append(pair)
    out = len(clusters.said)
    delta = [[steps.get((q, s), out) for s in range(S)] for q in range(out)]
    outputs = clusters.said
    if len(steps) < out * S:
        delta, outputs = [*delta, [out] * S], [*outputs, None]
    return Moore(Semiautomaton(delta, 0, symbols=claim.machine.symbols), tuple(outputs))


class _Clusters:
    """The states met so far that are farther than the radius from all before, with a shortest word of each."""

    def __init__(self, model: LengthwiseForCausalLM, claim: Claim, radius: float):
        self.model, self.several, self.radius = model, claim.several, radius
        self.words: list[list[int]] = [[]]
        self.said: list[Answer | None] = [None]
        self.known: Tensor | None = None

    def after(self, q: int, symbols: list[int]) -> list[int]:
        """The clusters that these symbols lead to from cluster q."""
        states, logits = _after(self.model, torch.tensor([[*self.words[q], s] for s in symbols]))
        answers = read(logits, self.several)[0]
        reached = zip(states, symbols, answers, strict=True)
        return [self._cluster(x[None], [*self.words[q], s], answer) for x, s, answer in reached]

    def _cluster(self, x: Tensor, word: list[int], answer: Answer) -> int:
        if self.known is not None:
            distance = torch.cdist(x, self.known, compute_mode="donot_use_mm_for_euclid_dist")[0]
            if distance.min() <= self.radius:
                return int(distance.argmin()) + 1
        if not x.isfinite().all():
            raise Error("extract: a state of the model is not finite. Extract from a model whose numbers are.")
        STATES.check(len(self.words), "extract")
        self.known = x if self.known is None else torch.cat([self.known, x])
        self.words.append(word)
        self.said.append(answer)
        return len(self.known)
