"""The linear recurrence with block-diagonal transitions which the input chooses.

    x_t = A(u_t) x_{t-1} + v(u_t),    A = diag(A^1 … A^h),    y_t = C x_t + c  or  y_t = x_t

A and v are networks of the token's vector u_t alone, and A is bounded (transitions.py). x_0 is learned, or zero. What
a sequence has been is in x_t alone, so a token costs the same however many came before it. As u_t alone decides, equal
tokens need not be asked twice: with an `index` the networks run on a table of vectors, and the recurrence looks them
up. Values and gradients are the same.

Training may make blocks of one-hot columns steady (train/steady.py). The softmax of their gradient drives columns that
no answer hangs on towards ties, where rounding decides; `unsteadiness` says how near they are.

Shapes: B batch, T tokens, V rows of a table, h blocks, b width of a block, D model width.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error, ShapeError, UnknownName
from ..ops import block_scan
from ..options import at_least
from ..positions import Layout
from .base import Mixer, Traits
from .transitions import Kind, Normalisation, bounded, network

GAP = 0.2
"""By how much an argmax is to be ahead: rounding is some hundredths of that."""


class BlockState(NamedTuple):
    croppable = False
    x: Tensor
    """(B,h,b)"""

    def select(self, rows: Tensor) -> BlockState:
        """These rows, in this order."""
        return BlockState(self.x[rows])


class BlockLRNN(Mixer):
    """`blocks` of width `block`: given one, the other is the width divided by it; given both, the state may be wider or
    narrower than the model; given neither, blocks are 8 wide.

    `transition` and `inputs` are networks, "linear" or "two-layer"; hidden layers are as wide as the transitions have
    entries, h b b, and as the model. Linear inputs are B u_t, without a bias; with `inputs` "none" v = 0, and the
    learned x_0, which begins at random, is all there is to move. `readout` "identity" needs h b = D.
    """

    traits = Traits(looks_up=True, splits=True)
    noise = leave_out = 0.0
    """While a batch is measured for its steadiness: above 0, and the share of x_0 that each string begins without."""
    _met: Tensor
    """(N,h,b,b) what the one-hot columns of the tokens that were read then were chosen from."""

    def __init__(
        self,
        width: int,
        *,
        blocks: Annotated[int | None, "How many blocks a transition has; None: as many as fill the width."] = None,
        block: Annotated[int | None, "How wide a block is; None: 8, or what the number of blocks leaves."] = None,
        transition: Annotated[Kind, "The network from a token to its transition."],
        inputs: Annotated[Kind | Literal["none"], "The network from a token to what it adds to the state."],
        normalisation: Annotated[Normalisation, "What keeps products of blocks bounded (mixers/transitions.py)."],
        p: Annotated[float, at_least(1, at_most=float("inf")), "The norm that bounds a block's columns."],
        learned_initial: Annotated[bool, "Whether the first state is learned; otherwise it is 0."],
        readout: Annotated[
            Literal["linear", "identity"], "What the layer gives out: a map of the state, or the state itself."
        ],
    ):
        super().__init__()
        h, b = self.shape = _shape(width, blocks, block)
        self.normalisation, self.bound = normalisation, bounded(normalisation, p)
        self.transition = network("transition of block-lrnn", transition, width, h * b * b, h * b * b)
        self.inputs = (
            None if inputs == "none" else network("inputs of block-lrnn", inputs, width, width, h * b, bias=False)
        )
        if self.inputs is None and not learned_initial:
            raise Error("block-lrnn: from x_0 = 0 and without inputs every state is 0. Use learned_initial=True.")
        first = torch.zeros(h, b) if inputs != "none" else torch.randn(h, b)
        self.initial = nn.Parameter(first) if learned_initial else None
        self.readout = _readout(readout, width, h * b)

    def forward(
        self, x: Tensor, *, layout: Layout, state: BlockState | None = None, index: Tensor | None = None
    ) -> tuple[Tensor, BlockState]:
        """`index` (B,T): x is (V,D), and token t reads row index[t] of it."""
        B, T = layout.positions.shape
        if T == 0 and layout.piece is None:
            raise Error("block-lrnn: there must be at least one token, got T = 0.")
        A, v = self.transitions(x)
        begins = None if layout.sequences is None else layout.positions == 0
        if layout.real is not None:
            A, v, index = _standing(A, v, index, layout.real)
            begins = None if begins is None else begins & layout.real
        first = (A.new_zeros(self.shape) if self.initial is None else self.initial.to(A.dtype))[None]
        if state is not None:
            self._check_state(state, B)
        elif self.leave_out:
            state = BlockState(first * (torch.rand(B, *self.shape, device=x.device) >= self.leave_out))
        states, final = block_scan(
            A,
            v,
            first if state is None else state.x,
            begins=begins,
            restart=None if begins is None else first,
            index=index,
            ranks=None if layout.piece is None else layout.piece.ranks,
        )
        return self.readout(states.flatten(-2).to(x.dtype)), BlockState(final)

    def transitions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A (…,h,b,b) and v (…,h,b) of vectors (…,D); without autocast, for T roundings of A add up in the product."""
        h, b = self.shape
        own = next(self.transition.parameters()).dtype
        kind = torch.promote_types(own, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(own)
            M = self.transition(x).to(kind).unflatten(-1, (h, b, b))
            if self.noise:
                if self.normalisation != "one-hot":
                    raise Error(
                        f'training.steady: blocks of normalisation "{self.normalisation}" cannot be made steady, as '
                        'those of "one-hot" (model.variant=automaton) can. Leave it off.'
                    )
                self._met = M.flatten(0, -4)
            A = self.bound(M)
            if self.inputs is None:
                return A, A.new_zeros(*x.shape[:-1], h, b)
            return A, self.inputs(x).to(kind).unflatten(-1, (h, b))

    @property
    def moved(self) -> Tensor | None:
        """x_0, if it is trained and is all there is to move."""
        first = self.initial
        return first if first is not None and first.requires_grad and self.inputs is None else None

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Σ_j max(0, 1 - g_j / GAP), g_j by how much the argmax of column j is ahead: the mean over so many tokens.

        They are drawn from those that were last read with noise. A function has no `slope`.
        """
        M = self._met[torch.randint(len(self._met), (states,), device=self._met.device)]
        best = M.topk(min(2, M.shape[-2]), -2).values
        return F.relu(1 - (best[..., 0, :] - best[..., -1, :]) / GAP).sum((-2, -1)).mean()

    def _check_state(self, state: BlockState, B: int) -> None:
        if state.x.shape != (B, *self.shape):
            raise ShapeError(
                f"block-lrnn: the state must be (B,h,b) = {[B, *self.shape]}, got {list(state.x.shape)}. "
                "Go on with the rows and the layer it came from."
            )


def _standing(A: Tensor, v: Tensor, index: Tensor | None, real: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Padding hands the state on as it is: A = I, v = 0."""
    I = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    if index is None:
        here = real[..., None, None]
        return torch.where(here[..., None], A, I), torch.where(here, v, 0.0), None
    A, v = torch.cat([A, I.expand(1, *A.shape[1:])]), torch.cat([v, torch.zeros_like(v[:1])])
    return A, v, torch.where(real, index, len(A) - 1)


def _shape(width: int, blocks: int | None, block: int | None) -> tuple[int, int]:
    """(h, b)"""
    sizes = {name: n for name, n in (("blocks", blocks), ("block", block)) if n is not None} or {"block": 8}
    for name, n in sizes.items():
        if n < 1:
            raise Error(f"block-lrnn: {name} must be at least 1, got {n}.")
    if blocks is not None and block is not None:
        return blocks, block
    ((name, n),) = sizes.items()
    if width % n:
        other = "block" if name == "blocks" else "blocks"
        raise Error(
            f"block-lrnn: {name} alone must divide the width, got {name} {n} and width {width}. Give {other} too, "
            f"or a width of {max(1, width // n) * n}."
        )
    return (width // n, n) if name == "block" else (n, width // n)


def _readout(kind: str, width: int, state: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(state, width)
    if kind != "identity":
        raise UnknownName("readout of block-lrnn", kind, ("linear", "identity"))
    if state != width:
        raise Error(
            f"block-lrnn: the identity as readout needs blocks * block = width, got a state of {state} and width "
            f"{width}. Use readout='linear'."
        )
    return nn.Identity()
