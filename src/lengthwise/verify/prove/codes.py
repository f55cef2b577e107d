"""Prove a RegularGPT whose nodes are codes, or snapped to centres, by looking at every one that a word can reach.

From the leaves on, all that nodes can be made of is made: each node's code is found, with the element of the machine
that its word has, until nothing new comes. No code may stand for two elements, and the head must be right on all. A
node has the same code however long its word is, so this is all. Nodes are computed in float64 alone: whether each
choice is decided beyond all rounding is for the checker to say. The centres of a snapped model are codes as well, of
one choice: the nearest, if it is within the radius. No table is given, so none can be that of the machine instead of
the network's.

That takes nodes together which no word's tree has side by side, those of two symbols with those of eight. Where it does
not come out, the codes are followed level by level (`CodeLevels`), and every one of them is some word's: a wrong answer
is then a word that refutes the network, and what repeats with all answers right is a proof.

Shapes: n nodes side by side, C chunk, G groups and K choices of a code, N centres, D width, Q states.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...limits import Limit
from ...models import LengthwiseForCausalLM
from ..checker.claim import StatedClaim, product_of
from ..checker.intervals import Interval
from ..claim import Claim
from ..verdict import NotProved, Proof, Refuted, Unknown, proof_by
from .boxes import CONDITIONS
from .cascade import NumberedRows
from .node import Node, tree_of

BLOCK = 2048
LONGEST = 1 << 17
"""Symbols of a word that refutes."""
NODES = Limit("PROOF_NODES", 5_000_000, "nodes that are looked at", "Take a smaller machine")


def prove_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
    if isinstance(why := tree_of(model, "discrete"), str):
        return why
    node, began = CodedNode(model), time.monotonic()
    exploration: Exploration | CodeLevels = Exploration(node, node.node.chunk, claim, seconds / 2)
    if exploration.verdict():
        exploration = CodeLevels(node, claim, began + seconds - time.monotonic())
        if verdict := exploration.verdict():
            return verdict
    arithmetic = "float64" if next(model.parameters()).dtype == torch.float64 else "float32"
    return proof_by("tree-codes", arithmetic, exploration.margin, exploration.to_json())


def prove_snapped(
    model: LengthwiseForCausalLM, claim: Claim, seconds: float = 60.0, arithmetic: str = "float32"
) -> Proof | Refuted | Unknown | str:
    """Returns the proof of a model that `snap` made."""
    if isinstance(why := tree_of(model, "snapped to centres"), str):
        return why
    node = SnappedNode(Node(model))
    N, S, C = len(node.centres), claim.machine.num_symbols, node.node.chunk
    if sum(N**m + S**m for m in range(1, C + 1)) > CONDITIONS.most:
        return f"its {N} centres make {CONDITIONS.surpassed}"
    exploration = Exploration(node, 1, claim, seconds)
    if verdict := exploration.verdict():
        return verdict
    elements, owner = exploration.elements()
    met, centres = exploration.codes.rows[:, 0], node.centres.tolist()
    if missing := N - len(met):
        return Unknown(f"{missing} of {N} centres are reached by no word. Extract and snap again")
    listed = [{"element": owner[i], "centre": centres[met[i]]} for i in np.argsort(met)]
    sets = {"elements": elements, "centres": listed, "radius": node.radius}
    return proof_by("tree-boxes", arithmetic, exploration.margin, sets, "snapped")


class CodedNode:
    """Discrete nodes in float64: a code is one choice of K in each of G groups."""

    noun = "code"
    undecided = "a choice of a node is not decided"
    """What is wrong where the gap of a choice is not above 0."""

    def __init__(self, model: nn.Module):
        self.node = Node(model)
        self.nodes = copy.deepcopy(self.node.layer.nodes).double()
        self.groups: int = self.nodes.groups

    def vectors(self, chosen: np.ndarray) -> Tensor:
        """Returns (n,D) the nodes of these codes (n,G)."""
        return self.nodes.vectors(torch.from_numpy(chosen))

    def codes(self, nodes: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Returns (n,G) the codes of these nodes (n,D), and (n,) their least gaps."""
        z = self.nodes.logits(nodes)
        best = z.topk(2, -1).values
        return z.argmax(-1).numpy(), (best[..., 0] - best[..., 1]).amin(-1).nan_to_num(nan=-torch.inf).numpy()


