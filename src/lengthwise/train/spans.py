"""Spans: a tree is asked about every span under one of its nodes, and not about the whole string alone.

Where a group is one layer, a node depends on the tokens S under it alone. So a pass over T tokens has read some T/(C-1)
strings, and each node can be held to what is known of its own. Three losses, each a mean over the nodes of a group:

    answers     ℓ(head(node), answer(S))              where S is a string of the task, as the model would read it alone
    contexts    ℓ(R_vu norm(node), answer(v S u))     v, u short words, where v S u is a string of the task; v may be
                                                      empty if S begins its string
    equals      ℓ(choices of the node, the code of its equals)      nodes are discrete

and the sum is divided by their number; equals count `EQUALS` exp(-mean of the others) times. Asked for whole strings
alone, the lowest nodes learn through log_C T groups from one answer. A node over no string, as "* 3", has no answer,
but contexts in which it has one. R is drawn once and not trained, so that no checkpoint has to hold it.

Spans of equal answers in all contexts are equals (Myhill and Nerode), where there is room for every context. Their code
is the one that most of them have in this batch: an element of many codes is as many products to learn. The first node
of a tree lacks tokens. What is under it begins the string and never stands elsewhere in it; it is asked what it would
be there all the same, so that it gets the code of those which do, and its products are theirs. Equals are a mean of
means, one a kind of node, for nodes that lack tokens are few. For rare products a group is asked about nodes over 1 to
C of its own that are drawn, all elements alike: one node a product, and no whole string.

All this is strings of the training lengths and their answers, which are looked up by the machine of the task.

Shapes: B strings, T tokens, n nodes of a group, N different ones, K contexts, U ways to go on, Q states, D width, G
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
PIECES = 1000
"""Contexts are to tell the pieces of so many strings apart."""
DRAWN = 1024
"""At most so many products of a group's nodes are drawn."""
NONE = -1
"""In the place of an answer: there is no question."""


class Different(NamedTuple):
    """Different spans, each with a node over it."""

    spans: Tensor
    """(N,n)"""
    answers: Tensor
    """(N,K+U) in every context; and with what may follow, if they begin their strings."""
    vectors: Tensor
    """(N,D)"""
    logits: Tensor | None
    """(N,G,M) what discrete nodes were chosen by."""


