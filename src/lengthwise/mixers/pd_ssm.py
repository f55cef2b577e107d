"""PD-SSM (Terzić et al. 2025): a recurrence whose transitions are one-hot columns times a complex diagonal.

    x_t = P_t D_t x_{t-1} + B u_t,    x_0 = e_1,    y_t = norm(W [Re x_t; Im x_t] + d ∘ u_t)

    M_t = Σ_k s_k M_k,  s = softmax(S u_t);    P_t: in each column of M_t a 1 at its largest entry, 0 elsewhere
    D_t = r ∘ exp(i φ),  r = σ(MLP u_t),  φ = 2π σ(MLP u_t),  each of one hidden layer of 2N with gelu

To the backward pass P is the softmax of M's columns, whose gradient is the outer product λ_t (D_t x_{t-1})ᴴ, λ_t being
that of B u_t. So states are found first without gradients; then a scan of the hard P gives λ, and a term of value 0
hands it on to the softmax. That keeps O(N) numbers a token: the N² of its softmax are made in the backward pass,
some tokens at a time. With an `index` they are made once for each row of the table.

"rows" is D_t P_t with one-hot rows, as in the released code of the state-tracking tasks: an entry reads one of those
before it.

Shapes: B batch, T tokens, V rows of a table, N complex entries of the state, K matrices, D model width.
"""

from __future__ import annotations

from math import pi
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error, ShapeError, UnknownName
from ..ops.checks import readable
from ..options import at_least
from ..positions import Layout
from .base import Mixer, Traits
from .state_space import SpaceState

ENTRIES = 2**18
"""About how many entries of transitions are made at once: 1 MB, which stays in a core's cache."""


class PDSSM(Mixer):
    traits = Traits(looks_up=True)

    def __init__(
        self,
        width: int,
        *,
        state: Annotated[int | None, at_least(1), "How many complex numbers the state has; None: the width."],
        matrices: Annotated[int, at_least(1), "How many matrices tokens mix their transitions of."],
        one_hot: Annotated[Literal["columns", "rows"], "Which lines of a transition have a single entry."],
    ):
        super().__init__()
        if one_hot not in ("columns", "rows"):
            raise UnknownName("one_hot of pd-ssm", one_hot, ("columns", "rows"))
        N = self.state = width if state is None else state
        self.by_columns = one_hot == "columns"
        self.select = nn.Linear(width, matrices, bias=False)
        self.dictionary = nn.Parameter(torch.randn(matrices, N, N) / N**0.5)
        """(K,N,N): a softmax goes along the last dimension, a column of M or, with one-hot rows, a row."""
        self.magnitude, self.phase = (
            nn.Sequential(nn.Linear(width, 2 * N), nn.GELU(), nn.Linear(2 * N, N), nn.Sigmoid()) for _ in range(2)
        )
        self.inputs = nn.Parameter(torch.randn(2, N, width) / (2 * N) ** 0.5)
        """The real and the imaginary part of B."""
        self.readout = nn.Linear(2 * N, width)
        self.skip = nn.Parameter(torch.randn(width) / width**0.5)
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, *, layout: Layout, state: SpaceState | None = None, index: Tensor | None = None
    ) -> tuple[Tensor, SpaceState]:
        """`index` (B,T): x is (V,D), and token t reads row index[t] of it."""
        B, T = layout.positions.shape
        if T == 0:
            raise Error("pd-ssm: there must be at least one token, got T = 0.")
        if state is not None and state.x.shape != (B, self.state):
            raise ShapeError(f"pd-ssm: the state must be (B,N) = {[B, self.state]}, got {list(state.x.shape)}.")
        own = self.skip.dtype
        with torch.autocast(x.device.type, enabled=False):
            u = x.to(own)
            states = self._states(u, layout, state, index)
            u = u if index is None else F.embedding(index, u)
            read = torch.cat([states.real, states.imag], -1).to(own)
            y = self.norm(self.readout(read) + self.skip * u)
        return y.to(x.dtype), SpaceState(states[:, -1])

    def _states(self, u: Tensor, layout: Layout, state: SpaceState | None, index: Tensor | None) -> Tensor:
        """(B,T,N)"""
        B, _ = layout.positions.shape
        kind = torch.promote_types(u.dtype, torch.float32)
        weights, dictionary = self.select(u).to(kind).softmax(-1), self.dictionary.to(kind)
        picks = _largest(weights.detach(), dictionary.detach())
        r, phi = self.magnitude(u).to(kind), 2 * pi * self.phase(u).to(kind)
        parts = torch.cat([r * phi.cos(), r * phi.sin(), u @ self.inputs[0].mT, u @ self.inputs[1].mT], -1)
        if index is not None:
            picks, parts = picks[index], F.embedding(index, parts)
        a, b, c, d = parts.to(kind).chunk(4, -1)
        D, v = torch.complex(a, b), torch.complex(c, d)
        first = (torch.arange(self.state, device=u.device) == 0).to(D.dtype).expand(B, -1)
        start = first if state is None else state.x
        if not torch.is_grad_enabled():
            return self._scan(picks, D, v, first, start, layout)
        with torch.no_grad():
            states = self._scan(picks, D, v, first, start, layout)
            before = _first_where(layout, first, torch.cat([start[:, None], states[:, :-1]], 1))
            moved = D * before if self.by_columns else before
        # 0, but for its gradient.
        soft = _Soft.apply(weights, dictionary, torch.view_as_real(moved), index, self.by_columns)
        soft = torch.view_as_complex(soft)  # pyright: ignore[reportArgumentType]
        v = v + (soft if self.by_columns else D.detach() * soft)
        return self._scan(picks, D, v, first, start, layout)

    def _scan(self, picks: Tensor, D: Tensor, v: Tensor, first: Tensor, x: Tensor, layout: Layout) -> Tensor:
        states, begins = [], None if layout.sequences is None else layout.positions == 0
        for t, (p, d, v_t) in enumerate(zip(picks.unbind(1), D.unbind(1), v.unbind(1), strict=True)):
            x = x if begins is None else torch.where(begins[:, t, None], first, x)
            new = v_t.scatter_add(1, p, d * x) if self.by_columns else d * x.gather(1, p) + v_t
            x = new if layout.real is None else torch.where(layout.real[:, t, None], new, x)
            states.append(x)
        return torch.stack(states, 1)


