"""Consolidate a trained RNN, GRU or LSTM: every neuron gets a sign for each set of states, and is taught to keep it.

The sets are pairs j = (state of the machine, symbol just read). The code of a set, s_j ∈ {-1, 1}^D in each layer, is
the signs of the trained network's own mean state after words that end in it. With h_j = λ s_j, for each transition
j -t-> k between sets, and 0 -t-> k from the first state, the loss asks

    s_k · a(h_j, t) >= M       for the argument a of the cell's tanh, neuron by neuron
    ± b(h_j, t) >= 2 M         for the gates: GRU r open and z shut, LSTM i and o open and f shut
    lead of the right output >= 5 on h_j

tanh'(M) is about 4 exp(-2 M), and so is 4 σ'(2 M). So a state near h_j comes to within a few thousandths of h_k: what
is near the centres comes nearer, and boxes close without an exact closure. λ is 1, and tanh 1 for the LSTM.

Given the codes each neuron is a threshold by itself. Neurons whose signs no threshold gives are given other codes: one
the constant 1, the next ones 1 in one set and -1 in all others, which sets take in turn, and 1 again all that are left.
When one is constant and every set has its own, all conditions can be met: the constant tells 0 apart, and for each set
(δ(q, t), t) is an "and" of the symbol and of sets. The gates stand still in what comes out: a GRU or LSTM that is
taught so has become a plain recurrence.

Shapes: N sets, M transitions, L layers, D width, B words of T symbols.
"""

from __future__ import annotations

import math
import time
from copy import deepcopy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...automata import Semiautomaton
from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..prove.recurrence import prove_recurrence, recurrence_of
from .teaching import CannotBeTaught, TaughtCopy, descend, prove_harder, release

THRESHOLD = 4.0
"""M: the argument of tanh, at least; a half more is taught, and where boxes do not close, one more."""
LEAD = 5.0
WORDS, LONGER = 8, 16
"""Words that begin by the shortest of each set, and how many random symbols follow it."""
STEPS, EVERY = 1000, 50
"""After so many steps a neuron that misses its signs is given others; every how many they are looked at."""
RATE, DECAY = 3e-2, 1e-4
MOST_SETS = 2_000
GATES = {"rnn": (0,), "gru": (1, -1, 0), "lstm": (1, -1, 0, 1)}
"""What the parts of a cell are wanted to be, in torch's order: open, shut, or 0: the code."""


def teach_signs(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0, seed: int = 0) -> TaughtCopy:
    """Returns a copy, taught for at most so many seconds, less where its proof goes through, and that proof."""
    if isinstance(reason := recurrence_of(model), str):
        raise CannotBeTaught(reason)
    pairs = claim.machine.num_states * claim.machine.num_symbols
    if pairs > MOST_SETS:
        raise CannotBeTaught(f"the machine has {pairs:,} pairs of state and symbol, more than {MOST_SETS:,}")
    ends = time.monotonic() + seconds
    copy = deepcopy(model).eval().requires_grad_(True)
    sets = StateSets(claim)
    signs = Signs(copy, sets, visited(copy, sets, seed))
    proof = prove_harder(
        lambda harder: signs.teach(THRESHOLD + harder, ends), lambda left: prove_recurrence(copy, claim, left), ends
    )
    release(copy, model)
    return TaughtCopy(copy, int(signs.own.sum()), signs.own.numel(), "neurons", proof)


class StateSets:
    """A set for each state of the machine and the symbol just read, of those that words come to."""

    def __init__(self, claim: Claim):
        delta, S = claim.machine.delta.tolist(), claim.machine.num_symbols
        self.machine = Semiautomaton.from_function(lambda at, s: (delta[at[0]][s], s), (claim.machine.start, -1), S)
        """State 0 is the beginning, state j + 1 the set j."""
        pairs: Any = self.machine.states
        self.states = [q for q, _ in pairs[1:]]
        N = len(self.states)
        self.froms = (torch.arange(-1, N) % (N + 1)).repeat_interleave(S)
        """(M,) each transition: from a set (N: the beginning) by a symbol to a set."""
        self.symbols, self.results = torch.arange(S).repeat(N + 1), torch.from_numpy(self.machine.delta - 1).flatten()
        asked = [i for i, q in enumerate(self.states) if claim.asked[q]]
        self.asked, self.several = torch.tensor(asked, dtype=torch.long), claim.several
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[[self.states[i] for i in asked]]))


def cells_of(model: LengthwiseForCausalLM) -> list[Any]:
    return [layer.mixer.cell for layer in model.depth.layers]  # pyright: ignore


def tokens_of(model: LengthwiseForCausalLM) -> Tensor:
    """(S,D) every token, embedded."""
    return model.embedding.weight * model.config.embedding_scale


