"""Positions in levels: a token's place in its sentence, the sentence's in its paragraph, the paragraph's in its text.

    level 0:        how many tokens since the last end of level 1
    level k:        how many segments of level k ended since the last end of level k + 1
    the last level: counts from the beginning of the text

An end is a token that belongs to the segment it ends, and ends all finer ones with it. Each level gives its ids to an
encoding of its own, and what these do is added up. BiPE (He et al. 2024) is two levels: learned positions inside
segments, RoPE or ALiBi between them.

`coupled` is position coupling (Cho et al. 2024) for tasks on digits: those of one significance stand at one place. A
number is counted from 1; behind a token of `back` places fall again, as of an answer written from its last digit:

    6 5 3 + 0 4 9 = 2 0 7 0          ends: "+", back: "="
    1 2 3 4 1 2 3 4 3 2 1 0

Shapes: B batch, T tokens, L levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..options import at_least
from .base import Places, Position
from .layout import Layout
from .score import NOTHING, Bias, Score, added

Ends = int | list[int]
"""What ends the segments of a level: any of these tokens, or so many tokens."""


class NextIds(NamedTuple):
    """The state: which ids the next token has, if it goes on with the sequence."""

    croppable = False
    ids: Tensor
    """(B,L)"""

    def select(self, rows: Tensor) -> NextIds:
        return NextIds(self.ids[rows])


def level_ids(ended: Sequence[Tensor], begins: Tensor, first: Tensor | None = None) -> tuple[list[Tensor], Tensor]:
    """The ids (B,T) of every level, and those (B,L) of the next token.

    `ended`: for every level but the last, (B,T) whether a token ends a segment of the level above it, finer levels
    first. `begins` (B,T): where a sequence begins. `first` (B,L): the ids of the first token, where it begins none.

    >>> ids, following = level_ids([torch.tensor([[False, True, False, False]])], torch.tensor([[True] + [False] * 3]))
    >>> [level.tolist() for level in ids], following.tolist()
    ([[[0, 1, 0, 1]], [[0, 0, 1, 1]]], [[2, 1]])
    """
    # Coarse to fine: what ends a level ends all below.
    ends = [reduce(torch.logical_or, ended[k:]) for k in range(len(ended))]
    if first is not None and begins.shape[1] == 1:  # a decoded token, in few operations
        at, over = first.masked_fill(begins, 0), torch.cat(ends, 1)
        following = (at + F.pad(over, (1, 0), value=True)).masked_fill(F.pad(over, (0, 1)), 0)
        return list(at.split(1, 1)), following
    columns = torch.arange(begins.shape[1], device=begins.device).expand_as(begins)
    whole = torch.zeros_like(begins)
    units = [~whole, *ends]
    ids, following = [], []
    for k, unit in enumerate(units):
        above = ends[k] if k < len(ends) else whole
        count = unit.long().cumsum(1) - unit.long()
        fresh = begins.clone()
        fresh[:, 1:] |= above[:, :-1]
        since = torch.where(fresh, columns, -1).cummax(1).values
        start = torch.zeros_like(count[:, :1]) if first is None else -first[:, k, None]
        id = count - torch.where(since >= 0, count.gather(1, since.clamp(min=0)), start)
        ids.append(id)
        following.append(torch.where(above[:, -1], 0, id[:, -1] + unit[:, -1].long()))
    return ids, torch.stack(following, 1)


def begins_segment(places: Places) -> Tensor:
    """(B,T) whether a token is the first of a segment of the finest level."""
    return places["level-0"] == 0


class Levels(Position):
    """Encodings that each stand at ids of their own, "level-0", "level-1", …; what they do is added up."""

    def __init__(self, specs: Sequence[dict], what: str, width: int, heads: int):
        super().__init__()
        from . import numbered  # the registry holds the subclasses too

        self.levels = nn.ModuleList(numbered(spec, what, width=width, heads=heads) for spec in specs)
        self.at_input = any(level.at_input for level in self.encodings())
        self.at_attention = any(level.at_attention for level in self.encodings())
        self.at_pairs = any(level.at_pairs for level in self.encodings())

    def encodings(self) -> list[Position]:
        return [level for level in self.levels if isinstance(level, Position)]

    def _of_level(self, k: int, places: Places) -> Places:
        return places.once((self, k), lambda: Places(places[f"level-{k}"]))

    def embed(self, places: Places) -> Tensor | None:
        parts = (level.embed(self._of_level(k, places)) for k, level in enumerate(self.encodings()))
        return reduce(torch.add, (part for part in parts if part is not None)) if self.at_input else None

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        for k, level in enumerate(self.encodings()):
            x = level.rotate(x, self._of_level(k, places))
        return x

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        for k, level in enumerate(self.encodings()):
            q = level.rotate_queries(q, self._of_level(k, places))
        return q

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        scores = [
            level.score(q, self._of_level(k, queries), self._of_level(k, keys))
            for k, level in enumerate(self.encodings())
        ]
        return reduce(_both, scores, NOTHING)

    def pairs(self, q: Tensor, k: Tensor, queries: Places, keys: Places) -> Bias | None:
        biases = (
            level.pairs(q, k, self._of_level(n, queries), self._of_level(n, keys))
            for n, level in enumerate(self.encodings())
        )
        return reduce(added, biases)


class Multilevel(Levels):
    has_segments = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        levels: Annotated[list[dict], "An encoding for every level, the finest first: its name and its settings."],
        level_ends: Annotated[
            list, "What ends a segment of every level but the last: a list of tokens, or so many tokens."
        ],
    ):
        if len(levels) < 2 or len(level_ends) != len(levels) - 1:
            raise Error(
                "Multilevel positions: there must be two levels or more, and ends for each but the last, got "
                f"{len(levels)} levels and {len(level_ends)} ends."
            )
        super().__init__(levels, "Multilevel positions: a level", width, heads)
        self.ends = [_checked(each) for each in level_ends]
        self.warned = False

    def place(self, tokens: Tensor | None, layout: Layout, state: NextIds | None = None) -> tuple[Places, NextIds]:
        if tokens is None and any(isinstance(each, list) for each in self.ends):
            raise Error(
                "Multilevel positions: where a segment ends depends on the tokens, which a mixer by itself does not "
                "know. Use it in a model, or give the mixer their places: placed=Placed(None, places)."
            )
        ended = [self._ended(each, tokens, layout) for each in self.ends]
        ids, following = level_ids(ended, layout.positions == 0, None if state is None else state.ids)
        self._look_for_long_segments(ids[0])
        levels = {f"level-{k}": level for k, level in enumerate(ids)}
        return Places(layout.positions, **levels), NextIds(following)

    def _ended(self, ends: Ends, tokens: Tensor | None, layout: Layout) -> Tensor:
        if isinstance(ends, int):
            return (layout.positions + 1) % ends == 0
        assert tokens is not None
        return torch.isin(tokens, torch.tensor(ends, device=tokens.device))

    def _look_for_long_segments(self, inside: Tensor) -> None:
        rows = getattr(getattr(self.levels[0], "table", None), "num_embeddings", None)
        if rows is None or self.warned or inside.device.type != "cpu" or torch.compiler.is_compiling():
            return
        if inside.shape[1] > 1 and int(inside.max()) >= rows:
            self.warned = True
            warnings.warn(
                f"A segment is {int(inside.max()) + 1} tokens long, and the positions inside segments have {rows} "
                "rows, so all tokens beyond share the last. Give the finest level more rows, or name more tokens that "
                "end a segment.",
                stacklevel=2,
            )


class Bilevel(Multilevel):
    """Two levels: BiPE."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        inside: Annotated[dict, "The encoding of a token's place inside its segment, with its name and settings."],
        between: Annotated[dict, "The encoding of a segment's place in the text, with its name and settings."],
        ends: Annotated[int | list[int], "The tokens that end a segment, or how many tokens a segment has."],
    ):
        super().__init__(width, heads, levels=[inside, between], level_ends=[ends])