def _first_where(layout: Layout, first: Tensor, x: Tensor) -> Tensor:
    return x if layout.sequences is None else torch.where((layout.positions == 0)[..., None], first[:, None], x)


def _parts(weights: Tensor, dictionary: Tensor) -> list[slice]:
    rows = max(1, ENTRIES // dictionary[0].numel())
    return [slice(at, at + rows) for at in range(0, weights.shape[0], rows)]


def _largest(weights: Tensor, dictionary: Tensor) -> Tensor:
    """(…,N) where the largest entry of each line of Σ_k s_k M_k is, of weights s (…,K)."""
    lead, s, M, N = weights.shape[:-1], weights.flatten(0, -2), dictionary.flatten(1), dictionary.shape[1]
    to_the_end = torch.arange(N, 0, -1, device=s.device, dtype=s.dtype)
    parts = []
    for rows in _parts(s, dictionary):
        L = (s[rows] @ M).unflatten(-1, (N, N))
        # Of equal ones the first. Torch's own argmax takes five times as long on a CPU.
        left = torch.add(to_the_end, L - L.amax(-1, keepdim=True), alpha=1e30).amax(-1)
        parts.append(N - left.long().clamp(1, N))
    return torch.cat(parts).unflatten(0, lead)


class _Soft(torch.autograd.Function):
    """0, with the gradient of Σ_a softmax(M)[a, b] w_a (columns) or Σ_b softmax(M)[a, b] w_b (rows), w (B,T,N,2)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weights: Tensor, dictionary: Tensor, w: Tensor, index: Tensor | None, by_columns: bool) -> Tensor:
        return torch.zeros_like(w)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.by_columns = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Any, ...]:
        weights, dictionary, w, index = ctx.saved_tensors
        (g,) = grad_outputs
        a, b = (x.flatten(0, 1) for x in ((w, g) if ctx.by_columns else (g, w)))
        s, M = weights.flatten(0, -2), dictionary.flatten(1)
        parts_s, of_M = [], torch.zeros_like(M)
        for rows in _parts(s, dictionary):
            S = (s[rows] @ M).unflatten(-1, dictionary.shape[1:]).softmax(-1)
            G = a[rows] @ b[rows].mT if index is None else _by_row(a, b, index.flatten(), rows, len(s))
            # In one pass S ∘ (G - sums of S ∘ G).
            of_logits = torch.ops.aten._softmax_backward_data(G, S, -1, S.dtype).flatten(1)
            parts_s.append(of_logits @ M.mT)
            of_M = of_M + s[rows].mT @ of_logits
        return torch.cat(parts_s).view_as(weights), of_M.view_as(dictionary), None, None, None


def _by_row(a: Tensor, b: Tensor, index: Tensor, rows: slice, V: int) -> Tensor:
    """(V,N,N) the sum of a bᵀ over the tokens of each of these rows of the table."""
    sums = []
    for row in range(V)[rows]:
        own = index == row
        x, y = (a[own], b[own]) if readable(index, a, b) else (a * own[:, None, None], b)
        sums.append(torch.einsum("tac,tbc->ab", x, y))
    return torch.stack(sums)
