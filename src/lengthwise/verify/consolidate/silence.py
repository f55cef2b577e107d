"""Silence what carries nothing in a stack of automata, and teach the rest what it has itself found.

Trained stacks follow the machine by a few entries of x_0 that are moved about. The others are noise with thousands of
states to a block, which the head has learned to live with, but no proof can visit. Three steps make of such a stack
one whose states are few:

    find      which entries carry the machine, and a table of what the stack does with them (carriers.py)
    explore   these entries, moved by the tables, beside the machine: a finite cascade, which must say the answer
    teach     every other entry of x_0 becomes 0. All weights descend on the steps and the answers of that cascade, at
              every state that it reaches, until each is decided by a wide margin

The table is the network's own; the machine says only what is right. Nothing is decided here: what comes out is proved
afterwards, or is not (prove/cascade.py).

Shapes: B words, T tokens, L layers, h blocks, b width of a block, n chosen entries of a layer.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...limits import Limit
from ...models import LengthwiseForCausalLM
from ...seeds import generator
from ..claim import Claim
from ..prove.cascade import NumberedRows, ReachablePairs, cascade_of
from ..verdict import NotProved
from .carriers import Entry, MoveTable, NoCarriers, Observed, choose, observe
from .teaching import CannotBeTaught, TaughtCopy, descend, release, right_gap

STARTS = 20_000
"""How many places to begin at are tried."""
GAP, MARGIN = 0.5, 4.0
"""By how much every argmax, and every answer, is to be ahead."""
RATE = 3e-3
CARRIED = Limit("CARRIED_STATES", 20_000, "states", "Train the model further")


def silenced(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 120.0, seed: int = 0) -> TaughtCopy:
    """Returns a copy whose other entries are silent, taught until all it does has a wide margin."""
    network = cascade_of(model)
    if isinstance(network, str):
        raise CannotBeTaught(network)
    until = time.monotonic() + seconds
    seen, state_alone = observe(model, claim, seed), not network.layers[-1].residual
    chosen = choose(seen, state_alone)
    cascade = begun(seen, chosen, claim, state_alone, until)
    clone = copy.deepcopy(model)
    teach(clone, cascade, until, seed)
    release(clone, model)
    entries = sum(layer.mixer.initial.numel() for layer in model.depth.layers)  # pyright: ignore
    return TaughtCopy(clone, sum(map(len, chosen)), entries, "entries")


def begun(
    seen: Observed, chosen: list[list[Entry]], claim: Claim, state_alone: bool, until: float = float("inf")
) -> CarrierCascade:
    """The cascade of these entries from the first places to begin at from which it says every answer.

    Entries that met lie at one place, wherever they began: so one that is alone in its block may begin anywhere.
    """
    tables = [MoveTable(seen, chosen, l) for l in range(len(chosen))]
    entries = [entry for layer in chosen for entry in layer]
    blocks = [entry[:2] for entry in entries]
    places = [
        [j, *(k for k in range(seen.places[l].shape[-1]) if k != j)] if blocks.count((l, i)) == 1 else [j]
        for l, i, j in entries
    ]
    first = None
    for start in itertools.islice(itertools.product(*places), STARTS):
        moved = iter(start)
        from_here = [[(l, i, next(moved)) for l, i, _ in layer] for layer in chosen]
        try:
            return CarrierCascade(tables, from_here, claim, state_alone)
        except NoCarriers as problem:
            first = first or problem
        if time.monotonic() > until:
            break
    assert first is not None
    raise first


class CarrierCascade(ReachablePairs):
    """The chosen entries as a finite machine, moved by the tables: all that it reaches beside the reference machine.

    Raises `NoCarriers` unless it says one right answer wherever it is read.
    """

    def __init__(self, tables: Sequence[MoveTable], chosen: list[list[Entry]], claim: Claim, state_alone: bool):
        """`chosen`: the entries of each layer. `state_alone`: an answer is read from the last layer's state alone."""
        entries = [(np.array([i for _, i, _ in own]), np.array([j for _, _, j in own])) for own in chosen]
        super().__init__(claim, entries, [table.seen.shape[1:] for table in tables], CARRIED, float("inf"))
        self.tables, self.chosen, self.state_alone = tables, chosen, state_alone
        self.readings, self.right = NumberedRows(1 + len(chosen), np.int32), np.zeros(0, np.int64)
        """(R,1+L) a token, and the states of all layers; and (R,) the machine's state there."""
        try:
            self.look()
        except NotProved:
            raise NoCarriers(f"the entries that carry the machine reach {CARRIED.surpassed}") from None

    def moves(self, k: int, drivers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        below = [state.rows[drivers[:, 1 + l]] for l, state in enumerate(self.states[:k])]
        rows = zip(drivers[:, 0].tolist(), *below, strict=True)
        to = np.stack([self.tables[k].functions(symbol, places) for symbol, *places in rows])
        return to, np.ones(to.shape)

    def read(self, node: np.ndarray, drivers: np.ndarray, q: np.ndarray) -> None:
        del node
        rows = drivers.copy()
        rows[:, : -1 if self.state_alone else 0] = 0
        reading, first = self.readings.add(rows)
        self.right = np.concatenate([self.right, q[first]])
        if (self.claim.answers[self.right[reading]] != self.claim.answers[q]).any():
            raise NoCarriers("the entries that carry the machine take states with different answers for one")


def teach(model: Any, cascade: CarrierCascade, until: float, seed: int) -> None:
    """Silence the other blocks, and descend on the cascade's steps and answers."""
    model.requires_grad_(True).train(False)
    hooks = [
        _quiet(layer.mixer.initial, [(i, j) for _, i, j in entries])
        for layer, entries in zip(model.depth.layers, cascade.chosen, strict=True)
    ]
    g, calm = generator("silence", "teach", seed), 0

    def loss(step: int) -> Tensor | None:
        nonlocal calm
        violation, least_gap, least_margin = _violation(model, cascade, g)
        calm = calm + 1 if least_gap > GAP / 2 and least_margin > MARGIN / 2 else 0
        return None if calm >= 20 else violation

    descend(model.parameters(), loss, steps=20_000, ends=until, lr=RATE, clip=1.0)
    for hook in hooks:
        hook.remove()


def _quiet(initial: nn.Parameter, own: Sequence[tuple[int, int]]) -> RemovableHandle:
    """Keep these entries alone. One that is alone in its block gets all the block had: there the others met it."""
    mask = torch.zeros_like(initial)
    blocks = [i for i, _ in own]
    with torch.no_grad():
        whole = initial.sum(1)
        for i, j in own:
            mask[i, j] = 1
            if blocks.count(i) == 1:
                initial[i, j] = max((whole[i], initial[i, j]), key=abs)
        initial.mul_(mask)
    return initial.register_hook(lambda g: g * mask)


def _violation(inner: Any, cascade: CarrierCascade, g: torch.Generator) -> tuple[Tensor, float, float]:
    """The loss, and by how much the least decided argmax and answer are ahead."""
    gaps, total = [], inner.head.weight.new_zeros(())
    for l, layer in enumerate(inner.depth.layers):
        if not cascade.chosen[l]:
            continue
        drivers = cascade.drivers[l].rows
        some = _some(len(drivers), g)
        x = _before(inner, cascade, l, drivers[some])
        h, b = layer.mixer.shape
        M = layer.mixer.transition(layer.mixer_norm(x)).unflatten(-1, (h, b, b))
        to = torch.from_numpy(cascade.functions[l][some].astype(np.int64))
        gap = right_gap(M.mT, to)[torch.from_numpy(cascade.used[l][some])]
        gaps.append(gap)
        total = total + (GAP - gap).clamp(min=0).mean() + (GAP - gap).clamp(min=0).square().mean()
    some = _some(len(cascade.readings), g)
    x = _before(inner, cascade, len(inner.depth.layers), cascade.readings.rows[some])
    x = inner.norm(x)
    logits = inner.head(x if inner.hidden is None else inner.hidden(x).relu())
    answers = torch.from_numpy(cascade.claim.answers[cascade.right[some]])
    if cascade.claim.several:
        ahead = torch.where(answers.bool(), logits, -logits)
    else:
        ahead = right_gap(logits, answers.long())
    total = total + (MARGIN - ahead).clamp(min=0).mean()
    least = min((float(gap.detach().min()) for gap in gaps if gap.numel()), default=float("inf"))
    return total, least, float(ahead.detach().min())


def _before(inner: Any, cascade: CarrierCascade, layer: int, driver: np.ndarray) -> Tensor:
    """Returns what the layer is given (N,D)."""
    x = inner.embedding(torch.from_numpy(driver[:, 0]))
    for l, own in enumerate(inner.depth.layers[:layer]):
        initial = own.mixer.initial
        h, b = initial.shape
        state = initial.new_zeros(len(driver), h * b)
        if cascade.chosen[l]:
            block, place = torch.tensor([entry[1:] for entry in cascade.chosen[l]]).T
            at = torch.from_numpy(cascade.states[l].rows[driver[:, 1 + l]].astype(np.int64)) + b * block
            state = state.scatter_add(1, at, initial[block, place].expand(len(driver), -1))
        y = own.mixer.readout(state)
        x = x + y if own.residual else y
    return x


def _some(count: int, g: torch.Generator, most: int = 512) -> np.ndarray:
    return np.arange(count) if count <= most else torch.randperm(count, generator=g)[:most].numpy()
