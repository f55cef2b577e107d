"""Spans: a tree is asked about every span under one of its nodes, and not about the whole string alone.

Where a group is one layer, a node depends on the tokens S under it alone. So a pass over T tokens has read some T/(C-1)
strings, and each node can be held to what is known of its own. Three losses, each a mean over the nodes of a group:

    answers     ℓ(head(node), answer(S))              where S is a string of the task, as the model would read it alone
    contexts    ℓ(R_vu norm(node), answer(v S u))     v, u short words, where v S u is a string of the task; v is empty
                                                      if the node lacks tokens, for it begins its string, and else not
    equals      ℓ(choices of the node, the code of its equals)      nodes are discrete

and the sum is divided by their number. Equals count `EQUALS` exp(-mean of the others) times. Asked for whole strings
alone, the lowest nodes learn through log_C T groups from one answer. A node over no string, as "* 3", has no answer,
but contexts in which it has one. R is drawn once and not trained, so that no checkpoint has to hold it: a node says
along fixed directions what may be asked of it. Spans of equal answers in all contexts are equals (Myhill and Nerode),
and their code is the one that most of them have in this batch: an element of many codes is as many products to learn.
Products of rare elements are to be learned too, so half of the strings are of pieces, in which all elements are as
frequent.

All this is strings of the training lengths, and their answers. The machine of the task is how they are come by: a span
is run from the state after v, and what is answered after u is looked up.

Shapes: B strings, T tokens, n nodes of a group, N different ones, K contexts, Q states of the machine, D width, G
groups of M choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..models import LengthwiseForCausalLM
from ..models.depth import Adaptive, NodesOfGroup
from ..seeds import generator
from ..tasks.base import Batch, Task

CONTEXTS = 128
"""So many contexts are drawn; those that ask the same are one."""
AROUND = 8
"""Symbols that a context has at most, both sides together."""
LOUD = 6.0
"""The standard deviation of what R makes of a node."""
EQUALS = 4.0
"""So much counts the loss of equals once all else is known."""
PIECES = 2**15
"""So many pieces of strings are drawn."""
NONE = -1
"""In the place of an answer: there is no question."""


class InContexts(NamedTuple):
    """Different spans and the nodes over them."""

    answers: Tensor
    """(N,K) in every context."""
    nodes: Tensor
    """(N,) a node over each."""
    often: Tensor
    """(N,) how often each is there."""


class Spans:
    """What is known of the spans under the nodes of a model's trees.

    `longest`: no string that is asked about has more tokens.
    """

    def __init__(self, model: nn.Module, task: Task, longest: int):
        inner = getattr(model, "inner", model)
        depth = getattr(inner, "depth", None)
        if not isinstance(inner, LengthwiseForCausalLM) or not isinstance(depth, Adaptive) or not depth.shares_subtrees:
            raise Error(
                "training.spans: only trees of one layer a group, such as regular-gpt's, have them. Leave it off."
            )
        if task.machine is None or task.padding is not None or task.kind != "class" or task.scoring != "last":
            raise Error(
                f"training.spans: {task.name} must be a task with a machine, of one token a symbol. Leave it off."
            )
        self.model, self.depth, self.task, self.longest = inner, depth, task, longest
        self.machine = task.machine
        lengths = [n for n in range(1, AROUND + 1) if task.problem(n) is None]
        if not lengths or task.held_out(task.sample(lengths[0], 1, generator("spans")).tokens) is not None:
            raise Error(f"training.spans: {task.name} holds strings out, or has no short ones. Leave it off.")
        assert task.readout is not None
        asked = torch.ones(self.machine.num_states, dtype=torch.bool) if task.answered is None else task.answered
        self.readout = torch.where(asked, task.readout, NONE)
        """(Q,)"""
        pieces = self._draw_pieces()
        self._draw_contexts(lengths, pieces)
        _, alike, self.frequency = self.in_contexts(pieces).unique(dim=0, return_inverse=True, return_counts=True)
        self.pieces = pieces[alike.argsort(stable=True)]
        """(P,W) equals next to each other; `frequency` says how many are so."""
        width = self.model.config.width
        R = torch.randn(width, (len(self.sizes) + len(self.ends)) * task.outputs, generator=generator("spans", width))
        self.maps = (R * (LOUD * width**-0.5)).split([len(self.sizes) * task.outputs, len(self.ends) * task.outputs], 1)
        """Of contexts, and of those that are behind a beginning alone."""

    def _draw_pieces(self) -> Tensor:
        """(P,W) pieces of strings, but of no beginning; none where strings have no room for one."""
        size = max(n for k in range(AROUND) if (n := self.depth.chunk**k) <= AROUND)
        longest = max(n for n in range(1, self.longest + 1) if self.task.problem(n) is None)
        count = (longest - 1) // size
        draw = generator("pieces", self.task.name, self.task.params)
        tokens = self.task.sample(longest, PIECES // max(count, 1), draw).tokens
        return tokens[:, longest - count * size :].reshape(-1, size)

    def _draw_contexts(self, lengths: list[int], pieces: Tensor) -> None:
        """`CONTEXTS` of them, and of three times as many those that tell pieces apart which were equals so far."""
        draw = generator("contexts", self.task.name, self.task.params)
        contexts, ends = {}, dict[tuple[int, ...], int]()
        every = torch.arange(self.machine.num_states)
        different = pieces[: PIECES // 8].unique(dim=0)
        classes = torch.zeros(len(different), dtype=torch.long)
        for number in range(4 * CONTEXTS):
            n = lengths[int(torch.randint(len(lengths), (), generator=draw))]
            word = self.task.draw(n, 1, draw)[0]
            i, j = sorted(torch.randint(1, n + 1, (2,), generator=draw).tolist())
            before = int(self.machine.run(word[None, :i])[0, -1])
            after = self.machine.run(word[j:].expand(len(every), -1), start=every.numpy())[:, -1] if j < n else every
            answers = self.readout[after]
            end = tuple(answers.tolist())
            key = (before, *end)
            if key not in contexts and len(different):
                here = answers[self.machine.run(different, start=before)[:, -1]]
                finer = (classes * (self.task.outputs + 1) + here - NONE).unique(return_inverse=True)[1]
                if number >= CONTEXTS and finer.max() == classes.max():
                    continue
                classes = finer
            elif number >= CONTEXTS:
                continue
            if key not in contexts or i + n - j < contexts[key][0]:
                contexts[key] = (i + n - j, answers)
            ends[end] = min(n - j, ends.get(end, AROUND))
        starts, self.place = torch.tensor([key[0] for key in contexts]).unique(return_inverse=True)
        self.starts: list[int] = starts.tolist()
        """The states after a v; `place` (K,) says which of these a context has."""
        self.sizes = torch.tensor([size for size, _ in contexts.values()])
        """(K,) how many symbols each has."""
        self.after = torch.stack([answers for _, answers in contexts.values()])
        """(K,Q) the answer after u from every state."""
        self.ends, self.end_sizes = torch.tensor(list(ends)), torch.tensor(list(ends.values()))
        """(U,Q) the different ones of these, and (U,) how many symbols the u have."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A block in which the model keeps the nodes of what it reads."""
        self.depth.noted = []
        try:
            yield
        finally:
            self.depth.noted = None

    def drawn(self, batch: Batch) -> Batch:
        """The batch, with pieces in half of its strings; where a task asks after every prefix, of half the batches what
        ends at one of its questions."""
        batch = self._of_pieces(batch)
        if self.task.supervision == "last" or int(torch.randint(2, ())):
            return batch
        ends = batch.mask.all(0).nonzero()
        end = int(ends[int(torch.randint(len(ends), ()))]) + 1
        return Batch(*(each[:, :end] for each in batch))

    def _of_pieces(self, batch: Batch) -> Batch:
        """In half of the strings, first in those that are not varied, all but the beginning gives way to pieces, where
        that makes a string of the task."""
        tokens, targets, mask = (each.cpu() for each in batch)
        size = self.pieces.shape[1]
        strings, count = -(-len(tokens) // 2), (tokens.shape[1] - 1) // size
        if not count or not len(self.pieces):
            return batch
        alike = torch.randint(len(self.frequency), (strings, count))
        first = (self.frequency.cumsum(0) - self.frequency)[alike]
        number = first + (torch.rand(strings, count) * self.frequency[alike]).long()
        made = tokens.clone()
        made[:strings, tokens.shape[1] - count * size :] = self.pieces[number].flatten(1)
        answers = self.readout[self.machine.run(made)]
        whole = ((answers != NONE) | ~mask).all(1, keepdim=True)
        own = made.where(whole, tokens), answers.to(targets).where(mask & whole, targets), mask
        return Batch(*(each.to(batch.tokens.device) for each in own))

    def loss(self, tokens: Tensor) -> Tensor:
        """Of the nodes that were noted when the model read these; within the block."""
        assert self.depth.noted is not None
        costs, alike = [], list[tuple[Tensor, ...]]()
        beside = (0, len(self.ends)), (len(self.sizes), 0)  # whole spans and beginnings are no equals
        for group, nodes in enumerate(self.depth.noted):
            read = self.model.norm(nodes.vectors.to(self.model.head.weight.dtype))
            costs += self._answers(tokens, group, nodes, read)
            in_contexts = list[Tensor]()
            for R, sides, of in zip(self.maps, beside, self._in_contexts(tokens, group, nodes), strict=True):
                asks = of.answers != NONE
                if bool(asks.any()):
                    told = (read[of.nodes] @ R.to(read)).unflatten(1, (asks.shape[1], -1))[asks.to(read.device)]
                    in_contexts.append(F.cross_entropy(told, of.answers[asks].to(told.device), reduction="none"))
                    if nodes.logits is not None:
                        alike.append((F.pad(of.answers, sides, value=NONE), nodes.logits[of.nodes], of.often))
            if in_contexts:
                costs.append(torch.cat(in_contexts).mean())
        if alike:
            known = torch.stack(costs).mean().detach().neg().exp()  # what says nothing yet is no element
            costs.append(EQUALS * known * equals(*map(torch.cat, zip(*alike, strict=True))))
        return torch.stack(costs).mean()

    def _answers(self, tokens: Tensor, group: int, nodes: NodesOfGroup, read: Tensor) -> list[Tensor]:
        answers = self.answers(tokens, group)
        asks = answers != NONE
        if not bool(asks.any()):
            return []
        here = self.model.head(read)[nodes.ids[asks.to(nodes.ids.device)]][:, : self.task.outputs]
        return [F.cross_entropy(here, answers[asks].to(here.device))]

    def answers(self, tokens: Tensor, group: int) -> Tensor:
        """(B,n) the answers of the spans under the nodes of a group, or that there is no question."""
        width, tokens = self.depth.chunk ** (group + 1), tokens.cpu()
        first = (tokens.shape[1] - 1) % width + 1
        states = self.machine.run(tokens[:, :first])[:, -1:]
        if tokens.shape[1] > first:
            after = self.machine.run(tokens[:, first:].reshape(-1, width))[:, -1]
            states = torch.cat([states, after.view(len(tokens), -1)], 1)
        answers = self.readout[states]
        if group and first <= width // self.depth.chunk:
            answers[:, 0] = NONE  # alone it has fewer groups
        return answers

    def _in_contexts(self, tokens: Tensor, group: int, nodes: NodesOfGroup) -> tuple[InContexts, InContexts]:
        """Of different whole spans; and of the beginnings of strings, which lack tokens."""
        width, tokens = self.depth.chunk ** (group + 1), tokens.cpu()
        whole, lacking = divmod(tokens.shape[1], width)
        parts = tokens[:, lacking:].reshape(-1, width), tokens[:, :lacking] if lacking else tokens[:0, :1]
        ids = nodes.ids[:, nodes.ids.shape[1] - whole :].reshape(-1), nodes.ids[: len(parts[1]), 0]
        both = []
        for spans, own, ask in zip(parts, ids, (self.in_contexts, self.of_beginnings), strict=True):
            different, index, count = spans.unique(dim=0, return_inverse=True, return_counts=True)
            node = own.new_empty(len(different)).scatter_(0, index.to(own.device), own)
            both.append(InContexts(ask(different), node, count))
        return both[0], both[1]

    def of_beginnings(self, spans: Tensor) -> Tensor:
        """(N,U) the answers after these (N,width) and what may follow."""
        known = self.ends[:, self.machine.run(spans)[:, -1]].T
        return known.masked_fill(self.end_sizes + spans.shape[1] > self.longest, NONE)

    def in_contexts(self, spans: Tensor) -> Tensor:
        """(N,K) the answers of these (N,width) in all contexts."""
        if not len(spans):
            return torch.empty(0, len(self.sizes), dtype=torch.long)
        states = torch.stack([self.machine.run(spans, start=q)[:, -1] for q in self.starts])
        known = self.after[torch.arange(len(self.sizes))[:, None], states[self.place]].T
        return known.masked_fill(self.sizes + spans.shape[1] > self.longest, NONE)


def equals(rows: Tensor, logits: Tensor, counts: Tensor) -> Tensor:
    """How far nodes of equal rows (N,K) are from one code: that which most of the spans under them have, by groups.

    `logits`: (N,G,M). `counts`: (N,) of how many spans each is. A row without an answer says nothing.
    """
    device = logits.device
    told = (rows != NONE).any(1)
    _, alike = rows.unique(dim=0, return_inverse=True)
    votes = F.one_hot(logits.argmax(-1), logits.shape[-1]) * counts.to(device)[:, None, None]
    alike = alike.to(device)
    code = torch.zeros_like(votes).index_add_(0, alike, votes).argmax(-1)[alike]
    each = F.cross_entropy(logits.movedim(-1, 1), code, reduction="none").mean(1)
    return each[told.to(device)].mean()