@torch.no_grad()
def visited(model: LengthwiseForCausalLM, sets: StateSets, seed: int) -> Tensor:
    """(L,N,D) the mean of h after words that end in each set."""
    N, machine, draw = len(sets.states), sets.machine, torch.Generator().manual_seed(seed)
    first = shortest(machine)
    T = max(map(len, first)) + LONGER
    words = torch.randint(machine.num_symbols, (WORDS * N, T), generator=draw)
    for b, word in enumerate(first * WORDS):
        words[b, : len(word)] = torch.tensor(word)
    ends, h, means = machine.run(words).flatten() - 1, tokens_of(model)[words], []
    for cell in cells_of(model):
        h = cell(h)[0]
        total = h.new_zeros(N, h.shape[-1]).index_add_(0, ends, h.flatten(0, 1))
        means.append(total / torch.bincount(ends, minlength=N)[:, None])
    return torch.stack(means)


def shortest(machine: Semiautomaton) -> list[list[int]]:
    """A shortest word to each state but the first, of a machine whose states are numbered as words come to them."""
    words: dict[int, list[int]] = {0: []}
    for q, targets in enumerate(machine.delta.tolist()):
        for s, to in enumerate(targets):
            words.setdefault(to, [*words[q], s])
    return [words[q] for q in range(1, machine.num_states)]


class Signs:
    """The codes of the sets, and the conditions that they make of the weights."""

    def __init__(self, model: LengthwiseForCausalLM, sets: StateSets, means: Tensor):
        self.model, self.sets, self.cells = model, sets, cells_of(model)
        self.kind = self.cells[0].mode.removesuffix("_TANH").lower()
        self.codes = torch.where(means >= 0, 1.0, -1.0)
        """(L,N,D)"""
        self.own = torch.ones(means.shape[0], means.shape[2], dtype=torch.bool)
        """(L,D) which neurons have the code that training gave them."""
        self.next = [0] * len(means)
        """Of each layer the first set that no neuron was given to."""
        self.level = math.tanh(1.0) if self.kind == "lstm" else 1.0

    def leads(self) -> tuple[Tensor, Tensor, Tensor]:
        """s_k · a (L,M,D), half of ± b (every gate,M,D), and the leads of the right answers."""
        sets, wants = self.sets, GATES[self.kind]
        x = tokens_of(self.model)[sets.symbols]
        arguments, gates = [], []
        for codes, cell in zip(self.codes, self.cells, strict=True):
            h = self.level * F.pad(codes, (0, 0, 0, 1))[sets.froms]
            a = F.linear(x, cell.weight_ih_l0, cell.bias_ih_l0).chunk(len(wants), 1)
            b = F.linear(h, cell.weight_hh_l0, cell.bias_hh_l0).chunk(len(wants), 1)
            for i, wanted in enumerate(wants):
                if wanted:
                    gates.append(wanted * (a[i] + b[i]) / 2)
                else:
                    recurrent = torch.sigmoid(a[0] + b[0]) * b[i] if self.kind == "gru" else b[i]
                    arguments.append(codes[sets.results] * (a[i] + recurrent))
            x = self.level * codes[sets.results]
        logits, right = self.model.head(self.level * self.codes[-1][sets.asked]), sets.right
        if sets.several:
            head = torch.where(right.bool(), logits, -logits)
        else:
            head = logits.gather(1, right[:, None]) - logits
            head = head.masked_fill(F.one_hot(right, logits.shape[1]).bool(), math.inf)
        return torch.stack(arguments), torch.stack(gates) if gates else x.new_zeros(0), head

    def teach(self, threshold: float, ends: float) -> str | None:
        """Returns why not all leads are there, or None if they are."""
        weights = [p for p in self.model.parameters() if p.requires_grad]
        wanted = threshold + 0.5
        short = least = torch.empty(0)

        def loss(step: int) -> Tensor | None:
            nonlocal short, least
            arguments, gates, head = self.leads()
            if step % EVERY == 0 or step == STEPS - 1:
                least = arguments.detach().amin(1)
                short = least < threshold
                if not short.any() and not (gates < threshold).any() and not (head < LEAD).any():
                    return None
            loss = sum(F.relu(wanted - lead).square().sum() for lead in (arguments, gates))
            loss = (loss + F.relu(LEAD + 0.5 - head).square().sum()) / len(self.sets.froms)
            return loss + DECAY * sum(p.square().sum() for p in weights)

        while not descend(weights, loss, steps=STEPS, ends=ends, lr=RATE):
            if time.monotonic() > ends:
                return f"in the time given {int(short.sum()):,} neurons did not come to keep their signs"
            if not self.replace(short, least):
                return "the network is too narrow: its neurons do not keep signs that tell its sets apart"
        return None

    def replace(self, short: Tensor, least: Tensor) -> bool:
        """Other codes for the neurons that miss their own, or for half of those that are nearest to it."""
        yields = short & self.own
        if not yields.any():
            if not self.own.any():
                return False
            worst = least.masked_fill(~self.own, math.inf).flatten()
            yields = torch.zeros_like(worst, dtype=torch.bool)
            yields[worst.topk((int(self.own.sum()) + 1) // 2, largest=False).indices] = True
            yields = yields.view_as(self.own)
        for k, i in yields.nonzero().tolist():
            self.codes[k, :, i] = 1.0
            if 0 < self.next[k] <= len(self.sets.states):  # the constant comes first
                self.codes[k, :, i] = -1.0
                self.codes[k, self.next[k] - 1, i] = 1.0
            self.next[k] += 1
            self.own[k, i] = False
        return True
