"""How states and gradients grow with the length, in one layer of the block-diagonal linear RNN.

    ‖x_t‖,    ‖∂x_T/∂x_(T-n)‖ / √(hb),    ‖∂x_T/∂u_(T-n)‖          Frobenius

The first Jacobian is the product A_T … A_(T-n+1), which is 1 on this scale where every A is orthogonal; the second
also has what u does to A. Both are estimated by projections r of signs, for E |rᵀJ|² = ‖J‖². In double precision; what
over- or underflows there is None.

Shapes: B strings, T tokens, D model width, h blocks, b width of a block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ... import tasks
from ...lab.experiment import Experiment
from ...lab.on_strings import build
from ...mixers.block_lrnn import BlockLRNN
from ...ops import block_scan
from ...seeds import generator

STRINGS, PROJECTIONS = 2, 8
POINTS = 8
"""To a tenfold length."""

Values = tuple[float | None, ...]


class Growth(NamedTuple):
    lengths: tuple[int, ...]
    """t of the states, and n of the gradients."""
    states: Values
    by_state: Values
    by_input: Values


def places(longest: int) -> tuple[int, ...]:
    """
    >>> places(30)
    (1, 2, 3, 4, 6, 7, 10, 13, 18, 24, 29)
    """
    last = longest - 1
    steps = range(math.ceil(POINTS * math.log10(last)))
    return tuple(sorted({round(10 ** (i / POINTS)) for i in steps} | {last}))


def grown(classifier: nn.Module, task: tasks.Task, longest: int) -> Growth:
    """Of the model's last layer, on test strings of this length."""
    classifier = classifier.double().eval()
    tokens = task.test_set(longest, STRINGS).tokens
    mixer, u = _heard(classifier, tokens)
    with torch.no_grad():
        A, v = mixer.transitions(u)
        first = v.new_zeros(1, *mixer.shape) if mixer.initial is None else mixer.initial[None]
    states, final = block_scan(A, v.requires_grad_(), first)
    before = torch.cat([first.detach().expand(STRINGS, 1, -1, -1), states.detach()[:, :-1]], 1)
    at = places(longest)
    back = [longest - 1 - n for n in at]
    # u moves its own step alone, so what is not asked need not be pushed through the networks.
    few = u[:, back].requires_grad_()
    A_few, v_few = mixer.transitions(few)
    step = (A_few @ before[:, back].unsqueeze(-1)).squeeze(-1) + v_few
    draw = generator("growth", longest)
    by_state, by_input = (torch.zeros(STRINGS, len(at), dtype=torch.float64) for _ in range(2))
    for _ in range(PROJECTIONS):
        r = torch.randint(2, final.shape, generator=draw).to(final) * 2 - 1
        (g,) = torch.autograd.grad(final, v, r, retain_graph=True)
        (gu,) = torch.autograd.grad(step, few, g[:, back], retain_graph=True)
        by_state += g[:, back].flatten(2).square().sum(-1) / (PROJECTIONS * final[0].numel())
        by_input += gu.square().sum(-1) / PROJECTIONS
    norms = states.detach()[:, [t - 1 for t in at]].flatten(2).norm(dim=-1)
    return Growth(at, _means(norms), _means(by_state.sqrt()), _means(by_input.sqrt()))


def _heard(classifier: nn.Module, tokens: Tensor) -> tuple[BlockLRNN, Tensor]:
    """The last mixer, and the vectors (B,T,D) it is given for these tokens."""
    mixer = [m for m in classifier.modules() if isinstance(m, BlockLRNN)][-1]
    heard: list[Tensor] = []

    def hear(_: object, given: tuple[Tensor, ...], named: dict[str, Tensor | None]) -> None:
        index = named.get("index")
        heard.append(given[0] if index is None else given[0][index])

    handle = mixer.register_forward_pre_hook(hear, with_kwargs=True)
    try:
        with torch.no_grad():
            classifier(tokens)
    finally:
        handle.remove()
    return mixer, heard[0]


def _means(x: Tensor) -> Values:
    """Over strings, the geometric mean: of numbers of very unlike size the greatest would be all that counts."""
    return tuple(y if 0 < y < math.inf else None for y in x.log().mean(0).exp().tolist())


def untrained(experiment: Experiment) -> nn.Module:
    """The model of an experiment before its first step."""
    return build(experiment, torch.device("cpu"))[1]