class Coupled(Levels):
    """Places of digits by their significance, which `ends` and `back` tell."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        of: Annotated[dict, "The encoding that stands at these places, with its name and settings."],
        ends: Annotated[list[int], "The tokens behind which a number begins, such as +."],
        back: Annotated[list[int], "The tokens behind which places fall again, such as =."],
        offset: Annotated[
            int, at_least(0), "In training all places are moved by a number up to this one, that many are learned."
        ] = 0,
    ):
        super().__init__([of], "Coupled positions: of", width, heads)
        self.ends, self.back, self.offset = _checked(ends), _checked(back), offset

    def place(self, tokens: Tensor | None, layout: Layout, state: NextIds | None = None) -> tuple[Places, NextIds]:
        """The state's ids are the next place and the step to the one after it, 1 or -1."""
        if tokens is None:
            raise Error("Coupled positions: they depend on the tokens, which a mixer alone does not know. Use a model.")
        fresh, falls = (torch.isin(tokens, torch.tensor(each, device=tokens.device)) for each in (self.ends, self.back))
        columns = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        begins = (layout.positions == 0) | F.pad(fresh[:, :-1], (1, 0))
        turns = F.pad(falls[:, :-1], (1, 0)) & ~begins
        first, way = state.ids.split(1, 1) if state else (torch.zeros_like(columns[:, :1]), 1)
        event = torch.where(begins | turns, columns, -1).cummax(1).values
        steps = torch.where(event < 0, way, 1 - 2 * turns.gather(1, event.clamp(min=0)).long())
        count = steps.cumsum(1)
        begin = torch.where(begins, columns, -1).cummax(1).values
        at = count + torch.where(begin < 0, first - count[:, :1], 1 - count.gather(1, begin.clamp(min=0)))
        after = torch.where(falls[:, -1], -1, steps[:, -1])
        following = torch.where(fresh[:, -1:], 1, torch.stack([at[:, -1] + after, after], 1))
        moved = torch.randint(self.offset + 1, (), device="cpu").to(at.device) if self.training and self.offset else 0
        return Places(layout.positions, **{"level-0": at.clamp(min=0) + moved}), NextIds(following)


def _checked(ends: Any) -> Ends:
    listed = isinstance(ends, list) and len(ends) > 0 and all(type(token) is int and token >= 0 for token in ends)
    if listed or (type(ends) is int and ends > 0):
        return ends
    raise Error(
        "Multilevel positions: ends must be a list of token ids with at least one, or the number of tokens in a "
        f"segment, got {ends!r}."
    )


def _both(one: Score, other: Score) -> Score:
    scale = one.scale if other.scale is None else other.scale if one.scale is None else one.scale * other.scale
    return Score(scale, added(one.bias, other.bias))
