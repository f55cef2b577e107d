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

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..prove.recurrence import Cell, StateBoxes, prove_recurrence, refusal
from .teaching import TaughtCopy, descend, prove_harder, release

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


def taught(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0, seed: int = 0) -> TaughtCopy | str:
    """A copy, taught for at most so many seconds, less where its proof goes through, and that proof; or why not."""
    if reason := refusal(model):
        return reason
    pairs = claim.machine.num_states * claim.machine.num_symbols
    if pairs > MOST_SETS:
        return f"the machine has {pairs:,} pairs of state and symbol, more than {MOST_SETS:,}"
    ends = time.monotonic() + seconds
    copy = deepcopy(model).eval().requires_grad_(True)
    boxes = by_last_symbol(Cell(copy), claim)
    signs = Signs(boxes, visited(boxes, seed))
    proof = prove_harder(
        lambda harder: signs.teach(THRESHOLD + harder, ends), lambda left: prove_recurrence(copy, claim, left), ends
    )
    release(copy, model)
    return TaughtCopy(copy, int(signs.own.sum()), signs.own.numel(), "neurons", proof)


def by_last_symbol(cell: Cell, claim: Claim) -> StateBoxes:
    """A set for each state of the machine and the symbol just read, of those that words come to."""
    delta, start = claim.machine.delta, int(claim.machine.start)
    number: dict[tuple[int, int], int] = {}
    states, transitions = [start], []
    for i, q in enumerate(states):  # grows while we walk it
        for s, to in enumerate(delta[q].tolist()):
            if (to, s) not in number:
                number[to, s] = len(number)
                states.append(to)
            transitions.append((i - 1, s, number[to, s]))
    return StateBoxes(cell, claim, states[1:], transitions)


@torch.no_grad()
def visited(boxes: StateBoxes, seed: int) -> Tensor:
    """(L,N,D) the mean of h after words that end in each set."""
    cell, N = boxes.cell, len(boxes.states)
    S, draw = boxes.claim.machine.num_symbols, torch.Generator().manual_seed(seed)
    table = torch.zeros(N + 1, S, dtype=torch.long)
    table[boxes.froms, boxes.symbols] = boxes.results
    first = shortest(table)
    T = max(map(len, first)) + LONGER
    words = torch.randint(S, (WORDS * N, T), generator=draw)
    for b, word in enumerate(first * WORDS):
        words[b, : len(word)] = torch.tensor(word)
    embedded = cell.tokens(torch.float32)
    at = torch.full((len(words),), N)
    state = cell.split(torch.zeros(len(words), cell.size))
    sums, counts = torch.zeros(len(cell.cells), N, cell.width), torch.zeros(N)
    for t in range(T):
        state = cell.step(embedded[words[:, t]], state)
        at = table[at, words[:, t]]
        counts += torch.bincount(at, minlength=N)
        for k, h in enumerate(state[:: cell.parts]):
            sums[k].index_add_(0, at, h)
    return sums / counts[:, None]


def shortest(table: Tensor) -> list[list[int]]:
    """A shortest word to each set of the table (N + 1, S), whose last row is the beginning."""
    N = len(table) - 1
    words: dict[int, list[int]] = {N: []}
    for j in (waiting := [N]):  # grows while we walk it
        for s, k in enumerate(table[j].tolist()):
            if k not in words:
                words[k] = [*words[j], s]
                waiting.append(k)
    return [words[j] for j in range(N)]


class Signs:
    """The codes of the sets, and the conditions that they make of the weights."""

    def __init__(self, boxes: StateBoxes, means: Tensor):
        self.boxes, self.cell = boxes, boxes.cell
        self.codes = torch.where(means >= 0, 1.0, -1.0)
        """(L,N,D)"""
        self.own = torch.ones(means.shape[0], means.shape[2], dtype=torch.bool)
        """(L,D) which neurons have the code that training gave them."""
        self.next = [0] * len(means)
        """Of each layer the first set that no neuron was given to."""
        self.level = math.tanh(1.0) if self.cell.kind == "lstm" else 1.0

    def leads(self) -> tuple[Tensor, Tensor, Tensor]:
        """s_k · a (L,M,D), half of ± b (every gate,M,D), and the leads of the right answers."""
        boxes, cell = self.boxes, self.cell
        x = cell.tokens(torch.float32)[boxes.symbols]
        arguments, gates = [], []
        for k, own in enumerate(cell.cells):
            codes = self.codes[k]
            h = self.level * torch.cat([codes, codes.new_zeros(1, cell.width)])[boxes.froms]
            a = F.linear(x, own.weight_ih_l0, own.bias_ih_l0).chunk(len(GATES[cell.kind]), 1)  # pyright: ignore
            b = F.linear(h, own.weight_hh_l0, own.bias_hh_l0).chunk(len(GATES[cell.kind]), 1)  # pyright: ignore
            for i, wanted in enumerate(GATES[cell.kind]):
                if wanted:
                    gates.append(wanted * (a[i] + b[i]) / 2)
                else:
                    kept = torch.sigmoid(a[0] + b[0]) * b[i] if cell.kind == "gru" else b[i]
                    arguments.append(codes[boxes.results] * (a[i] + kept))
            x = self.level * codes[boxes.results]
        logits = cell.model.head(self.level * self.codes[-1][boxes.asked])[:, cell.outputs]
        right = boxes.right
        if boxes.claim.several:
            head = torch.where(right.bool(), logits, -logits)
        else:
            head = logits.gather(1, right[:, None]) - logits
            head = head.masked_fill(F.one_hot(right, logits.shape[1]).bool(), math.inf)
        return torch.stack(arguments), torch.stack(gates) if gates else x.new_zeros(0), head

    def teach(self, threshold: float, ends: float) -> str | None:
        """Why not all leads are there, or None if they are."""
        weights = [p for p in self.cell.model.parameters() if p.requires_grad]
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
            loss = (loss + F.relu(LEAD + 0.5 - head).square().sum()) / len(self.boxes.froms)
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
            if 0 < self.next[k] <= len(self.boxes.states):  # the constant comes first
                self.codes[k, :, i] = -1.0
                self.codes[k, self.next[k] - 1, i] = 1.0
            self.next[k] += 1
            self.own[k, i] = False
        return True