class SnappedNode:
    """Centres as codes of one choice."""

    noun, undecided = "centre", "a node may lie outside the radius of its centre, or nearer to another"
    groups = 1

    def __init__(self, node: Node):
        self.node, self.radius = node, node.layer.radius
        self.centres = node.layer.centres.detach().double().cpu()

    def vectors(self, chosen: np.ndarray) -> Tensor:
        return self.centres[chosen[:, 0]]

    def codes(self, nodes: Tensor) -> tuple[np.ndarray, np.ndarray]:
        distance = torch.cdist(nodes, self.centres, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.argmin(1, keepdim=True)
        least = distance.gather(1, nearest)[:, 0]
        others = distance.scatter(1, nearest, torch.inf).min(1).values
        gap = others.clamp(max=self.radius).sub(least).nan_to_num(nan=-torch.inf)
        return nearest.numpy(), gap.numpy()


class ReachedCodes:
    """All codes that words reach, each with the element of its words."""

    def __init__(self, node: CodedNode | SnappedNode, aligned: int, claim: Claim, seconds: float):
        """`aligned`: words end a multiple of so many symbols behind a node that counts."""
        self.node, self.aligned, self.claim, self.until = node, aligned, claim, time.monotonic() + seconds
        self.stated, self.start = StatedClaim(claim.to_json()), claim.machine.start
        self.margin, self.looked = math.inf, 0

    @torch.no_grad()
    def verdict(self) -> Refuted | Unknown | None:
        """Returns why nothing is proved, or a wrong word; None once all codes are found and the head is right."""
        try:
            self.follow()
        except NotProved as end:
            return end.verdict
        return None

    def follow(self) -> None:
        """Look at all of them, up to what ends the proof."""
        raise NotImplementedError

    def watch(self) -> None:
        """Ends the proof where too many were looked at, or the time is over."""
        raise NotImplementedError

    def nodes(self, index: np.ndarray, maps: np.ndarray, vectors: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which of these tuples (n,c), the oldest first, matter; of their nodes the codes and the elements."""
        made, begins = product_of([maps[column] for column in index.T]), index.shape[1] < self.node.node.chunk
        needed = (self.stated.opens if begins else self.stated.live)(made, self.aligned)
        index, made = index[needed], made[needed]
        self.looked += len(index)
        self.watch()
        if not len(index):
            return index, np.empty((0, self.node.groups), dtype=np.int64), made
        chosen, gap = self.node.codes(self.node.node.of(vectors[torch.from_numpy(index)], continuous=True))
        if not gap.min() > 0:
            raise NotProved(Unknown.short(self.node.undecided, float(gap.min())))
        self.margin = min(self.margin, float(gap.min()))
        return index, chosen, made


class Exploration(ReachedCodes):
    """All codes together, each of one element."""

    def __init__(self, node: CodedNode | SnappedNode, aligned: int, claim: Claim, seconds: float):
        super().__init__(node, aligned, claim, seconds)
        self.codes = NumberedRows(node.groups, np.int64)
        self.maps = np.empty((0, len(claim.machine.delta)), dtype=np.int64)

    def follow(self) -> None:
        symbols = self.claim.machine.delta.T.astype(np.int64)
        C, leaves = self.node.node.chunk, self.node.node.leaves(len(symbols), torch.float64)
        for size in range(1, C + 1):
            for block in blocks(tuples(len(symbols), size, 0)):
                self._look(block, symbols, leaves)
        done = 0
        while done < len(self.codes):
            now, vectors = len(self.codes), self.node.vectors(self.codes.rows)
            for size in range(1, C + 1):
                for block in blocks(tuples(now, size, done)):
                    self._look(block, self.maps, vectors)
            done = now
        self._look_at_head()

    def to_json(self) -> dict[str, Any]:
        elements, owner = self.elements()
        codes = [{"element": each, "code": code} for each, code in zip(owner, self.codes.rows.tolist(), strict=True)]
        return {"elements": elements, "codes": codes}

    def elements(self) -> tuple[list[list[int]], list[int]]:
        """The elements, as maps of the states, and the number of each code's."""
        elements, owner = np.unique(self.maps, axis=0, return_inverse=True)
        return elements.tolist(), owner.reshape(-1).tolist()

    def _look(self, index: np.ndarray, maps: np.ndarray, vectors: Tensor) -> None:
        _, chosen, made = self.nodes(index, maps, vectors)
        number, first = self.codes.add(chosen)
        if len(first):
            self.maps = np.concatenate([self.maps, made[first]])
        if (self.maps[number] != made).any():
            two = f"one {self.node.noun} stands for words that the machine tells apart"
            raise NotProved(Unknown(f"{two} (where it need not, minimise it first)"))

    def watch(self) -> None:
        count = f"{len(self.codes):,} {self.node.noun}s were found, and"
        if self.looked > NODES.most:
            raise NotProved(Unknown(f"{count} their products are {NODES.surpassed}"))
        if time.monotonic() > self.until:
            late = f"the time was over after {self.looked:,} of their products: a longer budget looks at more"
            raise NotProved(Unknown(f"{count} {late}"))

    def _look_at_head(self) -> None:
        states = self.maps[:, self.start]
        if not self.claim.asked[states].any():
            raise NotProved(Unknown("no word that leads to a question was found"))
        logits = Interval.of(self.node.node.head(self.node.vectors(self.codes.rows)).numpy())
        ahead = self.stated.margins(logits, states)
        gap = float(ahead.min())
        if not gap > 0:
            code = self.codes.rows[int(ahead.argmin())].tolist()
            raise NotProved(Unknown.short(f"the answer on {self.node.noun} {code} is not right", gap))
        self.margin = min(self.margin, gap)


@dataclass(frozen=True)
class CodesOfLevel:
    """All codes that nodes of one level of words' trees come to, each once for every element of its words.

    A node that is the last of a word has two parts or more, but at level 0: fewer symbols make a lower tree. Such nodes
    are kept apart from those that stand below others alone.
    """

    chosen: np.ndarray
    """(n,G) the codes."""
    maps: np.ndarray
    """(n,Q) the elements: where each state goes, or the first one that is alike."""
    lacking: np.ndarray
    """(n,) whether symbols lack, as in a node that begins its word; then all states go where the start does."""
    last: np.ndarray
    """(n,) whether such a node is the last of a word."""
    symbols: np.ndarray
    """(n,) of how many symbols the shortest such word is."""
    parts: list[tuple[int, ...]]
    """Of which nodes of the level below, or of which symbols, that one is made."""

    @property
    def key(self) -> bytes:
        """The same of levels above which everything is the same."""
        rows = np.concatenate([self.lacking[:, None], self.chosen, self.maps], 1)
        return np.unique(rows, axis=0).tobytes()

    def joined(self, nowhere: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The first row of each place and code, and the elements (m,Q) of its words in one; None where these differ.

        `nowhere`: the state that is alike to all from which nothing asked can come; elsewhere they must not differ.
        """
        places = np.concatenate([self.lacking[:, None], self.chosen], 1)
        _, first, place = np.unique(places, axis=0, return_index=True, return_inverse=True)
        joined = np.full((len(first), self.maps.shape[1]), nowhere)
        rows, states = np.nonzero(self.maps != nowhere)
        joined[place.reshape(-1)[rows], states] = self.maps[rows, states]
        agree = (self.maps == nowhere) | (self.maps == joined[place.reshape(-1)])
        return (first, joined) if agree.all() else None


class CodeLevels(ReachedCodes):
    """All codes that words reach, level by level, each with the element of its words.

    A node of level l + 1 is made of nodes of level l, of which only the first may lack symbols. All that a level has is
    of some word, so a wrong answer refutes; and once a level has what an earlier one had, levels come again in turn.
    """

    def __init__(self, node: CodedNode, claim: Claim, seconds: float):
        super().__init__(node, node.node.chunk, claim, seconds)
        number = self.stated.alike(node.node.chunk)
        self.alike = np.unique(number, return_index=True)[1][number]
        """(Q,) the first state that is alike to each."""
        ignored = np.flatnonzero(~self.stated.heeded_by(node.node.chunk))
        self.nowhere = int(self.alike[ignored[0]]) if len(ignored) else -1
        """The one that is alike to all from which nothing asked can come; -1: something can from all."""
        self.levels: list[CodesOfLevel] = []
        self.returns = 0
        """The level that has what is made of the last one."""

    def follow(self) -> None:
        maps = self.claim.machine.delta.T.astype(np.int64)
        S, known = len(maps), dict[bytes, int]()
        vectors = self.node.node.leaves(S, torch.float64)
        level = self._above(maps, vectors, np.zeros(S, dtype=bool), np.ones(S, dtype=np.int64))
        while level.key not in known:
            known[level.key] = len(self.levels)
            self.levels.append(level)
            self._look_at_head(level)
            level = self._above(level.maps, self.node.vectors(level.chosen), level.lacking, level.symbols)
        self.returns = known[level.key]
        if any(level.joined(self.nowhere) is None for level in self.levels):
            raise NotProved(Unknown("one code stands for words that the machine tells apart"))
        if not self.margin > 0:
            raise NotProved(
                Unknown.short("the answer is right after words, and not on all parts of words", self.margin)
            )

    def to_json(self) -> dict[str, Any]:
        joined = [rows for level in self.levels if (rows := level.joined(self.nowhere))]
        elements, owner = np.unique(np.concatenate([maps for _, maps in joined]), axis=0, return_inverse=True)
        owners = iter(owner.reshape(-1).tolist())
        codes = [
            {"element": next(owners), "code": code, "level": number, "lacking": lacks}
            for number, (level, (first, _)) in enumerate(zip(self.levels, joined, strict=True))
            for code, lacks in zip(level.chosen[first].tolist(), level.lacking[first].tolist(), strict=True)
        ]
        return {"elements": elements.tolist(), "codes": codes, "returns": self.returns}

    def _above(self, maps: np.ndarray, vectors: Tensor, lacking: np.ndarray, symbols: np.ndarray) -> CodesOfLevel:
        """All that is made of these nodes, or symbols."""
        whole, numbers = np.flatnonzero(~lacking).tolist(), dict[bytes, int]()
        rows: list[tuple[np.ndarray, np.ndarray, bool, bool, int, tuple[int, ...]]] = []
        for size in range(1, self.node.node.chunk + 1):
            for block in blocks(product(range(len(maps)), *[whole] * (size - 1))):
                index, chosen, made = self.nodes(block, maps, vectors)
                lacks = lacking[index[:, 0]] | (size < self.node.node.chunk)
                made = self.alike[np.where(lacks[:, None], made[:, [self.start]], made)]
                last, length = size > 1 or not self.levels, symbols[index].sum(1)
                keys = np.concatenate([np.full((len(index), 1), last), lacks[:, None], chosen, made], 1)
                for i in np.argsort(length, kind="stable"):
                    row = chosen[i], made[i], bool(lacks[i]), last, int(length[i]), tuple(index[i].tolist())
                    number = numbers.setdefault(keys[i].tobytes(), len(rows))
                    if number == len(rows):
                        rows.append(row)
                    elif row[4] < rows[number][4]:
                        rows[number] = row
        if not rows:
            raise NotProved(Unknown("no word that leads to a question was found"))
        *columns, parts = zip(*rows, strict=True)
        return CodesOfLevel(*map(np.array, columns), parts=list(parts))

    def watch(self) -> None:
        count = f"{len(self.levels)} levels of trees were followed, and"
        if self.looked > NODES.most:
            raise NotProved(Unknown(f"{count} the nodes of the next are {NODES.surpassed}"))
        if time.monotonic() > self.until:
            raise NotProved(Unknown(f"{count} the time was over: a longer budget follows more"))

    def _look_at_head(self, level: CodesOfLevel) -> None:
        logits = self.node.node.head(self.node.vectors(level.chosen)).numpy()
        ahead = self.stated.margins(Interval.of(logits), level.maps[:, self.start])
        self.margin = min(self.margin, float(ahead.min()))
        if not len(wrong := np.flatnonzero(~(ahead > 0) & level.last)):
            return
        shortest = int(wrong[level.symbols[wrong].argmin()])
        if (length := int(level.symbols[shortest])) > LONGEST:
            raise NotProved(Unknown(f"it is wrong after a word of {length:,} symbols, too many to read"))
        word, z = self._word(len(self.levels) - 1, shortest), logits[shortest]
        answer = tuple(np.flatnonzero(z > 0).tolist()) if self.claim.several else int(z.argmax())
        right = self.claim.right(word)
        if right is None or answer == right:
            raise NotProved(Unknown.short("after a word the right answer is not ahead", float(ahead[shortest])))
        raise NotProved(Refuted(word, answer, right))

    def _word(self, level: int, number: int) -> tuple[int, ...]:
        parts = self.levels[level].parts[number]
        return parts if level == 0 else tuple(symbol for part in parts for symbol in self._word(level - 1, part))


def tuples(count: int, size: int, done: int) -> Iterator[tuple[int, ...]]:
    """Tuples of 0..count-1 with at least one number that is not below `done`."""
    for first in range(size):
        old = [range(done)] * first
        new = [range(count)] * (size - first - 1)
        yield from product(*old, range(done, count), *new)


def blocks(every: Iterator[tuple[int, ...]]) -> Iterator[np.ndarray]:
    while block := list(islice(every, BLOCK)):
        yield np.array(block)
