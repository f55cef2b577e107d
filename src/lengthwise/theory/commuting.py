"""Propositions 1 and 2 of the block-diagonal LRNN paper as statements that can be run.

With x -> A_u x + v_u for a token u, and A_s = A_{u_k} … A_{u_1} for a word s, every linear RNN has, for words w, w'
and words s, s' of k tokens,

    [x(w s) - x(w s')] - [x(w' s) - x(w' s')] = (A_s - A_s') (x(w) - x(w'))

Proposition 1: if one A serves all tokens, A_s = A^k = A_s'. Proposition 2: if transitions commute, as diagonal ones do,
A_s = A_s' wherever s' is s in another order. Then the right side is 0: **what tells s from s' in the state is the same
vector after whatever prefix**. For s = "0-1", s' = "1-0" and the prefixes "" and "0-",

    x(0-0-1) - x(0-1-0) = x(0-1) - x(1-0)

though 0-0-1 = 0-1-0 and 0-1 ≠ 1-0: equal values lie as far apart as different ones. A state of which equal values are
equal points is thus impossible. And so is a linear readout: let the logits of w s and w s' differ by the same l for all
w. Being right after "a+" asks l_{a+1} > l_{a-1}, for every a modulo m; for m > 2 these go round in circles.

Shapes: P prefixes, N numbers of a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import Error, ShapeError
from ..tasks import Task, get
from .affine_layer import ROUNDING, FirstLayer

Word = Sequence[int]


class PrefixIdentity(NamedTuple):
    """x(w s) - x(w s') for every prefix w, in double precision."""

    differences: Tensor
    """(P,N)"""
    varies: float
    """The distance between the A_u of different tokens of s and s', relative to A_u itself: 0 in Proposition 1."""
    commutes: float
    """The distance between A_u A_w and A_w A_u, in the same way: 0 in Proposition 2."""
    reordered: bool
    """Whether s' is s in another order, as Proposition 2 asks."""

    @property
    def residual(self) -> float:
        """The distance of the differences from that of the first prefix; 0 where the identity is forced."""
        return float((self.differences - self.differences[0]).abs().max())

    @property
    def scale(self) -> float:
        """The largest number in the differences: what the residual is to be compared with."""
        return float(self.differences.abs().max())

    @property
    def gaps(self) -> list[float]:
        """‖x(w s) - x(w s')‖ for every prefix."""
        return self.differences.norm(dim=1).tolist()

    @property
    def proposition(self) -> int | None:
        """The proposition that forces the identity on this layer; None if neither does."""
        if self.varies < ROUNDING:
            return 1
        return 2 if self.commutes < ROUNDING and self.reordered else None


def prefix_identity(model: nn.Module, s: Word, other: Word, prefixes: Sequence[Word]) -> PrefixIdentity:
    """The identity at the first layer of a model: `s` and `other` (s') have one length, prefixes any.

    >>> from lengthwise.models import LengthwiseForCausalLM, presets
    >>> model = LengthwiseForCausalLM(presets.lru(8, width=8, state=4))
    >>> zero, one, minus = 0, 1, 6
    >>> seen = prefix_identity(model, [zero, minus, one], [one, minus, zero], [[], [zero, minus]])
    >>> seen.proposition, seen.residual < 1e-12 * seen.scale
    (1, True)
    """
    if len(s) != len(other) or not s:
        raise ShapeError(
            f"prefix_identity: the two words must have the same length, at least 1, got {len(s)} and {len(other)}."
        )
    if not prefixes:
        raise Error("prefix_identity: at least one prefix is needed, got none. The empty word [] is one.")
    layer = FirstLayer(model)
    used = sorted({*s, *other}.union(*prefixes))
    if used[0] < 0 or used[-1] >= len(layer.vectors):
        raise Error(
            f"prefix_identity: tokens of this model are 0..{len(layer.vectors) - 1}, got {used[0]}..{used[-1]}."
        )
    rows = [layer.states([[*w, *s], [*w, *other]]) for w in prefixes]
    tokens, z = sorted({*s, *other}), layer.probes(3)
    Az = {u: layer.apply(z, u) for u in tokens}
    pairs = list(combinations(tokens, 2))
    return PrefixIdentity(
        torch.stack([first - second for first, second in rows]),
        _apart([(Az[u], Az[w]) for u, w in pairs]),
        _apart([(layer.apply(Az[u], w), layer.apply(Az[w], u)) for u, w in pairs]),
        sorted(s) == sorted(other),
    )


def _apart(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """The largest relative distance within a pair; 0 for two zeros."""

    def size(x: Tensor) -> float:
        return float(x.abs().max())

    return max((size(a - b) / max(size(a), size(b)) for a, b in pairs if size(a - b)), default=0.0)


def subtraction_identity(model: nn.Module, task: Task | None = None) -> PrefixIdentity:
    """The paper's case: "0-1" and "1-0" after "", "0-", and "a-", "a+" for every other digit a.

    After those prefixes that end in - the two have one value, else two.

    >>> from lengthwise.models import LengthwiseForCausalLM, presets
    >>> subtraction_identity(LengthwiseForCausalLM(presets.diagonal_lrnn(8, width=8))).proposition
    2
    """
    task = _arithmetic(task)
    return prefix_identity(model, *_pair(task), subtraction_prefixes(task))


def subtraction_prefixes(task: Task | None = None) -> list[list[int]]:
    """The prefixes of `subtraction_identity`: "", then "a-" for every digit a, then "a+".

    >>> subtraction_prefixes()[:3], len(subtraction_prefixes())
    ([[], [0, 6], [1, 6]], 11)
    """
    task = _arithmetic(task)
    minus, plus = (task.vocabulary.index(sign) for sign in "-+")
    return [[], *([a, sign] for sign in (minus, plus) for a in range(task.outputs))]


class PairAnswers(NamedTuple):
    """The answers of a model to pairs w 0-1 and w 1-0 with a common prefix w."""

    length: int
    """Of the whole strings."""
    right: float
    """The share of strings answered right."""
    equal_apart: float
    """Where both have one value: the share of pairs given two answers."""
    different_alike: float
    """Where they have different values: the share of pairs given one answer."""


@torch.no_grad()
def subtraction_answers(
    model: nn.Module, lengths: Sequence[int], *, task: Task | None = None, count: int = 200, seed: int = 0
) -> list[PairAnswers]:
    """A classifier's answers to such pairs, `count` after prefixes that end in - and as many after those in +.

    Lengths are odd and at least 5: a prefix such as 3*4-, then 0-1 or 1-0.
    """
    task = _arithmetic(task)
    pair = torch.tensor(_pair(task))
    answers = []
    for length in lengths:
        generator = torch.Generator().manual_seed(seed)
        if length < 5:
            raise Error(f"subtraction_answers: lengths must be odd and at least 5 (1-0-1), got {length}.")
        start = task.sample(length - 4, 2 * count, generator).tokens
        signs = torch.tensor([task.vocabulary.index(sign) for sign in "-+"]).repeat_interleave(count)
        tokens = torch.cat(
            [torch.cat([start, signs[:, None]], 1).repeat(2, 1), pair.repeat_interleave(2 * count, 0)], 1
        )
        classes = model(tokens, last=True)[:, -1].argmax(-1)
        right = classes == task.answer(tokens)[:, -1]
        alike = (classes[: 2 * count] == classes[2 * count :]).view(2, count).double().mean(1)
        answers.append(PairAnswers(length, float(right.double().mean()), float(1 - alike[0]), float(alike[1])))
    return answers


def _arithmetic(task: Task | None) -> Task:
    task = get("modular-arithmetic") if task is None else task
    if task.name != "modular-arithmetic" or task.params["brackets"] or task.params["leading_plus"]:
        raise Error(
            f"subtraction_identity: is about modular-arithmetic without brackets or a leading plus, got {task.name} "
            f"{task.params}. Use tasks.get('modular-arithmetic', modulus=m)."
        )
    return task


def _pair(task: Task) -> tuple[list[int], list[int]]:
    minus = task.vocabulary.index("-")
    return [0, minus, 1], [1, minus, 0]