class Spans:
    """What is known of the spans under the nodes of a model's trees.

    `longest`: no string that is asked about has more tokens.
    """

    def __init__(self, model: nn.Module, task: Task, longest: int):
        inner = getattr(model, "inner", model)
        depth = getattr(inner, "depth", None)
        if not isinstance(inner, LengthwiseForCausalLM) or not isinstance(depth, Adaptive) or not depth.shares_subtrees:
            raise Error("training.spans: only trees of one layer a group have them, as regular-gpt's. Leave it off.")
        if task.machine is None or task.padding is not None or task.kind != "class" or task.scoring != "last":
            raise Error(f"training.spans: {task.name} must have a machine, and one token a symbol. Leave it off.")
        self.model, self.depth, self.task, self.machine, self.longest = inner, depth, task, task.machine, longest
        lengths = [n for n in range(1, AROUND + 1) if task.problem(n) is None]
        if not lengths or task.held_out(task.sample(lengths[0], 1, generator("spans")).tokens) is not None:
            raise Error(f"training.spans: {task.name} holds strings out, or has no short ones. Leave it off.")
        assert task.readout is not None
        asked = torch.ones(self.machine.num_states, dtype=torch.bool) if task.answered is None else task.answered
        self.readout = torch.where(asked, task.readout, NONE)
        """(Q,)"""
        self._draw_contexts(lengths)
        width = self.model.config.width
        R = torch.randn(width, (len(self.sizes) + len(self.ends)) * task.outputs, generator=generator("spans", width))
        self.maps = R * (LOUD * width**-0.5)
        """One beside another, of K contexts and of U that have nothing before the span."""

    def _draw_contexts(self, lengths: list[int]) -> None:
        """`CONTEXTS` of them, and of three times as many those that tell pieces apart which were equals so far."""
        draw = generator("contexts", self.task.name, self.task.params)
        size = max(n for k in range(AROUND) if (n := self.depth.chunk**k) <= AROUND)
        longest = max(n for n in range(1, self.longest + 1) if self.task.problem(n) is None)
        strings = self.task.sample(longest, PIECES, generator("pieces", self.task.name, self.task.params)).tokens
        pieces = strings[:, (longest - 1) % size + 1 :].reshape(-1, size).unique(dim=0)  # of no beginning
        contexts, ends = {}, dict[tuple[int, ...], int]()
        every = torch.arange(self.machine.num_states)
        classes, count = torch.zeros(len(pieces), dtype=torch.long), 0
        for number in range(4 * CONTEXTS):
            n = lengths[int(torch.randint(len(lengths), (), generator=draw))]
            word = self.task.draw(n, 1, draw)[0]
            i, j = sorted(torch.randint(1, n + 1, (2,), generator=draw).tolist())
            before = int(self.machine.run(word[None, :i])[0, -1])
            after = self.machine.run(word[j:].expand(len(every), -1), start=every.numpy())[:, -1] if j < n else every
            answers = self.readout[after]
            end = tuple(answers.tolist())
            ends[end] = min(n - j, ends.get(end, AROUND))
            key = (before, *end)
            here = answers[self.machine.run(pieces, start=before)[:, -1]]
            different, finer = (classes * (self.task.outputs + 1) + here - NONE).unique(return_inverse=True)
            if number >= CONTEXTS and len(different) == count:
                continue
            classes, count = finer, len(different)
            if key not in contexts or i + n - j < contexts[key][0]:
                contexts[key] = (i + n - j, answers)
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
        """Where a task asks after every prefix, of half the batches what ends at one of its questions."""
        if self.task.supervision == "last" or int(torch.randint(2, ())):
            return batch
        ends = batch.mask.all(0).nonzero()
        end = int(ends[int(torch.randint(len(ends), ()))]) + 1
        return Batch(*(each[:, :end] for each in batch))

    def loss(self, tokens: Tensor) -> Tensor:
        """Of the nodes that were noted when the model read these; within the block."""
        assert self.depth.noted is not None
        costs, asked, products = [], list[Different](), list[Different]()
        for group, nodes in enumerate(self.depth.noted):
            costs += self._answers(tokens, group, nodes)
            own = self._different(tokens, group, nodes)
            for several in own, products:
                if in_contexts := [told for each in several if len(told := self._told(each))]:
                    costs.append(torch.cat(in_contexts).mean())
                asked += several
            last, width = group + 1 == len(self.depth.noted), self.depth.chunk ** (group + 1)
            products = [] if last else self._products(own, products, width)
        known = torch.stack(costs).mean().detach().neg().exp()  # what says nothing yet is no element
        asked = [of for of in asked if of.spans.shape[1] + int(self.sizes.max()) <= self.longest]
        if logits := [of.logits for of in asked if of.logits is not None]:
            rows = torch.cat([of.answers[:, : len(self.sizes)] for of in asked])
            kinds = equals(rows, torch.cat(logits)).split([len(of) for of in logits])
            costs.append(EQUALS * known * torch.stack([each.mean() for each in kinds]).mean())
        return torch.stack(costs).mean()

    def _told(self, of: Different) -> Tensor:
        """The loss of each of these in each context in which it has an answer."""
        asks = of.answers != NONE
        read = self.model.norm(of.vectors.to(self.model.head.weight.dtype))
        told = (read @ self.maps.to(read)).unflatten(1, (asks.shape[1], -1))[asks.to(read.device)]
        return F.cross_entropy(told, of.answers[asks].to(told.device), reduction="none")

    def _products(self, own: list[Different], products: list[Different], width: int) -> list[Different]:
        """Nodes over 1 to C of these whole spans of as many tokens, each of an element drawn first, all alike."""
        whole = [of for of in own + products if of.spans.shape[1] == width]
        if not whole:
            return []
        spans, vectors = torch.cat([of.spans for of in whole]), torch.cat([of.vectors for of in whole])
        element = equal_rows(torch.cat([of.answers for of in whole]))[1]
        made = []
        for children in range(1, min(self.depth.chunk, self.longest // width) + 1):
            count = min(DRAWN, (int(element.max()) + 1) ** children)
            drawn = torch.stack([drawn_alike(element, count) for _ in range(children)], 1)
            node, over = self.depth.over(vectors[drawn]), spans[drawn].flatten(1)
            made.append(Different(over, self.in_contexts(over), node.vectors, node.logits))
        return made

    def _answers(self, tokens: Tensor, group: int, nodes: NodesOfGroup) -> list[Tensor]:
        answers = self.answers(tokens, group)
        asks = answers != NONE
        if not bool(asks.any()):
            return []
        here = nodes.vectors[nodes.ids[asks.to(nodes.ids.device)]].to(self.model.head.weight.dtype)
        told = self.model.head(self.model.norm(here))[:, : self.task.outputs]
        return [F.cross_entropy(told, answers[asks].to(told.device))]

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

    def _different(self, tokens: Tensor, group: int, nodes: NodesOfGroup) -> list[Different]:
        """The whole spans under a group's nodes, and those of nodes that lack tokens."""
        width, tokens = self.depth.chunk ** (group + 1), tokens.cpu()
        whole, lacking = divmod(tokens.shape[1], width)
        last = nodes.ids[:, nodes.ids.shape[1] - whole :].reshape(-1)
        parts = (False, tokens[:, lacking:].reshape(-1, width), last), (True, tokens[:, :lacking], nodes.ids[:, 0])
        different = []
        for begin, spans, ids in parts:
            if spans.numel():
                one = equal_rows(spans)[0]
                node, spans = ids[one], spans[one]
                logits = None if nodes.logits is None else nodes.logits[node]
                different.append(Different(spans, self.in_contexts(spans, begin), nodes.vectors[node], logits))
        return different

    def in_contexts(self, spans: Tensor, begin: bool = False) -> Tensor:
        """(N,K+U) the answers of these (N,n) in all contexts and, if they begin their strings, with what may follow."""
        states = torch.stack([self.machine.run(spans, start=q)[:, -1] for q in self.starts])
        known = self.after[torch.arange(len(self.sizes))[:, None], states[self.place]].T
        behind = self.ends[:, self.machine.run(spans)[:, -1]].T
        known = torch.cat([known, behind if begin else torch.full_like(behind, NONE)], 1)
        return known.masked_fill(torch.cat([self.sizes, self.end_sizes]) + spans.shape[1] > self.longest, NONE)


def equal_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first place of each different row, and for each of these (N,K) integers the number of its row."""
    # rows are told apart by sums of random multiples, modulo 2^64
    factors = torch.randint(2**62, rows.shape[1:], generator=generator("rows", rows.shape[1])) * 2 + 1
    different, number = (rows * factors).sum(1).unique(return_inverse=True)
    first = torch.full_like(different, len(rows)).scatter_reduce(0, number, torch.arange(len(rows)), "amin")
    return first, number


def drawn_alike(element: Tensor, count: int) -> Tensor:
    """(count,) places in `element` (N,), where each element is as likely, and each of its places."""
    frequency = element.bincount()
    drawn = torch.randint(len(frequency), (count,))
    number = (frequency.cumsum(0) - frequency)[drawn] + (torch.rand(count) * frequency[drawn]).long()
    return element.argsort(stable=True)[number]


def equals(rows: Tensor, logits: Tensor) -> Tensor:
    """(N,) how far each node is from the code that most nodes of its row (N,K) have, by groups.

    `logits`: (N,G,M). A row without an answer costs nothing.
    """
    told, element = (rows != NONE).any(1).to(logits.device), equal_rows(rows)[1].to(logits.device)
    votes = F.one_hot(logits.argmax(-1), logits.shape[-1])
    code = torch.zeros_like(votes).index_add_(0, element, votes).argmax(-1)[element]
    return F.cross_entropy(logits.movedim(-1, 1), code, reduction="none").mean(1) * told
